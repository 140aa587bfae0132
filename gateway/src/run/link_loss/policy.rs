//! Decides which ports are taken down, by the links of both sides.

use std::time::{Duration, Instant};

use crate::config::LinkForward;

/// How long a link has to be lost before it counts: three looks. What is shorter is a glitch, which recovery bridges.
pub(super) const LOST: Duration = Duration::from_millis(40);
/// Time in which a port that was opened or released may come up. Until then that it is down is no failure. A port that has needed longer
/// is given twice the time that it needed.
const SETTLE: Duration = Duration::from_secs(5);
/// The most that any port is given.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// A side of the box: the LAN port, or all WAN ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The LAN port.
    Lan,
    /// All WAN ports.
    Wan,
}

const SIDES: [Side; 2] = [Side::Lan, Side::Wan];

impl Side {
    fn other(self) -> Self {
        SIDES[1 - self as usize]
    }
}

/// The links of a side, look by look.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// Whether it was up when it was last known.
    up: bool,
    /// Since when it is as it is.
    since: Instant,
    /// It was opened or released then, and not seen up since.
    released: Option<Instant>,
    /// How long it may take to come up.
    patience: Duration,
}

impl Link {
    fn opened(now: Instant) -> Self {
        Self { up: false, since: now, released: Some(now), patience: SETTLE }
    }

    fn see(&mut self, up: bool, now: Instant) {
        if self.up != up {
            (self.up, self.since) = (up, now);
        }
        if up && let Some(at) = self.released.take() {
            self.patience = (now.duration_since(at) * 2).clamp(SETTLE, SETTLE_MAX);
        }
    }

    /// Whether it is down for another reason than that it was opened or released of late.
    fn is_lost(&self, now: Instant) -> bool {
        let settles = self.released.is_some_and(|at| now.duration_since(at) < self.patience);
        !self.up && !settles && now.duration_since(self.since) >= LOST
    }
}

/// Decides which side is held down.
#[derive(Debug)]
pub(super) struct LinkLoss {
    mode: LinkForward,
    hold_down: Duration,
    held: Option<Side>,
    links: [Link; 2],
}

impl LinkLoss {
    /// No port is held down, and the ports were just opened. `hold_down`: how long a link has to be up again before the
    /// other port is released.
    pub(super) fn new(mode: LinkForward, hold_down: Duration, now: Instant) -> Self {
        Self { mode, hold_down, held: None, links: [Link::opened(now); 2] }
    }

    /// Whether links are to be looked at.
    pub(super) fn is_on(&self) -> bool {
        self.mode != LinkForward::Off
    }

    /// Whether the loss of the other side's links takes this side down.
    pub(super) fn holds(&self, side: Side) -> bool {
        match side {
            Side::Lan => self.mode != LinkForward::Off,
            Side::Wan => self.mode == LinkForward::On,
        }
    }

