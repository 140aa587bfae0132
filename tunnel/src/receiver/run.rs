//! Frames of a burst that arrive one behind the other on a lane: their shims are known before they are read.

use common::time::Time;

use super::{Deliver, Receiver, ReceiverConfig};
use crate::number::{Lane, Session};
use crate::shim::{self, Next, Order};

/// First transmissions of a lane, each the next one.
#[derive(Debug)]
pub(crate) struct Run {
    lane: Lane,
    next: Next,
    /// Nothing is missing there, and nothing waits on any lane.
    is_calm: bool,
    /// Frames to deliver at once so far.
    count: u64,
}

/// The place of a frame in a run.
pub(crate) enum Step {
    /// It is to be delivered at once.
    Deliver,
    /// It is the next one, and may have to wait.
    Ask(Order),
    /// It is something else.
    Other,
}

impl Run {
    /// Looks at the next frame.
    #[inline(always)]
    pub fn step<F>(&mut self, shim: &[u8; shim::LEN], receiver: &Receiver<F>) -> Step {
        if !self.next.is(shim) {
            return Step::Other;
        }
        let is_free = || {
            let (lane, before) = self.next.predecessor(shim);
            self.next.is_on_one_lane(shim)
                || usize::from(lane) < receiver.lanes.len()
                    && receiver.floors.is_before(lane, before)
        };
        if !self.is_calm || !is_free() {
            return Next::order(shim).map_or(Step::Other, Step::Ask);
        }
        self.next.number.0 = self.next.number.0.wrapping_add(1);
        self.count += 1;
        Step::Deliver
    }
}

impl<F> Receiver<F> {
    /// A run of frames on a lane; `None`, if there is no such lane. R-TUN-6
    #[inline]
    pub(crate) fn begin_run(&self, lane: Lane, session: Session) -> Option<Run> {
        let state = self.lanes.get(lane.index())?;
        let next = Next::new(lane, session, state.next.wire());
        let is_calm = state.is_calm() && self.waiting.is_empty();
        Some(Run { lane, next, is_calm, count: 0 })
    }

    /// The frames of a run were delivered. Returns how many there were.
    #[inline]
    pub(crate) fn end_run(&mut self, run: &Run) -> u64 {
        if run.count > 0 {
            let lane = &mut self.lanes[run.lane.index()];
            lane.counts.arrived += run.count;
            lane.counts.delivered += run.count;
            lane.next += run.count;
            lane.floor = lane.next;
            lane.has_news = true;
            self.floors.set(run.lane, lane.floor);
        }
        run.count
    }

    /// Takes the next frame of a lane, which may have to wait. The run goes on behind it. Returns how many frames the run had,
    /// with this one.
    #[inline]
    pub(crate) fn take_next<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        (run, order): (&mut Run, Order),
        frame: F,
        out: &mut D,
    ) -> u64 {
        let count = self.end_run(run) + 1;
        self.on_next(config, now, run.lane, order, frame, out);
        self.renew_run(run);
        count
    }

    /// The run goes on behind a frame that the lane has taken otherwise.
    #[inline]
    fn renew_run(&mut self, run: &mut Run) {
        let state = &self.lanes[run.lane.index()];
        self.floors.set(run.lane, state.floor);
        run.next.number = state.next.wire();
        (run.is_calm, run.count) = (state.is_calm() && self.waiting.is_empty(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Report;
    use crate::number::WireNumber;
    use crate::shim::{NO_LANE, Shim};
    use common::time::Span;
    use common::verdict::Tolerance;

    #[derive(Default)]
    struct Out {
        delivered: Vec<u32>,
        discarded: Vec<u32>,
    }

    impl Deliver<u32> for Out {
        fn deliver(&mut self, frame: u32) {
            self.delivered.push(frame);
        }

        fn discard(&mut self, frame: u32) {
            self.discarded.push(frame);
        }

        fn report(&mut self, _: Report) {}
    }

    fn config() -> ReceiverConfig {
        ReceiverConfig {
            lanes: 2,
            window: 99,
            waiting_max: 9,
            waiting_room: 9,
            give_up: Span::from_millis(100),
            report_interval: Span::from_millis(1),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        }
    }

    const SESSION: Session = Session::new(7);
    const NOW: Time = Time::from_nanos(1_000_000_000);

    fn lane(n: u8) -> Lane {
        Lane::new(n).expect("a lane")
    }

    fn shim(lane: Lane, number: u32) -> Shim {
        Shim {
            lane,
            number: WireNumber(number),
            session: SESSION,
            predecessor: None,
            original: None,
            is_kept: true,
            clear: 0,
        }
    }

    fn written(shim: &Shim) -> [u8; shim::LEN] {
        let mut bytes = [0; shim::LEN];
        shim.write(&mut bytes);
        bytes
    }

    /// R-TUN-6: behind a frame of another lane that is settled, or is not.
    #[test]
    fn a_frame_behind_a_settled_one_of_another_lane_is_in_the_run() {
        let (mut receiver, mut out) = (Receiver::new(&config(), SESSION), Out::default());
        receiver.on_frame(&config(), NOW, &shim(lane(1), 7), false, 7, &mut out);
        let mut run = receiver.begin_run(lane(0), SESSION).expect("a lane");
        for (number, before, is_delivered) in [(7, 7, true), (8, 8, false)] {
            let predecessor = Some((lane(1), WireNumber(before)));
            let bytes = written(&Shim { predecessor, ..shim(lane(0), number) });
            let step = run.step(&bytes, &receiver);
            assert_eq!(matches!(step, Step::Deliver), is_delivered);
            assert_eq!(matches!(step, Step::Ask(_)), !is_delivered);
        }
        assert_eq!(receiver.end_run(&run), 1);
    }

    /// R-TUN-4, R-TUN-6: a frame that was moved to another lane, where it is faster than on its own.
    #[test]
    fn a_frame_that_came_on_another_lane_is_in_no_run() {
        let (config, own, other) = (config(), lane(0), lane(1));
        let (mut receiver, mut out) = (Receiver::new(&config, SESSION), Out::default());
        // R-TUN-1: one that names no lane of its predecessor, but a number that is settled, is in none either.
        let contradictory = [0x20, 0, NO_LANE, 0, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 6];
        let mut run = receiver.begin_run(own, SESSION).expect("a lane");
        assert!(matches!(run.step(&contradictory, &receiver), Step::Other));
        let moved = Shim { original: Some((own, WireNumber(8))), ..shim(other, 7) };
        receiver.on_frame(&config, NOW, &moved, false, 8, &mut out);
        let mut run = receiver.begin_run(own, SESSION).expect("a lane");
        for number in 7..10 {
            match run.step(&written(&shim(own, number)), &receiver) {
                Step::Deliver => out.deliver(number),
                Step::Ask(order) => {
                    receiver.take_next(&config, NOW, (&mut run, order), number, &mut out);
                }
                Step::Other => panic!("{number} is the next one"),
            }
        }
        assert_eq!(receiver.end_run(&run), 1, "behind what had arrived it is calm again");
        assert_eq!((out.delivered, out.discarded), (vec![8, 7, 9], vec![8]));
        assert!(receiver.is_balanced());
    }
}
