//! Plans, announcements and the end of a plan.

use fec::{Outcome, Plan, factor};

use crate::lane::{Far, Near, Sent, frame};

fn plan(streams: u8, every: u8, windows: u8) -> Plan {
    Plan::new(streams, every, windows).unwrap()
}

/// So many frames, of which `is_lost` are, with all repair frames.
fn run(near: &mut Near, far: &mut Far, frames: u64, is_lost: impl Fn(u64) -> bool) {
    for number in near.next..near.next + frames {
        for sent in near.send(&frame(number, 30)) {
            if !matches!(sent, Sent::Frame(number) if is_lost(number)) {
                far.take(near, &sent);
            }
        }
    }
}

#[test]
fn a_plan_has_powers_of_two_within_bounds() {
    assert!(Plan::new(32, 128, 8).is_some() && Plan::new(1, 2, 1).is_some());
    for (streams, every, windows) in
        [(0, 8, 4), (3, 8, 4), (64, 8, 4), (1, 1, 4), (1, 24, 4), (1, 8, 0), (1, 8, 9)]
    {
        assert_eq!(Plan::new(streams, every, windows), None, "{streams} {every} {windows}");
    }
    assert_eq!((plan(8, 64, 4).window(), plan(8, 64, 4).span()), (256, 2048));
}

