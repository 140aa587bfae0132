//! Link-loss forwarding: a port whose counterpart has lost its link is taken down as well, so that what is
//! connected there sees the failure at once and takes another path.
//!
//! A port that was taken down for that reason says nothing about its cable: it is never a cause itself. So two boxes,
//! each of which watches the other through its WAN port, can't keep each other down.

use std::time::{Duration, Instant, SystemTime};

use dpdk_sys_wrapper::Port;

use crate::config::{Config, LinkForward};
use crate::control::State as Shared;
use crate::event::What;
use crate::port::PortId;

/// Time in which a port that was opened or released may come up. Until then that it is down is no failure.
const SETTLE: Duration = Duration::from_secs(5);

/// A side of the box: the LAN port, or all WAN ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The LAN port.
    Lan,
    /// All WAN ports.
    Wan,
}

/// What is to be done with all ports of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Take them down.
    Hold(Side),
    /// Let them come up again.
    Release(Side),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No port is held down.
    Free,
    /// A side is held down; the other side is up since.
    Held { side: Side, up_since: Option<Instant> },
}

/// Decides which ports are held down.
#[derive(Debug)]
pub(super) struct LinkLoss {
    mode: LinkForward,
    hold_down: Duration,
    state: State,
    /// Until then a side that is down is no failure, as it was opened or released and not seen up since.
    settling: [Option<Instant>; 2],
}

impl LinkLoss {
    /// No port is held down, and the ports were just opened. `hold_down`: how long a link has to be up again before the
    /// other port is released.
    pub(super) fn new(mode: LinkForward, hold_down: Duration, now: Instant) -> Self {
        Self { mode, hold_down, state: State::Free, settling: [Some(now + SETTLE); 2] }
    }

    /// Whether the loss of the other side's links takes this side down.
    pub(super) fn holds(&self, side: Side) -> bool {
        match side {
            Side::Lan => self.mode != LinkForward::Off,
            Side::Wan => self.mode == LinkForward::On,
        }
    }

    /// The side that is held down.
    pub(super) fn held(&self) -> Option<Side> {
        match self.state {
            State::Held { side, .. } => Some(side),
            State::Free => None,
        }
    }

    /// Looks at the links: that of the LAN port, and whether one of the WAN ports' is up.
    pub(super) fn look(&mut self, lan: bool, wan: bool, now: Instant) -> Option<Order> {
        let is_up = |side| if side == Side::Lan { lan } else { wan };
        for (until, side) in self.settling.iter_mut().zip([Side::Lan, Side::Wan]) {
            until.take_if(|until| is_up(side) || now >= *until);
        }
        match &mut self.state {
            State::Free => {
                let is_cause = |side| !is_up(side) && self.settling[side as usize].is_none();
                // Where both are down there is nothing to pass on.
                let side = match (is_cause(Side::Wan), is_cause(Side::Lan)) {
                    (true, false) => Side::Lan,
                    (false, true) => Side::Wan,
                    _ => return None,
                };
                if !self.holds(side) {
                    return None;
                }
                self.state = State::Held { side, up_since: None };
                Some(Order::Hold(side))
            }
            State::Held { side, up_since } => {
                let side = *side;
                let other = if side == Side::Lan { Side::Wan } else { Side::Lan };
                if !is_up(other) {
                    *up_since = None;
                    return None;
                }
                let since = *up_since.get_or_insert(now);
                (now.duration_since(since) >= self.hold_down).then(|| {
                    self.state = State::Free;
                    self.settling[side as usize] = Some(now + SETTLE);
                    Order::Release(side)
                })
            }
        }
    }
}

/// Takes ports down, and lets them come up.
pub(super) struct Forwarder<'p> {
    ports: &'p [Port],
    policy: LinkLoss,
}

impl<'p> Forwarder<'p> {
    /// Asks the drivers of the ports that may be taken down whether they can be, and says which can't.
    pub(super) fn new(config: &Config, ports: &'p [Port], state: &Shared) -> Self {
        let hold_down = Duration::from_nanos(config.link_loss.hold_down.as_nanos());
        let mode = config.link_loss.forward;
        for (id, port) in PortId::all(u8::MAX).zip(ports) {
            let is_asked = match mode {
                LinkForward::Off => false,
                LinkForward::Lan => id == PortId::LAN,
                LinkForward::On => true,
            };
            // An earlier gateway that was killed may have left it down.
            let answer = if is_asked { port.set_link(true) } else { continue };
            state.links.set_settable(id, answer.is_ok());
            if let Err(error) = answer {
                let other = if id == PortId::LAN { "WAN" } else { "LAN" };
                tracing::info!(
                    "port {}: it stays up when the {other} has no link (link_loss.forward): {error}",
                    id.name()
                );
            }
        }
        Self { ports, policy: LinkLoss::new(mode, hold_down, Instant::now()) }
    }

    /// Looks at the links, and takes down or releases ports. To be called every 20 ms.
    pub(super) fn look(&mut self, state: &Shared, now: Instant) {
        // Most drivers ask the NIC.
        if self.policy.mode == LinkForward::Off {
            return;
        }
        let mut up = self.ports.iter().map(|port| port.link().up);
        let lan = up.next().unwrap_or(true);
        match self.policy.look(lan, up.any(|up| up), now) {
            Some(Order::Hold(side)) => self.set(side, false, state),
            Some(Order::Release(side)) => self.set(side, true, state),
            None => {}
        }
    }

