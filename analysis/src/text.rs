//! A report as text.

use std::fmt::{self, Write};

use crate::counts::Resends;
use crate::report::{FlowReport, Report};

/// `1.2 ms`.
pub fn time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// `1.2 MB`.
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

/// Name of a flow: `10.0.0.1 (QP 0x11) > 10.0.0.2 QP 0x12`.
pub fn name(flow: &FlowReport) -> String {
    let from = flow.src_qpn.map_or_else(String::new, |qpn| format!(" (QP {qpn:#x})"));
    format!("{}{from} > {} QP {:#x}", flow.src, flow.dst, flow.dest_qpn)
}

/// The parts of a capture that there are, as `name: count`.
pub fn totals(report: &Report) -> Vec<(&'static str, u64)> {
    let totals = &report.totals;
    let all = [
        ("RoCEv2 packets", totals.roce),
        ("of these through the tunnel", totals.tunnelled),
        ("of these sent again by the tunnel", totals.tunnel_resends),
        ("of these in VXLAN", totals.encapsulated.vxlan),
        ("of these in Geneve", totals.encapsulated.geneve),
        ("of these in GRE", totals.encapsulated.gre),
        ("of these in ERSPAN", totals.encapsulated.erspan),
        ("of these in MPLS", totals.encapsulated.mpls),
        ("of these in IP", totals.encapsulated.ip),
        ("control messages of gateways", totals.control_messages),
        ("not of a reliable connection", totals.other_transports),
        ("responses without their requests", totals.unmatched_responses),
        ("messages of the tunnel", totals.tunnel_messages),
        ("not RoCEv2", totals.not_roce),
        ("malformed", totals.malformed),
        ("captured too short", totals.cut),
        ("fragments, or within too many headers", totals.unread),
        ("copies of packets, left out", totals.copies),
        ("of flows that were not followed", totals.not_followed),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// What happened to a flow, as sentences.
pub fn sentences(flow: &FlowReport) -> Vec<String> {
    let requests = &flow.requests;
    let mut all = Vec::new();
    let mut say = |is_there: bool, sentence: String| {
        if is_there {
            all.push(sentence);
        }
    };
    say(
        requests.gaps > 0,
        format!(
            "{} gaps, {} packets: {} lost before the capture, {} only late (by up to {} packets, {}), {} never came",
            requests.gaps,
            requests.missing,
            requests.lost_before,
            requests.late,
            requests.late_depth,
            time(requests.late_ns),
            requests.never
        ),
    );
    say(
        requests.lost_again > 0,
        format!("{} resent packets lost again before the capture", requests.lost_again),
    );
    say(
        requests.before_first > 0,
        format!(
            "{} packets older than the flow's first one: lost before the capture, or older than it",
            requests.before_first
        ),
    );
    say(
        requests.lost_behind > 0,
        format!("{} losses behind the capture (packets or their ACKs)", requests.lost_behind),
    );
    for (resends, what) in [
        (&requests.after_nak, "go-back-N after a NAK"),
        (&requests.after_timeout, "timeouts: resends after silence, without a NAK"),
        (&requests.after_rnr, "resends after an RNR NAK"),
        (&requests.read_repair, "READs asked for again because responses were missing"),
        (
            &requests.unexplained,
            "resends of unknown cause: the capture lacks this flow's responses",
        ),
    ] {
        say(resends.times > 0, cost(resends, what));
    }
    say(
        requests.duplicates > 0,
        format!("{} duplicates that nothing had asked for", requests.duplicates),
    );
    say(
        requests.restarts > 0,
        format!(
            "{} leaps of the PSN: the queue pair began anew, or the capture has a long gap",
            requests.restarts
        ),
    );
    let reads = &flow.reads;
    say(
        reads.gaps > 0 || reads.repeated > 0,
        format!(
            "READ responses: {} gaps, {} packets missing, {} of them came later; {} came twice ({})",
            reads.gaps,
            reads.missing,
            reads.filled,
            reads.repeated,
            bytes(reads.repeated_bytes)
        ),
    );
    let responses = &flow.responses;
    let naks = [
        (responses.naks, "PSN sequence error"),
        (responses.rnr_naks, "receiver not ready"),
        (responses.invalid_requests, "invalid request"),
        (responses.remote_access_errors, "remote access error"),
        (responses.remote_operational_errors, "remote operational error"),
        (responses.other_naks, "reserved"),
    ];
    let named: Vec<String> = (naks.iter().filter(|(count, _)| *count > 0))
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    say(!named.is_empty(), format!("NAKs: {}", named.join(", ")));
    say(
        flow.marked > 0 || flow.cnps > 0,
        format!("{} packets marked by congestion, {} CNPs", flow.marked, flow.cnps),
    );
    let saves = &flow.lr2_saves;
    say(
        saves.bytes > 0 || saves.time_ns > 0,
        format!(
            "LR2 would have saved at most {} of repeats and {}",
            bytes(saves.bytes),
            time(saves.time_ns)
        ),
    );
    all
}

fn cost(resends: &Resends, what: &str) -> String {
    format!(
        "{} {what}: {} packets, {}; wasted {} packets, {}; nothing new for {}",
        resends.times,
        resends.packets,
        bytes(resends.bytes),
        resends.wasted_packets,
        bytes(resends.wasted_bytes),
        time(resends.stalled_ns)
    )
}

/// Writes the report; of the flows `most`, the worst first.
///
/// # Errors
/// If `out` fails.
pub fn write(report: &Report, most: usize, out: &mut impl Write) -> fmt::Result {
    let totals_of = &report.totals;
    writeln!(
        out,
        "{} records, {}, {}",
        totals_of.records,
        bytes(totals_of.bytes),
        time(report.duration_ns)
    )?;
    for (what, count) in totals(report) {
        writeln!(out, "  {count:>10}  {what}")?;
    }
    let saves = &report.lr2_saves;
    writeln!(
        out,
        "LR2 would have saved at most {} of repeats, and {} of flows' time",
        bytes(saves.bytes),
        time(saves.time_ns)
    )?;
    for flow in report.flows.iter().take(most) {
        let requests = &flow.requests;
        writeln!(out, "\n{}", name(flow))?;
        writeln!(
            out,
            "  {} requests, {} ({} new), {} ACKs, {} READ responses ({}), {}",
            requests.packets,
            bytes(requests.bytes),
            bytes(requests.new_bytes),
            flow.responses.acks + flow.responses.atomic_acks,
            flow.reads.packets,
            bytes(flow.reads.bytes),
            time(flow.duration_ns)
        )?;
        let sentences = sentences(flow);
        for sentence in &sentences {
            writeln!(out, "  {sentence}")?;
        }
        if sentences.is_empty() {
            writeln!(out, "  nothing lost, late or sent again")?;
        }
    }
    let more = report.flows.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "\n{more} more flows: --flows, --json")?;
    }
    Ok(())
}
