//! The whole direction on virtual time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use common::frame::{Frame, Pool};
use common::heap::{HeapFrame, HeapPool};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{self, Aeth, Bth, Headers, Opcode, Qpn, Vlans};
use proptest::prelude::*;

use super::*;

/// A frame of `len` bytes with its number.
fn numbered(number: u32, len: usize) -> HeapFrame {
    let mut bytes = vec![0; len.max(18)];
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

fn number_of(frame: &HeapFrame) -> u32 {
    let b = frame.bytes();
    u32::from_be_bytes([b[14], b[15], b[16], b[17]])
}

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_micros(n)
}

fn direction(config: DirectionConfig) -> Direction<HeapFrame> {
    Direction::new(config, 1, 0, Time::ZERO, 16).expect("valid")
}

/// A frame that is found when it arrives.
fn offer<P: Pool<Frame = HeapFrame>>(
    d: &mut Direction<HeapFrame>,
    frame: HeapFrame,
    now: Time,
    pool: &mut P,
) {
    d.offer(frame, now, now, pool);
}

fn assert_conserved(d: &Direction<HeapFrame>) {
    let c = d.counters();
    assert_eq!(
        c.offered.total().frames + c.duplicated,
        c.delivered.total().frames + c.lost.total() + c.held,
    );
}

/// Takes out due frames, each at its own time: (time, number).
fn drain(d: &mut Direction<HeapFrame>, until: Time) -> Vec<(Time, u32)> {
    let mut out = Vec::new();
    while d.next_due() <= until && d.next_due() != Time::NEVER {
        let at = d.next_due();
        let (frame, receipt) = d.pop_due(at).expect("due");
        assert_eq!(receipt.due, at);
        assert_conserved(d);
        d.delivered(receipt);
        out.push((at, number_of(&frame)));
    }
    assert_conserved(d);
    out
}

/// The numbers of due frames, in the order they are taken out.
fn numbers(d: &mut Direction<HeapFrame>, until: Time) -> Vec<u32> {
    drain(d, until).into_iter().map(|(_, n)| n).collect()
}

/// 1 Gbit/s: 1226 + 24 bytes take 10 us.
fn gigabit() -> DirectionConfig {
    DirectionConfig { rate: Some(1_000_000_000), ..DirectionConfig::default() }
}

#[test]
fn a_plain_wire_delivers_at_once_and_unchanged() {
    let mut d = direction(DirectionConfig::default());
    let frame = numbered(7, 100);
    offer(&mut d, frame.clone(), us(5), &mut HeapPool);
    let (out, receipt) = d.pop_due(us(5)).expect("at once");
    assert_eq!(out, frame);
    d.delivered(receipt);
    assert_eq!(d.next_due(), Time::NEVER);
}

#[test]
fn rate_and_delay_add_up() {
    let mut d = direction(DirectionConfig { delay: Span::from_millis(5), ..gigabit() });
    for n in 0..3 {
        offer(&mut d, numbered(n, 1226), us(100), &mut HeapPool);
    }
    assert_eq!(d.counters().queue_high_water_bytes, 3 * 1250);
    assert_eq!(drain(&mut d, us(9_999)), [(us(5_110), 0), (us(5_120), 1), (us(5_130), 2)]);
}

#[test]
fn a_frame_found_late_has_used_the_line_when_it_came_and_is_delayed_from_then_on() {
    let mut d = direction(DirectionConfig { delay: Span::from_millis(5), ..gigabit() });
    for (n, arrived) in [(0, us(0)), (1, us(20)), (2, us(40))] {
        d.offer(numbered(n, 1226), arrived, us(45), &mut HeapPool);
    }
    // Their last bits left at 10, 30 and 50 us.
    assert_eq!(drain(&mut d, us(9_999)), [(us(5_045), 0), (us(5_045), 1), (us(5_050), 2)]);
}

#[test]
fn a_full_queue_drops_the_tail() {
    let mut d = direction(DirectionConfig { queue: 2 * 1250, ..gigabit() });
    for n in 0..4 {
        offer(&mut d, numbered(n, 1226), us(0), &mut HeapPool);
    }
    offer(&mut d, numbered(4, 1226), us(10), &mut HeapPool);
    assert_eq!(numbers(&mut d, us(1_000)), [0, 1, 4]);
    assert_eq!(d.counters().lost.by(LossReason::Queue), 2);
}

#[test]
fn a_lost_frame_has_used_the_line() {
    let mut d = direction(DirectionConfig { drop: vec![1], ..gigabit() });
    offer(&mut d, numbered(0, 1226), us(0), &mut HeapPool);
    offer(&mut d, numbered(1, 1226), us(0), &mut HeapPool);
    assert_eq!(drain(&mut d, us(100)), [(us(20), 1)]);
    assert_eq!(d.counters().lost.by(LossReason::Listed), 1);
}

