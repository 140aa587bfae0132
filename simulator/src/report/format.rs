//! Numbers as people read them.

/// Three significant digits, without an exponent: "0.00123", "1.23", "123",
/// "12 346".
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "–".to_owned() };
    }
    // Rounded to three digits first: 999.6 has no decimals, as 1000 has none.
    let magnitude = value.abs().log10().floor() as i32;
    let unit = 10_f64.powi(magnitude - 2);
    let rounded = (value / unit).round() * unit;
    let magnitude = rounded.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    if decimals == 0 && value >= 0.0 {
        count(value.round() as u64)
    } else {
        format!("{value:.decimals$}")
    }
}

/// With thin spaces between thousands: "1 234 567".
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A time given in microseconds, in the unit that suits it.
pub fn micros(us: f64) -> String {
    let (value, unit) = match us {
        _ if us >= 1e6 => (us / 1e6, "s"),
        _ if us >= 1e3 => (us / 1e3, "ms"),
        _ if us >= 1.0 || us == 0.0 => (us, "µs"),
        _ => (us * 1e3, "ns"),
    };
    format!("{} {unit}", number(value))
}

/// The unit that suits so many microseconds, and how many it is.
pub fn time_unit(us: f64) -> (f64, &'static str) {
    match us {
        _ if us >= 1e7 => (1e6, "s"),
        _ if us >= 1e3 => (1e3, "ms"),
        _ => (1.0, "µs"),
    }
}

/// As short as can be, at a tick of an axis: "0.5", "1", "20".
pub fn axis(value: f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

/// A time given in microseconds, at a tick of an axis: "500 ns", "1 ms".
pub fn axis_micros(us: f64) -> String {
    match us {
        _ if us > 0.999e6 => format!("{} s", axis(us / 1e6)),
        _ if us > 0.999e3 => format!("{} ms", axis(us / 1e3)),
        _ if us > 0.999 => format!("{} µs", axis(us)),
        _ => format!("{} ns", axis(us * 1e3)),
    }
}

/// Bytes, in the decimal unit that suits them.
pub fn bytes(bytes: u64) -> String {
    let (divisor, unit) = byte_unit(bytes as f64);
    format!("{} {unit}", number(bytes as f64 / divisor))
}

/// The unit that suits so many bytes, and how many it is.
pub fn byte_unit(bytes: f64) -> (f64, &'static str) {
    match bytes {
        _ if bytes >= 1e9 => (1e9, "GB"),
        _ if bytes >= 1e6 => (1e6, "MB"),
        _ if bytes >= 1e3 => (1e3, "kB"),
        _ => (1.0, "B"),
    }
}

/// bit/s, in the unit that suits them.
pub fn rate(bps: f64) -> String {
    let (divisor, unit) = rate_unit(bps);
    format!("{} {unit}", number(bps / divisor))
}

/// The unit that suits such a rate, and how many bit/s it is.
pub fn rate_unit(bps: f64) -> (f64, &'static str) {
    match bps {
        _ if bps >= 1e9 => (1e9, "Gbit/s"),
        _ if bps >= 1e6 => (1e6, "Mbit/s"),
        _ if bps >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    }
}

/// A share in percent.
pub fn share(share: f64) -> String {
    format!("{} %", number(100.0 * share))
}

/// A ratio as a change in percent: "−62 %", "+5 %", "±0 %".
pub fn change(ratio: f64) -> String {
    let percent = (100.0 * (ratio - 1.0)).round();
    match percent {
        _ if percent > 0.0 => format!("+{percent} %"),
        _ if percent < 0.0 => format!("−{} %", -percent),
        _ => "±0 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.9996, "1.00"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (999.6, "1000"),
            (1234.4, "1234"),
            (12_345.6, "12\u{2009}346"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!(count(1_234_567), "1\u{2009}234\u{2009}567");
    }

    #[test]
    fn units_suit() {
        assert_eq!(
            [0.25, 12.0, 1500.0, 2e6].map(micros),
            ["250 ns", "12.0 µs", "1.50 ms", "2.00 s"]
        );
        assert_eq!([0, 999, 50_000, 1 << 20].map(bytes), ["0 B", "999 B", "50.0 kB", "1.05 MB"]);
        assert_eq!([1e11, 9.4e8].map(rate), ["100 Gbit/s", "940 Mbit/s"]);
        assert_eq!(share(0.123_45), "12.3 %");
        assert_eq!([0.382, 1.049, 1.004].map(change), ["−62 %", "+5 %", "±0 %"]);
    }
}
