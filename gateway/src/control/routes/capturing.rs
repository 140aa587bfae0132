//! Captures and traces: a request begins one, others fetch its parts, and one ends it.

use std::sync::Arc;
use std::time::Instant;

use api::number_of_24_bits;
use axum::Router;
use axum::extract::{Path, Query};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};

use super::{Answer, Error, Parameters, Params, Shared, answer};
use crate::control::{State, capture};
use crate::port::PortId;
use crate::worker::capture::{Direction, Filter, Wanted};

/// For whoever may open the socket.
pub(super) fn routes() -> Router<Arc<State>> {
    let capture = |state, params| begin(state, params, wanted_of_capture);
    let trace = |state, params| begin(state, params, wanted_of_trace);
    let next_of_capture = |state, number| next(state, number, "application/x-pcapng");
    let next_of_trace = |state, number| next(state, number, "application/x-ndjson");
    Router::new()
        .route("/capture", post(capture))
        .route("/capture/{number}", get(next_of_capture).delete(end))
        .route("/trace", post(trace))
        .route("/trace/{number}", get(next_of_trace).delete(end))
}

/// Frames by what is inside, at a port.
fn filter(state: &State, params: &mut Parameters) -> Result<Filter, Error> {
    let captures = &state.captures;
    let names: Vec<_> = captures.ports().map(PortId::name).collect();
    let port = |text: &str| captures.ports().find(|port| port.name() == text);
    let lanes = match captures.lanes().checked_sub(1) {
        None => "none: this box has no tunnel".to_owned(),
        Some(last) => format!("0 to {last}"),
    };
    let lane = |text: &str| text.parse().ok().filter(|&lane| lane < captures.lanes());
    let qpn = "the number of a queue pair, e.g. 17 or 0x11";
    Ok(Filter {
        port: params.take("port", &names.join(", "), port)?,
        direction: None,
        address: params.take("address", "the IP address of a host", |it| it.parse().ok())?,
        qpn: params.take("qpn", qpn, number_of_24_bits)?,
        lane: params.take("lane", &lanes, lane)?,
        marks: captures.marks(),
    })
}

fn wanted_of_capture(state: &State, params: &mut Parameters) -> Result<capture::Wanted, Error> {
    let direction = |text: &str| match text {
        "in" => Some(Direction::In),
        "out" => Some(Direction::Out),
        _ => None,
    };
    let direction = params.take("direction", "in, out", direction)?;
    let snaplen = params.number("snaplen", capture::SNAPLEN, capture::SNAPLEN_MAX)?;
    Ok(capture::Wanted {
        filter: Filter { direction, ..filter(state, params)? },
        of_each: Wanted::Bytes(snaplen as u16),
        frames: params.number("frames", capture::FRAMES, capture::FRAMES_MAX)?,
    })
}

fn wanted_of_trace(state: &State, params: &mut Parameters) -> Result<capture::Wanted, Error> {
    Ok(capture::Wanted {
        filter: filter(state, params)?,
        of_each: Wanted::Decisions,
        frames: params.number("frames", capture::TRACED, capture::FRAMES_MAX)?,
    })
}

async fn begin(
    state: Shared,
    Query(params): Params,
    wanted: impl FnOnce(&State, &mut Parameters) -> Result<capture::Wanted, Error>,
) -> Answer {
    let mut params = Parameters::new(params);
    let wanted = wanted(&state, &mut params)?;
    params.end()?;
    let number = state.captures.begin(&wanted, Instant::now())?;
    tokio::spawn(capture::watch(Arc::clone(&state)));
    Ok((StatusCode::CREATED, answer(&api::Capture { capture: number })).into_response())
}

/// The next part, as soon as there is something; 204 once nothing more comes.
async fn next(state: Shared, Path(number): Path<String>, kind: &'static str) -> Answer {
    let (number, began) = (capture_of(&number)?, Instant::now());
    loop {
        match state.captures.next(number, Instant::now(), &state.wall)? {
            None => return Ok(StatusCode::NO_CONTENT.into_response()),
            Some(part) if part.is_empty() && began.elapsed() < capture::WAIT => {
                tokio::time::sleep(capture::TICK).await;
            }
            Some(part) => return Ok(([(header::CONTENT_TYPE, kind)], part).into_response()),
        }
    }
}

async fn end(state: Shared, Path(number): Path<String>) -> Answer {
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
