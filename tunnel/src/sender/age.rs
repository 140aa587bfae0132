//! When a lost frame is not resent any more: R-TUN-62.
//!
//! A path may refuse one frame, or all frames of one flow, and carry everything else: an access list, a filter, a frame above the
//! path's MTU. Resends of such frames are in vain, and may take neither the link nor the repair of other flows.

use common::time::{Span, Time};

use crate::flow::Order;

/// Resends of a frame, at most.
pub(super) const RESENDS_MAX: u8 = 7;
/// A frame is resent for so many waits for a REPORT after its first transmission.
const WAITS: u64 = 8;
/// However short the wait: a box may stand still for so long.
const LEAST: Span = Span::from_millis(50);
/// After so many resends in a row that did not arrive, a flow is refused.
const REFUSED: u8 = 16;
/// Flow buckets share so many slots.
const SLOTS: usize = 1 << 12;
/// The pause between two trials of a refused flow grows to so many round trips.
const PAUSE_MAX: u64 = 64;

/// The age of a frame of which a transmission was lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Age {
    /// Resends so far.
    pub resends: u8,
    /// No earlier than the first transmission; of a frame that was never lost, unknown and zero.
    pub since: Time,
    /// The slot of its flow; `None` before the first loss and without a flow bucket.
    pub slot: Option<u16>,
}

impl Age {
    /// Whether the frame is resent no more, where none is that is older than `most`.
    pub fn is_over(&self, now: Time, most: Span) -> bool {
        self.resends >= RESENDS_MAX || now >= self.since + most
    }

    /// The age of the frame once it is resent.
    pub fn resent(self) -> Self {
        Self { resends: self.resends + 1, ..self }
    }
}

/// The age of the oldest frame that is resent, where a REPORT is waited for as long as `wait`, and `give_up` is configured.
pub(super) fn age_max(wait: Span, give_up: Span) -> Span {
    (wait * WAITS).max(LEAST).min(give_up)
}

/// The slot of a flow bucket.
pub(super) fn slot(order: Order) -> Option<u16> {
    order.bucket().map(|bucket| bucket % SLOTS as u16)
}

/// What became of the resends of some flows.
#[derive(Clone, Copy, Default, Debug)]
struct Flow {
    /// Resends in a row that did not arrive.
    lost: u8,
    /// Round trips between two trials; 0: the flow is not refused.
    pause: u64,
    /// When a frame may be resent as a trial.
    trial_at: Time,
}

/// The resends of each flow. Those of a refused flow are in vain but for a trial now and then.
#[derive(Debug)]
pub(super) struct Refused {
    flows: Box<[Flow; SLOTS]>,
    /// Whether any flow lost a resend: if not, nothing is looked up.
    has_lost: bool,
}

impl Default for Refused {
    fn default() -> Self {
        Self { flows: Box::new([Flow::default(); SLOTS]), has_lost: false }
    }
}

impl Refused {
    /// Begins another session.
    pub fn clear(&mut self) {
        if core::mem::take(&mut self.has_lost) {
            self.flows.fill(Flow::default());
        }
    }

    /// A resend has arrived: the path carries the flow.
    pub fn arrived(&mut self, age: &Age) {
        if let Some(slot) = age.slot.filter(|_| self.has_lost && age.resends > 0) {
            self.flows[usize::from(slot)] = Flow::default();
        }
    }

    /// A transmission was lost. Whether its flow is refused at present: then the frame is not resent.
    pub fn lost(&mut self, now: Time, age: &Age, rtt: Span) -> bool {
        let Some(slot) = age.slot else { return false };
        if !self.has_lost && age.resends == 0 {
            return false;
        }
        let flow = &mut self.flows[usize::from(slot)];
        if age.resends > 0 {
            self.has_lost = true;
            flow.lost = flow.lost.saturating_add(1);
        }
        if flow.lost < REFUSED {
            return false;
        }
        if now < flow.trial_at {
            return true;
        }
        flow.pause = (flow.pause * 2).clamp(1, PAUSE_MAX);
        flow.trial_at = now + rtt * flow.pause;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(10);

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000) + Span::from_millis(ms)
    }

    fn age(resends: u8) -> Age {
        Age { resends, since: at(0), slot: slot(Order::Ordered(7)) }
    }

    #[test]
    fn a_frame_is_resent_seven_times_and_for_eight_waits_at_most() {
        let most = age_max(Span::from_millis(12), Span::from_millis(400));
        assert!(!age(6).is_over(at(95), most));
        assert!(age(6).is_over(at(96), most));
        assert!(age(7).is_over(at(0), most));
        let most = age_max(Span::from_millis(12), Span::from_millis(50));
        assert!(age(0).is_over(at(50), most));
        // A short path: a box that stands still for 40 ms costs no frame.
        let most = age_max(Span::from_micros(300), Span::from_millis(400));
        assert!(!age(0).is_over(at(49), most) && age(0).is_over(at(50), most));
    }

    /// Trials at 0, 10, 30, 70, 150 ms and so on, and at last each 640 ms.
    #[test]
    fn a_refused_flow_has_ever_rarer_trials_until_one_arrives() {
        let mut refused = Refused::default();
        for _ in 1..REFUSED {
            assert!(!refused.lost(at(0), &age(1), RTT));
        }
        let trials: Vec<u64> =
            (0..2_000).filter(|ms| !refused.lost(at(*ms), &age(1), RTT)).collect();
        assert_eq!(trials, [0, 10, 30, 70, 150, 310, 630, 1_270, 1_910]);
        let other = Age { slot: slot(Order::Ordered(8)), ..age(1) };
        assert!(!refused.lost(at(2_000), &other, RTT), "another flow is not");
        refused.arrived(&age(0));
        assert!(refused.lost(at(2_000), &age(0), RTT), "a first transmission says nothing");
        refused.arrived(&age(1));
        assert!(!refused.lost(at(2_000), &age(0), RTT));
    }
}
