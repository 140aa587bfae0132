//! Connections of the HTTP servers: how many there may be, and for how long. Each carries one request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Bounds of the connections of one listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. Others wait in the kernel's queue, unread.
    pub connections: usize,
    /// Time for the head of a request.
    pub head: Duration,
    /// Time for a whole connection, until its answer was taken.
    pub whole: Duration,
}

/// Those of the gateway.
pub const LIMITS: Limits =
    Limits { connections: 32, head: Duration::from_secs(5), whole: Duration::from_secs(10) };

/// Serves all connections of a listener, within these limits.
pub async fn serve(mut listener: impl Listener, router: Router, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, _) = listener.accept().await;
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // An error or a client that is too slow ends this connection alone.
            let _ = timeout(limits.whole, connection).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::thread;
    use std::time::Instant;

    use axum::routing::get;

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    fn start(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let long = || async { "x".repeat(64 << 20) };
                let router = Router::new().route("/", get(|| async { "ok" }));
                serve(listener, router.route("/long", get(long)), limits).await;
            });
        });
        address
    }

    fn ask(address: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn rest(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn idle_connections_are_closed_and_no_more_than_a_few_are_served() {
        let limits = Limits { connections: 2, head: SHORT, whole: SHORT * 40 };
        let address = start(limits);
        let began = Instant::now();
        let idle = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let third = rest(ask(address, "/"));
        assert!(third.ends_with("\r\n\r\nok"), "{third}");
        assert!(began.elapsed() >= SHORT, "it had to wait for a place");
        for mut stream in idle {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_eq!(stream.read(&mut [0]).ok(), Some(0), "closed for want of a request");
        }
    }

    #[test]
    fn a_client_that_takes_no_answer_is_left() {
        let limits = Limits { connections: 1, head: SHORT, whole: SHORT };
        let address = start(limits);
        let slow = ask(address, "/long");
        assert!(rest(ask(address, "/")).ends_with("\r\n\r\nok"));
        assert!(rest(slow).len() < 64 << 20, "not all of it");
    }

    /// One request each: no connection stays to wait for another.
    #[test]
    fn a_connection_ends_with_its_answer() {
        let answer = rest(ask(start(LIMITS), "/"));
        assert!(answer.contains("connection: close") && answer.ends_with("ok"), "{answer}");
    }
}
