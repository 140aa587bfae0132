//! The rules of the requester, one by one.

mod fetch;
mod switch_nak;
mod waiting;

use common::psn::Psn;
use common::wire::{Opcode, Qpn};

use super::*;
use crate::config::{ImpliedNak, SecondNak, lab_ip};
use crate::packet::Extension;

const QP: QpId = QpId(0);
const PMTU: u32 = 256;
const TIMEOUT: Span = Span::from_millis(1);

/// A requester on its own, and its completions.
struct Bench {
    requester: Requester,
    completions: VecDeque<Completion>,
    now: Time,
}

/// A sent packet, reduced.
type Sent = (Opcode, u32, bool);

impl Bench {
    /// PSNs from 0xfffffe: two packets later they wrap to 0.
    fn new(change: impl FnOnce(&mut QpConfig)) -> Self {
        let mut config = QpConfig::new(Qpn::new(1), Qpn::new(2), [2; 6], lab_ip(2));
        config.send_psn = Psn::new(0xff_fffe);
        config.pmtu = PMTU;
        config.window = 100;
        config.timeout = TIMEOUT;
        change(&mut config);
        Self {
            requester: Requester::new(QP, &config),
            completions: VecDeque::new(),
            now: Time::ZERO,
        }
    }

    fn post(&mut self, packets: u32) {
        let work = WorkRequest { kind: WorkKind::Write, len: packets * PMTU, id: 0 };
        self.requester.post(work, self.now).unwrap();
    }

    /// Has posted messages of so many packets, and sent all that may be sent.
    fn sent(mut self, messages: &[u32]) -> Self {
        for packets in messages {
            self.post(*packets);
        }
        self.send();
        self
    }

    /// Sends all that may be sent. PSNs are given relative to the first.
    fn send(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(packet) = self.requester.next_packet() {
            self.requester.sent(&packet, self.now);
            sent.push((packet.opcode, (packet.psn.get() + 2) % Psn::MODULUS, packet.ack_req));
        }
        sent
    }

    fn send_psns(&mut self) -> Vec<u32> {
        self.send().into_iter().map(|(_, psn, _)| psn).collect()
    }

    fn respond(&mut self, response: Response<'_>, psn: u32) {
        self.now += Span::from_micros(10);
        let psn = Psn::new(0xff_fffe).offset(psn);
        self.requester.on_response(response, psn, self.now, &mut self.completions);
    }

    fn ack(&mut self, psn: u32) {
        self.respond(Response::Ack { msn: 0 }, psn);
    }

    fn nak(&mut self, psn: u32) {
        self.respond(Response::Nak { msn: 0 }, psn);
    }

    fn time_out(&mut self) {
        self.now = self.requester.deadline().expect("the timer runs");
        self.requester.on_timer(self.now, &mut self.completions);
    }

    /// Indexes and statuses of completions since the last call.
    fn done(&mut self) -> Vec<(u64, Status)> {
        self.completions.drain(..).map(|c| (c.index, c.status)).collect()
    }
}

fn ok(indexes: impl IntoIterator<Item = u64>) -> Vec<(u64, Status)> {
    indexes.into_iter().map(|i| (i, Status::Ok)).collect()
}

#[test]
fn a_message_is_cut_into_packets() {
    let mut bench = Bench::new(|_| ());
    for (kind, len) in
        [(WorkKind::Write, 513), (WorkKind::Send, 512), (WorkKind::Send, 0), (WorkKind::Write, 256)]
    {
        bench.requester.post(WorkRequest { kind, len, id: 0 }, Time::ZERO).unwrap();
    }
    let mut packets = Vec::new();
    while let Some(packet) = bench.requester.next_packet() {
        bench.requester.sent(&packet, Time::ZERO);
        let payload = packet.payload.expect("a message has payload");
        let announced = match packet.extension {
            Extension::Reth(reth) => Some(reth.len),
            _ => None,
        };
        packets.push((packet.opcode, payload.offset, payload.len, announced));
    }
    assert_eq!(
        packets,
        [
            (Opcode::WRITE_FIRST, 0, 256, Some(513)),
            (Opcode::WRITE_MIDDLE, 256, 256, None),
            (Opcode::WRITE_LAST, 512, 1, None),
            (Opcode::SEND_FIRST, 0, 256, None),
            (Opcode::SEND_LAST, 256, 256, None),
            (Opcode::SEND_ONLY, 0, 0, None),
            (Opcode::WRITE_ONLY, 0, 256, Some(256)),
        ]
    );
}

#[test]
fn an_ack_is_asked_for_at_ends_at_intervals_and_at_the_window() {
    let asks = |window, every, packets: u32| {
        let mut bench = Bench::new(|c| {
            c.window = window;
            c.ack_req_every = every;
        });
        bench.post(packets);
        let sent = bench.send();
        sent.into_iter().filter(|(.., ask)| *ask).map(|(_, psn, _)| psn).collect::<Vec<_>>()
    };
    assert_eq!(asks(100, 66, 10), [9]);
    assert_eq!(asks(100, 4, 10), [3, 7, 9]);
    // The window is full before the interval is over.
    assert_eq!(asks(8, 66, 10), [7]);
    // The window is full, but a response is on its way.
    assert_eq!(asks(8, 5, 10), [4]);
}

