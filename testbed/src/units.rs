//! Quantities on the command line, as people write them.

use common::time::Span;

/// Splits `text` into its number and its unit and looks the unit up.
fn quantity(text: &str, what: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        // "1e-3" is a number, "1e" is not one with the unit "e".
        .filter(|_| text.parse::<f64>().is_err())
        .unwrap_or(text.len());
    let (number, unit) = (&text[..unit_at], text[unit_at..].trim());
    let value = number.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match (value, factor) {
        (Some(value), Some((_, factor))) => Ok(value * factor),
        _ => {
            let names: Vec<&str> = units.iter().map(|u| u.0).filter(|n| !n.is_empty()).collect();
            Err(format!(
                "{text:?} is no {what}: expected a number with one of {}",
                names.join(", ")
            ))
        }
    }
}

/// Rounds; what does not fit becomes the largest number.
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Bits per second: `1Gbps`, `250Mbps`; a bare number is bit/s.
///
/// # Errors
/// A message that says what was found and what is allowed.
pub fn rate(text: &str) -> Result<u64, String> {
    let units = [("", 1.0), ("bps", 1.0), ("kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9)];
    quantity(text, "rate", &units).map(whole)
}

/// A time: `10ms`, `250us`, `1.5s`.
///
/// # Errors
/// A message that says what was found and what is allowed.
pub fn span(text: &str) -> Result<Span, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10)];
    if text.trim() == "0" {
        return Ok(Span::ZERO);
    }
    quantity(text, "time", &units).map(|ns| Span::from_nanos(whole(ns)))
}

/// Bytes: `64KiB`, `16MiB`; a bare number is bytes.
///
/// # Errors
/// A message that says what was found and what is allowed.
pub fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
    ];
    quantity(text, "size", &units).map(whole)
}

/// A share of something, 0 to 1: `0.01`, `1e-3` or `1%`.
///
/// # Errors
/// A message that says what was found and what is allowed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_as_people_write_them() {
        assert_eq!(rate("1Gbps"), Ok(1_000_000_000));
        assert_eq!(rate("2.5 gbps"), Ok(2_500_000_000));
        assert_eq!(rate("9600"), Ok(9_600));
        assert_eq!(span("10ms"), Ok(Span::from_millis(10)));
        assert_eq!(span("1.5us"), Ok(Span::from_nanos(1_500)));
        assert_eq!(span("2s"), Ok(Span::from_millis(2_000)));
        assert_eq!(span("0"), Ok(Span::ZERO));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1500"), Ok(1_500));
        assert_eq!(bytes("1e3"), Ok(1_000));
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("1e-8"), Ok(1e-8));
    }

    #[test]
    fn anything_else_is_refused_and_named() {
        for text in ["", "fast", "-1Gbps", "1Gib", "NaN", "inf", "1e", "."] {
            let error = rate(text).expect_err(text);
            assert!(error.contains(&format!("{text:?}")) && error.contains("Gbps"), "{error}");
        }
        assert!(span("10").is_err(), "a time without a unit is ambiguous");
        assert!(bytes("1KB/s").is_err());
        for text in ["1.1", "101%", "-0.1", "nan", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
