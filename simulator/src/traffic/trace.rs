//! Trace files: a list of messages.
//!
//! One per line, `start_us src dst bytes`: when it is posted in microseconds
//! (decimals are fine), the numbers of the hosts, the length. Hosts are numbered
//! from 0 through both sites, site 0 first. Lines need not be in order. Text
//! behind `#` is a comment.

use common::time::Time;

use super::{FlowSpec, MAX_BYTES};

/// Latest start of a message: about 11 days.
const MAX_START_US: f64 = 1e12;

/// The messages in `text`, in its order.
///
/// # Errors
/// All problems: number of the line, from 1, the text found there and
/// the text allowed.
pub fn parse(text: &str) -> Result<Vec<FlowSpec>, Vec<(usize, String)>> {
    parse_for(text, u32::MAX)
}

/// As [`parse`], for a topology of so many `hosts` in both sites together.
///
/// # Errors
/// As [`parse`], and hosts that the topology does not have.
pub fn parse_for(text: &str, hosts: u32) -> Result<Vec<FlowSpec>, Vec<(usize, String)>> {
    let mut flows = Vec::new();
    let mut errors = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let mut wrong = Vec::new();
        if let Some(flow) = message(content, hosts, &mut wrong) {
            flows.push(flow);
        }
        errors.extend(wrong.into_iter().map(|what| (i + 1, what)));
    }
    if errors.is_empty() { Ok(flows) } else { Err(errors) }
}

/// A line; `None` if anything is `wrong` with it.
fn message(content: &str, hosts: u32, wrong: &mut Vec<String>) -> Option<FlowSpec> {
    let fields: Vec<&str> = content.split_whitespace().collect();
    let &[start, src, dst, bytes] = fields.as_slice() else {
        let count = fields.len();
        wrong.push(format!("`{content}` has {count} fields; a line is `start_us src dst bytes`"));
        return None;
    };
    let start = match start.parse::<f64>() {
        Ok(us) if (0.0..=MAX_START_US).contains(&us) => {
            Some(Time::from_nanos((us * 1e3).round() as u64))
        }
        _ => {
            let text = format!("start `{start}`: must be a number, 0 to {MAX_START_US} µs");
            wrong.push(text);
            None
        }
    };
    let mut host = |what: &str, text: &str| match text.parse::<u32>() {
        Ok(number) if number < hosts => Some(number),
        _ => {
            let last = hosts.saturating_sub(1);
            wrong.push(format!("{what} `{text}`: must be the number of a host, 0 to {last}"));
            None
        }
    };
    let (src, dst) = (host("source", src), host("destination", dst));
    if let (Some(src), Some(dst)) = (src, dst)
        && src == dst
    {
        wrong.push(format!("host {src} sends to itself; source and destination must differ"));
    }
    let bytes = match bytes.parse::<u64>() {
        Ok(n) if (1..=MAX_BYTES).contains(&n) => Some(n),
        _ => {
            let text = format!("length `{bytes}`: must be a whole number, 1 to {MAX_BYTES} bytes");
            wrong.push(text);
            None
        }
    };
    if !wrong.is_empty() {
        return None;
    }
    Some(FlowSpec { start: start?, src: src?, dst: dst?, bytes: bytes?, round: 0, traffic: 0 })
}