/// Another implementation computes these.
#[test]
fn factors_are_those_of_the_rule() {
    assert_eq!(
        [(0, 0), (0, 1), (7, 1), (7, 0x1_0000_0001), (0xffff, 0xffff_ffff)]
            .map(|(seed, number)| factor(seed, number)),
        [1, 109, 207, 207, 168]
    );
    let mut counts = [0_u32; 256];
    for number in 0..255_000 {
        counts[usize::from(factor(3, number))] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!(counts[1..].iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[test]
fn repair_frames_are_evenly_spread_over_the_streams() {
    for (streams, every) in [(1, 64), (8, 64), (32, 128), (32, 8)] {
        let mut near = Near::new(u64::from(u32::MAX) - 1000);
        near.start(plan(streams, every, 4));
        let mut gap = 0;
        for at in 0..20_000 {
            let repairs = near.send(&[1; 5]).len() - 1;
            gap += 1;
            if repairs > 0 {
                let most = u32::from(every) + 1;
                assert!(at < 200 || gap <= most, "{streams} {every}: {gap}");
                gap = 0;
            }
        }
    }
}

#[test]
fn a_repair_frame_is_the_sum_of_its_window() {
    let (mut near, plan) = (Near::new(1000), plan(4, 8, 2));
    near.start(plan);
    let mut repairs = 0;
    for number in 1000..1400 {
        for sent in near.send(&frame(number, (number % 40) as usize)) {
            let Sent::Repair(repair, bytes) = sent else { continue };
            let mut sum = vec![0; bytes.len()];
            for number in (0..u64::from(repair.count)).map(|at| repair.first + 4 * at) {
                let frame = &near.frames[&number];
                let len = u16::try_from(frame.len()).unwrap().to_be_bytes();
                for (sum, byte) in sum.iter_mut().zip(len.iter().chain(frame)) {
                    *sum ^= galois::mul(*byte, factor(repair.seed, number));
                }
            }
            assert_eq!(sum, bytes);
            assert!(repair.count <= plan.window());
            repairs += 1;
        }
    }
    assert!((46..=50).contains(&repairs), "{repairs}");
}

#[test]
fn a_decoder_begins_with_a_repair_frame_if_the_announcement_is_lost() {
    let (mut near, mut far) = (Near::new(5), Far::new(5));
    near.start(plan(1, 8, 4));
    run(&mut near, &mut far, 16, |_| false);
    assert_eq!(far.outcomes, [Outcome::Begun, Outcome::Useless]);
    assert_eq!(far.decoder.plan(), near.encoder.plan());
    // The first window of its own begins with number 13 or later, and ends with 47.
    run(&mut near, &mut far, 80, |number| number == 41 || number == 50);
    assert_eq!(far.decoded(), [41, 50]);
}

#[test]
fn a_plan_may_change_at_any_number() {
    let (mut near, mut far) = (Near::new(0), Far::new(0));
    for (round, plan) in
        [plan(1, 8, 4), plan(8, 4, 4), plan(2, 64, 2), plan(1, 8, 4)].into_iter().enumerate()
    {
        let announcement = near.start(plan);
        far.take(&near, &announcement);
        let lost = near.next + 7;
        run(&mut near, &mut far, 200 + round as u64, |number| number == lost);
        assert_eq!(far.decoded().last(), Some(&lost), "{plan:?}");
    }
}

#[test]
fn a_repair_frame_of_a_plan_that_is_over_changes_nothing() {
    let (mut near, mut far) = (Near::new(0), Far::new(0));
    let first = near.start(plan(1, 8, 4));
    far.take(&near, &first);
    run(&mut near, &mut far, 7, |_| false);
    let late = near.send(&[3]);
    let second = near.start(plan(2, 8, 4));
    far.take(&near, &second);
    for sent in &late[1..] {
        far.take(&near, sent);
    }
    far.take(&near, &first);
    assert_eq!(far.outcomes[2..], [Outcome::Useless, Outcome::Useless]);
    assert_eq!(far.decoder.plan(), near.encoder.plan());
}

#[test]
fn a_plan_ends_without_repair_frames() {
    let (mut near, mut far) = (Near::new(0), Far::new(0));
    let announcement = near.start(plan(1, 8, 4));
    far.take(&near, &announcement);
    run(&mut near, &mut far, 100, |_| false);
    near.encoder.stop();
    run(&mut near, &mut far, 120, |_| false);
    assert!(far.decoder.plan().is_some());
    run(&mut near, &mut far, 10, |_| false);
    assert_eq!(far.decoder.plan(), None);
}

#[test]
fn the_last_frames_are_covered_by_a_flush() {
    for streams in [1, 4] {
        let (mut near, mut far) = (Near::new(77), Far::new(77));
        let announcement = near.start(plan(streams, 64, 4));
        far.take(&near, &announcement);
        run(&mut near, &mut far, 101, |number| number == 177);
        assert_eq!(far.decoded(), [0; 0]);
        let repairs = near.flush();
        assert_eq!(repairs.len(), usize::from(streams));
        for sent in repairs {
            far.take(&near, &sent);
        }
        assert_eq!(far.decoded(), [177]);
        assert!(near.flush().is_empty());
        // A flush ends no window: later losses are decoded too.
        run(&mut near, &mut far, 300, |number| number == 190);
        assert_eq!(far.decoded(), [177, 190]);
    }
}

#[test]
fn a_number_is_hopeless_once_its_last_repair_frame_was_due() {
    for streams in [1, 2, 8] {
        let (mut near, mut far) = (Near::new(0), Far::new(0));
        let announcement = near.start(plan(streams, 8, 2));
        far.take(&near, &announcement);
        let (lost, mut newest) = (40, 0);
        for number in 0..400 {
            for sent in near.send(&frame(number, 9)) {
                match sent {
                    Sent::Frame(number) if number == lost => {}
                    Sent::Repair(repair, _)
                        if repair.first <= lost
                            && (lost - repair.first) % u64::from(streams) == 0 =>
                    {
                        // None of them arrives.
                        newest = number;
                    }
                    sent => far.take(&near, &sent),
                }
            }
            if number > lost {
                assert_eq!(
                    far.decoder.may_come(lost),
                    number <= near.encoder.plan().unwrap().last_chance(lost),
                    "{number}"
                );
            }
        }
        assert_eq!(near.encoder.plan().unwrap().last_chance(lost), newest);
    }
}

#[test]
fn a_number_that_is_left_out_is_in_no_sum_with_those_before() {
    let (mut near, mut far) = (Near::new(0), Far::new(0));
    let announcement = near.start(plan(1, 8, 4));
    far.take(&near, &announcement);
    run(&mut near, &mut far, 20, |_| false);
    // The receiver has this frame, and the sender's sums do not.
    near.frames.insert(20, frame(20, 30));
    near.next = 21;
    far.take(&near, &Sent::Frame(20));
    run(&mut near, &mut far, 100, |number| number == 22 || number == 70);
    assert_eq!(far.decoded(), [70]);
}

#[test]
fn both_ends_take_longer_frames_for_empty_ones() {
    let (mut near, mut far) = (Near::new(0), Far::new(0));
    near.encoder.limit(20);
    far.decoder.limit(20);
    let announcement = near.start(plan(1, 8, 4));
    far.take(&near, &announcement);
    for number in 0..64 {
        let len = if number % 3 == 0 { 21 } else { 20 };
        for sent in near.send(&frame(number, len)) {
            if !matches!(sent, Sent::Frame(40)) {
                far.take(&near, &sent);
            }
        }
    }
    assert_eq!(far.decoded(), [40]);
}
