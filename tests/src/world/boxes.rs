//! Passes frames through a box, and checks its frame counts, the order of flows, and sessions.

use common::frame::{Frame, Side};
use common::heap::HeapFrame;
use tunnel::{Dropped, Port};

use super::{TO_NIC, WAN_OUT, World};
use crate::end::{End, FIRST_BOOT};
use crate::order::Ordered;
use crate::out::Out;
use crate::tunnel::Tunnelling;

impl World {
    pub(super) fn through_switch(&mut self, me: usize, at: (Side, Port), mut frame: HeapFrame) {
        let now = self.now;
        let [here, there] = self.ends.each_ref().map(|end| end.switch.as_ref());
        let boxes = if me == 0 { [here, there] } else { [there, here] };
        if let (Side::Lan, Some(order), [Some(from), Some(to)]) = (at.0, &mut self.order, boxes) {
            order.enters((me, now), &mut frame, [from, to]);
        }
        let Some(switch) = &mut self.ends[me].switch else {
            let next = if at.0 == Side::Lan { WAN_OUT } else { TO_NIC };
            return self.send(me, next, frame.bytes().to_vec());
        };
        let mut out = Out::default();
        switch.receive(at, frame, now, &mut out);
        self.emit(me, out);
    }

    pub(super) fn serve_timers(&mut self, me: usize) {
        let now = self.now;
        let Some(switch) = &mut self.ends[me].switch else { return };
        let mut out = Out::default();
        switch.timers(now, &mut out);
        self.emit(me, out);
    }

    /// Puts a box's transmissions on the wire, and checks its frame counts and the order of frames to the LAN.
    pub(super) fn emit(&mut self, me: usize, out: Out) {
        for (link, mut frame) in out.into_frames() {
            if link == TO_NIC {
                self.check_order(me, &mut frame);
            }
            self.send(me, link, frame.bytes().to_vec());
        }
        if let Some(switch) = &self.ends[me].switch {
            switch.check_books();
        }
    }

    fn check_order(&mut self, me: usize, frame: &mut HeapFrame) {
        let Some(order) = &mut self.order else { return };
        let Some(fault) = order.leaves(me, frame) else { return };
        let is_damaged = is_damaged(&self.ends);
        let boxes = self.ends.each_ref().map(|end| end.switch.as_ref());
        let [Some(a), Some(b)] = boxes else { return };
        let boxes = if me == 0 { [b, a] } else { [a, b] };
        assert!(
            order.excuses(&fault, is_damaged, boxes, self.now),
            "box {me} at {:?}: {fault}",
            self.now
        );
    }

    /// Checks that all frames have arrived that had to.
    pub(super) fn check_arrivals(&self) -> Ordered {
        let Some(order) = &self.order else { return Ordered::default() };
        let [a, b] = self.ends.each_ref().map(|end| end.switch.as_ref());
        order.end(a.zip(b).map(|(a, b)| [a, b]), is_damaged(&self.ends), self.now)
    }

    /// Checks that a tunnel which had one session only received no frame of another session.
    pub(super) fn check_sessions(&self) {
        let boxes = self.ends.each_ref().map(|end| end.switch.as_ref());
        let [Some(a), Some(b)] = boxes else { return };
        let is_first = self.ends.iter().all(|end| end.boot == FIRST_BOOT);
        if self.scenario.tunnel == Tunnelling::No || !is_first || is_damaged(&self.ends) {
            return;
        }
        for n in 0..usize::from(self.scenario.division().tunnels()) {
            let counts = [a, b].map(|workers| workers.tunnel(n).tunnel().counts());
            if counts.iter().all(|counts| counts.changes == 1) {
                let strange = counts.map(|counts| counts.dropped(Dropped::Session));
                assert_eq!(strange, [0; 2], "frames of other sessions at tunnel {n}");
            }
        }
    }
}

/// Whether the long haul has damaged a frame.
fn is_damaged(ends: &[End; 2]) -> bool {
    let long_haul = ends.iter().flat_map(|end| &end.links[WAN_OUT..]);
    long_haul.map(|link| link.fate.corrupted).sum::<u64>() > 0
}
