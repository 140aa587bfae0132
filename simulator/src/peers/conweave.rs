//! Rerouting in the network as by ConWeave (Song et al., "Network Load Balancing with In-network Reordering Support for
//! RDMA", SIGCOMM 2023), between two gateways with a WAN port for each path.
//!
//! The source's box asks for an echo of each flow's path once in a round trip. If it is late, the flow moves to another path:
//! its last packet on the old path is the *tail*, the following ones are *rerouted*. The destination's box holds rerouted
//! packets until the tail has passed, so that the RNIC sees none out of order, and says CLEAR; only then the flow may
//! move again. A path with congestion marks is reported, and takes no flows for a while.
//!
//! Kept from the paper: the echo for each flow, its cutoff, tail, CLEAR, NOTIFY, one reroute of a flow at a time, a new path
//! for a flow that was idle, the timer of a lost tail. Ours, since the paper is about a data centre: cutoff and timers are
//! parts of a round trip, the shortest echo of a path is its base, and all flows share the memory for held packets, as
//! much as the product has; a path that a flow leaves is busy for a round trip; responses take the path of their requests, which a
//! site of many switches would do by itself. Left out: the switch's queues by priority; the prediction of when the tail comes, which is
//! the timer alone here.

use std::collections::VecDeque;

use common::frame::{Class, Frame, Packet, Side};
use common::time::{Span, Time};
use common::wire::{flow_hash, parse};

use crate::frame::SimFrame;
use crate::node::{Egress, LAN, Middlebox, WAN};
use crate::results::Pools;

/// Begins the trailer of a packet on the long haul, behind its ICRC, and a message of the boxes.
const MAGIC: [u8; 4] = *b"CWv1";
/// Bytes of the trailer: magic, flags, epoch.
const TRAILER: usize = 8;
/// Bytes of a message: two MAC addresses, EtherType, magic, kind, epoch or path, flow.
const MESSAGE: usize = 60;
const ETHERTYPE: [u8; 2] = [0x88, 0xb6];

const TAIL: u8 = 1;
const REROUTED: u8 = 2;
const ASKS: u8 = 4;

const ECHO: u8 = 1;
const CLEAR: u8 = 2;
const NOTIFY: u8 = 3;

/// ECN code point of a frame that met congestion.
const CONGESTION_EXPERIENCED: u8 = 3;

type Map<V> = hashbrown::HashMap<u32, V, foldhash::fast::FixedState>;

/// A flow from this site.
struct Source {
    path: usize,
    epoch: u8,
    /// When its echo was asked for, if none has come.
    asked_at: Option<Time>,
    /// It was rerouted, and CLEAR has not come.
    is_moving: bool,
    sent_at: Time,
}

/// A flow to this site.
#[derive(Default)]
struct Sink {
    /// Packets of this epoch pass.
    epoch: u8,
    /// Rerouted ones before their tail.
    held: VecDeque<SimFrame>,
    /// When they pass without it, and the path that CLEAR takes.
    resume: Option<(Time, usize)>,
}

/// The box of one site.
pub struct ConWeave {
    rtt: Span,
    /// Bytes that may be held.
    room: u64,
    held: u64,
    sources: Map<Source>,
    sinks: Map<Sink>,
    /// Of each flow to this site: where its newest packet came from. Its responses go there.
    ways: super::Map<usize>,
    /// By path: the shortest echo, and until when no flow moves there.
    paths: Vec<(Span, Time)>,
    /// By path of the other way: when a NOTIFY may follow.
    notify_at: Vec<Time>,
    dice: u64,
}

