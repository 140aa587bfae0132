//! Congestion notifications to the source.

use common::time::{Span, Time};

use crate::rnic_check::check::{Check, Context, Fate, Packet};
use crate::rnic_check::flow::Request;
use crate::rnic_check::packets;
use crate::rnic_check::trail::{Trail, count};

/// For how long the rate is measured, before and with CNPs.
const MEASURED: Span = Span::from_millis(300);
/// Between two CNPs: seldom enough for a host that handles them in software, often enough for DCQCN not to recover.
const EVERY: Span = Span::from_micros(200);

/// The check.
#[derive(Default)]
pub struct Cnp {
    began: Option<Time>,
    /// Bytes of payload of new requests, before and with CNPs.
    bytes: [u64; 2],
    sent: u32,
    last: Time,
    trail: Option<Trail>,
}

impl Check for Cnp {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        let began = *self.began.get_or_insert(cx.now);
        let passed = cx.now.since(began);
        if !request.is_repeat && passed < MEASURED * 2 {
            self.bytes[usize::from(passed >= MEASURED)] += request.payload as u64;
        }
        if let Some(trail) = &mut self.trail {
            trail.on_request(request, cx.now);
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(began) = self.began else { return };
        let passed = cx.now.since(began);
        if passed < MEASURED {
            return;
        }
        let flow = cx.flow;
        let trail = self.trail.get_or_insert_with(|| Trail::new(flow, flow.acked, cx.now));
        if passed < MEASURED * 2 {
            if cx.now.since(self.last) >= EVERY
                && let Some(cnp) = packets::cnp(flow)
            {
                self.last = cx.now;
                self.sent += 1;
                cx.send_requester(cnp);
            }
        } else if trail.is_over(flow, cx.now, cx.hold) {
            let rates = self.bytes.map(|bytes| bytes as f64 * 8.0 / MEASURED.as_secs_f64() / 1e6);
            let share = 100.0 * rates[1] / rates[0].max(f64::MIN_POSITIVE);
            let words = format!(
                "{:.1} Mbit/s before, {:.1} Mbit/s with {}: {share:.0} %; {}",
                rates[0],
                rates[1],
                count(self.sent, "CNP"),
                trail.in_words()
            );
            cx.judge(trail.is_calm(), words);
        }
    }
}
