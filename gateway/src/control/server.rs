//! HTTP: `/metrics`, `/healthz`, `/events`, `/peers`, `/parameters` and `/capabilities`, from a thread of its own. Parameters can be set through a
//! [`socket`](super::socket) only.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use axum::Router;
use axum::extract;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};

use super::connections::LIMITS;
use super::parameters::Refused;
use super::{State, connections, health, metrics};

/// Time between two tries to have the address.
const RETRY: Duration = Duration::from_secs(2);
/// Bytes of the longest value of a parameter.
const VALUE_MAX: usize = 1_024;

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

/// Serves `state` from a new thread until the process ends; parameters can be set through `socket`. Without a `listener` it
/// tries again and again to have the address: forwarding does not depend on it.
///
/// # Errors
/// If the thread or its event loop can't be made.
pub fn spawn(
    (listen, listener): (SocketAddr, Option<TcpListener>),
    socket: Option<UnixListener>,
    state: Arc<State>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("can't start the control thread's event loop")?;
    let serve = async move {
        let to_read = router(Arc::clone(&state)).route("/parameters/{name}", put(refuse_to_set));
        if let Some(socket) = socket {
            let socket = tokio::net::UnixListener::from_std(socket)?;
            let to_set = Router::new()
                .route("/parameters/{name}", put(set_parameter))
                .layer(DefaultBodyLimit::max(VALUE_MAX))
                .with_state(Arc::clone(&state))
                .merge(router(state));
            tokio::spawn(connections::serve(socket, to_set, LIMITS));
        }
        let listener = tokio::net::TcpListener::from_std(wait_for(listen, listener).await)?;
        connections::serve(listener, to_read, LIMITS).await;
        Ok::<_, io::Error>(())
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

/// The listener, once the address can be had.
async fn wait_for(listen: SocketAddr, mut listener: Option<TcpListener>) -> TcpListener {
    loop {
        match listener.take() {
            Some(listener) => {
                tracing::info!("metrics at http://{listen}/metrics");
                return listener;
            }
            None => tokio::time::sleep(RETRY).await,
        }
        listener = bind(listen).ok();
    }
}

fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/metrics", get(serve_metrics))
        .route("/healthz", get(serve_health))
        .route("/events", get(serve_events))
        .route("/peers", get(serve_peers))
        .route("/parameters", get(serve_parameters))
        .route("/capabilities", get(serve_capabilities))
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
    json(state.events.json())
}

async fn serve_peers(extract::State(state): extract::State<Arc<State>>) -> Response {
    json(state.peers.json(SystemTime::now()))
}

async fn serve_parameters(extract::State(state): extract::State<Arc<State>>) -> Response {
    json(state.parameters.json())
}

async fn serve_capabilities(extract::State(state): extract::State<Arc<State>>) -> Response {
    json(state.capabilities.json(state.peers.session()))
}

async fn refuse_to_set() -> Response {
    let why = "parameters are set through the socket of control.socket only\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

async fn set_parameter(
    extract::State(state): extract::State<Arc<State>>,
    extract::Path(name): extract::Path<String>,
    value: String,
) -> Response {
    let refuse = |status, why: String| (status, why + "\n").into_response();
    match state.parameters.set(&name, &value) {
        Ok(parameter) => json(serde_json::to_string(&parameter)),
        Err(Refused::Unknown) => {
            let why = format!("there is no parameter {name}; /parameters has all");
            refuse(StatusCode::NOT_FOUND, why)
        }
        Err(Refused::Unfit(why)) => refuse(StatusCode::UNPROCESSABLE_ENTITY, why),
        Err(Refused::Busy) => {
            let why = "a worker has not taken the last settings yet; try again".into();
            refuse(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

fn json(text: serde_json::Result<String>) -> Response {
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use tunnel::Setting;
    use tunnel::spray::Policy;

    use super::*;
    use crate::config::tests::{good, lab};
    use crate::control::socket;
    use crate::reload::Change;

    fn get(address: SocketAddr, path: &str) -> String {
        ask(TcpStream::connect(address).unwrap(), "GET", path, "")
    }

    fn ask(mut stream: impl Read + Write, method: &str, path: &str, body: &str) -> String {
        let len = body.len();
        let headers = format!("Host: x\r\nConnection: close\r\nContent-Length: {len}");
        write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    // R-TUN-54
    #[test]
    fn parameters_are_set_through_the_socket_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let config = good(&lab("").replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\n"));
        let state = State::new("both", 1, None).of(&config);
        let mut worker = state.parameters.add_worker();
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let (socket, _file) = socket::bind(&path).unwrap().into_parts();
        spawn((address, Some(listener)), Some(socket), Arc::new(state)).unwrap();

        let all = get(address, "/parameters");
        assert!(all.contains("{\"name\":\"wan.spray\",\"value\":\"earliest\","), "{all}");
        let tcp = ask(TcpStream::connect(address).unwrap(), "PUT", "/parameters/wan.spray", "reps");
        assert!(tcp.starts_with("HTTP/1.1 403") && tcp.contains("control.socket"), "{tcp}");
        assert!(worker.pop().is_err());

        let unix = |method, path_of: &str, body: &str| {
            ask(UnixStream::connect(&path).unwrap(), method, path_of, body)
        };
        for (name, value, parts) in [
            ("wan.spray", "reps", ["HTTP/1.1 200", "\"value\":\"reps\""]),
            ("wan.spray", "red", ["HTTP/1.1 422", "found red; allowed: \"earliest\""]),
            ("wan.spray", &"r".repeat(2_000), ["HTTP/1.1 413", ""]),
            ("lan.mtu", "1500", ["HTTP/1.1 422", "change the file"]),
            ("lan.colour", "red", ["HTTP/1.1 404", "no parameter lan.colour"]),
        ] {
            let answer = unix("PUT", &format!("/parameters/{name}"), value);
            assert!(parts.iter().all(|part| answer.contains(part)), "{answer}");
        }
        assert_eq!(worker.pop(), Ok(Change::Setting(Setting::Spray(Policy::Reps))));
        assert!(worker.pop().is_err());
        assert!(unix("GET", "/parameters", "").contains("\"wan.spray\",\"value\":\"reps\""));
        assert!(unix("GET", "/healthz", "").starts_with("HTTP/1.1 503"));
    }

    #[test]
    fn serves_metrics_and_health() {
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        spawn((address, Some(listener)), None, Arc::new(State::new("both", 1, None))).unwrap();

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
        assert!(get(address, "/peers").ends_with("{\"peers\":[],\"last_refused\":[]}\n"));
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