impl ConWeave {
    /// A box with `paths` WAN ports, over which a round trip takes `rtt` at most; it may hold `room` bytes.
    pub fn new(paths: usize, rtt: Span, room: u64, seed: u64) -> Self {
        Self {
            rtt,
            room,
            held: 0,
            sources: Map::default(),
            sinks: Map::default(),
            ways: super::Map::default(),
            paths: vec![(rtt, Time::ZERO); paths],
            notify_at: vec![Time::ZERO; paths],
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// How much longer than the shortest one an echo may take: about the queue that is marked.
    fn margin(&self) -> Span {
        self.rtt / 16
    }

    /// A path other than `old` that is not busy, at random.
    fn pick(&mut self, old: Option<usize>, now: Time) -> Option<usize> {
        let free: Vec<_> = (0..self.paths.len())
            .filter(|path| Some(*path) != old && now >= self.paths[*path].1)
            .collect();
        // xorshift64*
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        let at = self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        free.get(at as usize % free.len().max(1)).copied()
    }

    /// A packet of this site: its path and its trailer.
    fn place(&mut self, flow: u32, now: Time) -> (usize, u8, u8) {
        let known = self.sources.get(&flow).map(|known| (known.path, known.sent_at));
        let is_idle = known.is_none_or(|(_, sent_at)| now.since(sent_at) > self.rtt);
        if is_idle {
            // All that was sent has arrived.
            let path = self.pick(None, now).or(known.map(|(path, _)| path)).unwrap_or(0);
            let epoch = self.sources.get(&flow).map_or(0, |source| source.epoch.wrapping_add(1));
            let source = Source { path, epoch, asked_at: None, is_moving: false, sent_at: now };
            self.sources.insert(flow, source);
        }
        let (rtt, margin) = (self.rtt, self.margin());
        let source = self.sources.get(&flow).expect("it was put there");
        let (path, epoch) = (source.path, source.epoch);
        let cutoff = self.paths[path].0.min(rtt) + margin;
        let is_late = source.asked_at.is_some_and(|at| now.since(at) > cutoff);
        let next = if is_late && !source.is_moving { self.pick(Some(path), now) } else { None };
        let source = self.sources.get_mut(&flow).expect("it was put there");
        source.sent_at = now;
        if let Some(next) = next {
            self.paths[path].1 = now + rtt;
            (source.path, source.epoch) = (next, epoch.wrapping_add(1));
            (source.is_moving, source.asked_at) = (true, None);
            return (path, TAIL, epoch);
        }
        if source.is_moving {
            return (path, REROUTED, epoch);
        }
        if source.asked_at.is_none() || is_late {
            source.asked_at = Some(now);
            return (path, ASKS, epoch);
        }
        (path, 0, epoch)
    }

    /// A packet from the other site, without its trailer.
    fn arrive(
        &mut self,
        path: usize,
        (flow, flags, epoch): (u32, u8, u8),
        frame: SimFrame,
        now: Time,
        out: &mut Egress,
    ) {
        let sink = self.sinks.entry(flow).or_insert_with(|| Sink { epoch, ..Sink::default() });
        let is_early = flags & REROUTED != 0 && sink.epoch != epoch;
        if is_early {
            self.held += frame.bytes().len() as u64;
            sink.held.push_back(frame);
            // It may have a long queue. If the tail is lost, this is all that ends the wait.
            sink.resume.get_or_insert((now + self.rtt * 2, path));
            if self.held > self.room {
                self.pass(flow, out);
            }
            return;
        }
        // What the old path brings after its tail was given up is of an epoch before.
        let is_newer = epoch.wrapping_sub(sink.epoch) < 1 << 7;
        if flags & REROUTED == 0 && sink.held.is_empty() && is_newer {
            sink.epoch = epoch;
        }
        let ends = flags & TAIL != 0 && sink.epoch == epoch;
        out.transmit_at(LAN, Class::Data, Packet::Owned(frame));
        if ends {
            // CLEAR takes the new path, if that is known.
            sink.resume.get_or_insert((now, path));
            self.pass(flow, out);
        }
    }

    /// The held packets of a flow pass, and its source may move it again.
    fn pass(&mut self, flow: u32, out: &mut Egress) {
        let Some(sink) = self.sinks.get_mut(&flow) else { return };
        let Some((_, path)) = sink.resume.take() else { return };
        sink.epoch = sink.epoch.wrapping_add(1);
        let epoch = sink.epoch;
        for frame in sink.held.drain(..) {
            self.held -= frame.bytes().len() as u64;
            out.transmit_at(LAN, Class::Data, Packet::Owned(frame));
        }
        say(out, path, CLEAR, epoch, flow);
    }

    /// A message of the other box.
    fn hear(&mut self, (kind, value, flow): (u8, u8, u32), now: Time) {
        if kind == NOTIFY {
            if let Some(path) = self.paths.get_mut(usize::from(value)) {
                path.1 = now + self.rtt;
            }
            return;
        }
        let Some(source) = self.sources.get_mut(&flow).filter(|source| source.epoch == value)
        else {
            return;
        };
        match (kind, source.asked_at) {
            (CLEAR, _) => source.is_moving = false,
            (ECHO, Some(at)) => {
                source.asked_at = None;
                let base = &mut self.paths[source.path].0;
                *base = (*base).min(now.since(at));
            }
            _ => {}
        }
    }
}

/// Sends a message to the other box.
fn say(out: &mut Egress, path: usize, kind: u8, value: u8, flow: u32) {
    let mut frame = vec![0; MESSAGE];
    frame[12..14].copy_from_slice(&ETHERTYPE);
    frame[14..18].copy_from_slice(&MAGIC);
    (frame[18], frame[19]) = (kind, value);
    frame[20..24].copy_from_slice(&flow.to_be_bytes());
    out.transmit_at(WAN + path, Class::High, Packet::Owned(frame.into()));
}

/// The message in a frame, if it is one.
fn heard(bytes: &[u8]) -> Option<(u8, u8, u32)> {
    let body = bytes.get(12..24)?;
    let is_ours = body[..2] == ETHERTYPE && body[2..6] == MAGIC;
    is_ours.then(|| (body[6], body[7], u32::from_be_bytes([body[8], body[9], body[10], body[11]])))
}

impl Middlebox for ConWeave {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut Egress) {
        let roce = parse(frame.bytes()).ok().filter(|_| side == Side::Lan);
        let Some(roce) = roce else { return out.transmit_other(side, frame) };
        if !roce.opcode.kind().is_request() {
            return match self.ways.get(&super::answered(&roce)) {
                Some(path) => out.transmit_at(WAN + path, Class::Data, Packet::Owned(frame)),
                None => out.transmit_other(side, frame),
            };
        }
        let flow = flow_hash(frame.bytes());
        let (path, flags, epoch) = self.place(flow, now);
        let mut bytes = frame.bytes().to_vec();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[flags, epoch, 0, 0]);
        out.transmit_at(WAN + path, Class::Data, Packet::Owned(bytes.into()));
    }

