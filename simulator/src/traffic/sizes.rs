//! Message sizes: the distributions that come with the simulator, and any file
//! of the same form.

use crate::scenario::SizeDistribution;
use crate::traffic::MAX_BYTES;

/// A distribution that comes with the simulator, by its name: `websearch`,
/// `hadoop` or `alistorage`. Their sources stand in `simulator/data`.
pub fn named(name: &str) -> Option<SizeDistribution> {
    let text = match name {
        "websearch" => include_str!("../../data/websearch.cdf"),
        "hadoop" => include_str!("../../data/hadoop.cdf"),
        "alistorage" => include_str!("../../data/alistorage.cdf"),
        _ => return None,
    };
    Some(parse(name, text).expect("the tests parse all of them"))
}

/// The distribution in `text`, to be called `name`.
///
/// A line is a point, `<bytes> <cumulative percent>`. Neither falls from line to
/// line; the last percentage is 100. Between two points sizes are spread evenly.
/// If the first percentage is above 0, that share of the messages has exactly
/// the first size, and two points of one size give that size the share between
/// them. Text behind `#` is a comment.
///
/// # Errors
/// All problems, one per line of the message, each with the number of its
/// line, the text found and the text allowed.
pub fn parse(name: &str, text: &str) -> Result<SizeDistribution, String> {
    let mut errors = Vec::new();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut last_line = 0;
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        last_line = i + 1;
        let before = points.last().copied();
        match point(content).and_then(|point| rising(before, point)) {
            Ok(point) => points.push(point),
            Err(what) => errors.push(format!("line {last_line}: {what}")),
        }
    }
    match points.last() {
        None if errors.is_empty() => errors.push(
            "no points: at least one line `<bytes> <cumulative percent>` is needed".to_owned(),
        ),
        Some(&(_, percent)) if percent != 100.0 && errors.is_empty() => errors.push(format!(
            "line {last_line}: the last cumulative percentage is {percent}, and must be 100"
        )),
        Some(&(0.0, _)) if errors.is_empty() => errors.push(format!(
            "line {last_line}: the largest size is 0; messages have at least 1 byte"
        )),
        _ => {}
    }
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    let points = points.into_iter().map(|(bytes, percent)| (bytes, percent / 100.0)).collect();
    Ok(SizeDistribution { name: name.to_owned(), points })
}

/// A line: bytes and percent.
fn point(content: &str) -> Result<(f64, f64), String> {
    let fields: Vec<&str> = content.split_whitespace().collect();
    let &[bytes, percent] = fields.as_slice() else {
        let count = fields.len();
        return Err(format!(
            "`{content}` has {count} fields; a line is `<bytes> <cumulative percent>`"
        ));
    };
    let size = match bytes.parse::<f64>() {
        Ok(n) if n.fract() == 0.0 && (0.0..=MAX_BYTES as f64).contains(&n) => n,
        _ => return Err(format!("size `{bytes}`: must be a whole number, 0 to {MAX_BYTES} bytes")),
    };
    match percent.parse::<f64>() {
        Ok(share) if (0.0..=100.0).contains(&share) => Ok((size, share)),
        _ => Err(format!("cumulative percentage `{percent}`: must be a number, 0 to 100")),
    }
}

/// `point`, if it does not lie below the one before.
fn rising(before: Option<(f64, f64)>, point: (f64, f64)) -> Result<(f64, f64), String> {
    let Some((bytes, percent)) = before else { return Ok(point) };
    if point.0 < bytes {
        return Err(format!("size {} after {bytes}: sizes must not fall", point.0));
    }
    if point.1 < percent {
        return Err(format!("cumulative percentage {} after {percent}: must not fall", point.1));
    }
    Ok(point)
}

impl SizeDistribution {
    /// The mean in bytes, exactly.
    pub fn mean(&self) -> f64 {
        let atom = self.points.first().map_or(0.0, |&(bytes, share)| bytes * share);
        let segments = self.points.windows(2);
        atom + segments.map(|w| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0).sum::<f64>()
    }

    /// How many packets with up to `pmtu` bytes of payload a message has on
    /// average. A message of zero bytes has one.
    ///
    /// A size x has one packet, and one more for each k ≥ 1 with k · pmtu < x;
    /// the mean is therefore 1 + Σ P(x > k · pmtu), and each of these
    /// probabilities is linear in k between two points.
    pub fn mean_packets(&self, pmtu: u32) -> f64 {
        let pmtu = f64::from(pmtu.max(1));
        // How many k ≥ 1 have k · pmtu below x, and their sum.
        let below = |x: f64| (x / pmtu).ceil().max(1.0) - 1.0;
        let sum = |count: f64| count * (count + 1.0) / 2.0;
        let mut packets = 1.0 + self.points.first().map_or(0.0, |&(bytes, _)| below(bytes));
        for w in self.points.windows(2) {
            let ((x0, s0), (x1, s1)) = (w[0], w[1]);
            let (n0, n1) = (below(x0), below(x1));
            if n1 > n0 {
                let slope = (s1 - s0) / (x1 - x0);
                let above_at_zero = 1.0 - s0 + slope * x0;
                packets += above_at_zero * (n1 - n0) - slope * pmtu * (sum(n1) - sum(n0));
            }
        }
        packets
    }

    /// The size below which a share of `u` of the messages lies, in bytes: with
    /// `u` uniform in 0 .. 1 a random message. At least 1.
    pub fn sample(&self, u: f64) -> u64 {
        let above = self.points.partition_point(|&(_, share)| share <= u);
        let bytes = match (above.checked_sub(1), self.points.get(above)) {
            (None, Some(&(bytes, _))) => bytes,
            (Some(below), Some(&(x1, s1))) => {
                let (x0, s0) = self.points[below];
                x0 + (x1 - x0) * (u - s0) / (s1 - s0)
            }
            (_, None) => self.points.last().map_or(0.0, |&(bytes, _)| bytes),
        };
        (bytes.round() as u64).max(1)
    }
}
