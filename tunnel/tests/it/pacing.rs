//! Frames that were held behind a gap are delivered at the pace at which they came.

use crate::support::ends::{FIRST, Test, lane, ms};
use common::time::{Span, Time};
use tunnel::Number;
use tunnel::message::Skip;

/// Time between two frames of the flow.
const SPACING: Span = Span::from_micros(100);

/// Frame `n` of the flow arrives.
fn arrive(test: &mut Test, now: Time, n: u32) {
    test.frame(now, FIRST + n, n.checked_sub(1).map(|before| FIRST + before));
}

/// The first frame is late by 10 ms, in which 100 others of its flow come.
fn filled(waiting_max: usize) -> (Test, Time) {
    let mut test = Test::new(1);
    test.config.waiting_max = waiting_max;
    let mut now = ms(0);
    for n in 1..=100 {
        arrive(&mut test, now, n);
        now += SPACING;
    }
    assert_eq!(test.delivered(), []);
    arrive(&mut test, now, 0);
    (test, now)
}

/// R-TUN-40
#[test]
fn frames_behind_a_gap_keep_their_pace() {
    let (mut test, start) = filled(1_000);
    assert_eq!(test.delivered(), [FIRST, FIRST + 1]);
    let (mut now, mut next, mut came) = (start, 2, 100);
    // The flow goes on meanwhile.
    let mut arrives = start + SPACING;
    while test.receiver.waiting() > 0 {
        now = arrives.min(test.receiver.deadline(&test.config)).max(now);
        if now == arrives {
            (came, arrives) = (came + 1, arrives + SPACING);
            arrive(&mut test, now, came);
        }
        test.receiver.on_timer(&test.config, now, &mut test.out);
        let delivered = test.delivered();
        assert!(delivered.len() <= 2, "{delivered:?}: a burst");
        for frame in delivered {
            assert_eq!(frame, FIRST + next, "in order");
            next += 1;
        }
        assert!(now.since(start) < Span::from_millis(150), "it is late by {}", came + 1 - next);
    }
    // The lag of 10 ms shrinks by an eighth of the time.
    assert!(now.since(start) > Span::from_millis(60), "{:?}", now.since(start));
    arrive(&mut test, now, came + 1);
    assert_eq!(test.delivered(), [FIRST + came + 1], "it is late no longer");
}

/// R-TUN-40: and nothing is held for a gap that others need the room for.
#[test]
fn frames_behind_a_gap_are_delivered_at_once_if_room_is_scarce_or_nothing_is_paced() {
    let all: Vec<u32> = (FIRST..=FIRST + 100).collect();
    let (mut test, _) = filled(150);
    assert_eq!(test.delivered(), all[..=26], "until the room is half free");
    let mut test = Test::new(1);
    (test.config.is_paced, test.config.waiting_max) = (false, 1_000);
    (1..=100).for_each(|n| arrive(&mut test, ms(n.into()), n));
    arrive(&mut test, ms(101), 0);
    assert_eq!(test.delivered(), all);
}

/// R-TUN-40: frames behind a gap that is given up do not overtake those that are paced.
#[test]
fn a_gap_that_is_given_up_ends_pacing() {
    let (mut test, now) = filled(1_000);
    // Frame 101 is lost, and the next one comes.
    arrive(&mut test, now, 102);
    test.delivered();
    let ranges = [(Number::new(u64::from(FIRST) + 101).wire(), 1)].into_iter().collect();
    test.receiver.on_skip(now, &Skip { lane: lane(0), ranges }, &mut test.out);
    let expected: Vec<u32> = (FIRST + 2..=FIRST + 100).chain([FIRST + 102]).collect();
    assert_eq!(test.delivered(), expected);
    assert_eq!(test.receiver.waiting(), 0);
}

/// R-TUN-14, R-TUN-40
#[test]
fn the_end_of_a_session_ends_pacing() {
    let (mut test, now) = filled(1_000);
    test.receiver.end(now, &mut test.out);
    assert_eq!(test.delivered(), (FIRST..=FIRST + 100).collect::<Vec<_>>());
    assert_eq!(test.receiver.waiting(), 0);
}