#[test]
fn an_outage_loses_what_leaves_within_it() {
    let ms = Span::from_millis;
    let config = DirectionConfig {
        outage: Some(Outage { start: ms(1), duration: ms(2), every: Some(ms(10)) }),
        ..DirectionConfig::default()
    };
    let mut d = Direction::new(config, 1, 0, us(500), 16).expect("valid");
    for n in 0..12 {
        offer(&mut d, numbered(n, 60), us(500) + ms(u64::from(n)), &mut HeapPool);
    }
    assert_eq!(numbers(&mut d, us(99_000)), [0, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(d.counters().lost.by(LossReason::Outage), 3);
}

#[test]
fn a_detour_is_overtaken_and_counted() {
    let config = DirectionConfig {
        reordering: Reordering { probability: 0.2, extra: Span::from_micros(50) },
        ..DirectionConfig::default()
    };
    let mut d = direction(config);
    for n in 0..1_000 {
        offer(&mut d, numbered(n, 60), us(u64::from(10 * n)), &mut HeapPool);
    }
    let out = drain(&mut d, us(99_000));
    let late = out.iter().filter(|&&(at, n)| at == us(u64::from(10 * n) + 50)).count() as u64;
    assert!((150..250).contains(&late), "{late}");
    // Hardly any detour ends with nothing regular in between to overtake it.
    assert!(d.counters().reordered > late * 9 / 10 && d.counters().reordered <= late);
    assert!(out.iter().any(|&(_, n)| n == 999));
    assert_eq!(out.len(), 1_000);
}

#[test]
fn a_copy_follows_its_original() {
    let config = DirectionConfig { duplication: 1.0, ..DirectionConfig::default() };
    let mut d = direction(config);
    offer(&mut d, numbered(0, 60), us(0), &mut HeapPool);
    offer(&mut d, numbered(1, 60), us(0), &mut HeapPool);
    assert_eq!(numbers(&mut d, us(1)), [0, 0, 1, 1]);
    assert_eq!((d.counters().duplicated, d.counters().reordered), (2, 0));
}

#[test]
fn without_memory_there_is_no_copy() {
    struct Dry;
    impl Pool for Dry {
        type Frame = HeapFrame;
        fn alloc(&mut self, _: usize) -> Option<HeapFrame> {
            None
        }
    }
    let config = DirectionConfig { duplication: 1.0, ..DirectionConfig::default() };
    let mut d = direction(config);
    offer(&mut d, numbered(0, 60), us(0), &mut Dry);
    assert_eq!(drain(&mut d, us(1)).len(), 1);
    assert_eq!((d.counters().duplicated, d.counters().not_duplicated), (0, 1));
}

#[test]
fn a_refused_frame_is_lost() {
    let mut d = direction(DirectionConfig::default());
    offer(&mut d, numbered(0, 60), us(0), &mut HeapPool);
    let (_, receipt) = d.pop_due(us(0)).expect("due");
    d.refused(receipt);
    assert_conserved(&d);
    assert_eq!(d.counters().lost.by(LossReason::Egress), 1);
}

#[test]
fn other_impairments_leave_the_loss_pattern_alone() {
    let survivors = |config: DirectionConfig| -> Vec<u32> {
        let mut d = direction(config);
        for n in 0..5_000 {
            offer(&mut d, numbered(n, 200), us(u64::from(n)), &mut HeapPool);
        }
        let mut out: Vec<u32> =
            drain(&mut d, us(1_000_000)).into_iter().map(|(_, n)| n & 0xffff).collect();
        out.sort_unstable();
        out.dedup();
        out
    };
    let loss = DirectionConfig { loss: LossModel::Bernoulli(0.1), ..DirectionConfig::default() };
    let busy = DirectionConfig {
        jitter: Span::from_micros(300),
        jitter_reorders: true,
        duplication: 0.3,
        reordering: Reordering { probability: 0.1, extra: Span::from_millis(1) },
        ..loss.clone()
    };
    let plain = survivors(loss);
    assert!((4_350..4_650).contains(&plain.len()));
    assert_eq!(plain, survivors(busy));
}

#[test]
fn wrong_values_are_all_named() {
    let config = DirectionConfig {
        rate: Some(0),
        duplication: 1.5,
        drop: vec![0],
        corruption: Corruption { bits: 9, ..Corruption::default() },
        loss: LossModel::Bernoulli(-0.1),
        outage: Some(Outage {
            start: Span::ZERO,
            duration: Span::from_millis(2),
            every: Some(Span::from_millis(1)),
        }),
        ..DirectionConfig::default()
    };
    assert_eq!(config.check().expect_err("all wrong").len(), 6);
}

fn headers(v6: bool) -> Headers {
    let (src, dst): (IpAddr, IpAddr) = if v6 {
        (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into())
    } else {
        (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into())
    };
    Headers::new([2; 6], [4; 6], Vlans::default(), src, dst, 50_000, 0, 64)
}

fn roce_frame(opcode: Opcode, v6: bool, payload: usize) -> HeapFrame {
    let headers = headers(v6);
    let mut bytes = vec![0; headers.frame_len(opcode.ext_len() + payload)];
    headers
        .emit(&Bth::new(opcode, Qpn::new(0x11), Psn::new(5)), &mut bytes, |body| body.fill(0xa5));
    bytes.into()
}

#[test]
fn frames_are_told_apart() {
    let kind = |opcode| FrameKind::of(roce_frame(opcode, false, 8).bytes());
    assert_eq!(kind(Opcode::SEND_MIDDLE), FrameKind::Request);
    assert_eq!(kind(Opcode::WRITE_FIRST), FrameKind::Request);
    assert_eq!(kind(Opcode::READ_REQUEST), FrameKind::Request);
    assert_eq!(kind(Opcode::ACK), FrameKind::Response);
    assert_eq!(kind(Opcode::READ_RESPONSE_ONLY), FrameKind::Response);
    assert_eq!(kind(Opcode(0xe1)), FrameKind::Control);
    assert_eq!(kind(Opcode(0x81)), FrameKind::Other);
    assert_eq!(FrameKind::of(&[0; 60]), FrameKind::Other);
}

#[test]
fn losses_are_counted_by_kind() {
    let config = DirectionConfig { drop: vec![1, 2, 3], ..DirectionConfig::default() };
    let mut d = direction(config);
    let mut ack = vec![0; headers(false).frame_len(Aeth::LEN)];
    let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: 1 };
    headers(false).emit_ack(Qpn::new(0x12), Psn::new(9), aeth, &mut ack);
    offer(&mut d, ack.into(), us(0), &mut HeapPool);
    offer(&mut d, roce_frame(Opcode::WRITE_MIDDLE, false, 1024), us(0), &mut HeapPool);
    offer(&mut d, roce_frame(Opcode(0xe1), false, 100), us(0), &mut HeapPool);
    let lost = &d.counters().lost;
    assert_eq!(FrameKind::ALL.map(|kind| lost.of(kind)), [1, 1, 1, 0]);
}

proptest! {
    #[test]
    fn a_corrupted_roce_frame_never_passes_for_intact(
        seed: u64, bits in 1u8..=3, v6: bool, ack: bool, payload in 0usize..1500,
    ) {
        let opcode = if ack { Opcode::ACK } else { Opcode::WRITE_MIDDLE };
        let sent = roce_frame(opcode, v6, if ack { 0 } else { payload });
        let config = DirectionConfig {
            corruption: Corruption { probability: 1.0, bits, scope: CorruptionScope::Protected },
            ..DirectionConfig::default()
        };
        let mut d = Direction::new(config, seed, 0, Time::ZERO, 1).expect("valid");
        offer(&mut d, sent.clone(), Time::ZERO, &mut HeapPool);
        let (got, _receipt) = d.pop_due(Time::ZERO).expect("due");
        let flipped: u32 =
            sent.bytes().iter().zip(got.bytes()).map(|(a, b)| (a ^ b).count_ones()).sum();
        prop_assert_eq!(flipped, u32::from(bits));
        prop_assert_eq!(&sent.bytes()[..14], &got.bytes()[..14]);
        if let Ok(roce) = wire::parse(got.bytes()) {
            prop_assert!(!wire::icrc_ok(got.bytes(), &roce));
        }
    }

    #[test]
    fn every_byte_can_be_hit_on_request(seed: u64) {
        let config = DirectionConfig {
            corruption: Corruption { probability: 1.0, bits: 8, scope: CorruptionScope::Every },
            ..DirectionConfig::default()
        };
        let mut d = Direction::new(config, seed, 0, Time::ZERO, 1).expect("valid");
        let mut hit = [false; 20];
        for _ in 0..400 {
            offer(&mut d, vec![0; 20].into(), Time::ZERO, &mut HeapPool);
            let (got, receipt) = d.pop_due(Time::ZERO).expect("due");
            d.delivered(receipt);
            for (at, byte) in got.bytes().iter().enumerate() {
                hit[at] |= *byte != 0;
            }
        }
        prop_assert_eq!(hit, [true; 20]);
    }
}

/// Any mixture of impairments.
fn any_config() -> impl Strategy<Value = DirectionConfig> {
    let span = |max: u64| (0..=max).prop_map(Span::from_micros);
    let chance = || prop_oneof![Just(0.0), 0.0..0.5];
    let loss = prop_oneof![
        Just(LossModel::None),
        (0.0..0.5).prop_map(LossModel::Bernoulli),
        (0.0..0.4, 1.0..9.0).prop_map(|(p, b)| LossModel::bursts(p, b).expect("possible")),
    ];
    let rate = prop::option::of(1_000_000u64..1_000_000_000);
    let queue = prop_oneof![Just(u64::MAX), 1_000u64..30_000];
    (
        (rate, queue, span(500), prop_oneof![Just(Span::ZERO), span(300)], any::<bool>(), loss),
        (prop::collection::vec(1u64..200, 0..4), chance(), span(400), chance(), chance()),
        prop::option::of((span(2_000), span(1_000))),
    )
        .prop_map(|(line, way, outage)| {
            let (rate, queue, delay, jitter, jitter_reorders, loss) = line;
            let (drop, detour, extra, duplication, corruption) = way;
            DirectionConfig {
                rate,
                queue,
                delay,
                jitter,
                jitter_reorders,
                loss,
                drop,
                reordering: Reordering { probability: detour, extra },
                duplication,
                corruption: Corruption { probability: corruption, ..Corruption::default() },
                outage: outage.map(|(start, duration)| Outage { start, duration, every: None }),
            }
        })
}

/// Frames to offer: gap to the one before in microseconds, length.
fn any_load() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((prop_oneof![Just(0), 0u64..100], 18usize..2_000), 1..200)
}

