//! The report: for people in Markdown, for programs in JSON.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use super::check::Verdict;
use super::checker::{Done, Ledger};
use super::checks::Name;
use super::end::End;
use super::trail::time;

/// A port of the wire.
#[derive(Clone, Debug, Serialize)]
pub struct Port {
    /// Which one.
    pub end: End,
    /// As it was given.
    pub device: String,
    /// DPDK's driver.
    pub driver: String,
    /// Its frames.
    pub frames: Ledger,
    /// Frames that the port did not take.
    pub refused: u64,
    /// Frames that this box was too slow to receive, or that came damaged: losses that no check has made.
    pub missed: u64,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program.
    pub program: &'static str,
    /// Its version.
    pub version: &'static str,
    /// When the run began, UTC.
    pub date: String,
    /// The RNICs in the operator's words.
    pub rnic: String,
    /// For how long packets were held, in milliseconds.
    pub hold_ms: f64,
    /// The ports.
    pub ports: [Port; 2],
    /// The checks, in the order of the run.
    #[serde(serialize_with = "all")]
    pub checks: Vec<Done>,
}

/// A check as JSON has it.
#[derive(Serialize)]
struct Entry<'a> {
    name: Name,
    verdict: Verdict,
    observed: &'a str,
    does: &'static str,
    relies_on: &'static str,
    if_it_differs: &'static str,
    queue_pairs: Option<&'a str>,
    began_s: f64,
    took_s: f64,
}

fn all<S: Serializer>(checks: &[Done], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(checks.iter().map(|done| {
        let about = done.name.about();
        Entry {
            name: done.name,
            verdict: done.outcome.verdict,
            observed: &done.outcome.observed,
            does: about.does,
            relies_on: about.relies,
            if_it_differs: about.otherwise,
            queue_pairs: done.queue_pairs.as_deref(),
            began_s: done.began.as_secs_f64(),
            took_s: done.took.as_secs_f64(),
        }
    }))
}

impl Report {
    /// Whether a check has seen something that LR2 does not rely on.
    pub fn differs(&self) -> bool {
        self.checks.iter().any(|done| done.outcome.verdict == Verdict::Differs)
    }

    /// For people.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let n = |verdict| self.checks.iter().filter(|done| done.outcome.verdict == verdict).count();
        writeln!(out, "# How RNICs take what LR2 gateways do\n")?;
        writeln!(out, "- RNICs: {}", cell(&self.rnic))?;
        writeln!(out, "- {}, {} {}", self.date, self.program, self.version)?;
        for port in &self.ports {
            writeln!(out, "- port {}: `{}`, driver {}", port.end, port.device, port.driver)?;
        }
        writeln!(out, "- packets held for {} ms at most", self.hold_ms)?;
        writeln!(
            out,
            "- **{} as expected, {} differ, {} not tried**\n",
            n(Verdict::AsExpected),
            n(Verdict::Differs),
            n(Verdict::NotTried)
        )?;
        let missed: u64 = self.ports.iter().map(|port| port.missed).sum();
        if missed > 0 {
            writeln!(
                out,
                "**This box lost {missed} frames by itself, so verdicts may be wrong**: run again with less traffic, or a \
                 larger path MTU.\n"
            )?;
        }
        writeln!(out, "| check | verdict | observed |\n| --- | --- | --- |")?;
        for Done { name, outcome, .. } in &self.checks {
            let verdict = match outcome.verdict {
                Verdict::Differs => format!("**{}**", outcome.verdict.in_words()),
                verdict => verdict.in_words().into(),
            };
            writeln!(out, "| {} | {verdict} | {} |", name.text(), cell(&outcome.observed))?;
        }
        writeln!(out, "\n## The checks\n")?;
        for done in &self.checks {
            self.write_check(out, done)?;
        }
        writeln!(out, "## Frames\n")?;
        writeln!(out, "Received = forwarded + dropped by checks + held.\n")?;
        writeln!(
            out,
            "| port | missed | received | forwarded | dropped | held | sent by checks | no memory for | refused by the port |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for Port { end, frames, refused, missed, .. } in &self.ports {
            writeln!(
                out,
                "| {end} | {missed} | {} | {} | {} | {} | {} | {} | {refused} |",
                frames.received,
                frames.forwarded,
                frames.dropped,
                frames.held,
                frames.injected,
                frames.not_injected
            )?;
        }
        Ok(())
    }

    fn write_check(&self, out: &mut String, done: &Done) -> std::fmt::Result {
        let about = done.name.about();
        writeln!(out, "### {}: {}\n", done.name.text(), done.outcome.verdict.in_words())?;
        writeln!(out, "- Done: {}", about.does)?;
        writeln!(out, "- LR2 relies on: {}", about.relies)?;
        writeln!(out, "- Observed: {}", cell(&done.outcome.observed))?;
        if done.outcome.verdict == Verdict::Differs {
            writeln!(out, "- What it means: {}", about.otherwise)?;
        }
        if let Some(queue_pairs) = &done.queue_pairs {
            let (began, took) = (time(done.began), time(done.took));
            writeln!(out, "- Queue pairs: {queue_pairs}; {began} after the start, for {took}")?;
        }
        writeln!(out)
    }
}