    /// Lets all ports come up: behind this process somebody else may use them.
    pub(super) fn end(&mut self, state: &Shared) {
        if let Some(side) = self.policy.held() {
            self.set(side, true, state);
        }
    }

    fn set(&self, side: Side, up: bool, state: &Shared) {
        for (id, port) in PortId::all(u8::MAX).zip(self.ports) {
            if (id == PortId::LAN) != (side == Side::Lan) || !state.links.is_settable(id) {
                continue;
            }
            if let Err(error) = port.set_link(up) {
                tracing::error!("port {}: {error}", id.name());
                continue;
            }
            state.links.set_held(id, !up);
            let port = id.name();
            let what = match (up, side) {
                (true, _) => What::LinkReleased { port },
                (false, Side::Lan) => What::LinkHeld { port, reason: "no WAN port has a link" },
                (false, Side::Wan) => What::LinkHeld { port, reason: "the LAN port has no link" },
            };
            state.events.note(Default::default(), SystemTime::now(), what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(1);

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Both links were up at the start.
    fn both_up(mode: LinkForward, start: Instant) -> LinkLoss {
        let mut it = LinkLoss::new(mode, HOLD, start);
        assert_eq!(it.look(true, true, start), None);
        it
    }

    #[test]
    fn ports_take_a_while_to_come_up() {
        let start = Instant::now();
        let mut it = LinkLoss::new(LinkForward::On, HOLD, start);
        assert_eq!(it.look(false, false, start), None);
        assert_eq!(it.look(false, true, at(start, 2_000)), None);
        assert_eq!(it.look(true, true, at(start, 3_000)), None);
        let mut it = LinkLoss::new(LinkForward::On, HOLD, start);
        assert_eq!(it.look(true, false, at(start, 4_999)), None);
        assert_eq!(it.look(true, false, at(start, 5_000)), Some(Order::Hold(Side::Lan)));
    }

    #[test]
    fn a_lost_wan_takes_the_lan_down_at_once_and_releases_it_after_the_hold_down() {
        let start = Instant::now();
        let mut it = both_up(LinkForward::On, start);
        assert_eq!(it.look(true, false, at(start, 20)), Some(Order::Hold(Side::Lan)));
        assert_eq!(it.held(), Some(Side::Lan));
        // Held down, the LAN is no cause.
        assert_eq!(it.look(false, false, at(start, 40)), None);
        assert_eq!(it.look(false, true, at(start, 100)), None);
        // It flaps: the time begins again.
        assert_eq!(it.look(false, false, at(start, 900)), None);
        assert_eq!(it.look(false, true, at(start, 1_000)), None);
        assert_eq!(it.look(false, true, at(start, 1_980)), None);
        assert_eq!(it.look(false, true, at(start, 2_000)), Some(Order::Release(Side::Lan)));
        // Its cable takes a while.
        assert_eq!(it.look(false, true, at(start, 2_020)), None);
        assert_eq!(it.look(true, true, at(start, 3_000)), None);
        // Now it is a cause.
        assert_eq!(it.look(false, true, at(start, 3_020)), Some(Order::Hold(Side::Wan)));
    }

    #[test]
    fn a_port_that_does_not_come_up_after_its_release_is_a_cause_in_the_end() {
        let start = Instant::now();
        let mut it = both_up(LinkForward::On, start);
        it.look(true, false, start);
        it.look(false, true, at(start, 100));
        assert_eq!(it.look(false, true, at(start, 1_100)), Some(Order::Release(Side::Lan)));
        assert_eq!(it.look(false, true, at(start, 6_000)), None);
        assert_eq!(it.look(false, true, at(start, 6_100)), Some(Order::Hold(Side::Wan)));
    }

    #[test]
    fn the_mode_says_which_side_is_taken_down() {
        let start = Instant::now();
        for (mode, lan, wan) in [
            (LinkForward::Off, None, None),
            (LinkForward::Lan, Some(Order::Hold(Side::Lan)), None),
            (LinkForward::On, Some(Order::Hold(Side::Lan)), Some(Order::Hold(Side::Wan))),
        ] {
            assert_eq!(both_up(mode, start).look(true, false, start), lan);
            assert_eq!(both_up(mode, start).look(false, true, start), wan);
            assert_eq!(both_up(mode, start).look(false, false, start), None);
        }
    }

    /// Two boxes, whose WAN ports see each other unless the link between them is cut, and whose hosts come and go. Once all
    /// is mended, all ports are up again.
    #[test]
    fn two_boxes_never_keep_each_other_down() {
        for seed in 0..200u64 {
            let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut chance = |n: u64| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word % n == 0
            };
            let start = Instant::now();
            let mut boxes = [0, 1].map(|_| LinkLoss::new(LinkForward::On, HOLD, start));
            let (mut hosts, mut link) = ([true; 2], true);
            for step in 0..2_000u64 {
                if step < 1_000 {
                    for host in &mut hosts {
                        *host ^= chance(40);
                    }
                    link ^= chance(40);
                } else {
                    (hosts, link) = ([true; 2], true);
                }
                let held = [0, 1].map(|n: usize| boxes[n].held());
                let wan = link && !held.contains(&Some(Side::Wan));
                for (n, it) in boxes.iter_mut().enumerate() {
                    let lan = hosts[n] && held[n] != Some(Side::Lan);
                    it.look(lan, wan, at(start, 20 * step));
                }
            }
            assert_eq!([0, 1].map(|n: usize| boxes[n].held()), [None; 2], "seed {seed}");
        }
    }
}
