//! Human units: durations (`"10ms"`) and sizes (`"64MiB"`).
//!
//! A value is a decimal number and a unit, with or without a space between.
//! Fractions are taken exactly (`"1.5GiB"`), and refused where they do not
//! come out as a whole number of the base unit.

use common::time::Span;

/// Unit name and how many base units it is, largest first.
type Units = &'static [(&'static str, u64)];

/// Nanoseconds are the base.
const DURATION: Units =
    &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1)];

/// Bytes are the base. IEC units are powers of 1024, SI units of 1000.
const SIZE: Units = &[
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

/// What a duration looks like, for error messages.
pub(super) const DURATION_SYNTAX: &str = "a number and one of ns, us, ms, s, e.g. \"10ms\"";

/// What a size looks like, for error messages.
pub(super) const SIZE_SYNTAX: &str =
    "a number and one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, e.g. \"64MiB\"";

/// Reads a duration such as `"10ms"`.
pub(super) fn duration(text: &str) -> Option<Span> {
    parse(text, DURATION).map(Span::from_nanos)
}

/// Reads a size in bytes such as `"64MiB"`.
pub(super) fn size(text: &str) -> Option<u64> {
    parse(text, SIZE)
}

/// The shortest exact form of a duration.
pub(super) fn show_duration(span: Span) -> String {
    show(span.as_nanos(), DURATION)
}

/// The shortest exact form of a size, in IEC units where they fit.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, SIZE)
}

fn parse(text: &str, units: Units) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let parts = fraction.parse::<u128>().ok()? * u128::from(factor);
    if !parts.is_multiple_of(scale) {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(factor);
    u64::try_from(whole + parts / scale).ok()
}

fn show(value: u64, units: Units) -> String {
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
        assert_eq!(duration("10ms"), Some(Span::from_millis(10)));
        assert_eq!(duration("1.5 s"), Some(Span::from_millis(1500)));
        assert_eq!(duration("7µs"), Some(Span::from_micros(7)));
        assert_eq!(duration("0ns"), Some(Span::ZERO));
        for bad in ["", "10", "ms", "10 m", "1.ms", ".5s", "-1s", "1e3s", "10MS", "0.5ns"] {
            assert_eq!(duration(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("1.5GiB"), Some(3 << 29));
        assert_eq!(size("2 GB"), Some(2_000_000_000));
        for bad in ["64", "64mib", "64M", "99999999999TiB", "0.3B"] {
            assert_eq!(size(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for ns in [0, 1, 999, 1_000, 1_500, 10_000_000, 2_000_000_000, u64::MAX] {
            let span = Span::from_nanos(ns);
            assert_eq!(duration(&show_duration(span)), Some(span));
        }
        for bytes in [0, 1, 1000, 1024, 1536, 64 << 20, 2_000_000_000, u64::MAX] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
        assert_eq!(show_size(64 << 20), "64MiB");
        assert_eq!(show_duration(Span::from_millis(10)), "10ms");
    }
}