/// Everything that came out: (time, bytes).
type Output = Vec<(Time, Vec<u8>)>;

fn run(config: &DirectionConfig, seed: u64, load: &[(u64, usize)]) -> (Output, Counters) {
    let mut d = Direction::new(config.clone(), seed, 0, Time::ZERO, 1).expect("valid");
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    let mut take = |d: &mut Direction<HeapFrame>, until: Time| {
        while d.next_due() <= until && d.next_due() != Time::NEVER {
            let at = d.next_due();
            let (frame, receipt) = d.pop_due(at).expect("due");
            assert_conserved(d);
            d.delivered(receipt);
            out.push((at, frame.bytes().to_vec()));
        }
    };
    for (number, &(gap, len)) in load.iter().enumerate() {
        now += Span::from_micros(gap);
        take(&mut d, now);
        offer(&mut d, numbered(number as u32, len), now, &mut HeapPool);
        assert_conserved(&d);
    }
    take(&mut d, Time::from_nanos(u64::MAX - 1));
    assert_eq!((d.counters().held, d.next_due()), (0, Time::NEVER));
    (out, *d.counters())
}

proptest! {
    #[test]
    fn the_books_balance_and_a_seed_replays(
        config in any_config(), seed: u64, load in any_load(),
    ) {
        let first = run(&config, seed, &load);
        prop_assert_eq!(first.1.held, 0);
        prop_assert_eq!(first.1.delivered.total().frames, first.0.len() as u64);
        prop_assert_eq!(&first, &run(&config, seed, &load));
    }

    #[test]
    fn time_and_order_are_kept(config in any_config(), seed: u64, load in any_load()) {
        let config = DirectionConfig {
            jitter_reorders: false,
            reordering: Reordering::default(),
            corruption: Corruption::default(),
            ..config
        };
        let arrivals: Vec<Time> = load
            .iter()
            .scan(Time::ZERO, |now, &(gap, _)| {
                *now += Span::from_micros(gap);
                Some(*now)
            })
            .collect();
        let (out, counters) = run(&config, seed, &load);
        prop_assert_eq!(counters.reordered, 0);
        let numbers: Vec<u32> = out.iter().map(|(_, b)| number_of(&b.clone().into())).collect();
        prop_assert!(numbers.is_sorted());
        for ((at, bytes), &number) in out.iter().zip(&numbers) {
            let number = number as usize;
            prop_assert!(*at >= arrivals[number] + config.delay);
            prop_assert_eq!(bytes.len(), load[number].1.max(18));
        }
    }

    #[test]
    fn no_more_leaves_the_line_than_its_rate(
        rate in 1_000_000u64..10_000_000_000, load in any_load(),
    ) {
        let config = DirectionConfig { rate: Some(rate), ..DirectionConfig::default() };
        let (out, _) = run(&config, 0, &load);
        prop_assert_eq!(out.len(), load.len());
        for pair in out.windows(2) {
            let bits = 8 * wire_bytes(pair[1].1.len());
            let spent = pair[1].0.since(pair[0].0).as_nanos() as u128 + 1;
            prop_assert!(spent * u128::from(rate) >= u128::from(bits) * 1_000_000_000);
        }
    }
}
