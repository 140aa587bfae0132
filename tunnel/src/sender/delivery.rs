//! How fast the path of a lane delivers frames.
//!
//! A port knows its own queue, and not those of the network behind it: a path may be slower than its port. It is, if the
//! delay of its PROBEs rises; then the frames that arrive say how fast it is. As with BBR, frames in flight beyond
//! what this rate and the shortest round trip explain wait in the network, and so will the next one.
//!
//! Only a lane that is busy all the time shows what its path can carry: that is, while every PROBE meets a queue. A box that was
//! not scheduled makes single PROBEs late, and the few frames of a lane that carries little say nothing about its path.

use common::time::{Span, Time};

use super::backlog::Backlog;
use crate::message::Echo;

/// Frames by which a rate is measured, at least.
const FRAMES_MIN: u32 = 8;
/// Part of a round trip over which it is measured where there is no queue. Behind one it is a whole round trip: a box that was
/// not scheduled for some milliseconds reports what came meanwhile at once, and the fastest of many short times is its burst.
const PART: u64 = 4;
/// PROBEs in a row that have to meet a queue, also where a round trip has fewer.
const MET_MIN: u8 = 3;
/// Round trips for which the fastest delivery counts.
const REMEMBERED: u64 = 16;
/// Time for which the shortest round trip and the shortest delay count, and a path's rate without a queue.
const SHORTEST: Span = Span::from_millis(5_000);
/// A delay that is longer than the shortest by this part of a round trip is that of a queue,
const QUEUE_PART: u64 = 16;
/// but by no less than this.
const QUEUE_MIN: Span = Span::from_micros(200);

/// The least value of this period and of the one before.
#[derive(Clone, Copy, Debug)]
struct Least<T> {
    now: Option<T>,
    before: Option<T>,
    since: Time,
}

impl<T> Default for Least<T> {
    fn default() -> Self {
        Self { now: None, before: None, since: Time::ZERO }
    }
}

impl<T: Copy + Ord> Least<T> {
    fn add(&mut self, value: T) {
        self.now = Some(self.now.map_or(value, |least| least.min(value)));
    }

    /// Begins another period if this one has lasted for so long.
    fn turn(&mut self, now: Time, period: Span) {
        if now >= self.since + period {
            *self = Self { now: None, before: self.now.or(self.before), since: now };
        }
    }

    fn get(&self) -> Option<T> {
        match (self.now, self.before) {
            (Some(now), Some(before)) => Some(now.min(before)),
            (now, before) => now.or(before),
        }
    }
}

/// The deliveries of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// When the rate was measured, and the frames that had arrived then.
    measured: Option<(Time, u32)>,
    /// Frames that came behind a queue, and the time that they took.
    behind: (Span, u64),
    /// Time from frame to frame in them, or since the first PROBE met a queue, until a whole round trip was measured: a first queue
    /// grows fast.
    early: Option<Span>,
    /// Time from frame to frame where they came fastest in a round trip, behind a queue.
    slot: Least<Span>,
    /// The same without one: the path may be faster.
    seen: Least<Span>,
    rtt: Least<Span>,
    /// Delay by the clocks of both boxes, in ns: only differences have a meaning.
    delay: Least<i64>,
    /// When a PROBE met a queue the last time.
    queued_at: Option<Time>,
    /// PROBEs in a row, the newest one among them, whose echoes say that they met a queue.
    met_queue: u8,
    /// Whether all did whose echoes came since `measured`.
    all_met_queue: bool,
    /// What [`excess`](Self::excess) needs: the time that a frame may take, and the time that needs no explanation.
    per_frame: Span,
    explained: Span,
    backlog: Backlog,
    /// PROBE of the newest echo.
    echo_of: Time,
}

impl Delivery {
    /// A round trip took so long.
    pub fn round_trip(&mut self, now: Time, rtt: Span) {
        self.rtt.turn(now, SHORTEST);
        self.rtt.add(rtt);
    }

    /// A PROBE is sent behind so many frames, modulo 2^32.
    pub fn on_probe(&mut self, now: Time, sent: u32) {
        self.backlog.on_probe(now, sent, self.per_queued());
    }

    /// Whether this echo is newer than those before: REPORTs repeat the newest one, and may overtake each other.
    pub fn is_news(&mut self, echo: &Echo) -> bool {
        let is_news = echo.sent_at > self.echo_of;
        self.echo_of = self.echo_of.max(echo.sent_at);
        is_news
    }