    /// Looks at the links: that of the LAN port, and whether one of the WAN ports' is up; `None` where that is not known this
    /// time. Returns the side that is to be down.
    pub(super) fn look(
        &mut self,
        lan: Option<bool>,
        wan: Option<bool>,
        now: Instant,
    ) -> Option<Side> {
        for (link, up) in self.links.iter_mut().zip([lan, wan]) {
            if let Some(up) = up {
                link.see(up, now);
            }
        }
        match self.held {
            None => {
                // Where both are lost there is nothing to pass on.
                let side = match self.links.map(|link| link.is_lost(now)) {
                    [false, true] => Side::Lan,
                    [true, false] => Side::Wan,
                    _ => return None,
                };
                if self.holds(side) {
                    self.held = Some(side);
                    // It is down by order from now on.
                    self.links[side as usize].released = None;
                }
            }
            Some(side) => {
                let cause = &self.links[side.other() as usize];
                if cause.up && now.duration_since(cause.since) >= self.hold_down {
                    self.held = None;
                    self.links[side as usize].released = Some(now);
                }
            }
        }
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(1);

    /// A policy, and the clock that its looks share.
    struct Bench {
        it: LinkLoss,
        start: Instant,
    }

    impl Bench {
        fn new(mode: LinkForward) -> Self {
            let start = Instant::now();
            Self { it: LinkLoss::new(mode, HOLD, start), start }
        }

        /// Both links were up at the start.
        fn both_up(mode: LinkForward) -> Self {
            let mut bench = Self::new(mode);
            assert_eq!(bench.look(0, true, true), None);
            bench
        }

        fn look(&mut self, ms: u64, lan: bool, wan: bool) -> Option<Side> {
            self.it.look(Some(lan), Some(wan), self.start + Duration::from_millis(ms))
        }
    }

    #[test]
    fn ports_take_a_while_to_come_up() {
        let mut bench = Bench::new(LinkForward::On);
        assert_eq!(bench.look(0, false, false), None);
        assert_eq!(bench.look(2_000, false, true), None);
        assert_eq!(bench.look(3_000, true, true), None);
        let mut bench = Bench::new(LinkForward::On);
        assert_eq!(bench.look(4_999, true, false), None);
        assert_eq!(bench.look(5_000, true, false), Some(Side::Lan));
    }

    #[test]
    fn a_glitch_and_a_link_that_is_not_known_take_nothing_down() {
        let mut bench = Bench::both_up(LinkForward::On);
        for (ms, wan) in
            [(20, false), (40, false), (59, false), (60, true), (80, false), (119, false)]
        {
            assert_eq!(bench.look(ms, true, wan), None, "{ms}");
        }
        let mut bench = Bench::both_up(LinkForward::On);
        for ms in 1..10 {
            let now = bench.start + Duration::from_secs(ms);
            assert_eq!(bench.it.look(Some(true), None, now), None);
            assert_eq!(bench.it.look(None, Some(true), now), None);
        }
    }

    #[test]
    fn a_lost_wan_takes_the_lan_down_and_releases_it_after_the_hold_down() {
        let mut bench = Bench::both_up(LinkForward::On);
        assert_eq!(bench.look(20, true, false), None);
        assert_eq!(bench.look(60, true, false), Some(Side::Lan));
        // Held down, the LAN is no cause.
        assert_eq!(bench.look(80, false, false), Some(Side::Lan));
        assert_eq!(bench.look(100, false, true), Some(Side::Lan));
        // It flaps: the time begins again.
        assert_eq!(bench.look(900, false, false), Some(Side::Lan));
        assert_eq!(bench.look(1_000, false, true), Some(Side::Lan));
        assert_eq!(bench.look(1_980, false, true), Some(Side::Lan));
        assert_eq!(bench.look(2_000, false, true), None);
        // Its cable takes a while.
        assert_eq!(bench.look(2_020, false, true), None);
        assert_eq!(bench.look(3_000, true, true), None);
        // Now it is a cause.
        assert_eq!(bench.look(3_020, false, true), None);
        assert_eq!(bench.look(3_060, false, true), Some(Side::Wan));
    }

    #[test]
    fn a_port_that_does_not_come_up_after_its_release_is_a_cause_in_the_end() {
        let mut bench = Bench::both_up(LinkForward::On);
        bench.look(0, true, false);
        assert_eq!(bench.look(40, true, false), Some(Side::Lan));
        bench.look(100, false, true);
        assert_eq!(bench.look(1_100, false, true), None);
        assert_eq!(bench.look(6_099, false, true), None);
        assert_eq!(bench.look(6_100, false, true), Some(Side::Wan));
    }

    #[test]
    fn the_mode_says_which_side_is_taken_down() {
        for (mode, lan, wan) in [
            (LinkForward::Off, None, None),
            (LinkForward::Lan, Some(Side::Lan), None),
            (LinkForward::On, Some(Side::Lan), Some(Side::Wan)),
        ] {
            for (links, expected) in
                [([true, false], lan), ([false, true], wan), ([false, false], None)]
            {
                let mut bench = Bench::both_up(mode);
                bench.look(20, links[0], links[1]);
                assert_eq!(bench.look(60, links[0], links[1]), expected, "{mode:?}");
            }
        }
    }

    /// Pseudo-random numbers.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    /// A cable, with the time that its link takes to come up.
    struct Cable {
        takes: u64,
        /// Since when nothing keeps it from coming up.
        since: Option<u64>,
    }

    impl Cable {
        fn is_up(&mut self, may: bool, step: u64) -> bool {
            self.since = self.since.filter(|_| may).or(may.then_some(step));
            self.since.is_some_and(|since| step >= since + self.takes)
        }
    }

    /// Two boxes, whose WAN ports see each other unless the link between them is cut, and whose hosts come and go. The links take
    /// up to 20 s to come up. Once all is mended, all ports are up again.
    #[test]
    fn two_boxes_never_keep_each_other_down() {
        for seed in 0..200u64 {
            let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut cables = [(); 3].map(|()| Cable { takes: chance.below(1_000), since: Some(0) });
            let start = Instant::now();
            let mut boxes = [0, 1].map(|_| LinkLoss::new(LinkForward::On, HOLD, start));
            let (mut hosts, mut link) = ([true; 2], true);
            const CHAOS: u64 = 5_000;
            for step in 0..CHAOS + 15_000 {
                if step < CHAOS {
                    for host in &mut hosts {
                        *host ^= chance.below(200) == 0;
                    }
                    link ^= chance.below(200) == 0;
                } else {
                    (hosts, link) = ([true; 2], true);
                }
                let held = [0, 1].map(|n: usize| boxes[n].held);
                let wan = cables[2].is_up(link && !held.contains(&Some(Side::Wan)), step);
                for (n, it) in boxes.iter_mut().enumerate() {
                    let lan = cables[n].is_up(hosts[n] && held[n] != Some(Side::Lan), step);
                    it.look(Some(lan), Some(wan), start + Duration::from_millis(20 * step));
                }
            }
            let takes = cables.map(|cable| cable.takes * 20);
            assert_eq!(
                [0, 1].map(|n: usize| boxes[n].held),
                [None; 2],
                "seed {seed}: {takes:?} ms"
            );
        }
    }
}
