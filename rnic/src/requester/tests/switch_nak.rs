//! The NAK of a switch, as the RNICs of LR2 as published know it.

use super::*;

fn knowing(change: impl FnOnce(&mut QpConfig)) -> Bench {
    Bench::new(|c| {
        c.knows_switch_nak = true;
        change(c);
    })
}

impl Bench {
    fn switch_nak(&mut self, psn: u32) {
        self.respond(Response::SwitchNak { msn: 0 }, psn);
    }

    /// Sent packets, each with whether it is marked as a repeat.
    fn send_bits(&mut self) -> Vec<(u32, bool)> {
        let mut sent = Vec::new();
        while let Some(packet) = self.requester.next_packet() {
            self.requester.sent(&packet, self.now);
            sent.push(((packet.psn.get() + 2) % Psn::MODULUS, packet.switch_bit));
        }
        sent
    }
}

#[test]
fn it_acknowledges_nothing_and_repeats_say_so() {
    let mut bench = knowing(|c| c.retry = RetryLimit::Count(0));
    bench.post(2);
    bench.post(2);
    bench.post(2);
    assert!(bench.send_bits().iter().all(|(_, repeat)| !repeat));
    bench.post(1);
    bench.switch_nak(3);
    // Two messages are before it, and neither is completed.
    assert_eq!(bench.done(), ok([]));
    assert_eq!(bench.send_bits(), [(3, true), (4, true), (5, true), (6, false)]);
    // It took no try, and earlier packets are still to be acknowledged.
    bench.ack(1);
    assert_eq!(bench.done(), ok([0]));
    bench.ack(6);
    assert_eq!(bench.done(), ok([1, 2, 3]));
    let stats = bench.requester.stats;
    assert_eq!((stats.naks, stats.switch_naks, stats.retransmitted), (1, 1, 3));
}

#[test]
fn what_a_switch_did_not_ask_for_is_no_repeat_of_its() {
    let mut bench = knowing(|_| ()).sent(&[4]);
    bench.switch_nak(2);
    assert_eq!(bench.send_bits(), [(2, true), (3, true)]);
    bench.nak(1);
    assert_eq!(bench.send_bits(), [(1, false), (2, false), (3, false)]);
}

#[test]
fn it_is_obeyed_while_another_nak_is() {
    let mut bench = knowing(|_| ()).sent(&[6]);
    bench.nak(2);
    assert_eq!(bench.send_psns(), [2, 3, 4, 5]);
    bench.switch_nak(4);
    assert_eq!(bench.send_psns(), [4, 5]);
    bench.switch_nak(3);
    assert_eq!(bench.send_psns(), [3, 4, 5]);
    // A second one of the destination is not, and neither is one for a PSN
    // that is next anyway.
    bench.nak(2);
    assert_eq!(bench.requester.stats.naks_ignored, 1);
    bench.switch_nak(3);
    bench.switch_nak(5);
    assert_eq!(bench.send_psns(), [3, 4, 5]);
}

#[test]
fn behind_and_beyond_it_does_nothing() {
    let mut bench = knowing(|_| ()).sent(&[4]);
    bench.ack(1);
    bench.switch_nak(1);
    bench.switch_nak(4);
    assert_eq!(bench.send_psns(), [0; 0]);
    assert_eq!((bench.requester.stats.stale, bench.requester.stats.beyond_sent), (1, 1));
}

#[test]
fn within_a_read_all_of_it_is_asked_for_again() {
    let mut bench = knowing(|c| c.max_rd_atomic = 1);
    bench.post(1);
    let read = WorkRequest { kind: WorkKind::Read, len: 3 * PMTU, id: 0 };
    bench.requester.post(read, bench.now).unwrap();
    bench.post(1);
    assert_eq!(bench.send_psns(), [0, 1, 4]);
    bench.switch_nak(2);
    // The place that the READ takes among those allowed is free again.
    assert_eq!(bench.send_psns(), [1, 4]);
    bench.switch_nak(4);
    assert_eq!(bench.send_psns(), [4]);
}

#[test]
fn others_take_it_for_a_nak() {
    let mut bench = Bench::new(|_| ()).sent(&[2, 2]);
    bench.switch_nak(3);
    assert_eq!(bench.done(), ok([0]));
    assert_eq!(bench.send_bits(), [(3, false)]);
    assert_eq!((bench.requester.stats.naks, bench.requester.stats.switch_naks), (1, 0));
}