#[test]
fn what_was_asked_before_going_back_is_asked_again() {
    let mut bench = Bench::new(|c| c.window = 4);
    bench.post(10);
    let asked = |sent: Vec<Sent>| sent.into_iter().map(|(.., ask)| ask).collect::<Vec<_>>();
    assert_eq!(asked(bench.send()), [false, false, false, true]);
    bench.time_out();
    assert_eq!(asked(bench.send()), [false, false, false, true]);
}

#[test]
fn the_window_bounds_what_is_unacknowledged() {
    let mut bench = Bench::new(|c| c.window = 3);
    bench.post(5);
    assert_eq!(bench.send_psns(), [0, 1, 2]);
    bench.ack(1);
    assert_eq!(bench.send_psns(), [3, 4]);
}

#[test]
fn acks_are_cumulative() {
    let mut bench = Bench::new(|_| ()).sent(&[1, 3, 2]);
    bench.ack(2);
    assert_eq!(bench.done(), ok([0]));
    bench.ack(5);
    assert_eq!(bench.done(), ok([1, 2]));
    assert_eq!(bench.requester.pending(), 0);
    assert_eq!(bench.requester.deadline(), None);
}

#[test]
fn a_nak_acknowledges_what_is_before_it_and_goes_back_to_it() {
    let mut bench = Bench::new(|_| ()).sent(&[2, 4]);
    bench.nak(3);
    assert_eq!(bench.done(), ok([0]));
    // In the middle of a message it goes on with a middle packet.
    let sent = bench.send();
    let expected = [
        (Opcode::WRITE_MIDDLE, 3, false),
        (Opcode::WRITE_MIDDLE, 4, false),
        (Opcode::WRITE_LAST, 5, true),
    ];
    assert_eq!(sent, expected);
    assert_eq!(bench.requester.stats.retransmitted, 3);
}

#[test]
fn a_second_nak_is_ignored_until_an_ack_makes_progress() {
    let mut bench = Bench::new(|_| ()).sent(&[20]);
    bench.nak(5);
    assert_eq!(bench.send_psns(), (5..20).collect::<Vec<_>>());
    // It moves the window, but does not go back.
    bench.nak(8);
    assert_eq!(bench.send_psns(), [0; 0]);
    assert_eq!(bench.requester.stats.naks_ignored, 1);
    // An ACK that says nothing new changes nothing.
    bench.ack(7);
    bench.nak(9);
    assert_eq!(bench.requester.stats.naks_ignored, 2);
    bench.ack(10);
    bench.nak(12);
    assert_eq!(bench.send_psns(), (12..20).collect::<Vec<_>>());
}

#[test]
fn a_nak_that_completes_a_message_is_progress() {
    let mut bench = Bench::new(|_| ()).sent(&[4, 4]);
    bench.nak(1);
    bench.send();
    bench.nak(5);
    assert_eq!(bench.done(), ok([0]));
    assert_eq!(bench.send_psns(), [5, 6, 7]);
    assert_eq!(bench.requester.stats.naks_ignored, 0);
}

