//! One direction of a segment, with the impairments of a network.
//!
//! The fate of a frame is a hash of the seed, the segment and the frame's
//! identity: its stream, queue pair, PSN, and how many of the same have entered
//! the segment before. Two runs with the same seed, one with gateways and one
//! without, lose the same copies of the same packets, independent of all other frames.
//! Bursts of losses are stretches of time, the same in both runs.

use std::collections::HashMap;

use common::control;
use common::time::{Span, Time};
use common::wire::{Qpn, parse};
use rand::{Rng, RngExt};
use tunnel::encapsulation::Marks;

/// How a segment impairs the frames that cross it, as probabilities per
/// frame.
#[derive(Clone, Copy, Default, Debug)]
pub struct Impairment {
    /// The frame is lost.
    pub loss: f64,
    /// A burst of losses begins, on a link that is always busy with data.
    pub burst_start: f64,
    /// Length of a burst of losses, in data packets of full size.
    pub burst: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// The frame is delayed by up to `reorder_by`, and others overtake it.
    pub reorder: f64,
    /// Longest extra delay of a reordered frame.
    pub reorder_by: Span,
    /// A bit of the frame flips.
    pub corrupt: f64,
    /// A bit of an address, a port, the BTH or a header behind it flips, and the
    /// checksum of the IP header is right all the same: damage in a router's
    /// memory. The ICRC is as it was.
    pub mangle: f64,
}

impl Impairment {
    /// Nothing but random loss.
    pub fn lossy(loss: f64) -> Self {
        Self { loss, ..Self::default() }
    }

    /// Any that a long-haul link may have.
    pub(crate) fn of_long_haul(rng: &mut impl Rng) -> Self {
        let mut pick = |values: &[f64]| values[rng.random_range(0..values.len())];
        Self {
            loss: pick(&[0.0, 0.001, 0.01, 0.05]),
            burst_start: pick(&[0.0, 0.0, 0.002]),
            burst: pick(&[2.0, 8.0, 30.0]),
            duplicate: pick(&[0.0, 0.0, 0.01, 0.05]),
            reorder: pick(&[0.0, 0.0, 0.01, 0.1]),
            reorder_by: Span::from_nanos(pick(&[2e4, 2e5, 2e6]) as u64),
            corrupt: pick(&[0.0, 0.0, 0.002]),
            mangle: 0.0,
        }
    }
}

/// Fates of the frames of a segment.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fate {
    /// Frames sent into it.
    pub offered: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, transmissions with a number on a lane.
    pub numbered: u64,
    /// Of these, repair frames.
    pub repairs: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames that were corrupted.
    pub corrupted: u64,
}

impl Fate {
    /// A frame is sent into the segment.
    pub fn offer(&mut self, frame: &[u8]) {
        self.offered += 1;
        self.bytes += frame.len() as u64;
        let shim = Marks::default().shim(frame).and_then(|place| frame.get(place.at));
        match shim.map(|first| first & 0xf) {
            Some(0 | 1) => self.numbered += 1,
            Some(2) => self.repairs += 1,
            _ => {}
        }
    }
}

/// The identity of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Identity {
    /// Requests, responses, control messages, all the rest.
    stream: u8,
    qpn: Qpn,
    psn: u32,
}

impl Identity {
    fn of(bytes: &[u8]) -> Self {
        let Ok(roce) = parse(bytes) else { return Self { stream: 3, qpn: Qpn::default(), psn: 0 } };
        let (qpn, psn) = (roce.dest_qpn, roce.psn.get());
        if roce.opcode == control::DEFAULT_OPCODE {
            // Their PSN says nothing; they are numbered.
            Self { stream: 2, qpn, psn: 0 }
        } else if roce.kind().is_response() {
            Self { stream: 1, qpn, psn }
        } else {
            Self { stream: 0, qpn, psn }
        }
    }
}

/// Random numbers that follow from a hash.
struct Dice(u64);

impl Dice {
    fn of(parts: [u64; 6]) -> Self {
        parts.into_iter().fold(Self(0), |dice, part| Self(mix(dice.0 ^ part)))
    }

    fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// True with probability `p`.
    fn chance(&mut self, p: f64) -> bool {
        // 53 bits, as many as an f64 has.
        ((self.next() >> 11) as f64) < p * (1_u64 << 53) as f64
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// One direction of a segment.
#[derive(Clone, Debug)]
pub struct Link {
    /// One-way delay.
    pub delay: Span,
    /// The impairment until `until`.
    pub impairment: Impairment,
    /// When the network becomes perfect.
    pub until: Time,
    /// Fates so far.
    pub fate: Fate,
    /// Of all that is drawn on this link: the seed, the number of the link.
    key: [u64; 2],
    /// Time that a data packet takes on it.
    slot: Span,
    /// Since when it misbehaves, and how many of each were sent since.
    since: Time,
    copies: HashMap<Identity, u64>,
}

impl Link {
    /// A perfect link. `key` has the seed and the number of the link among
    /// those of the run; a data packet takes `slot` on it.
    pub fn new(delay: Span, key: [u64; 2], slot: Span) -> Self {
        Self {
            delay,
            impairment: Impairment::default(),
            until: Time::NEVER,
            fate: Fate::default(),
            key,
            slot,
            since: Time::ZERO,
            copies: HashMap::new(),
        }
    }

    /// From `now` on, for `span`, the network misbehaves, in a way that does
    /// not depend on earlier frames.
    pub fn misbehave(&mut self, incarnation: u64, now: Time, span: Span) {
        self.key[1] = self.key[1] % LINKS + LINKS * incarnation;
        self.since = now;
        self.until = now + span;
        self.copies.clear();
    }

    /// Sends `frame` at `now`; calls `arrive` for each copy that arrives, with
    /// the time.
    pub fn send(&mut self, mut frame: Vec<u8>, now: Time, mut arrive: impl FnMut(Time, Vec<u8>)) {
        self.fate.offer(&frame);
        let at = now + self.delay;
        if now < self.since || now >= self.until {
            return arrive(at, frame);
        }
        let what = self.impairment;
        let mut dice = self.dice(&frame);
        let (lost, corrupt) = (dice.chance(what.loss), dice.chance(what.corrupt));
        let mangle = dice.chance(what.mangle);
        let (duplicate, reorder) = (dice.chance(what.duplicate), dice.chance(what.reorder));
        if lost || self.in_burst(now) {
            self.fate.lost += 1;
            return;
        }
        if corrupt {
            // Behind the Ethernet header: a switch's FCS catches the rest.
            let bit = 14 * 8 + dice.below((frame.len() as u64 - 14) * 8) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
            self.fate.corrupted += 1;
        }
        if mangle && mangle_headers(&mut frame, &mut dice) {
            self.fate.corrupted += 1;
        }
        if duplicate {
            arrive(at, frame.clone());
        }
        let extra = match reorder {
            true => Span::from_nanos(dice.below(what.reorder_by.as_nanos() + 1)),
            false => Span::ZERO,
        };
        arrive(at + extra, frame);
    }

    /// The random numbers of this copy of a frame.
    fn dice(&mut self, frame: &[u8]) -> Dice {
        let identity = Identity::of(frame);
        let copy = self.copies.entry(identity).or_default();
        *copy += 1;
        let Identity { stream, qpn, psn } = identity;
        let [seed, link] = self.key;
        Dice::of([seed, link, stream.into(), qpn.get().into(), psn.into(), *copy])
    }

    /// Time is cut into stretches as long as a burst, some of which are bursts.
    fn in_burst(&self, now: Time) -> bool {
        let Impairment { burst_start, burst, .. } = self.impairment;
        if burst_start == 0.0 {
            return false;
        }
        let length = (self.slot.as_nanos() as f64 * burst).max(1.0) as u64;
        let stretch = now.since(self.since).as_nanos() / length;
        let [seed, link] = self.key;
        Dice::of([seed, link, u64::MAX, stretch, 0, 0]).chance(burst_start * burst)
    }
}

/// Bytes behind the BTH that are taken for headers: a RETH is as long.
const EXTENSION: usize = 16;

/// Flips a bit of the headers of a RoCE frame. Whether there is one.
fn mangle_headers(frame: &mut [u8], dice: &mut Dice) -> bool {
    let Ok(roce) = parse(frame) else { return false };
    let (l3, l4, bth) = (usize::from(roce.l3), usize::from(roce.l4), usize::from(roce.bth));
    let addresses = l4 - if roce.src.is_v4() { 8 } else { 32 }..l4;
    let ports = l4..l4 + 4;
    let headers = bth..(bth + 12 + EXTENSION).min(usize::from(roce.end) - 4);
    let parts = [addresses, ports, headers.clone(), headers];
    let part = &parts[dice.below(parts.len() as u64) as usize];
    let bit = dice.below(8 * part.len() as u64) as usize;
    frame[part.start + bit / 8] ^= 1 << (bit % 8);
    if roce.src.is_v4() {
        frame[l3 + 10..l3 + 12].fill(0);
        let words =
            frame[l3..l4].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
        frame[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_be_bytes());
    }
    true
}

/// More links than a run has.
const LINKS: u64 = 16;