    /// The echo of a PROBE.
    pub fn on_echo(&mut self, now: Time, echo: &Echo) {
        let delay = echo.delay();
        self.delay.turn(now, SHORTEST);
        self.delay.add(delay);
        let least = self.delay.get().unwrap_or(delay);
        let rtt = self.rtt.get().unwrap_or_default();
        let queue = delay.saturating_sub(least).unsigned_abs();
        if queue > (rtt / QUEUE_PART).max(QUEUE_MIN).as_nanos() {
            self.met_queue = self.met_queue.saturating_add(1);
            self.queued_at = Some(now);
        } else {
            (self.met_queue, self.all_met_queue) = (0, false);
            if self.queued_at.is_some_and(|at| now >= at + SHORTEST) {
                (self.queued_at, self.early, self.slot) = (None, None, Least::default());
                self.reckon();
            }
        }
        self.backlog.on_echo(echo.sent_at, delay.saturating_sub(least));
    }

    /// A REPORT counts so many frames, modulo 2^32; REPORTs come in such an interval.
    pub fn arrived(&mut self, now: Time, frames: u32, interval: Span) {
        let Some(rtt) = self.rtt.get() else { return };
        let Some((at, before)) = self.measured else {
            self.measured = Some((now, frames));
            return;
        };
        let (time, count) = (now.since(at), frames.wrapping_sub(before));
        if count >= 1 << 31 || time < (rtt / PART).max(interval) {
            return;
        }
        self.measured = Some((now, frames));
        let all_met_queue = std::mem::replace(&mut self.all_met_queue, self.met_queue > 0);
        // After a longer time the lane was not used, or its REPORTs were lost: that says nothing about the path.
        let is_rest = time > rtt.max(interval) * 2;
        if all_met_queue && !is_rest {
            self.came_behind(now, time, count, rtt);
        } else {
            // There was no queue for a moment: the path could have taken more. A few late PROBEs must not leave a slow rate behind.
            (self.behind, self.early) = Default::default();
            if self.met_queue == 0 {
                self.came_without(now, time, count, rtt);
            } else if !is_rest && count >= FRAMES_MIN {
                self.early = Some(time / u64::from(count));
            }
        }
        self.explained = rtt + interval;
        self.reckon();
    }

    /// So many frames came behind a queue in this time.
    fn came_behind(&mut self, now: Time, time: Span, count: u32, rtt: Span) {
        let (time, count) = (self.behind.0 + time, self.behind.1 + u64::from(count));
        self.behind = (time, count);
        if count < u64::from(FRAMES_MIN) {
            return;
        }
        self.early = Some(time / count);
        if time >= rtt && self.met_queue >= MET_MIN {
            self.slot.turn(now, rtt * REMEMBERED);
            self.slot.add(time / count);
            self.behind = (time / 2, count / 2);
        }
    }

    /// So many frames came in this time as they were sent.
    fn came_without(&mut self, now: Time, time: Span, count: u32, rtt: Span) {
        if count >= FRAMES_MIN {
            self.seen.turn(now, rtt * REMEMBERED);
            self.seen.add(time / u64::from(count));
        }
    }

    /// A quarter more may be in flight, or a path that became faster would never be found; three times as
    /// much where there was no queue.
    fn reckon(&mut self) {
        let seen = self.seen.get().map_or(Span::ZERO, |seen| seen / 3);
        self.per_frame = self.behind_queue().map_or(seen, |slot| slot * 4 / 5);
    }

    /// The time that a frame adds to a queue, without the quarter: echoes correct what is predicted; zero for a path that had none lately, and may be much faster than it was used.
    fn per_queued(&self) -> Span {
        self.behind_queue().unwrap_or_default()
    }

    /// Time from frame to frame behind a queue, if there was one.
    fn behind_queue(&self) -> Option<Span> {
        self.slot.get().or(self.early)
    }

    /// Whether frames have waited in the network lately.
    pub const fn is_queued(&self) -> bool {
        self.queued_at.is_some()
    }

    /// The delay of the path without a queue, by the clocks of both boxes, in ns: only differences between lanes have a meaning.
    /// `None` until a PROBE has come back. R-TUN-33
    pub fn base(&self) -> Option<i64> {
        self.delay.get()
    }

    /// How long the next frame will wait in the network. `sent` frames were sent so far, modulo 2^32, and `in_flight` of
    /// them are not reported. R-TUN-35
    pub fn wait(&self, now: Time, sent: u32, in_flight: usize) -> Span {
        self.backlog.wait(now, sent, self.per_queued()).max(self.excess(in_flight))
    }

