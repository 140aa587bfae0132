//! The requests of the API, and the answers: JSON, but for `/metrics` and `/healthz`. docs/api.md describes them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use api::{Draining, LogLevel, Refusal, Reloaded};
use axum::Router;
use axum::extract::rejection::StringRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Query, Request, State as Extract};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use serde::Serialize;

use super::flows::Wanted;
use super::parameters::Refused;
use super::{State, capture, events, flows, health, metrics, page, status};
use crate::port::PortId;
use crate::worker::capture::{Direction, Filter};

/// Bytes of the longest body of a request.
const BODY_MAX: usize = 1_024;

/// What can be read.
const PATHS: [&str; 15] = [
    "/",
    "/status",
    "/peers",
    "/lanes",
    "/recovery",
    "/flows",
    "/ports",
    "/pools",
    "/events",
    "/build",
    "/config",
    "/parameters",
    "/capabilities",
    "/metrics",
    "/healthz",
];

type Shared = Extract<Arc<State>>;
type Params = Query<BTreeMap<String, String>>;

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct Error {
    status: StatusCode,
    why: Refusal,
}

impl Error {
    /// One sentence.
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, why: Refusal { error: error.into(), details: Vec::new() } }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        (self.status, answer(&self.why)).into_response()
    }
}

type Answer = Result<Response, Error>;

/// Requests that change nothing, for everybody. `control.listen` refuses the others.
pub(super) fn to_read(state: Arc<State>) -> Router {
    let refuse = || async {
        Error::new(
            StatusCode::FORBIDDEN,
            "changes are made through the socket of control.socket only",
        )
    };
    let refuse_capture = || async {
        Error::new(
            StatusCode::FORBIDDEN,
            "frames are captured through the socket of control.socket only",
        )
    };
    let refused = Router::new()
        .route("/parameters/{name}", any(refuse))
        .route("/log-level", any(refuse))
        .route("/reload", any(refuse))
        .route("/drain", any(refuse))
        .route("/capture", any(refuse_capture))
        .route("/capture/{number}", any(refuse_capture));
    reads()
        .merge(refused)
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .with_state(state)
}

/// All requests, for whoever may open the socket.
pub(super) fn to_change(state: Arc<State>) -> Router {
    reads()
        .route("/parameters/{name}", put(set_parameter))
        .route("/log-level", put(set_log_level))
        .route("/reload", post(reload))
        .route("/drain", post(drain))
        .route("/capture", post(begin_capture))
        .route("/capture/{number}", get(next_of_capture).delete(end_capture))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .with_state(state)
}

fn reads() -> Router<Arc<State>> {
    Router::new()
        .route("/", get(page::serve))
        .route("/metrics", get(serve_metrics))
        .route("/healthz", get(serve_health))
        .route("/status", get(|state: Shared| async move { answer(&status::status(&state)) }))
        .route("/lanes", get(|state: Shared| async move { answer(&status::lanes(&state)) }))
        .route("/recovery", get(|state: Shared| async move { answer(&status::recovery(&state)) }))
        .route("/ports", get(|state: Shared| async move { answer(&status::ports(&state)) }))
        .route("/pools", get(|state: Shared| async move { answer(&status::pools(&state)) }))
        .route("/build", get(|| async { answer(&status::build()) }))
        .route("/flows", get(serve_flows))
        .route("/events", get(serve_events))
        .route("/peers", get(serve_peers))
        .route("/config", get(|state: Shared| async move { answer(&state.parameters.config()) }))
        .route("/parameters", get(|state: Shared| async move { answer(&state.parameters.all()) }))
        .route("/capabilities", get(serve_capabilities))
}

async fn unknown(uri: Uri) -> Error {
    let why = format!("there is no {}; there are {}", uri.path(), PATHS.join(", "));
    Error::new(StatusCode::NOT_FOUND, why)
}

