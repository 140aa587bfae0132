//! Human units: durations (`"10ms"`), sizes (`"64MiB"`), rates (`"100Gbps"`)
//! and shares (`"1%"`).
//!
//! A quantity is a decimal number and a unit, with or without a space between;
//! the case of the unit does not matter. Fractions are taken exactly
//! (`"1.5GiB"`), and refused where they do not come out as a whole number of
//! the base unit. In files the unit is required; where command lines take a
//! bare number for the base unit, the function says so.

use common::time::Span;

/// Unit names and how many base units they are, largest first.
type Units = [(&'static str, u64)];

/// Nanoseconds are the base.
const DURATION: &Units = &[
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Bytes are the base. IEC units are powers of 1024, SI units of 1000.
const SIZE: &Units = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Bits per second are the base.
const RATE: &Units = &[
    ("Tbps", 1_000_000_000_000),
    ("Gbps", 1_000_000_000),
    ("Mbps", 1_000_000),
    ("kbps", 1_000),
    ("bps", 1),
];

/// The syntax of a duration, for error messages.
pub const DURATION_SYNTAX: &str = "a number and one of ns, us, ms, s, e.g. \"10ms\"";

/// The syntax of a size, for error messages.
pub const SIZE_SYNTAX: &str =
    "a number and one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, e.g. \"64MiB\"";

/// The syntax of a rate, for error messages.
pub const RATE_SYNTAX: &str = "a number and one of bps, kbps, Mbps, Gbps, Tbps, e.g. \"100Gbps\"";

/// The syntax of a share, for error messages.
pub const SHARE_SYNTAX: &str = "a number such as 1e-3, or a percentage such as \"0.1%\"";

/// Reads a duration such as `"10ms"`. Of all bare numbers only `"0"` needs no
/// unit.
///
/// # Errors
/// A message with the text found and the syntax allowed.
pub fn duration(text: &str) -> Result<Span, String> {
    if text.trim() == "0" {
        return Ok(Span::ZERO);
    }
    parse(text, DURATION)
        .map(Span::from_nanos)
        .ok_or_else(|| format!("{text:?} is no time: expected {DURATION_SYNTAX}"))
}

/// Reads a size in bytes such as `"64MiB"`.
///
/// # Errors
/// A message with the text found and the syntax allowed.
pub fn size(text: &str) -> Result<u64, String> {
    parse(text, SIZE).ok_or_else(|| format!("{text:?} is no size: expected {SIZE_SYNTAX}"))
}

/// Like [`size`]; a bare number, `"1500"` or `"1e6"`, is bytes.
///
/// # Errors
/// As [`size`].
pub fn size_or_bytes(text: &str) -> Result<u64, String> {
    bare(text).map_or_else(|| size(text), Ok)
}

/// Reads a rate in bit/s such as `"100Gbps"`.
///
/// # Errors
/// A message with the text found and the syntax allowed.
pub fn rate(text: &str) -> Result<u64, String> {
    parse(text, RATE).ok_or_else(|| format!("{text:?} is no rate: expected {RATE_SYNTAX}"))
}

/// Like [`rate`]; a bare number, `"9600"` or `"1e9"`, is bit/s.
///
/// # Errors
/// As [`rate`].
pub fn rate_or_bits(text: &str) -> Result<u64, String> {
    bare(text).map_or_else(|| rate(text), Ok)
}

/// Reads a share of something, 0 to 1: `"0.01"`, `"1e-3"` or `"1%"`.
///
/// # Errors
/// A message with the text found and the syntax allowed.
pub fn share(text: &str) -> Result<f64, String> {
    let value = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|v| v / 100.0),
        None => text.trim().parse(),
    };
    value
        .ok()
        .filter(|v| (0.0..=1.0).contains(v))
        .ok_or_else(|| format!("{text:?} is no share: expected 0 to 1, or 0% to 100%"))
}

/// The shortest exact form of a duration.
pub fn show_duration(span: Span) -> String {
    // Minutes are read, but nobody reads "1min" in a log as easily as "60s".
    show(span.as_nanos(), &DURATION[1..])
}

/// The shortest exact form of a size, in IEC units where they fit.
pub fn show_size(bytes: u64) -> String {
    show(bytes, SIZE)
}

/// The shortest exact form of a rate.
pub fn show_rate(bits_per_second: u64) -> String {
    show(bits_per_second, RATE)
}

/// A number and its unit, in base units.
fn parse(text: &str, units: &Units) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let &(_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    exact(number, 0, factor)
}

/// A number without a unit, which alone may have an exponent.
fn bare(text: &str) -> Option<u64> {
    let (number, exponent) = match text.trim().split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse().ok()?),
        None => (text.trim(), 0),
    };
    exact(number, exponent, 1)
}

