//! How long a sender waits.

use common::time::Span;

/// A REPORT may come so many intervals late.
pub(super) const LATER: u64 = 3;

/// Waits that follow from the round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Of an idle lane for its REPORT, before a PROBE asks for it.
    pub probe: Span,
    /// Of any lane for a REPORT.
    pub report: Span,
}

/// Time between two REPORTs of a lane whose round trip is `rtt`.
pub const fn report_interval(rtt: Span) -> Span {
    let sixteenth = rtt.as_nanos() / 16;
    let (least, most) = (Span::from_micros(100), Span::from_millis(1));
    if sixteenth < least.as_nanos() {
        least
    } else if sixteenth > most.as_nanos() {
        most
    } else {
        Span::from_nanos(sixteenth)
    }
}
