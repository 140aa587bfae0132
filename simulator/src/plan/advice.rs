//! Warnings about a plan.

use common::time::Span;
use settings::units::show_duration;

use super::Plan;
use crate::report::format;
use crate::scheme::Scheme;

/// The most PSNs that a queue pair can have unacknowledged: PSNs are compared
/// within a window of 2^23, and half of that is for repeats and answers.
const MOST_PSNS: u64 = 1 << 22;

/// Most unacknowledged packets of Linux's Soft-RoCE.
const RXE_WINDOW: f64 = 128.0;

/// ConnectX "adaptive retransmission" resends first after about this long,
/// with any configured timeout (public reports: nccl #1555, perftest #251).
const ADAPTIVE: Span = Span::from_millis(2);

pub(super) fn on(plan: &Plan) -> Vec<String> {
    let question = &plan.question;
    let rtt = question.rtt;
    let shown_rtt = show_duration(rtt);
    let mut out = Vec::new();
    if plan.window_needed > MOST_PSNS {
        let queue_pairs = (plan.window_needed * u64::from(question.flows)).div_ceil(MOST_PSNS);
        out.push(format!(
            "One queue pair would need {} packets in flight, but PSNs allow {}: spread the \
             traffic over at least {queue_pairs} queue pairs, or use a larger path MTU.",
            format::count(plan.window_needed),
            format::count(MOST_PSNS),
        ));
    }
    if let Some(window) = question.window
        && u64::from(window) < plan.window_needed
    {
        out.push(format!(
            "A window of {} packets is too small: {} are needed, one round trip to fill the \
             link and more while a gap is open, when no ACK returns.",
            format::count(window.into()),
            format::count(plan.window_needed),
        ));
    }
    if plan.timeout < rtt.scale(3, 2) {
        out.push(format!(
            "A retransmission timeout of {} is too short for a round trip of {shown_rtt}: RNICs \
             resend what is still on its way. Set it to at least {} (exponent {}).",
            time(plan.timeout),
            time(question.good_timeout()),
            question.good_exponent(),
        ));
    } else if question.timeout.is_none() {
        out.push(format!(
            "Set the RNICs' retransmission timeout to exponent {} ({}): four round trips. \
             With a retry count of 7 a connection then survives an outage of about {}.",
            question.good_exponent(),
            time(plan.timeout),
            time(plan.timeout.scale(7, 1)),
        ));
    }
    if rtt > ADAPTIVE {
        out.push(format!(
            "NICs with adaptive retransmission (ConnectX) resend after about {}, whatever the \
             timeout is, and the answer takes {shown_rtt}: switch it off, or let the gateways \
             filter the repeats.",
            show_duration(ADAPTIVE),
        ));
    }
    let flows = f64::from(question.flows);
    let per_flow = plan.packets_in_flight / flows;
    if per_flow > RXE_WINDOW {
        out.push(format!(
            "Soft-RoCE keeps {RXE_WINDOW} packets in flight at most: with it a queue pair gets \
             about {} here, whatever repairs.",
            format::rate(RXE_WINDOW / plan.packets_in_flight * question.rate_bps as f64),
        ));
    }
    if question.burst > per_flow / 4.0 && question.loss > 0.0 && question.burst > 1.0 {
        out.push(
            "The bursts are not much shorter than what a flow has in flight: the figures above \
             are too optimistic for gbn and lr2; simulate it."
                .into(),
        );
    }
    let sends = |scheme| plan.schemes.iter().find(|o| o.scheme == scheme);
    if let Some(gbn) = sends(Scheme::GBN)
        && gbn.sends_per_packet > 1.5
    {
        out.push(format!(
            "Without gateways {} of what crosses the link are repeats.",
            format::share(1.0 - 1.0 / gbn.sends_per_packet)
        ));
    }
    if plan.memory.total > 64 << 30 {
        out.push(format!(
            "Each gateway needs {} of hugepages: a machine with that much memory on the NIC's \
             socket, or a larger path MTU, or less to hold (then what doesn't fit is repaired \
             by the RNICs).",
            format::bytes(plan.memory.total)
        ));
    }
    out
}

fn time(span: Span) -> String {
    format::micros(span.as_nanos() as f64 / 1e3)
}