    /// The least time that a frame behind `in_flight` others will wait in the network; zero while that is not known. It grows
    /// when a path goes silent, before the lane is suspected.
    #[inline]
    fn excess(&self, in_flight: usize) -> Span {
        let needed = self.per_frame * in_flight as u64;
        Span::from_nanos(needed.as_nanos().saturating_sub(self.explained.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000) + MS * ms
    }

    /// The echo of a PROBE that was sent at `ms` and took `delay` ns; the receiver's clock is 12 ms behind.
    fn echo(ms: u64, delay: Span) -> Echo {
        let sent_at = at(ms);
        Echo { sent_at, arrived_at: Time::from_nanos((sent_at + delay).as_nanos() - 12_000_000) }
    }

    /// 10 ms, and 100 frames in each of them; PROBEs meet a queue, or none.
    fn steady(queue: Span) -> Delivery {
        let mut delivery = Delivery::default();
        delivery.round_trip(at(0), MS * 10);
        delivery.on_echo(at(0), &echo(0, MS * 5));
        for ms in 0..200 {
            delivery.on_echo(at(ms), &echo(ms, MS * 5 + queue));
            delivery.arrived(at(ms), 100 * ms as u32, MS);
        }
        delivery
    }

    #[test]
    fn what_fits_the_path_does_not_wait() {
        let delivery = steady(MS);
        assert_eq!(delivery.excess(1_100), Span::ZERO);
        // A quarter more than fits into 11 ms is taken for a faster path; behind that, 100 frames take 0.8 ms.
        assert_eq!(delivery.excess(1_375), Span::ZERO);
        assert_eq!(delivery.excess(1_475), Span::from_micros(800));
    }

    #[test]
    fn without_a_queue_the_path_may_be_faster() {
        assert_eq!(steady(Span::ZERO).excess(3_300), Span::ZERO);
        assert!(steady(Span::ZERO).excess(3_700) > MS);
        let mut delivery = steady(MS);
        assert!(delivery.excess(2_000) > Span::ZERO);
        delivery.on_echo(at(5_300), &echo(5_300, MS * 5));
        assert_eq!(delivery.excess(2_000), Span::ZERO, "the queue is long gone");
    }

    #[test]
    fn delays_are_compared_whatever_the_clocks_say() {
        let mut lanes = [Delivery::default(); 3];
        for (lane, delay) in lanes.iter_mut().zip([6, 5, 7]) {
            assert_eq!(lane.base(), None);
            assert!(lane.is_news(&echo(0, MS * delay)));
            lane.on_echo(at(20), &echo(0, MS * delay));
        }
        let delays = lanes.map(|lane| lane.base().expect("measured"));
        assert_eq!(delays, [-6_000_000, -7_000_000, -5_000_000]);
        // The same echo again says nothing new; an older one neither.
        assert!(!lanes[0].is_news(&echo(0, MS * 90)));
        let older = Echo { sent_at: Time::from_nanos(5), arrived_at: at(90) };
        assert!(!lanes[0].is_news(&older));
    }

    #[test]
    fn a_queue_is_predicted_from_the_frames_sent_since() {
        let mut delivery = steady(MS);
        delivery.on_probe(at(200), 20_000);
        // A frame takes 10 µs.
        assert_eq!(delivery.wait(at(200), 21_000, 0), MS * 10);
        assert_eq!(delivery.wait(at(203), 21_000, 0), MS * 7, "the path goes on meanwhile");
    }

    #[test]
    fn nothing_is_known_without_deliveries() {
        let mut delivery = Delivery::default();
        delivery.arrived(at(0), 5, MS);
        assert_eq!(delivery.excess(1 << 20), Span::ZERO);
        delivery.round_trip(at(0), MS * 10);
        delivery.arrived(at(5), 6, MS);
        delivery.arrived(at(10), 7, MS);
        assert_eq!(delivery.excess(1 << 20), Span::ZERO, "a few frames say nothing");
    }

    /// R-TUN-35: over a quarter of a round trip at least, whatever comes at once, and whatever came late.
    #[test]
    fn a_burst_says_nothing_about_the_rate() {
        let mut delivery = Delivery::default();
        delivery.round_trip(at(0), MS * 10);
        delivery.arrived(at(0), 0, MS);
        delivery.arrived(at(1), 100, MS);
        assert_eq!(delivery.excess(1 << 20), Span::ZERO, "nothing is measured yet");
        let explained = MS * 11;
        // 100 frames in 4 ms; without a queue three times as many may come.
        delivery.arrived(at(4), 100, MS);
        assert_eq!(delivery.excess(3_000) + explained, Span::from_nanos(13_333 * 3_000));
        // An older REPORT, and one of four intervals.
        delivery.arrived(at(8), 60, MS);
        delivery.arrived(at(9), 600, MS);
        assert_eq!(delivery.excess(6_000) + explained, Span::from_nanos(3_333 * 6_000));
    }

    /// Boxes share their cores: 100 frames in each 10 ms, of which 4 ms bring nothing, and the ms after them brings 50.
    #[test]
    fn a_box_that_is_not_scheduled_for_a_while_makes_no_path_faster() {
        let (mut delivery, mut count) = (Delivery::default(), 0);
        delivery.round_trip(at(0), MS * 10);
        delivery.on_echo(at(0), &echo(0, MS * 5));
        for ms in 0..400 {
            delivery.on_echo(at(ms), &echo(ms, MS * 6));
            count += [10, 10, 10, 10, 10, 0, 0, 0, 0, 50][ms as usize % 10];
            delivery.arrived(at(ms), count, MS);
        }
        let slot = delivery.per_queued();
        assert!(Span::from_micros(80) <= slot && slot <= Span::from_micros(105), "{slot:?}");
    }

    /// R-TUN-35: other lanes are shorter, so that this one gets a frame in each ms, and a box that was not scheduled makes every
    /// third PROBE late.
    #[test]
    fn a_path_that_is_used_less_is_not_taken_for_a_slower_one() {
        let mut delivery = steady(MS);
        for ms in 200..4_000 {
            let late = if ms % 3 == 0 { MS * 2 } else { Span::ZERO };
            delivery.on_echo(at(ms), &echo(ms, MS * 5 + late));
            delivery.arrived(at(ms), 20_000 + (ms - 200) as u32, MS);
        }
        assert_eq!(delivery.per_queued(), Span::from_micros(10));
    }

    #[test]
    fn a_rest_is_not_taken_for_a_slow_path() {
        let mut delivery = steady(Span::ZERO);
        // The last PROBE before the rest is late; a second later 32 frames come at once.
        delivery.on_echo(at(201), &echo(201, MS * 7));
        delivery.arrived(at(201), 20_000, MS);
        delivery.arrived(at(1_200), 20_032, MS);
        assert_eq!(delivery.behind_queue(), None);
    }

    /// A lane has carried little; nine frames come in one and a half round trips, and only the PROBE behind them is late.
    #[test]
    fn a_late_probe_at_the_end_of_a_long_interval_leaves_no_rate_behind() {
        let mut delivery = steady(Span::ZERO);
        delivery.on_echo(at(214), &echo(214, MS * 7));
        delivery.arrived(at(214), 19_909, MS);
        assert_eq!(delivery.slot.get(), None);
        // The first guess is forgotten soon.
        delivery.on_echo(at(218), &echo(218, MS * 5));
        delivery.arrived(at(218), 19_909, MS);
        assert_eq!(delivery.behind_queue(), None);
    }

    /// The mean round trip, and with it the interval of REPORTs, is many times the shortest one.
    #[test]
    fn a_short_path_behind_a_deep_queue_is_measured() {
        let mut delivery = Delivery::default();
        delivery.round_trip(at(0), MS * 2 / 5);
        delivery.on_echo(at(0), &echo(0, MS / 4));
        for ms in 1..50 {
            delivery.on_echo(at(ms), &echo(ms, MS * 20));
            delivery.arrived(at(ms + 20), 100 * ms as u32, MS);
        }
        let slot = delivery.per_queued();
        assert!(Span::from_micros(10) <= slot && slot <= Span::from_micros(11), "{slot:?}");
    }

    #[test]
    fn a_round_trip_counts_only_if_every_probe_met_a_queue() {
        let mut delivery = steady(Span::ZERO);
        for ms in (200..=280).step_by(2) {
            let late = if ms % 10 == 0 { Span::ZERO } else { MS * 2 };
            delivery.on_echo(at(ms), &echo(ms, MS * 5 + late));
            delivery.arrived(at(ms), 19_900 + 5 * (ms - 200) as u32, MS);
        }
        assert_eq!(delivery.slot.get(), None);
    }

    #[test]
    fn a_path_that_became_slower_is_known_after_a_while() {
        let mut delivery = steady(MS);
        for ms in 0..400 {
            delivery.on_echo(at(200 + ms), &echo(200 + ms, MS * 7));
            delivery.arrived(at(200 + ms), 20_000 + 50 * ms as u32, MS);
        }
        assert!(delivery.excess(1_000) > MS * 4, "{:?}", delivery.excess(1_000));
    }
}
