//! One request and its answer, over the gateway's socket or over TCP.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime;
use tokio::time::timeout;

use crate::{BAD_INPUT, CHOOSE, FAILED, Failure};

/// Time in which a gateway that lives answers. It ends connections after ten seconds.
const PATIENCE: Duration = Duration::from_secs(12);
/// Bytes of the longest answer that is read.
const ANSWER_MAX: usize = 64 << 20;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    method: &'a Method,
    path: &'a str,
    body: &'a str,
}

impl<'a> Request<'a> {
    /// Reads.
    pub const fn get(path: &'a str) -> Self {
        Self { method: &Method::GET, path, body: "" }
    }

    /// Sets to `body`.
    pub const fn put(path: &'a str, body: &'a str) -> Self {
        Self { method: &Method::PUT, path, body }
    }

    /// Ends something.
    pub const fn delete(path: &'a str) -> Self {
        Self { method: &Method::DELETE, path, body: "" }
    }

    /// Has something done.
    pub const fn post(path: &'a str) -> Self {
        Self { method: &Method::POST, path, body: "" }
    }
}

/// A part of a path, or a value behind the question mark, with what may not stand there escaped.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The gateway.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    address: Option<SocketAddr>,
    /// What stands before each path: the pair of ports, if one is chosen.
    prefix: String,
}

impl Client {
    /// The one that listens at `address`, or if there is none at `socket`.
    pub fn new(socket: &Path, address: Option<SocketAddr>) -> Self {
        Self { socket: socket.to_owned(), address, prefix: String::new() }
    }

    /// The same, of one of several pairs of ports.
    pub fn of_pair(&self, name: &str) -> Self {
        Self { prefix: format!("/pairs/{}", escaped(name)), ..self.clone() }
    }

    /// Sends a request, and returns the body of its answer.
    ///
    /// # Errors
    /// The gateway can't be reached, or refuses the request: then the text is its reason.
    pub fn ask(&self, request: &Request<'_>) -> Result<String, Failure> {
        let (_, body) = self.fetch(request)?;
        String::from_utf8(body).map_err(|_| self.broken())
    }

    /// The same for a body that is no text, with the status of the answer: 200 to 299.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn fetch(&self, request: &Request<'_>) -> Result<(u16, Vec<u8>), Failure> {
        let answer = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .and_then(|runtime| runtime.block_on(self.exchange(request)));
        let (status, body) = answer.map_err(|e| {
            let hint = match e.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "; does the gateway run, with control.socket? --socket or --address choose another"
                }
                io::ErrorKind::PermissionDenied => "; it is for root and the members of control.group",
                io::ErrorKind::InvalidData => return self.broken(),
                _ => "",
            };
            Failure::failed(format!("can't ask the gateway at {}: {e}{hint}", self.whom()))
        })?;
        if (200..300).contains(&status) {
            return Ok((status, body.to_vec()));
        }
        let code = match status {
            300 => CHOOSE,
            400..500 => BAD_INPUT,
            _ => FAILED,
        };
        let refusal: api::Refusal = serde_json::from_slice(&body).map_err(|_| self.broken())?;
        let mut text = refusal.error;
        for line in refusal.details.iter().skip(1) {
            text.push_str("\nlr2ctl: ");
            text.push_str(line);
        }
        Err(Failure { code, text })
    }

    /// Connects, sends the request and reads the whole answer. An answer that is not HTTP, or is cut off or too long, is
    /// [`io::ErrorKind::InvalidData`].
    async fn exchange(&self, request: &Request<'_>) -> io::Result<(u16, Bytes)> {
        let exchange = async {
            match self.address {
                Some(address) => self.send(TcpStream::connect(address).await?, request).await,
                None => self.send(UnixStream::connect(&self.socket).await?, request).await,
            }
        };
        let late = |_| io::Error::other(format!("no answer within {PATIENCE:?}"));
        timeout(PATIENCE, exchange).await.map_err(late)?
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: &Request<'_>,
    ) -> io::Result<(u16, Bytes)> {
        let request = hyper::Request::builder()
            .method(request.method)
            .uri(format!("{}{}", self.prefix, request.path))
            .header(HOST, "localhost")
            .header(CONNECTION, "close")
            .body(Full::new(Bytes::copy_from_slice(request.body.as_bytes())))
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // An error of the connection is one of the answer too.
        tokio::spawn(connection);
        let broken = |e| io::Error::new(io::ErrorKind::InvalidData, e);
        let answer = sender.send_request(request).await.map_err(|e| broken(e.into()))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await.map_err(broken)?;
        Ok((status, body.to_bytes()))
    }

    fn whom(&self) -> String {
        match self.address {
            Some(address) => address.to_string(),
            None => self.socket.display().to_string(),
        }
    }

    fn broken(&self) -> Failure {
        Failure::failed(format!("{} does not answer as a gateway does", self.whom()))
    }

    /// Reads a value.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.ask(&Request::get(path))?)
    }
}

/// A value of the API.
///
/// # Errors
/// It is none.
pub fn read<T: DeserializeOwned>(body: &str) -> Result<T, Failure> {
    serde_json::from_str(body)
        .map_err(|e| Failure::failed(format!("the gateway's answer is not understood: {e}")))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Asks a server that sends `answer` to every request.
    fn answered(answer: &[u8]) -> Result<(u16, Vec<u8>), Failure> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let server = UnixListener::bind(&socket).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = server.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            });
            Client::new(&socket, None).fetch(&Request::get("/status"))
        })
    }

    #[test]
    fn an_answer_is_whole_or_none() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(answered(answer).unwrap(), (200, b"ok".to_vec()));
        let cut = (0..answer.len()).map(|end| &answer[..end]);
        for answer in cut.chain([&b"SSH-2.0-OpenSSH_9.2\r\n"[..]]) {
            let failure = answered(answer).unwrap_err();
            assert!(failure.text.contains("does not answer as a gateway does"), "{failure:?}");
        }
    }

    #[test]
    fn what_has_a_meaning_in_a_path_is_escaped() {
        assert_eq!(escaped("wan.spray"), "wan.spray");
        assert_eq!(escaped("a/b?c d\r\n"), "a%2Fb%3Fc%20d%0D%0A");
    }

    #[test]
    fn who_does_not_listen_is_named_with_what_to_do() {
        let nowhere = Client::new(Path::new("/nowhere/control.sock"), None);
        let failure = nowhere.ask(&Request::get("/status")).unwrap_err();
        assert_eq!(failure.code, FAILED);
        let parts = ["/nowhere/control.sock", "does the gateway run", "--socket"];
        assert!(parts.iter().all(|part| failure.text.contains(part)), "{failure:?}");
    }
}
