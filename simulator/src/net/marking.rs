//! ECN marks by the length of a queue (RED as in DCQCN's paper).

use common::frame::Frame;
use common::wire::mark_congestion_at;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::frame::SimFrame;
use crate::scenario::Ecn;

/// Whether frames are marked that join a queue.
pub struct Marking {
    ecn: Option<Ecn>,
    dice: ChaCha8Rng,
}

impl Marking {
    /// Marks by `ecn`, with random numbers of that stream.
    pub fn new(ecn: Option<Ecn>, seed: u64, stream: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        dice.set_stream(stream);
        Self { ecn, dice }
    }

    /// Whether a frame is marked that joins a queue of `bytes`.
    pub fn marks(&mut self, bytes: u64) -> bool {
        let Some(ecn) = self.ecn else { return false };
        bytes > ecn.kmin
            && (bytes >= ecn.kmax || {
                let share = (bytes - ecn.kmin) as f64 / (ecn.kmax - ecn.kmin) as f64;
                self.dice.random_bool((share * ecn.pmax).clamp(0.0, 1.0))
            })
    }
}

const ETHERNET: usize = 14;

/// Marks a frame whose outer header is IP and ECN-capable, as a router does. It looks no deeper.
pub fn mark_ip(frame: &mut SimFrame) {
    let head = frame.bytes();
    let (ethertype, ip) = (head.get(12..ETHERNET), head.get(ETHERNET..ETHERNET + 20));
    let ecn = match (ethertype, ip) {
        (Some([0x08, 0x00]), Some(ip)) => ip[1] & 3,
        (Some([0x86, 0xdd]), Some(ip)) => ip[1] >> 4 & 3,
        _ => 0,
    };
    if ecn != 0 {
        mark_congestion_at(frame.bytes_mut(), ETHERNET);
    }
}

#[cfg(test)]
mod tests {
    use common::psn::Psn;
    use common::wire::{Bth, Headers, Opcode, Qpn, Vlans, parse};

    use super::*;

    #[test]
    fn marks_begin_at_kmin_and_are_certain_from_kmax_on() {
        let ecn = Ecn { kmin: 1_000, kmax: 2_000, pmax: 0.2 };
        let mut marking = Marking::new(Some(ecn), 1, 1);
        let mut share = |bytes| (0..10_000).filter(|_| marking.marks(bytes)).count();
        assert_eq!((share(1_000), share(2_000)), (0, 10_000));
        assert!((900..1_100).contains(&share(1_500)), "half of pmax");
        assert!(!Marking::new(None, 1, 1).marks(u64::MAX));
    }

    #[test]
    fn only_ecn_capable_ip_is_marked() {
        for (ecn, expected) in [(0, 0), (1, 3), (2, 3), (3, 3)] {
            for ip in [[10, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into()] {
                let headers = Headers::new([2; 6], [4; 6], Vlans::NONE, ip, ip, 0xc001, ecn, 64);
                let mut bytes = vec![0; headers.frame_len(64)];
                let bth = Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(5));
                headers.emit(&bth, &mut bytes, |body| body.fill(3));
                let mut frame = SimFrame::from(bytes);
                mark_ip(&mut frame);
                assert_eq!(parse(frame.bytes()).expect("RoCE").ecn, expected);
            }
        }
        let mut other = SimFrame::from(vec![0xff; 64]);
        mark_ip(&mut other);
        assert_eq!(other, SimFrame::from(vec![0xff; 64]));
    }
}
