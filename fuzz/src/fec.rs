//! Both ends of a lane with repair frames, which loses, doubles and delays as the input says: whatever is
//! decoded is right. With a stranger's repair frames beside, nothing but that nothing panics.

use std::collections::BTreeMap;

use fec::{Decoder, Encoder, Plan, Repair};
use galois::Kernel;
use testkit::operations::input::Input;

/// Longest protected frame.
const LONGEST: usize = 24;

enum Sent {
    Frame(u64),
    Repair(Repair, Vec<u8>),
}

struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    frames: BTreeMap<u64, Vec<u8>>,
    arrived: BTreeMap<u64, ()>,
    /// Number of the next frame, and the one above the newest that arrived.
    next: u64,
    newest: u64,
    has_stranger: bool,
}

/// One input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let has_stranger = input.one_in(4);
    let first = input.choose(&[0, 7, u64::from(u32::MAX) - 40]);
    let mut ends = Ends {
        encoder: Encoder::new(Kernel::best(), LONGEST),
        decoder: Decoder::new(Kernel::best(), LONGEST),
        frames: BTreeMap::new(),
        arrived: BTreeMap::new(),
        next: first,
        newest: first,
        has_stranger,
    };
    // Frames on the lane, by time of arrival.
    let mut lane: BTreeMap<(u64, u64), Sent> = BTreeMap::new();
    let (mut time, mut count) = (0, 0);
    while !input.is_empty() {
        for sent in ends.step(&mut input) {
            time += 1;
            let copies: &[u8] = match input.below(16) {
                0..11 => &[0],
                11..13 => &[],
                13 => &[0, 3],
                14 => &[5],
                _ => &[40, 9],
            };
            for late in copies {
                let again = match &sent {
                    Sent::Frame(number) => Sent::Frame(*number),
                    Sent::Repair(repair, bytes) => Sent::Repair(*repair, bytes.clone()),
                };
                lane.insert((time + u64::from(*late), count), again);
                count += 1;
            }
        }
        while let Some(entry) = lane.first_entry().filter(|entry| entry.key().0 <= time) {
            let sent = entry.remove();
            ends.take(&sent);
        }
    }
    for sent in lane.values() {
        ends.take(sent);
    }
}

fn plan(input: &mut Input<'_>) -> Plan {
    let (streams, every, windows) = (input.below(6), 1 + input.below(7), 1 + input.below(8));
    Plan::new(1 << streams, 1 << every, windows).expect("within bounds")
}

impl Ends {
    fn step(&mut self, input: &mut Input<'_>) -> Vec<Sent> {
        match input.below(64) {
            0 => vec![Sent::Repair(self.encoder.start(plan(input), self.next), Vec::new())],
            1 => {
                self.encoder.stop();
                Vec::new()
            }
            2..4 => {
                let mut all = Vec::new();
                while let Some((repair, bytes)) = self.encoder.flush() {
                    all.push(Sent::Repair(repair, bytes.to_vec()));
                }
                all
            }
            4 if self.has_stranger => {
                let first = match input.below(4) {
                    0 => u64::MAX - u64::from(input.word()),
                    1 => u64::from(input.word()),
                    _ => (self.next + 64).saturating_sub(u64::from(input.byte())),
                };
                let (plan, count, seed) = (plan(input), input.word(), input.word());
                let len = usize::from(input.below(32));
                let bytes = input.bytes(len).to_vec();
                vec![Sent::Repair(Repair { plan, first, count, seed }, bytes)]
            }
            kind => {
                let number = self.next;
                self.next += 1;
                let len = usize::from(kind % 28);
                let frame: Vec<u8> =
                    (0..len).map(|at| (number as u8).wrapping_mul(31) ^ at as u8).collect();
                let (head, tail) = frame.split_at(len / 2);
                let repair = self.encoder.add(number, &[head, tail]);
                let repair = repair.map(|(repair, bytes)| Sent::Repair(repair, bytes.to_vec()));
                self.frames.insert(number, frame);
                std::iter::once(Sent::Frame(number)).chain(repair).collect()
            }
        }
    }

    fn take(&mut self, sent: &Sent) {
        match sent {
            Sent::Frame(number) => {
                self.decoder.frame(*number, &[&self.frames[number]]);
                self.arrived.insert(*number, ());
                self.newest = self.newest.max(number + 1);
            }
            Sent::Repair(repair, bytes) => {
                self.decoder.repair(repair, bytes, self.newest);
            }
        }
        while let Some((number, frame)) = self.decoder.decoded() {
            if self.has_stranger {
                continue;
            }
            let right = self.frames.get(&number).expect("a number that was sent");
            let right = if right.len() > LONGEST { &[][..] } else { right };
            assert_eq!(frame, right, "{number}");
            assert_eq!(self.arrived.insert(number, ()), None, "{number} is there already");
        }
        assert!(self.has_stranger || self.decoder.counts().faulty == 0);
    }
}
