//! When handles on frames that arrived are freed.

use crate::support::ends::{FIRST, Out, lane, ms, report, sender};
use common::time::{Span, Time};
use tunnel::{Flow, Order, Sender, SenderConfig};

/// `count` frames, all reported.
fn reported(count: u32) -> (SenderConfig, Sender<u32>, Out) {
    let (config, mut sender, mut out) = sender(1 << 12);
    for n in 0..count {
        sender.on_frame(&config, ms(0), lane(0), Flow::from(Order::Ordered(7)), n, &mut out);
    }
    assert!(sender.on_report(ms(10), &report(FIRST + count, &[]), &mut out));
    (config, sender, out)
}

/// R-TUN-51
#[test]
fn a_small_report_frees_at_once() {
    let (_, sender, out) = reported(64);
    assert_eq!((sender.kept(), out.released.len(), sender.deadline()), (0, 64, Time::NEVER));
}

/// R-TUN-51: nine for eight frames, the oldest first.
#[test]
fn a_large_report_frees_as_frames_are_sent() {
    let (config, mut sender, mut out) = reported(200);
    assert_eq!((sender.kept(), out.released.len()), (200, 0));
    for count in [1, 7, 32, 40] {
        for n in 0..count {
            sender.on_frame(&config, ms(10), lane(0), Flow::from(Order::Ordered(7)), n, &mut out);
        }
        sender.free_for(count as usize, &mut out);
    }
    assert_eq!(out.released, (0..90).collect::<Vec<_>>());
    assert_eq!(sender.kept(), 200 + 80 - 90);
    sender.free_for(1 << 10, &mut out);
    assert_eq!(out.released, (0..200).collect::<Vec<_>>(), "the others are not reported");
    assert!(sender.is_balanced());
}

/// R-TUN-51
#[test]
fn without_frames_all_are_freed_after_a_millisecond() {
    let (_, mut sender, mut out) = reported(200);
    let due = ms(10) + Span::from_millis(1);
    assert_eq!(sender.deadline(), due);
    sender.on_timer(due, &mut out);
    assert_eq!((sender.kept(), out.released.len(), sender.deadline()), (0, 200, Time::NEVER));
}

/// R-TUN-51: numbers between those that are to be freed and those in flight may be lost.
#[test]
fn a_lost_frame_is_sent_again_while_others_are_to_be_freed() {
    let (_, mut sender, mut out) = reported(0);
    let (config, ..) = reported(0);
    for n in 0..300 {
        sender.on_frame(&config, ms(0), lane(0), Flow::from(Order::Ordered(7)), n, &mut out);
    }
    sender.on_report(ms(10), &report(FIRST + 200, &[(FIRST + 150, 2)]), &mut out);
    assert_eq!((sender.counts().resent, sender.counts().lost, sender.kept()), (2, 2, 300));
    sender.on_report(ms(11), &report(FIRST + 301, &[(FIRST + 150, 2), (FIRST + 290, 1)]), &mut out);
    assert_eq!((sender.counts().resent, sender.counts().lost, sender.kept()), (3, 3, 300));
    sender.free(usize::MAX, &mut out);
    let expected: Vec<_> = (0..300).filter(|n| ![151, 290].contains(n)).collect();
    let mut released = out.released.clone();
    released.sort_unstable();
    assert_eq!(released, expected, "150 arrived as number 300");
    sender.end(&mut out);
    assert_eq!((sender.kept(), out.released.len()), (0, 300));
    assert!(sender.is_balanced());
}
