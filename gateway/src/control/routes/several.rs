//! The requests of a gateway with one or several pairs of ports. Each pair answers under `/pairs/NAME`; a single one
//! without that as well.

use std::sync::Arc;

use axum::Router;
use axum::extract::State as Extract;
use axum::http::{StatusCode, Uri, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};

use super::{Error, answer, errors_as_json, other_method, unknown};
use crate::control::{State, health, metrics, status};

/// The pairs.
type All = Extract<Arc<[Arc<State>]>>;

/// Requests about a pair, which of several has to be said.
const OF_A_PAIR: [&str; 20] = [
    "/",
    "/status",
    "/peers",
    "/lanes",
    "/recovery",
    "/flows",
    "/ports",
    "/pools",
    "/records",
    "/events",
    "/config",
    "/parameters",
    "/parameters/{name}",
    "/capabilities",
    "/capture",
    "/capture/{number}",
    "/trace",
    "/trace/{number}",
    "/protect",
    "/unprotect",
];

/// The routes of all pairs, made of those of one, and those of the process, which any pair answers.
pub(super) fn routes(
    states: &[Arc<State>],
    of_pair: &Router<Arc<State>>,
    of_process: &Router<Arc<State>>,
) -> Router {
    let of = |state: &Arc<State>, routes: &Router<Arc<State>>| {
        routes.clone().with_state(Arc::clone(state))
    };
    let mut router = of_all(states);
    for state in states {
        let pair = of_all(std::slice::from_ref(state));
        let pair = pair.merge(of(state, of_pair)).merge(of(state, of_process));
        router = router.nest(&format!("/pairs/{}", state.name()), pair);
    }
    if let Some(first) = states.first() {
        router = router.merge(of(first, of_process));
        router = router.merge(if states.len() > 1 { choose(states) } else { of(first, of_pair) });
    }
    router
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn(errors_as_json))
}

/// Of several pairs one has to be chosen.
fn choose(states: &[Arc<State>]) -> Router {
    let names: Vec<_> = states.iter().map(|state| state.name().to_owned()).collect();
    let choose = move |uri: Uri| {
        let paths = names.iter().map(|name| format!("/pairs/{name}{}", uri.path()));
        let paths = paths.collect::<Vec<_>>().join(", ");
        let why = format!("there are several pairs of ports, ask one: {paths}");
        async move { Error::new(StatusCode::MULTIPLE_CHOICES, why) }
    };
    OF_A_PAIR.iter().fold(Router::new(), |router, path| router.route(path, any(choose.clone())))
}

/// Of one pair, or of several together.
fn of_all(states: &[Arc<State>]) -> Router {
    Router::new()
        .route("/pairs", get(|all: All| async move { answer(&status::pairs(&all)) }))
        .route("/metrics", get(serve_metrics))
        .route("/healthz", get(serve_health))
        .with_state(states.into())
}

async fn serve_metrics(all: All) -> Response {
    match metrics::render(&all) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

async fn serve_health(all: All) -> Response {
    match health::check_all(&all) {
        Ok(()) => "ok\n".into_response(),
        Err(reasons) => {
            (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n").into_response()
        }
    }
}
