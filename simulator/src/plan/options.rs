//! The values that the options of a question may have.

use common::time::Span;
use settings::sizing::PMTUS;
use settings::units;

/// Within `min ..= max`, or an error that names `allowed`.
fn within<T: PartialOrd>(value: T, min: T, max: T, allowed: &str) -> Result<T, String> {
    if value >= min && value <= max { Ok(value) } else { Err(format!("expected {allowed}")) }
}

pub(super) fn rate(text: &str) -> Result<u64, String> {
    within(units::rate_or_bits(text)?, 1_000_000, 10_000_000_000_000, "1Mbps to 10Tbps")
}

pub(super) fn rtt(text: &str) -> Result<Span, String> {
    let (min, max) = (Span::from_micros(1), Span::from_millis(10_000));
    within(units::duration(text)?, min, max, "1us to 10s")
}

pub(super) fn timeout(text: &str) -> Result<Span, String> {
    let (min, max) = (Span::from_micros(4), Span::from_millis(10_000_000));
    within(units::duration(text)?, min, max, "4us to 10000s")
}

pub(super) fn loss(text: &str) -> Result<f64, String> {
    within(units::share(text)?, 0.0, 0.5, "0 to 0.5")
}

pub(super) fn burst(text: &str) -> Result<f64, String> {
    let burst = text.parse().map_err(|_| format!("{text:?} is no number of packets"))?;
    within(burst, 1.0, 1e6, "1 to 1000000 packets")
}

pub(super) fn pmtu(text: &str) -> Result<u16, String> {
    let allowed = || "expected 256, 512, 1024, 2048 or 4096".to_owned();
    let pmtu: u16 = text.parse().map_err(|_| allowed())?;
    if PMTUS.contains(&pmtu.into()) { Ok(pmtu) } else { Err(allowed()) }
}