async fn other_method(method: Method, uri: Uri) -> Error {
    let why = format!("{method} is nothing that {} answers", uri.path());
    Error::new(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// A value of the API.
pub(super) fn answer(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

async fn serve_metrics(state: Shared) -> Response {
    match metrics::render(&state) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

async fn serve_health(state: Shared) -> Response {
    match health::check(&state) {
        Ok(()) => "ok\n".into_response(),
        Err(reasons) => {
            (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n").into_response()
        }
    }
}

async fn serve_events(state: Shared, Query(params): Params) -> Answer {
    let mut params = Parameters::new(params);
    let last = params.number("last", events::DEFAULT_SHOWN, events::KEPT)?;
    params.end()?;
    Ok(answer(&state.events.newest(last)))
}

async fn serve_flows(state: Shared, Query(params): Params) -> Answer {
    let mut params = Parameters::new(params);
    let one_of = |text: &str| flows::STATES.into_iter().find(|state| *state == text);
    let wanted = Wanted {
        address: params.take("address", "the IP address of a host", |it| it.parse().ok())?,
        qpn: params.take("qpn", "the number of a queue pair, e.g. 17 or 0x11", qpn)?,
        state: params.take("state", &flows::STATES.join(", "), one_of)?,
        order: params.take("sort", "lost, resent, held", |it| it.parse().ok())?.unwrap_or_default(),
        offset: params.number("offset", 0, flows::OFFSET_MAX)?,
        limit: params.number("limit", flows::PAGE, flows::PAGE_MAX)?,
    };
    params.end()?;
    let mut page = state.flows.page(&wanted).await;
    if let Ok(page) = &mut page {
        page.note = state.facts.note_on_flows().map(Into::into);
    }
    page.map(|page| answer(&page)).map_err(|why| Error::new(StatusCode::SERVICE_UNAVAILABLE, why))
}

/// A number of 24 bits, decimal or hexadecimal.
fn qpn(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|number| *number < 1 << 24)
}

async fn serve_peers(state: Shared) -> Response {
    answer(&state.peers.report(SystemTime::now()))
}

async fn serve_capabilities(state: Shared) -> Response {
    answer(&state.capabilities.with_peer(state.peers.session()))
}

async fn set_parameter(state: Shared, Path(name): Path<String>, value: Body) -> Answer {
    let value = value.text()?;
    state.parameters.set(&name, &value).map(|parameter| answer(&parameter)).map_err(|why| match why
    {
        Refused::Unknown => {
            let why = format!("there is no parameter {name}; /parameters has all");
            Error::new(StatusCode::NOT_FOUND, why)
        }
        Refused::Unfit(why) => Error::new(StatusCode::UNPROCESSABLE_ENTITY, why),
        Refused::Busy => {
            let why = "a worker has not taken the last settings yet; try again";
            Error::new(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    })
}

async fn set_log_level(state: Shared, level: Body) -> Answer {
    let level = state.actions.log.set(&level.text()?);
    let level = level.map_err(|why| Error::new(StatusCode::UNPROCESSABLE_ENTITY, why))?;
    Ok(answer(&LogLevel { log_level: level.into() }))
}

async fn reload(state: Shared) -> Answer {
    match state.actions.reload().await {
        Ok(Ok(applied)) => Ok(answer(&Reloaded { applied })),
        Ok(Err(details)) => {
            let first = details.first().map_or("the file is not taken", |line| line);
            let error = format!("not reloaded, nothing is changed: {first}");
            let details = if details.len() > 1 { details } else { Vec::new() };
            let why = Refusal { error, details };
            Err(Error { status: StatusCode::UNPROCESSABLE_ENTITY, why })
        }
        Err(_) => Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway is about to end")),
    }
}

async fn begin_capture(state: Shared, Query(params): Params) -> Answer {
    let mut params = Parameters::new(params);
    let captures = &state.captures;
    let direction = |text: &str| match text {
        "in" => Some(Direction::In),
        "out" => Some(Direction::Out),
        _ => None,
    };
    let names: Vec<_> = captures.ports().map(PortId::name).collect();
    let port = |text: &str| captures.ports().find(|port| port.name() == text);
    let filter = Filter {
        port: params.take("port", &names.join(", "), port)?,
        direction: params.take("direction", "in, out", direction)?,
        address: params.take("address", "the IP address of a host", |it| it.parse().ok())?,
        qpn: params.take("qpn", "the number of a queue pair, e.g. 17 or 0x11", qpn)?,
        lane: params.take("lane", "0 to 255", |it| it.parse().ok())?,
        marks: captures.marks(),
    };
    let wanted = capture::Wanted {
        filter,
        snaplen: params.number("snaplen", capture::SNAPLEN, capture::SNAPLEN_MAX)?,
        frames: params.number("frames", capture::FRAMES, capture::FRAMES_MAX)?,
    };
    params.end()?;
    let number = captures.begin(&wanted, Instant::now())?;
    tokio::spawn(capture::watch(Arc::clone(&state)));
    Ok((StatusCode::CREATED, answer(&api::Capture { capture: number })).into_response())
}

/// The next part of the file, as soon as there is something; 204 once nothing more comes.
async fn next_of_capture(state: Shared, Path(number): Path<String>) -> Answer {
    let (number, began) = (capture_of(&number)?, Instant::now());
    loop {
        match state.captures.next(number, Instant::now())? {
            None => return Ok(StatusCode::NO_CONTENT.into_response()),
            Some(part) if part.is_empty() && began.elapsed() < capture::WAIT => {
                tokio::time::sleep(capture::TICK).await;
            }
            Some(part) => {
                let kind = [(header::CONTENT_TYPE, "application/x-pcapng")];
                return Ok((kind, part).into_response());
            }
        }
    }
}

async fn end_capture(state: Shared, Path(number): Path<String>) -> Answer {
    Ok(answer(&state.captures.end(capture_of(&number)?)?))
}

fn capture_of(number: &str) -> Result<u64, Error> {
    let why = || format!("there is no capture {number}");
    number.parse().map_err(|_| Error::new(StatusCode::NOT_FOUND, why()))
}

impl From<capture::Refused> for Error {
    fn from(why: capture::Refused) -> Self {
        match why {
            capture::Refused::Busy(why) => Self::new(StatusCode::CONFLICT, why),
            capture::Refused::Unknown(why) => Self::new(StatusCode::NOT_FOUND, why),
            capture::Refused::Silent(why) => Self::new(StatusCode::SERVICE_UNAVAILABLE, why),
        }
    }
}

async fn drain(state: Shared) -> Response {
    state.actions.drain();
    let draining = "held frames leave, peers are told, and the gateway ends".into();
    (StatusCode::ACCEPTED, answer(&Draining { draining })).into_response()
}

/// The body of a request: text, or why it is not taken.
struct Body(Result<String, StringRejection>);

impl Body {
    fn text(self) -> Result<String, Error> {
        self.0.map_err(|e| Error::new(e.status(), format!("the body of the request: {e}")))
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(String::from_request(request, state).await))
    }
}

/// What stands behind the question mark of a request.
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Takes those of a request.
    pub(super) fn new(all: BTreeMap<String, String>) -> Self {
        Self(all)
    }

    /// Takes one that `read` understands, if it is there.
    pub(super) fn take<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.0.remove(name) else { return Ok(None) };
        let value = read(&text).ok_or_else(|| {
            let why = format!("{name}: found {text}; allowed: {allowed}");
            Error::new(StatusCode::BAD_REQUEST, why)
        })?;
        Ok(Some(value))
    }

    /// Takes a number from 0 to `most`.
    pub(super) fn number(&mut self, name: &str, or: usize, most: usize) -> Result<usize, Error> {
        let read = |text: &str| text.parse().ok().filter(|number| *number <= most);
        Ok(self.take(name, &format!("0 to {most}"), read)?.unwrap_or(or))
    }

    /// Nothing else may stand there.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                let why = format!("there is no option {name} for this request");
                Err(Error::new(StatusCode::BAD_REQUEST, why))
            }
        }
    }
}