    fn receive_wan(&mut self, path: usize, frame: SimFrame, now: Time, out: &mut Egress) {
        if let Some(message) = heard(frame.bytes()) {
            return self.hear(message, now);
        }
        let bytes = frame.bytes();
        let Some((packet, trailer)) = bytes.split_last_chunk::<TRAILER>() else { return };
        let [a, b, c, d, flags, epoch, ..] = *trailer;
        if [a, b, c, d] != MAGIC {
            return out.transmit_other(Side::Wan, frame);
        }
        let flow = flow_hash(packet);
        let Ok(roce) = parse(packet) else { return };
        self.ways.insert(super::flow(&roce), path);
        let is_marked = roce.ecn == CONGESTION_EXPERIENCED;
        if is_marked && now >= self.notify_at[path] {
            self.notify_at[path] = now + self.margin();
            say(out, path, NOTIFY, path as u8, flow);
        }
        if flags & ASKS != 0 {
            say(out, path, ECHO, epoch, flow);
        }
        let frame = packet.to_vec().into();
        self.arrive(path, (flow, flags, epoch), frame, now, out);
    }

    fn next(&self) -> Time {
        if self.held == 0 {
            return Time::NEVER;
        }
        let due = self.sinks.values().filter_map(|sink| sink.resume.map(|(at, _)| at));
        due.min().unwrap_or(Time::NEVER)
    }

