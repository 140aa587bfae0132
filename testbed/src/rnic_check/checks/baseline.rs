//! The traffic as it is.

use std::collections::BTreeMap;

use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Aeth, icrc_ok};

use crate::rnic_check::check::{Check, Context, Fate, Packet, Verdict};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, time};

/// Requests that are looked at …
const ENOUGH: u64 = 4_000;
/// … or as many as come within this time.
const AT_MOST: Span = Span::from_millis(3_000);
/// Fewer say nothing.
const LEAST: u64 = 64;
/// Without an AckReq for longer, LR2 does not learn what has arrived.
const RARE: u64 = 512;

/// Counts, and changes nothing.
#[derive(Default)]
pub struct Baseline {
    began: Option<Time>,
    requests: u64,
    replies: u64,
    opcodes: BTreeMap<u8, (String, u64)>,
    bad_icrc: u64,
    repeats: u64,
    /// Packets since the newest AckReq; intervals between two: how many, least, most, sum.
    since_ack_req: u64,
    asked: bool,
    intervals: Intervals,
    /// PSNs by which ACKs advance.
    advances: Intervals,
    newest_ack: Option<Seq>,
    /// The packet with AckReq whose ACK is awaited.
    timed: Option<(Seq, Time)>,
    round_trips: Vec<Span>,
    window: u64,
    limited_credits: bool,
    ports: [Option<u16>; 2],
    udp_checksum: bool,
    migrated: bool,
    ecn: bool,
}

/// Least, most and mean of some numbers.
#[derive(Default)]
struct Intervals {
    n: u64,
    least: u64,
    most: u64,
    sum: u64,
}

impl Intervals {
    fn add(&mut self, value: u64) {
        self.least = if self.n == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.n += 1;
        self.sum += value;
    }

    fn in_words(&self) -> String {
        if self.least == self.most {
            return self.most.to_string();
        }
        let mean = self.sum as f64 / self.n.max(1) as f64;
        format!("{} to {}, {mean:.1} on average", self.least, self.most)
    }
}

impl Baseline {
    fn on_packet(&mut self, packet: &Packet<'_>, end: usize) {
        let roce = packet.roce;
        let entry = self.opcodes.entry(roce.opcode.0);
        entry.or_insert_with(|| (roce.opcode.to_string(), 0)).1 += 1;
        self.bad_icrc += u64::from(!icrc_ok(packet.bytes, roce));
        self.ports[end] = Some(roce.src_port);
        self.ecn |= roce.ecn != 0;
        let byte = |at: u16, more: usize| packet.bytes.get(usize::from(at) + more).copied();
        self.udp_checksum |= byte(roce.l4, 6) != Some(0) || byte(roce.l4, 7) != Some(0);
        self.migrated |= byte(roce.bth, 1).is_some_and(|flags| flags & 0x40 != 0);
    }

    fn conclude(&mut self, cx: &mut Context<'_>) {
        if self.requests < LEAST || self.replies == 0 {
            let words =
                format!("{} requests and {} responses are too few", self.requests, self.replies);
            return cx.end(Verdict::NotTried, words);
        }
        let opcodes = self.opcodes.values().map(|(name, n)| format!("{name} {n}"));
        let mut words = vec![
            opcodes.collect::<Vec<_>>().join(", "),
            format!("path MTU {}", cx.flow.pmtu),
            match self.intervals.n {
                0 => "no packet asks for an ACK".into(),
                _ => format!("packets per AckReq: {}", self.intervals.in_words()),
            },
        ];
        if self.advances.n > 0 {
            words.push(format!("PSNs per ACK: {}", self.advances.in_words()));
        }
        self.round_trips.sort_unstable();
        if let (Some(least), Some(median)) =
            (self.round_trips.first(), self.round_trips.get(self.round_trips.len() / 2))
        {
            words.push(format!(
                "ACK {} after the packet that asks for it, {} at least",
                time(*median),
                time(*least)
            ));
        }
        words.push(format!("at most {} PSNs unacknowledged", self.window));
        words.push(
            if self.limited_credits { "credits are limited" } else { "no limit of credits" }.into(),
        );
        words.push(match self.ports {
            [Some(a), Some(b)] if a == b => "the same UDP source port both ways".into(),
            _ => "different UDP source ports".into(),
        });
        words.push(format!("UDP checksum {}", if self.udp_checksum { "set" } else { "zero" }));
        words.push(format!("migration bit {}", if self.migrated { "set" } else { "clear" }));
        words.push(if self.ecn { "ECN-capable" } else { "not ECN-capable" }.into());
        if self.repeats > 0 {
            words.push(format!(
                "{} packets sent again without a reason that is known",
                self.repeats
            ));
        }
        if self.bad_icrc > 0 {
            words
                .push(format!("{} packets whose ICRC is not the one computed here", self.bad_icrc));
        }
        let seldom = self.intervals.n == 0 || self.intervals.most > RARE;
        cx.judge(self.bad_icrc == 0 && !seldom, words.join("; "));
    }
}

impl Check for Baseline {
    fn trail(&mut self) -> Option<&mut Trail> {
        None
    }

    fn on_request(&mut self, request: &Request, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        self.began.get_or_insert(cx.now);
        self.on_packet(&packet, 0);
        self.requests += 1;
        self.repeats += u64::from(request.is_repeat);
        self.since_ack_req += 1;
        if request.ack_req {
            // The first interval began before this check.
            if self.asked {
                self.intervals.add(self.since_ack_req);
            }
            self.asked = true;
            self.since_ack_req = 0;
            if self.timed.is_none() && !request.is_repeat {
                self.timed = Some((request.last, cx.now));
            }
        }
        self.window = self.window.max(cx.flow.next.since(cx.flow.acked));
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, packet: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        self.began.get_or_insert(cx.now);
        self.on_packet(&packet, 1);
        self.replies += 1;
        if let Some(credits) = reply.response.credits {
            self.limited_credits |= credits & 0x1f != Aeth::ACK_UNLIMITED;
        }
        if reply.is_ack() {
            if let Some(before) = self.newest_ack {
                self.advances.add(reply.seq.since(before));
            }
            self.newest_ack = Some(reply.seq);
        }
        if let Some((seq, at)) = self.timed
            && reply.seq >= seq
            && !reply.response.is_nak()
        {
            if self.round_trips.len() < ENOUGH as usize {
                self.round_trips.push(cx.now.since(at));
            }
            self.timed = None;
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(began) = self.began else { return };
        if self.requests >= ENOUGH || cx.now.since(began) >= AT_MOST {
            self.conclude(cx);
        }
    }
}
