//! Repair frames of a lane: a burst of frames of 4 KiB added to the sums of the sender or of
//! the receiver.

use std::hint::black_box;

use fec::{Decoder, Encoder, Outcome, Plan, Repair};
use galois::Kernel;

use crate::{BURST, Stage};

/// Bytes of a frame.
const FRAME: usize = 4096;
/// Bytes in front of it that a sum has, too.
const FRONT: usize = 32;
/// A repair frame for 64 frames, over the last 256.
const EVERY: u8 = 64;
const WINDOWS: u8 = 4;

/// The sender's end.
pub struct Sender {
    encoder: Encoder,
    frame: Vec<u8>,
    next: u64,
}

/// The receiver's end, to which all frames and repair frames come.
pub struct Receiver {
    sender: Sender,
    decoder: Decoder,
    next: u64,
    repair: Option<Repair>,
    bytes: Vec<u8>,
}

fn plan() -> Plan {
    Plan::new(1, EVERY, WINDOWS).expect("within bounds")
}

impl Sender {
    /// A lane from its first frame on.
    pub fn begin() -> Self {
        let mut encoder = Encoder::new(Kernel::best(), FRONT + FRAME);
        encoder.start(plan(), 0);
        Self { encoder, frame: vec![0x5a; FRAME], next: 0 }
    }

    fn send(&mut self) -> Option<(Repair, &[u8])> {
        let number = self.next;
        self.next += 1;
        self.encoder.add(number, &[&[1; FRONT][..], black_box(&self.frame[..])])
    }
}

impl Receiver {
    /// A lane from its first frame on.
    pub fn begin() -> Self {
        let mut sender = Sender::begin();
        let mut decoder = Decoder::new(Kernel::best(), FRONT + FRAME);
        decoder.repair(&sender.encoder.start(plan(), 0), &[], 0);
        Self { sender, decoder, next: 0, repair: None, bytes: Vec::with_capacity(2 * FRAME) }
    }
}

impl Stage for Sender {
    fn prepare(&mut self) {}

    fn run(&mut self) {
        for _ in 0..BURST {
            black_box(self.send());
        }
    }

    fn done(&self) -> u64 {
        self.next
    }
}

impl Stage for Receiver {
    fn prepare(&mut self) {
        for _ in 0..BURST {
            if let Some((repair, bytes)) = self.sender.send() {
                self.repair = Some(repair);
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
            }
        }
    }

    fn run(&mut self) {
        for _ in 0..BURST {
            let parts = [&[1; FRONT][..], black_box(&self.sender.frame[..])];
            self.decoder.frame(self.next, &parts);
            self.next += 1;
        }
        // Blocks end with a burst.
        if let Some(repair) = self.repair.take() {
            let outcome = self.decoder.repair(&repair, &self.bytes, self.next);
            assert_eq!(outcome, Outcome::Spare);
        }
    }

    fn done(&self) -> u64 {
        self.next
    }
}