    fn timers(&mut self, now: Time, out: &mut Egress) {
        let is_due = |sink: &Sink| sink.resume.is_some_and(|(at, _)| at <= now);
        let mut due: Vec<_> =
            self.sinks.iter().filter(|(_, sink)| is_due(sink)).map(|(flow, _)| *flow).collect();
        due.sort_unstable();
        due.into_iter().for_each(|flow| self.pass(flow, out));
    }

    fn held(&self) -> Pools {
        Pools { reorder_bytes: self.held, ..Pools::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(10);
    const FLOW: u32 = 7;

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000) + Span::from_millis(ms)
    }

    #[test]
    fn a_flow_whose_echo_is_late_moves_once_until_clear_comes() {
        let mut source = ConWeave::new(4, RTT, 1 << 20, 1);
        let (old, flags, epoch) = source.place(FLOW, at(0));
        assert_eq!(flags, ASKS);
        source.hear((ECHO, epoch, FLOW), at(6));
        assert_eq!(source.paths[old].0, Span::from_millis(6), "the path's base");
        assert_eq!(source.place(FLOW, at(7)), (old, ASKS, epoch));
        assert_eq!(source.place(FLOW, at(10)), (old, 0, epoch), "not late yet");
        assert_eq!(source.place(FLOW, at(14)), (old, TAIL, epoch));
        let (new, flags, moved) = source.place(FLOW, at(15));
        assert_eq!((flags, moved), (REROUTED, epoch + 1));
        assert_ne!(new, old);
        assert_eq!(source.place(FLOW, at(24)), (new, REROUTED, moved), "not twice");
        source.hear((CLEAR, moved, FLOW), at(25));
        assert_eq!(source.place(FLOW, at(25)), (new, ASKS, moved));
        // A path with marks takes no flow for a round trip; an idle flow takes a new path.
        (0..4)
            .filter(|path| *path != old)
            .for_each(|path| source.hear((NOTIFY, path as u8, 0), at(40)));
        assert_eq!(source.place(FLOW, at(45)), (old, ASKS, moved + 1));
    }

    #[test]
    fn rerouted_packets_wait_for_the_tail_or_for_two_round_trips() {
        let (mut sink, mut out) = (ConWeave::new(2, RTT, 1 << 20, 1), Egress::of_wan_ports(2));
        let frame = |n: u8| SimFrame::from(vec![n; 100]);
        let numbers = |out: &mut Egress| -> Vec<u8> {
            out.take(LAN).iter().map(|frame| frame.bytes()[0]).collect()
        };
        sink.arrive(0, (FLOW, ASKS, 3), frame(1), at(0), &mut out);
        sink.arrive(1, (FLOW, REROUTED, 4), frame(3), at(1), &mut out);
        sink.arrive(1, (FLOW, REROUTED, 4), frame(4), at(1), &mut out);
        assert_eq!((numbers(&mut out), sink.held), (vec![1], 200));
        sink.arrive(0, (FLOW, TAIL, 3), frame(2), at(2), &mut out);
        assert_eq!((numbers(&mut out), sink.held), (vec![2, 3, 4], 0));
        let clear: Vec<_> = out.take(WAN + 1).iter().map(|frame| heard(frame.bytes())).collect();
        assert_eq!(clear, [Some((CLEAR, 4, FLOW))], "on the new path");
        sink.arrive(1, (FLOW, REROUTED, 4), frame(5), at(2), &mut out);
        assert_eq!(numbers(&mut out), [5]);

        // The next tail is lost, and comes after all when it was given up.
        sink.arrive(0, (FLOW, REROUTED, 5), frame(7), at(3), &mut out);
        assert_eq!((numbers(&mut out), sink.next()), (vec![], at(3) + RTT * 2));
        sink.timers(at(23), &mut out);
        sink.arrive(1, (FLOW, TAIL, 4), frame(6), at(24), &mut out);
        sink.arrive(0, (FLOW, REROUTED, 5), frame(8), at(24), &mut out);
        assert_eq!((numbers(&mut out), sink.next()), (vec![7, 6, 8], Time::NEVER));
    }
}