#[test]
fn a_simulated_nic_obeys_every_nak() {
    let mut bench = Bench::new(|c| c.second_nak = SecondNak::Obey).sent(&[10]);
    for psn in [2, 2, 5] {
        bench.nak(psn);
        assert_eq!(bench.send_psns(), (psn..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_timeout_sends_everything_again() {
    let mut bench = Bench::new(|_| ()).sent(&[4]);
    bench.ack(1);
    assert_eq!(bench.requester.deadline(), Some(bench.now + TIMEOUT));
    bench.time_out();
    assert_eq!(bench.send_psns(), [2, 3]);
    // A NAK that was on its way is not obeyed again.
    bench.nak(2);
    assert_eq!(bench.send_psns(), [0; 0]);
}

#[test]
fn the_timer_starts_with_the_first_packet_and_anew_with_every_response() {
    let mut bench = Bench::new(|_| ());
    bench.post(8);
    assert_eq!(bench.requester.deadline(), None);
    let packet = bench.requester.next_packet().unwrap();
    bench.requester.sent(&packet, bench.now);
    let started = bench.now;
    bench.now += Span::from_micros(100);
    bench.send();
    assert_eq!(bench.requester.deadline(), Some(started + TIMEOUT));
    bench.ack(3);
    assert_eq!(bench.requester.deadline(), Some(bench.now + TIMEOUT));
    bench.ack(3); // stale
    assert_eq!(bench.requester.deadline(), Some(bench.now + TIMEOUT));
    assert_eq!(bench.requester.stats.stale, 1);
}

#[test]
fn retries_run_out() {
    let mut bench = Bench::new(|c| c.retry = RetryLimit::Count(2));
    bench.post(1);
    bench.post(1);
    for _ in 0..2 {
        bench.send();
        bench.time_out();
        assert_eq!(bench.done(), ok([]));
    }
    bench.send();
    bench.time_out();
    assert_eq!(bench.done(), [(0, Status::RetryExceeded), (1, Status::Flushed)]);
    assert_eq!(bench.requester.stats.failed, 2);
    assert_eq!(bench.requester.deadline(), None);
    let work = WorkRequest { kind: WorkKind::Send, len: 1, id: 0 };
    assert_eq!(bench.requester.post(work, bench.now), Err(PostError::QpInError));
}

#[test]
fn progress_gives_the_retries_back_and_an_ignored_nak_takes_none() {
    let mut bench = Bench::new(|c| c.retry = RetryLimit::Count(1)).sent(&[20]);
    for psn in [2, 5, 8] {
        bench.nak(psn);
        for _ in 0..5 {
            bench.nak(psn);
        }
        bench.send();
        bench.ack(psn);
    }
    assert_eq!(bench.done(), ok([]));
    // Without progress the second one is one too many.
    bench.nak(10);
    bench.send();
    bench.time_out();
    assert_eq!(bench.done(), [(0, Status::RetryExceeded)]);
}

#[test]
fn without_a_limit_it_goes_on() {
    let mut bench = Bench::new(|c| c.retry = RetryLimit::as_rxe(7));
    bench.post(1);
    for _ in 0..100 {
        assert_eq!(bench.send_psns(), [0]);
        bench.time_out();
    }
    assert_eq!(bench.requester.stats.timeouts, 100);
    assert_eq!(bench.done(), ok([]));
}

#[test]
fn an_ack_of_what_is_yet_to_be_sent_again_skips_it() {
    let mut bench = Bench::new(|_| ());
    for _ in 0..3 {
        bench.post(2);
    }
    bench.send();
    bench.time_out();
    for _ in 0..3 {
        let packet = bench.requester.next_packet().unwrap();
        bench.requester.sent(&packet, bench.now);
    }
    bench.ack(4);
    assert_eq!(bench.done(), ok([0, 1]));
    assert_eq!(bench.send(), [(Opcode::WRITE_LAST, 5, true)]);
}

#[test]
fn a_nak_of_what_is_yet_to_be_sent_again_skips_what_is_before_it() {
    let mut bench = Bench::new(|_| ()).sent(&[2, 3]);
    bench.time_out();
    bench.nak(3);
    assert_eq!(bench.done(), ok([0]));
    assert_eq!(bench.send(), [(Opcode::WRITE_MIDDLE, 3, false), (Opcode::WRITE_LAST, 4, true)]);
}

#[test]
fn responses_beyond_what_was_sent_are_counted_and_ignored() {
    let mut bench = Bench::new(|c| c.window = 2).sent(&[4]);
    bench.ack(2);
    bench.nak(2);
    bench.respond(Response::Refused(Status::RemoteAccess), 3);
    assert_eq!(bench.requester.stats.beyond_sent, 3);
    assert_eq!(bench.done(), ok([]));
    assert_eq!(bench.send_psns(), [0; 0]);
}

#[test]
fn a_refused_request_ends_the_qp_with_its_status() {
    let mut bench = Bench::new(|_| ());
    for _ in 0..3 {
        bench.post(1);
    }
    bench.send();
    bench.respond(Response::Refused(Status::RemoteAccess), 1);
    assert_eq!(bench.done(), [(0, Status::Ok), (1, Status::RemoteAccess), (2, Status::Flushed)]);
}

#[test]
fn round_trips_are_measured_on_packets_sent_once() {
    let mut bench = Bench::new(|_| ()).sent(&[1]);
    bench.ack(0);
    assert_eq!(bench.requester.stats.rtt.mean(), Some(Span::from_micros(10)));
    bench.post(1);
    bench.send();
    bench.time_out();
    bench.send();
    bench.ack(1);
    assert_eq!(bench.requester.stats.rtt.samples, 1);
}

#[test]
fn message_numbers_are_checked() {
    let mut bench = Bench::new(|_| ()).sent(&[1, 3, 2]);
    bench.respond(Response::Ack { msn: 1 }, 1);
    bench.respond(Response::Nak { msn: 2 }, 4);
    assert_eq!(bench.requester.stats.wrong_msn, 0);
    bench.respond(Response::Ack { msn: 3 }, 4);
    assert_eq!(bench.requester.stats.wrong_msn, 1);
    bench.respond(Response::Ack { msn: 3 }, 5);
    assert_eq!(bench.requester.stats.wrong_msn, 1);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut bench = Bench::new(|c| c.remote_region.len = 1000);
    let mut post = |kind, len| bench.requester.post(WorkRequest { kind, len, id: 0 }, Time::ZERO);
    assert_eq!(post(WorkKind::Send, MAX_MESSAGE + 1), Err(PostError::TooLong(MAX_MESSAGE + 1)));
    let outside = PostError::OutsideRegion { len: 1001, region: 1000 };
    assert_eq!(post(WorkKind::Write, 1001), Err(outside));
    assert_eq!(post(WorkKind::Write, 1000), Ok(0));
    assert_eq!(post(WorkKind::Send, 1001), Ok(1));
}
