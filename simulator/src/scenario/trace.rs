//! Lists of messages: a line each, `start, source, destination, bytes`.

use common::time::Time;
use settings::units;

use crate::traffic::FlowSpec;

/// What such a file looks like, for error messages.
pub(super) const SYNTAX: &str = "a file with a line per message, start,source,destination,bytes, \
                                 e.g. \"1.5ms,0,4,64KiB\"; hosts are numbered from 0, site 0 first";

/// Errors told of one file; the rest are likely of the same kind.
const TOLD: usize = 10;

/// Reads the messages between `hosts` hosts in all. Empty lines and those that
/// begin with `#` say nothing. The messages are sorted by their start.
///
/// # Errors
/// What is wrong, a line each.
pub(super) fn parse(text: &str, hosts: u32) -> Result<Vec<FlowSpec>, Vec<String>> {
    let (mut flows, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match message(line, hosts) {
            Ok(flow) => flows.push(flow),
            Err(error) => errors.push(format!("line {}: {error}", number + 1)),
        }
    }
    if flows.is_empty() && errors.is_empty() {
        errors.push("which has no messages".into());
    }
    if errors.len() > TOLD {
        let more = errors.len() - TOLD;
        errors.truncate(TOLD);
        errors.push(format!("and {more} more lines like these"));
    }
    flows.sort_by_key(|flow| flow.start);
    if errors.is_empty() { Ok(flows) } else { Err(errors) }
}

fn message(line: &str, hosts: u32) -> Result<FlowSpec, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [start, src, dst, bytes] = fields[..] else {
        return Err(format!("{line:?} has {} fields, not 4", fields.len()));
    };
    let host = |text: &str| match text.parse::<u32>() {
        Ok(n) if n < hosts => Ok(n),
        _ => Err(format!("{text:?} is no host: there are 0 to {}", hosts - 1)),
    };
    let start = Time::ZERO + units::duration(start)?;
    let (src, dst) = (host(src)?, host(dst)?);
    if src == dst {
        return Err(format!("host {src} sends to itself"));
    }
    let bytes = units::size_or_bytes(bytes)?;
    if !(1..=1 << 40).contains(&bytes) {
        return Err(format!("a message of {bytes} bytes: 1 byte to 1TiB are possible"));
    }
    Ok(FlowSpec { start, src, dst, bytes, round: 0, traffic: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sorted_by_their_start() {
        let text = "# a comment\n\n2ms, 0, 3, 64KiB\n0, 3, 0, 1500\n";
        let flows = parse(text, 4).expect("valid");
        assert_eq!(flows.len(), 2);
        assert_eq!((flows[0].start, flows[0].src, flows[0].bytes), (Time::ZERO, 3, 1500));
        assert_eq!((flows[1].start.as_nanos(), flows[1].dst), (2_000_000, 3));
    }

    #[test]
    fn each_wrong_line_is_named() {
        let text = "1,0,1,5\n1ms,0,4,5\n1ms,1,1,5\n1ms,0,1,0\n1ms,0,1\n1ms,0,1,9\n";
        let errors = parse(text, 4).expect_err("wrong");
        let parts = [
            "line 1: \"1\" is no time",
            "line 2: \"4\" is no host: there are 0 to 3",
            "line 3: host 1 sends to itself",
            "line 4: a message of 0 bytes",
            "line 5: \"1ms,0,1\" has 3",
        ];
        assert_eq!(errors.len(), parts.len(), "{errors:#?}");
        for (error, part) in errors.iter().zip(parts) {
            assert!(error.starts_with(part), "{error:?} is not {part:?}");
        }
        assert_eq!(parse("# nothing\n", 4).expect_err("empty"), ["which has no messages"]);
        let many = parse(&"x\n".repeat(30), 4).expect_err("wrong");
        assert_eq!(many.len(), TOLD + 1);
        assert!(many[TOLD].contains("20 more"));
    }
}
