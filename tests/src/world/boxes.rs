//! Frames through a box, and what is checked of them.

use common::frame::{Frame, Side};
use common::heap::HeapFrame;
use tunnel::Port;

use super::{TO_NIC, WAN_OUT, World};
use crate::out::Out;

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
        // Damage of a shim is damage of the order.
        let long_haul = self.ends.iter().flat_map(|end| &end.links[WAN_OUT..]);
        let is_damaged = long_haul.map(|link| link.fate.corrupted).sum::<u64>() > 0;
        let boxes = self.ends.each_ref().map(|end| end.switch.as_ref());
        let [Some(a), Some(b)] = boxes else { return };
        let boxes = if me == 0 { [b, a] } else { [a, b] };
        assert!(
            is_damaged || order.excuses(&fault, boxes, self.now),
            "box {me} at {:?}: {fault}",
            self.now
        );
    }
}
