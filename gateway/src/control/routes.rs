//! The requests of the API, and the answers: JSON, but for `/metrics` and `/healthz`. docs/api.md describes them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use api::{Draining, LogLevel, Refusal, Reloaded, number_of_24_bits};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::rejection::StringRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Query, Request, State as Extract};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use common::psn::Psn;
use serde::Serialize;

use super::flows::Wanted;
use super::parameters::Refused;
use super::{State, events, flows, page, records, status};

/// Bytes of the longest body of a request.
const BODY_MAX: usize = 1_024;

mod capturing;
#[cfg(test)]
mod documented;
mod host;
mod protection;
mod several;

/// What can be read.
const PATHS: [&str; 18] = [
    "/",
    "/pairs",
    "/status",
    "/peers",
    "/lanes",
    "/paths",
    "/recovery",
    "/flows",
    "/ports",
    "/pools",
    "/records",
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
        let mut response = (self.status, answer(&self.why)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            // In seconds: workers take changes, and tell of their flows, within one.
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

type Answer = Result<Response, Error>;

/// Requests that change nothing, for everybody who reaches `address`. `control.listen` refuses the others.
pub(super) fn to_read(states: &[Arc<State>], address: IpAddr) -> Router {
    let refuse = || async {
        Error::new(
            StatusCode::FORBIDDEN,
            "changes are made through the socket of control.socket only",
        )
    };
    let refuse_packets = || async {
        Error::new(
            StatusCode::FORBIDDEN,
            "what packets carry, and their PSNs, are told through the socket of control.socket only",
        )
    };
    let of_pair = reads()
        .route("/parameters/{name}", any(refuse))
        .route("/protect", any(refuse))
        .route("/unprotect", any(refuse))
        .route("/records", any(refuse_packets))
        .route("/capture", any(refuse_packets))
        .route("/capture/{number}", any(refuse_packets))
        .route("/trace", any(refuse_packets))
        .route("/trace/{number}", any(refuse_packets));
    let of_process = Router::new()
        .route("/build", get(build))
        .route("/log-level", any(refuse))
        .route("/reload", any(refuse))
        .route("/drain", any(refuse));
    host::check(several::routes(states, &of_pair, &of_process), address)
}

/// All requests, for whoever may open the socket.
pub(super) fn to_change(states: &[Arc<State>]) -> Router {
    let of_pair = reads()
        .route("/parameters/{name}", put(set_parameter))
        .route("/records", get(serve_records))
        .merge(capturing::routes())
        .merge(protection::routes());
    let of_process = Router::new()
        .route("/build", get(build))
        .route("/log-level", put(set_log_level))
        .route("/reload", post(reload))
        .route("/drain", post(drain));
    several::routes(states, &of_pair, &of_process).layer(DefaultBodyLimit::max(BODY_MAX))
}

async fn build() -> Response {
    answer(&status::build())
}

/// What can be read of a pair of ports.
fn reads() -> Router<Arc<State>> {
    Router::new()
        .route("/", get(page::serve))
        .route("/status", get(|state: Shared| async move { answer(&status::status(&state)) }))
        .route("/lanes", get(|state: Shared| async move { answer(&status::lanes(&state)) }))
        .route("/paths", get(|state: Shared| async move { answer(&status::paths(&state)) }))
        .route("/recovery", get(|state: Shared| async move { answer(&status::recovery(&state)) }))
        .route("/ports", get(|state: Shared| async move { answer(&status::ports(&state)) }))
        .route("/pools", get(|state: Shared| async move { answer(&status::pools(&state)) }))
        .route("/flows", get(serve_flows))
        .route("/events", get(serve_events))
        .route("/peers", get(serve_peers))
        .route("/config", get(|state: Shared| async move { answer(&state.parameters.config()) }))
        .route("/parameters", get(|state: Shared| async move { answer(&state.parameters.all()) }))
        .route("/capabilities", get(serve_capabilities))
}

/// Makes JSON of an error that axum finds by itself, as of a path that is no UTF-8.
async fn errors_as_json(request: Request, next: Next) -> Response {
    let is_health = request.uri().path().ends_with("/healthz");
    let response = next.run(request).await;
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind == "application/json");
    if is_json || is_health || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = to_bytes(response.into_body(), BODY_MAX).await.unwrap_or_default();
    Error::new(status, String::from_utf8_lossy(&text).trim()).into_response()
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
        qpn: params.take(
            "qpn",
            "the number of a queue pair, e.g. 17 or 0x11",
            number_of_24_bits,
        )?,
        state: params.take("state", &flows::STATES.join(", "), one_of)?,
        order: params.take("sort", "lost, resent, held", |it| it.parse().ok())?.unwrap_or_default(),
        offset: params.number("offset", 0, flows::OFFSET_MAX)?,
        limit: params.number("limit", flows::PAGE, flows::PAGE_MAX)?,
    };
    params.end()?;
    let mut page = flows::page(&state.flows, &wanted).await;
    if let Ok(page) = &mut page {
        page.note = state.facts().note_on_flows().map(Into::into);
    }
    page.map(|page| answer(&page)).map_err(|why| Error::new(StatusCode::SERVICE_UNAVAILABLE, why))
}

async fn serve_records(state: Shared, Query(params): Params) -> Answer {
    let mut params = Parameters::new(params);
    let query = records::Query {
        host: params.take("address", "the IP address of a host", |it| it.parse().ok())?,
        qpn: params.take(
            "qpn",
            "the number of a queue pair, e.g. 17 or 0x11",
            number_of_24_bits,
        )?,
        psn: params.take("psn", "a PSN, e.g. 17 or 0x11", number_of_24_bits)?.map(Psn::new),
    };
    let last = params.number("last", records::LAST, records::LAST_MAX)?;
    params.end()?;
    let newest = records::newest(&state.records, &query, last, &state.wall).await;
    let newest = newest.map_err(|why| Error::new(StatusCode::SERVICE_UNAVAILABLE, why))?;
    Ok(answer(&newest))
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
