//! ACKs among other responses, frame by frame.

use crate::support::ends::{FIRST, Out, SESSION, Test, lane, ms, sender};
use common::time::Span;
use tunnel::shim::Shim;
use tunnel::spray::Policy;
use tunnel::{Order, Sender, SenderConfig, WireNumber};

/// R-TUN-24: an ACK is delivered at once if all before the newest response are settled; its successors wait for its
/// predecessor. One that a newer one has overtaken is dropped.
#[test]
fn an_ack_overtakes_acks_only() {
    let mut test = Test::new(1);
    let ack = |number: u32, clear: u8| {
        let shim = Test::shim(lane(0), FIRST + number, Some(FIRST + number - 1));
        Shim { clear, ..shim }
    };
    test.frame(ms(0), FIRST, None);
    // ACK 1 is lost, and response 0 lies before it.
    test.take(ms(0), ack(2, 1), 2);
    test.take(ms(0), ack(3, 2), 3);
    assert_eq!(test.delivered(), [FIRST, 2, 3]);
    assert_eq!((test.receiver.counts().overtook, test.receiver.waiting()), (2, 0));
    // Response 4 waits for all three, and so does ACK 5, which is behind it.
    test.frame(ms(0), FIRST + 4, Some(FIRST + 3));
    test.take(ms(0), ack(5, 0), 5);
    // The response lies among the numbers from 1 on.
    test.take(ms(0), ack(6, 1), 6);
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![], 3));
    test.take(ms(0), ack(3, 2), 3);
    assert_eq!(test.receiver.counts().duplicate, 1, "it was delivered already");
    let resent = Shim { original: Some((lane(0), WireNumber(FIRST + 1))), ..ack(7, 31) };
    let resent = Shim { predecessor: Some((lane(0), WireNumber(FIRST))), ..resent };
    test.take(ms(1), resent, 1);
    assert_eq!(test.delivered(), [FIRST + 4, 5, 6]);
    assert_eq!((test.receiver.counts().superseded, test.out.discarded.pop()), (1, Some(1)));
    assert_eq!(test.receiver.waiting(), 0);
    assert!(test.receiver.is_balanced());
}

/// R-TUN-24: and its successors still wait for its predecessor.
#[test]
fn an_ack_behind_a_newer_one_is_dropped() {
    let mut test = Test::new(1);
    let ack = |number: u32| Shim {
        clear: 31,
        ..Test::shim(lane(0), FIRST + number, Some(FIRST + number - 1))
    };
    let again = |number: u32, of: u32| Shim {
        original: Some((lane(0), WireNumber(FIRST + of))),
        number: WireNumber(FIRST + number),
        ..ack(of)
    };
    // ACKs 1 and 2 are lost, and frame 4 waits for both.
    test.frame(ms(0), FIRST, None);
    test.take(ms(0), ack(3), 3);
    test.frame(ms(0), FIRST + 4, Some(FIRST + 3));
    test.take(ms(1), again(5, 2), 2);
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![FIRST, 3], 1));
    test.take(ms(1), again(6, 1), 1);
    assert_eq!((test.delivered(), test.receiver.counts().superseded), (vec![FIRST + 4], 2));
}

/// R-TUN-24: an ACK that arrived never waits for room.
#[test]
fn where_nobody_can_wait_an_ack_has_no_successors() {
    let mut test = Test::new(1);
    test.config.waiting_max = 1;
    let ack = |number, clear| Shim {
        clear,
        ..Test::shim(lane(0), FIRST + number, Some(FIRST + number - 1))
    };
    test.take(ms(0), ack(1, 31), 1);
    test.take(ms(0), ack(2, 31), 2);
    test.take(ms(0), ack(3, 31), 3);
    assert_eq!((test.delivered(), test.receiver.counts().given_up), (vec![1, 2, 3], 0));
    test.frame(ms(0), FIRST + 4, Some(FIRST + 3));
    assert_eq!(test.delivered(), [FIRST + 4]);
}

/// R-TUN-24: an ACK says how far the newest response of its bucket lies before it.
#[test]
fn an_ack_says_where_the_newest_response_is() {
    let (config, mut sender, mut out) = sender(99);
    let orders = [
        (Order::Ack(5), None, 31),
        (Order::Ordered(5), Some(0), 0),
        (Order::Ack(5), Some(1), 31),
        (Order::Response(5), Some(2), 0),
        (Order::Ack(5), Some(3), 0),
        (Order::Ack(5), Some(4), 1),
        (Order::Free, None, 0),
        (Order::Ack(6), None, 31),
        (Order::Ack(5), Some(5), 2),
        (Order::Response(6), Some(7), 0),
        (Order::Ack(5), Some(8), 2),
        (Order::Ack(5), Some(10), 3),
    ];
    for (frame, (order, ..)) in (0..).zip(orders) {
        sender.on_frame(&config, ms(0), lane(0), order.into(), frame, &mut out);
    }
    for ((shim, frame), (_, before, clear)) in out.sent.iter().zip(orders) {
        let predecessor = before.map(|before| (lane(0), WireNumber(FIRST + before)));
        assert_eq!((shim.predecessor, shim.clear), (predecessor, clear), "{frame}");
    }
}

/// R-TUN-24: nothing is known of a response on another lane.
#[test]
fn an_ack_does_not_overtake_what_travels_on_another_lane() {
    let config = SenderConfig {
        lanes: 2,
        rtt: Span::from_millis(10),
        cache_max: 99,
        give_up: Span::from_millis(400),
        ports: 1,
        spray: Policy::default(),
        resend_copies: 2,
    };
    let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
    for (of, order) in [(0, Order::Ack(5)), (0, Order::Response(5)), (1, Order::Ack(5))] {
        sender.on_frame(&config, ms(0), lane(of), order.into(), 1, &mut out);
    }
    let clear: Vec<_> = out.sent.iter().map(|(shim, _)| shim.clear).collect();
    assert_eq!(clear, [31, 0, 0]);
}