/// `number × 10^exponent × factor`, if that is whole and fits.
fn exact(number: &str, exponent: i32, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Zeros at the end of a fraction mean nothing; without them the number
    // fits, or the value has more digits than any quantity of ours.
    let places = fraction.trim_end_matches('0').len();
    let kept = whole.len() + places;
    let scale = i32::try_from(places).ok()?.checked_sub(exponent)?;
    let value = match &digits[..kept] {
        "" => 0,
        digits => digits.parse::<u128>().ok()?.checked_mul(factor.into())?,
    };
    let power = 10u128.checked_pow(scale.unsigned_abs())?;
    let value = if scale < 0 {
        value.checked_mul(power)?
    } else {
        value.is_multiple_of(power).then(|| value / power)?
    };
    u64::try_from(value).ok()
}

fn show(value: u64, units: &Units) -> String {
    let base = units[units.len() - 1].0;
    match units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor)) {
        Some((name, factor)) => format!("{}{name}", value / factor),
        None => format!("{value}{base}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("10ms"), Ok(Span::from_millis(10)));
        assert_eq!(duration("1.5 s"), Ok(Span::from_millis(1500)));
        assert_eq!(duration("7µs"), Ok(Span::from_micros(7)));
        assert_eq!(duration("1.5us"), Ok(Span::from_nanos(1_500)));
        assert_eq!(duration("2min"), Ok(Span::from_millis(120_000)));
        assert_eq!(duration(".5s"), Ok(Span::from_millis(500)));
        assert_eq!(duration("0ns"), Ok(Span::ZERO));
        assert_eq!(duration(" 0 "), Ok(Span::ZERO));
        for bad in ["", "10", "ms", "10 m", ".ms", "-1s", "1e3s", "1.2.3s", "0.5ns", "1h", "1 0s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("64mib"), Ok(64 << 20));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("2 GB"), Ok(2_000_000_000));
        for bad in ["64", "64M", "99999999999TiB", "0.3B", "1KB/s"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
        assert_eq!(size_or_bytes("64KiB"), Ok(65_536));
        assert_eq!(size_or_bytes("1500"), Ok(1_500));
        assert_eq!(size_or_bytes("1e3"), Ok(1_000));
        assert_eq!(size_or_bytes("2.50e1"), Ok(25));
        for bad in ["1e-1", "1e99", "1e-2147483648", "1e", "1.5", "-1", "1K"] {
            assert!(size_or_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate("1Gbps"), Ok(1_000_000_000));
        assert_eq!(rate("2.5 gbps"), Ok(2_500_000_000));
        assert_eq!(rate("1.6Tbps"), Ok(1_600_000_000_000));
        assert_eq!(rate_or_bits("9600"), Ok(9_600));
        assert!(rate("9600").is_err());
        for text in ["", "fast", "-1Gbps", "1Gib", "NaN", "inf", "1e", "."] {
            let error = rate_or_bits(text).expect_err(text);
            assert!(error.contains(&format!("{text:?}")) && error.contains("Gbps"), "{error}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("1e-8"), Ok(1e-8));
        assert_eq!(share(" 1 "), Ok(1.0));
        for text in ["1.1", "101%", "-0.1", "nan", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    /// A number that a float would round.
    #[test]
    fn numbers_are_exact() {
        assert_eq!(size("18446744073709551615B"), Ok(u64::MAX));
        assert_eq!(size("18446744073709551616B").ok(), None);
        assert_eq!(duration("0.000000001s"), Ok(Span::from_nanos(1)));
        assert_eq!(
            duration("1.0000000010000000000000000000000s"),
            Ok(Span::from_nanos(1_000_000_001))
        );
        assert_eq!(duration("1.0000000001s").ok(), None);
    }

    #[test]
    fn what_is_shown_reads_back() {
        for ns in [0, 1, 999, 1_000, 1_500, 10_000_000, 2_000_000_000, u64::MAX] {
            let span = Span::from_nanos(ns);
            assert_eq!(duration(&show_duration(span)), Ok(span));
            assert_eq!(rate(&show_rate(ns)), Ok(ns));
        }
        for bytes in [0, 1, 1000, 1024, 1536, 64 << 20, 2_000_000_000, u64::MAX] {
            assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }
        assert_eq!(show_size(64 << 20), "64MiB");
        assert_eq!(show_rate(100_000_000_000), "100Gbps");
        assert_eq!(show_duration(Span::from_millis(60_000)), "60s");
    }
}
