//! One request and its answer, over the gateway's socket or over TCP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{BAD_INPUT, CHOOSE, FAILED, Failure};

/// Time in which a gateway that lives answers. It ends connections after ten seconds.
const PATIENCE: Duration = Duration::from_secs(12);
/// Bytes of the longest answer that is read.
const ANSWER_MAX: u64 = 64 << 20;
/// Headers of the longest head of an answer.
const HEADERS: usize = 32;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    method: &'static str,
    path: &'a str,
    body: &'a str,
}

impl<'a> Request<'a> {
    /// Reads.
    pub const fn get(path: &'a str) -> Self {
        Self { method: "GET", path, body: "" }
    }

    /// Sets to `body`.
    pub const fn put(path: &'a str, body: &'a str) -> Self {
        Self { method: "PUT", path, body }
    }

    /// Ends something.
    pub const fn delete(path: &'a str) -> Self {
        Self { method: "DELETE", path, body: "" }
    }

    /// Has something done.
    pub const fn post(path: &'a str) -> Self {
        Self { method: "POST", path, body: "" }
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
        let whom = self.whom();
        let path = format!("{}{}", self.prefix, request.path);
        let request = &Request { path: &path, ..*request };
        let answer = match self.address {
            Some(address) => TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                exchange(stream, request)
            }),
            None => UnixStream::connect(&self.socket).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                exchange(stream, request)
            }),
        };
        let answer = answer.map_err(|e| {
            let hint = match e.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "; does the gateway run, with control.socket? --socket or --address choose another"
                }
                io::ErrorKind::PermissionDenied => "; it is for root and the members of control.group",
                _ => "",
            };
            Failure::failed(format!("can't ask the gateway at {whom}: {e}{hint}"))
        })?;
        let (status, body) = parse(&answer).ok_or_else(|| self.broken())?;
        if (200..300).contains(&status) {
            return Ok((status, body.to_vec()));
        }
        let code = match status {
            300 => CHOOSE,
            400..500 => BAD_INPUT,
            _ => FAILED,
        };
        let refusal: api::Refusal = serde_json::from_slice(body).map_err(|_| self.broken())?;
        let mut text = refusal.error;
        for line in refusal.details.iter().skip(1) {
            text.push_str("\nlr2ctl: ");
            text.push_str(line);
        }
        Err(Failure { code, text })
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

/// HTTP 1.0: the answer ends with the connection.
fn exchange(mut stream: impl Read + Write, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let Request { method, path, body } = request;
    let head =
        format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The status and the body of a whole answer.
fn parse(answer: &[u8]) -> Option<(u16, &[u8])> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(answer).ok()? else { return None };
    let body = answer.get(head..)?;
    let length = response.headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let length: Option<usize> =
        length.and_then(|it| std::str::from_utf8(it.value).ok()?.parse().ok());
    let is_whole = length.is_none_or(|length| body.len() == length);
    Some((response.code?, body)).filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_or_none() {
        let answer = b"HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
        assert_eq!(parse(answer), Some((404, &b"no"[..])));
        for end in 0..answer.len() {
            assert_eq!(parse(&answer[..end]), None, "{end}");
        }
        assert_eq!(parse(b"SSH-2.0-OpenSSH_9.2\r\n"), None);
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
