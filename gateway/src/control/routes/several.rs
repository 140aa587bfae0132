//! The requests of a gateway with one or several pairs of ports. Each pair answers under `/pairs/NAME`; a single one
//! without that as well.

use std::iter;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Extract};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{Error, answer, errors_as_json, other_method, unknown};
use crate::control::reason::Word;
use crate::control::{State, health, metrics, status};

/// The pairs.
type All = Extract<Arc<[Arc<State>]>>;

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
        let of_first = of(first, of_pair);
        router = router.merge(if states.len() > 1 { choose(states, of_first) } else { of_first });
    }
    router
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn(errors_as_json))
}

/// The routes of a pair where no pair was named: each is answered with the paths to choose from.
fn choose(states: &[Arc<State>], of_pair: Router) -> Router {
    let names: Vec<_> = states.iter().map(|state| state.name().to_owned()).collect();
    of_pair.route_layer(from_fn(move |request: Request, _: Next| {
        // The page of a pair is at /pairs/NAME.
        let path = request.uri().path().trim_end_matches('/');
        let paths: Vec<_> = names.iter().map(|name| format!("/pairs/{name}{path}")).collect();
        let why = format!("there are several pairs of ports, ask one: {}", paths.join(", "));
        async move { Error::new(StatusCode::MULTIPLE_CHOICES, why) }
    }))
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
    let (word, lines) = health::check_all(&all);
    let text =
        iter::once(word.name().to_owned()).chain(lines).map(|line| line + "\n").collect::<String>();
    match word {
        Word::Ok => text.into_response(),
        Word::Degraded | Word::Down => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
    }
}
