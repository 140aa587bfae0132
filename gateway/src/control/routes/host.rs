//! The check of the `Host` header at `control.listen`, against DNS rebinding.
//!
//! An attacker's DNS server changes the address of the attacker's web site to 127.0.0.1. The browser then lets a page of that site
//! read the API, because both have the same name. The `Host` header of such a request is the name of that site.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

use super::Error;

/// The routes of a listener at `address`. At a loopback address only requests to an IP address or to `localhost` are answered.
pub(super) fn check(routes: Router, address: IpAddr) -> Router {
    if address.is_loopback() { routes.layer(from_fn(refuse_names)) } else { routes }
}

async fn refuse_names(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).map(|host| host.as_bytes());
    let host = String::from_utf8_lossy(host.unwrap_or_default());
    if is_local(&host) {
        return next.run(request).await;
    }
    let why = format!(
        "Host: found {host:?}; allowed: an IP address, or localhost, since control.listen is a loopback address"
    );
    Error::new(StatusCode::FORBIDDEN, why).into_response()
}

/// Whether `Host`, which may have a port, is an IP address, `localhost` or absent, as it is in HTTP/1.0.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let lower = name.to_ascii_lowercase();
    let is_address = v6.unwrap_or(name).parse::<IpAddr>().is_ok();
    host.is_empty() || is_address || lower == "localhost" || lower.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_local_and_other_names_are_not() {
        for local in [
            "",
            "127.0.0.1",
            "127.0.0.1:9469",
            "[::1]:9469",
            "[::1]",
            "LOCALHOST:9469",
            "a.localhost",
            "192.0.2.1",
        ] {
            assert!(is_local(local), "{local}");
        }
        for name in [
            "evil.example",
            "evil.example:9469",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "[evil]",
            "x:y",
        ] {
            assert!(!is_local(name), "{name}");
        }
    }
}
