//! Faults of a box, or of the messages between two, in the middle of a run.

use common::control::{self, BootId, Keys, Message};
use common::wire::parse;

use super::{START, WAN_OUT, World};
use crate::out::Out;
use crate::trace::shim;

/// A control message that does not arrive from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silenced {
    /// Every STATUS.
    Status,
    /// Every SYNC(release).
    Release,
    /// Every REPORT of a tunnel, and every STATUS that is not in one.
    Reports,
}

impl Silenced {
    pub(super) fn takes(self, bytes: &[u8]) -> bool {
        if self == Self::Reports && is_report(bytes) {
            return true;
        }
        let Ok(roce) = parse(bytes) else { return false };
        let decoded = control::decode(bytes, &roce, control::DEFAULT_OPCODE, &Keys::unkeyed_lab());
        match decoded {
            Some(Ok((_, Message::Status(_)))) => self != Self::Release,
            Some(Ok((_, Message::Sync(sync)))) => {
                self == Self::Release && sync.reason == control::Reason::Release
            }
            _ => false,
        }
    }
}

/// Whether a frame between the boxes is a REPORT of a tunnel.
fn is_report(bytes: &[u8]) -> bool {
    shim(bytes).is_some_and(|shim| shim[0] == 0x23 && shim.get(2) == Some(&2))
}

impl World {
    /// Whether a link carries nothing at present.
    pub(super) fn has_outage(&self, link: usize) -> bool {
        let second = self.scenario.underlay.second.as_ref().filter(|_| link > WAN_OUT);
        let mut outages = second.into_iter().flat_map(|path| &path.outages);
        outages.any(|(from, to)| (START + *from..START + *to).contains(&self.now))
    }

    /// From now on no such message crosses the long-haul link.
    pub fn silence(&mut self, what: Silenced) {
        self.silenced = [Some(what); 2];
    }

    /// From now on no such message of box `me` crosses the long-haul link.
    pub fn silence_from(&mut self, me: usize, what: Silenced) {
        self.silenced[me] = Some(what);
    }

    /// Box `me` is told to end: it drains.
    pub fn drain(&mut self, me: usize) {
        let now = self.now;
        let Some(switch) = &mut self.ends[me].switch else { return };
        let mut out = Out::default();
        switch.drain(now, &mut out);
        self.emit(me, out);
    }

    /// Box `me` is gone, with all that it held, and a wire is in its place.
    pub fn bypass(&mut self, me: usize) {
        self.ends[me].switch = None;
    }

    /// Box `me` is killed and started again. It says that it booted at `boot`: at the
    /// beginning of the run that was 1,000.
    pub fn restart_at(&mut self, me: usize, boot: impl Into<BootId>) {
        self.start(me, boot.into(), Keys::unkeyed_lab());
    }

    /// Box `me` is started again with another key than the other box.
    pub fn rekey(&mut self, me: usize) {
        let boot = self.ends[me].boot.next();
        self.start(me, boot, Keys::from_secret(b"a key that the other box lacks"));
    }

    pub(crate) fn start(&mut self, me: usize, boot: BootId, keys: Keys) {
        self.ends[me].boot = boot;
        self.ends[me].switch = self.scenario.switch(me, boot, keys);
        if let Some(order) = &mut self.order {
            order.box_starts(self.now);
        }
    }
}
