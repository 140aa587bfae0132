//! An encoder, a decoder, and a lane in between.

use std::collections::BTreeMap;

use fec::{Decoder, Encoder, Outcome, Plan, Repair};
use galois::Kernel;

/// Longest protected frame.
pub const LONGEST: usize = 40;

/// Something on the lane.
#[derive(Clone, Debug)]
pub enum Sent {
    /// A frame's number.
    Frame(u64),
    /// A repair frame.
    Repair(Repair, Vec<u8>),
}

/// The encoder, and all frames that it had.
pub struct Near {
    pub encoder: Encoder,
    pub frames: BTreeMap<u64, Vec<u8>>,
    pub next: u64,
}

impl Near {
    pub fn new(first: u64) -> Self {
        let encoder = Encoder::new(Kernel::best(), LONGEST);
        Self { encoder, frames: BTreeMap::new(), next: first }
    }

    pub fn start(&mut self, plan: Plan) -> Sent {
        Sent::Repair(self.encoder.start(plan, self.next), Vec::new())
    }

    /// The next frame, and a repair frame that may follow.
    pub fn send(&mut self, frame: &[u8]) -> Vec<Sent> {
        let number = self.next;
        self.next += 1;
        self.frames.insert(number, frame.to_vec());
        let (head, tail) = frame.split_at(frame.len() / 3);
        let repair = self.encoder.add(number, &[head, tail]);
        let repair = repair.map(|(repair, bytes)| Sent::Repair(repair, bytes.to_vec()));
        [Some(Sent::Frame(number)), repair].into_iter().flatten().collect()
    }

    pub fn flush(&mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        while let Some((repair, bytes)) = self.encoder.flush() {
            all.push(Sent::Repair(repair, bytes.to_vec()));
        }
        all
    }
}

/// The decoder, and all frames that it has.
pub struct Far {
    pub decoder: Decoder,
    /// Number of the newest frame that arrived, and 1.
    pub next: u64,
    pub arrived: BTreeMap<u64, bool>,
    pub outcomes: Vec<Outcome>,
}

impl Far {
    pub fn new(first: u64) -> Self {
        let decoder = Decoder::new(Kernel::best(), LONGEST);
        Self { decoder, next: first, arrived: BTreeMap::new(), outcomes: Vec::new() }
    }

    /// Checks each frame that is decoded.
    pub fn take(&mut self, near: &Near, sent: &Sent) {
        match sent {
            Sent::Frame(number) => {
                self.decoder.frame(*number, &[&near.frames[number]]);
                self.arrived.insert(*number, true);
                self.next = self.next.max(number + 1);
            }
            Sent::Repair(repair, bytes) => {
                let outcome = self.decoder.repair(repair, bytes, self.next);
                assert_ne!(outcome, Outcome::Refused, "{repair:?}");
                self.outcomes.push(outcome);
            }
        }
        while let Some((number, frame)) = self.decoder.decoded() {
            let right = &near.frames[&number];
            let right = if right.len() > LONGEST { &[][..] } else { right };
            assert_eq!(frame, right, "{number}");
            assert_eq!(self.arrived.insert(number, false), None, "{number} is there already");
        }
        assert_eq!(self.decoder.counts().faulty, 0);
    }

    /// Numbers that were decoded.
    pub fn decoded(&self) -> Vec<u64> {
        self.arrived.iter().filter(|(_, arrived)| !**arrived).map(|(number, _)| *number).collect()
    }
}

/// A frame for a number.
pub fn frame(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 50)) as u8 ^ at as u8)
        .collect()
}
