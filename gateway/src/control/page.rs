//! The page at `/`: a live picture of the gateway for a browser.
//!
//! It is one file with its style and script, asks the API of the listener that it came from, and loads nothing else. It sends
//! `GET` requests only. The test step `page` looks at it in a browser, and compares the hashes here with the file.

use axum::http::header;
use axum::response::IntoResponse;

const PAGE: &str = include_str!("page.html");

/// The page's Content-Security-Policy. The browser runs only the script and the style with these hashes, and lets the page
/// send requests to its own origin only.
const POLICY: &str = "default-src 'none'; \
    script-src 'sha256-aL5xWe+BUsPJ+P1LunUlhiypu6CRTlvh3SiGvS4QYSg='; \
    style-src 'sha256-V+OihtjPPZtUgQg5oUw4U4x16KGTOUWh3XcUHljbNjM='; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page.
pub(super) async fn serve() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another release has another page.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, PAGE)
}
