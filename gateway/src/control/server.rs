//! The API's listeners, served from a thread of its own: `control.listen`, to read, and the [`socket`](super::socket), to change
//! things as well.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::connections::LIMITS;
use super::{State, connections, routes};
use anyhow::Context;

/// Time between two tries to have the address.
const RETRY: Duration = Duration::from_secs(2);

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

/// Serves the states of all pairs of ports from a new thread until the process ends; `socket` is for requests that change something as well. Without a `listener` it
/// tries again and again to have the address: forwarding does not depend on it.
///
/// # Errors
/// If the thread or its event loop can't be made.
pub fn spawn(
    (listen, listener): (SocketAddr, Option<TcpListener>),
    socket: Option<UnixListener>,
    states: Vec<Arc<State>>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("can't start the control thread's event loop")?;
    let serve = async move {
        if let Some(socket) = socket {
            let socket = tokio::net::UnixListener::from_std(socket)?;
            tokio::spawn(connections::serve(socket, routes::to_change(&states), LIMITS));
        }
        let listener = tokio::net::TcpListener::from_std(wait_for(listen, listener).await)?;
        connections::serve(listener, routes::to_read(&states, listen.ip()), LIMITS).await;
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tunnel::spray::Policy;

    use super::*;
    use crate::config::tests::{good, lab};
    use crate::control::actions::Actions;
    use crate::control::socket;
    use crate::log::Log;
    use crate::reload::Change;

    fn get(address: SocketAddr, path: &str) -> String {
        ask(TcpStream::connect(address).unwrap(), "GET", path, "")
    }

    fn ask(stream: impl Read + Write, method: &str, path: &str, body: &str) -> String {
        ask_host(stream, method, path, body, "localhost")
    }

    fn ask_host(
        mut stream: impl Read + Write,
        method: &str,
        path: &str,
        body: &str,
        host: &str,
    ) -> String {
        let len = body.len();
        let headers = format!("Host: {host}\r\nConnection: close\r\nContent-Length: {len}");
        write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_loopback_address_answers_no_request_by_another_name() {
        let state = State::new("both", 1, None).of(&good(&lab("")));
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let (socket, _file) = socket::bind(&path, None).unwrap().into_parts();
        spawn((address, Some(listener)), Some(socket), vec![Arc::new(state)]).unwrap();
        for path in ["/status", "/metrics", "/", "/nothing"] {
            let tcp = TcpStream::connect(address).unwrap();
            let answer = ask_host(tcp, "GET", path, "", "evil.example");
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            assert!(answer.contains("Host: found") && answer.contains("localhost"), "{answer}");
        }
        assert!(get(address, "/status").starts_with("HTTP/1.1 200"));
        // A browser can't open it.
        let unix = UnixStream::connect(&path).unwrap();
        assert!(ask_host(unix, "GET", "/status", "", "x").starts_with("HTTP/1.1 200"));
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
        let (socket, _file) = socket::bind(&path, None).unwrap().into_parts();
        spawn((address, Some(listener)), Some(socket), vec![Arc::new(state)]).unwrap();

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
            ("wan.spray", "red", ["HTTP/1.1 422", "found red; allowed: \\\"earliest\\\""]),
            ("wan.spray", &"r".repeat(2_000), ["HTTP/1.1 413", ""]),
            ("lan.mtu", "1500", ["HTTP/1.1 422", "change the file"]),
            (
                "lan.colour",
                "red",
                ["HTTP/1.1 404", "{\"error\":\"there is no parameter lan.colour;"],
            ),
            // axum refuses it before we see it.
            ("%ff", "red", ["HTTP/1.1 400", "\r\n\r\n{\"error\":\"Invalid URL"]),
        ] {
            let answer = unix("PUT", &format!("/parameters/{name}"), value);
            assert!(parts.iter().all(|part| answer.contains(part)), "{answer}");
        }
        let Ok(Change::Settings(set)) = worker.pop() else { panic!("no settings") };
        assert_eq!(set.tunnel.spray, Policy::Reps);
        assert!(worker.pop().is_err());
        assert!(unix("GET", "/parameters", "").contains("\"wan.spray\",\"value\":\"reps\""));
        assert!(unix("GET", "/healthz", "").starts_with("HTTP/1.1 503"));
        // The worker takes none any more.
        let mut answers = (0..100).map(|_| unix("PUT", "/parameters/wan.spray", "reps"));
        let busy = answers.find(|answer| !answer.starts_with("HTTP/1.1 200"));
        let busy = busy.unwrap_or_default();
        assert!(
            busy.starts_with("HTTP/1.1 503") && busy.contains("\r\nretry-after: 1\r\n"),
            "{busy}"
        );
    }

    #[test]
    fn serves_metrics_and_health() {
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        spawn((address, Some(listener)), None, vec![Arc::new(State::new("both", 1, None))])
            .unwrap();

        let metrics = get(address, "/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
        assert!(metrics.contains("\nlr2_uptime_seconds "), "{metrics}");
        let health = get(address, "/healthz");
        assert!(health.starts_with("HTTP/1.1 503"), "{health}");
        let line = "\r\n\r\ndown\ndown for 0s: starting: ports are not open yet; next: ";
        assert!(health.contains(line), "{health}");
        let events = get(address, "/events");
        assert!(events.contains("content-type: application/json"), "{events}");
        assert!(events.ends_with("{\"missed\":0,\"events\":[]}\n"), "{events}");
        assert!(get(address, "/peers").ends_with("{\"peers\":[],\"last_refused\":[]}\n"));
        let status = get(address, "/status");
        assert!(
            status.contains("\"health\":\"down\",\"reasons\":[\"down for 0s: starting: "),
            "{status}"
        );
        for (path, status, error) in [
            ("/nothing", "404", "there is no /nothing; there are /, /pairs, "),
            ("/events?last=10001", "400", "last: found 10001; allowed: 0 to 10000"),
            ("/events?first=1", "400", "there is no option first for this request"),
        ] {
            let answer = get(address, path);
            let error = format!("\r\n\r\n{{\"error\":\"{error}");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert!(answer.contains(&error) && answer.contains("application/json"), "{answer}");
        }
        let page = get(address, "/");
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("</html>\n"), "{page}");
        assert!(page.contains("content-security-policy: default-src 'none'; script-src 'sha256-"));
        let answer = ask(TcpStream::connect(address).unwrap(), "POST", "/", "");
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(get(address, "/recovery").contains("\"round_trip\":null}"));
        assert!(get(address, "/events?last=10000").starts_with("HTTP/1.1 200"));
        for (method, path) in [("PUT", "/log-level"), ("POST", "/reload"), ("POST", "/drain")] {
            let answer = ask(TcpStream::connect(address).unwrap(), method, path, "");
            assert!(
                answer.starts_with("HTTP/1.1 403") && answer.contains("control.socket"),
                "{answer}"
            );
        }
        let answer = ask(TcpStream::connect(address).unwrap(), "DELETE", "/peers", "");
        assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("\"error\":"), "{answer}");
    }

    #[test]
    fn the_operator_reloads_drains_and_sets_the_level_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let (socket, _file) = socket::bind(&path, None).unwrap().into_parts();
        let stop = Arc::new(AtomicBool::new(false));
        let actions = Actions::new(Arc::clone(&stop), Log::default());
        let state = Arc::new(State::new("both", 1, None).with(actions));
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        spawn((address, Some(listener)), Some(socket), vec![Arc::clone(&state)]).unwrap();
        let unix = |method, path_of: &str, body: &str| {
            ask(UnixStream::connect(&path).unwrap(), method, path_of, body)
        };
        let level = unix("PUT", "/log-level", "debug\n");
        assert!(level.ends_with("{\"log_level\":\"debug\"}\n"), "{level}");
        let level = unix("PUT", "/log-level", "loud");
        assert!(level.starts_with("HTTP/1.1 422") && level.contains("found loud"), "{level}");
        for (answer, parts) in [
            (Ok(vec!["wan.spray".to_owned()]), ["HTTP/1.1 200", "{\"applied\":[\"wan.spray\"]}"]),
            (
                Err(vec!["one".to_owned(), "two".to_owned()]),
                ["HTTP/1.1 422", "nothing is changed: one\",\"details\":[\"one\",\"two\"]"],
            ),
        ] {
            // The main thread.
            let state = Arc::clone(&state);
            let main = thread::spawn(move || {
                loop {
                    if let Some(to) = state.actions.asked_to_reload().pop() {
                        return to.send(answer).unwrap();
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let answer = unix("POST", "/reload", "");
            main.join().unwrap();
            assert!(parts.iter().all(|part| answer.contains(part)), "{answer}");
        }
        assert!(!stop.load(Ordering::Relaxed));
        let answer = unix("POST", "/drain", "");
        assert!(answer.starts_with("HTTP/1.1 202") && stop.load(Ordering::Relaxed), "{answer}");
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
