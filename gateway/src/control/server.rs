//! HTTP: `/metrics`, `/healthz` and `/events`, from a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use axum::Router;
use axum::extract;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{State, health, metrics};

/// Takes the address, so that a failure shows before anything else starts.
///
/// # Errors
/// In one line: the obstacle, and the key that chooses another address.
pub fn bind(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|e| {
        let why = match e.kind() {
            io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
            io::ErrorKind::PermissionDenied => "ports below 1024 need root".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            _ => e.to_string(),
        };
        anyhow::anyhow!("can't serve metrics at {listen}: {why}; choose another control.listen")
    })
}

/// Serves `state` from a new thread until the process ends.
///
/// # Errors
/// If the thread or its event loop can't be made.
pub fn spawn(listener: TcpListener, state: Arc<State>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("can't start the control thread's event loop")?;
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router(state)).await
    };
    thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            if let Err(e) = runtime.block_on(serve) {
                tracing::error!("metrics are no longer served: {e}");
            }
        })
        .context("can't start the control thread")?;
    Ok(())
}

fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/metrics", get(serve_metrics))
        .route("/healthz", get(serve_health))
        .route("/events", get(serve_events))
        .with_state(state)
}

async fn serve_metrics(extract::State(state): extract::State<Arc<State>>) -> Response {
    match metrics::render(&state) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

async fn serve_health(extract::State(state): extract::State<Arc<State>>) -> Response {
    match health::check(&state) {
        Ok(()) => "ok\n".into_response(),
        Err(reasons) => {
            (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n").into_response()
        }
    }
}

async fn serve_events(extract::State(state): extract::State<Arc<State>>) -> Response {
    match state.events.json() {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn serves_metrics_and_health() {
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        spawn(listener, Arc::new(State::new("both", 1, None))).unwrap();

        let metrics = get(address, "/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
        assert!(metrics.contains("\nlr2_uptime_seconds "), "{metrics}");
        let health = get(address, "/healthz");
        assert!(health.starts_with("HTTP/1.1 503"), "{health}");
        assert!(health.ends_with("starting: ports are not open yet\n"), "{health}");
        let events = get(address, "/events");
        assert!(events.contains("content-type: application/json"), "{events}");
        assert!(events.ends_with("{\"missed\":0,\"events\":[]}\n"), "{events}");
        assert!(get(address, "/").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn an_address_in_use_is_one_line() {
        let first = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "can't serve metrics at {address}: another process listens there; \
                 choose another control.listen"
            )
        );
    }
}