/// Text that does not end a cell of a table, or a line.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rnic_check::Outcome;
    use common::time::Span;

    fn report(verdict: Verdict, missed: u64) -> Report {
        let port = |end| Port {
            end,
            device: format!("net_null{end}"),
            driver: "net_null".into(),
            frames: Ledger { received: 7, forwarded: 6, dropped: 1, ..Ledger::default() },
            refused: 0,
            missed,
        };
        let done = |name, verdict, observed: &str| Done {
            name,
            outcome: Outcome { verdict, observed: observed.into() },
            queue_pairs: Some("0x11 (10.0.0.1 at A) to 0x22 (10.0.0.2 at B)".into()),
            began: Span::from_millis(1_500),
            took: Span::from_micros(250),
        };
        Report {
            program: "lr2-check-rnic",
            version: "1",
            date: "2026-01-01T00:00:00Z".into(),
            rnic: "X | Y\nZ".into(),
            hold_ms: 5.0,
            ports: [port(End::A), port(End::B)],
            checks: vec![
                done(Name::Gap, verdict, "1 NAK"),
                done(Name::Nak, Verdict::NotTried, "no such traffic"),
            ],
        }
    }

    #[test]
    fn people_read_verdicts_and_what_they_mean() {
        let text = report(Verdict::Differs, 0).markdown();
        for part in [
            "- RNICs: X \\| Y Z\n",
            "**0 as expected, 1 differ, 1 not tried**",
            "| gap | **differs** | 1 NAK |",
            "- What it means: RNICs with selective repeat",
            "1.50 s after the start, for 250 µs",
            "| A | 0 | 7 | 6 | 1 | 0 | 0 | 0 | 0 |",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(!text.contains("lost"), "{text}");
        let fine = report(Verdict::AsExpected, 0).markdown();
        assert!(!fine.contains("What it means"), "{fine}");
    }

    #[test]
    fn losses_of_this_box_are_said_first() {
        let text = report(Verdict::Differs, 3).markdown();
        let at = |part: &str| text.find(part).unwrap_or(usize::MAX);
        assert!(at("This box lost 6 frames") < at("| check | verdict"), "{text}");
    }

    #[test]
    fn programs_read_the_same() {
        let report = report(Verdict::Differs, 0);
        assert!(report.differs());
        let json = serde_json::to_value(&report).expect("JSON");
        let gap = &json["checks"][0];
        assert_eq!(
            (gap["name"].as_str(), gap["verdict"].as_str(), gap["began_s"].as_f64()),
            (Some("gap"), Some("differs"), Some(1.5))
        );
        assert_eq!(json["checks"][1]["verdict"], "not tried");
        assert_eq!(json["ports"][1]["end"], "B");
        assert_eq!(json["ports"][1]["frames"]["forwarded"], 6);
    }
}
