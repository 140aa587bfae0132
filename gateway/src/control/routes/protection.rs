//! Flows that the operator leaves to the RNICs, and has protected again.

use std::net::IpAddr;
use std::sync::Arc;

use api::number_of_24_bits;
use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::post;

use super::{Answer, Error, Parameters, Params, Shared, answer};
use crate::control::{State, flows};

/// Flows of one request: as many as a worker takes at once.
const MOST: usize = 8;

/// For whoever may open the socket.
pub(super) fn routes() -> Router<Arc<State>> {
    Router::new()
        .route("/protect", post(|state, params| set(state, params, true)))
        .route("/unprotect", post(|state, params| set(state, params, false)))
}

async fn set(state: Shared, Query(params): Params, is_on: bool) -> Answer {
    let mut params = Parameters::new(params);
    let address = |text: &str| text.parse::<IpAddr>().ok();
    let to = params.take("destination", "the IP address of a host", address)?;
    let from = params.take("source", "the IP address of a host", address)?;
    let allowed = "the number of a queue pair, e.g. 17 or 0x11";
    let qpn = params.take("qpn", allowed, number_of_24_bits)?;
    params.end()?;
    let (Some(to), Some(qpn)) = (to, qpn) else {
        let why = "which flow? destination and qpn say it, as /flows has them";
        return Err(Error::new(StatusCode::BAD_REQUEST, why));
    };
    let busy = |why: String| Error::new(StatusCode::SERVICE_UNAVAILABLE, why);
    let (names, _) = flows::to(&state.flows, to, qpn, from).await.map_err(busy)?;
    let what = format!("to queue pair {qpn:#x} of {to}");
    let what = from.map_or(what.clone(), |from| format!("{what} from {from}"));
    if names.is_empty() {
        let why = format!(
            "there is no flow {what}: found none of that destination and QPN among the flows that this box knows; /flows has them all (lr2ctl flows --host {to})"
        );
        return Err(Error::new(StatusCode::NOT_FOUND, why));
    }
    if names.len() > MOST {
        let why = format!(
            "{} flows go {what}; allowed: {MOST} at a time; name the source as well",
            names.len()
        );
        return Err(Error::new(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    let late = "a worker has not taken the last changes yet; try again";
    state.parameters.set_protection(&names, is_on).map_err(|_| busy(late.to_owned()))?;
    let word = if is_on { "protected again" } else { "left to the RNICs" };
    tracing::info!("the operator has {} flow(s) {what} {word}", names.len());
    // A worker does this before it tells of its flows.
    let (_, page) = flows::to(&state.flows, to, qpn, from).await.map_err(busy)?;
    Ok(answer(&page))
}
