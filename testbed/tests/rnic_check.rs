//! The checks of `lr2-check-rnic` on virtual time, with models of RNICs at both ends: one that behaves as Soft-RoCE and
//! hardware do, and some that do not.

mod rnic_model;

use common::time::Span;
use rnic::{AckCoalescing, SecondNak, WorkKind};
use rnic_model::{Deviation, Load, World};
use testbed::rnic_check::{Done, Name, Verdict};

const WRITES: Load = Load { kind: WorkKind::Write, len: 64 << 10, at_once: 4 };
const SENDS: Load = Load { kind: WorkKind::Send, len: 48 << 10, at_once: 8 };
const READS: Load = Load { kind: WorkKind::Read, len: 64 << 10, at_once: 4 };
const ATOMICS: Load = Load { kind: WorkKind::FetchAdd { add: 1 }, len: 8, at_once: 2 };

const NEED_READS: [Name; 2] = [Name::ControlAmongReads, Name::ReadResponse];

fn messages() -> Vec<Name> {
    let others = |name: &Name| !NEED_READS.contains(name) && *name != Name::AtomicResponse;
    Name::ALL.iter().copied().filter(others).collect()
}

/// The only result, with this verdict and these words.
fn only(world: &World, verdict: Verdict, parts: &[&str]) {
    let [done] = world.results() else { panic!("{:#?}", world.results()) };
    has(done, verdict, parts);
}

fn has(done: &Done, verdict: Verdict, parts: &[&str]) {
    assert_eq!(done.outcome.verdict, verdict, "{done:#?}");
    for part in parts {
        assert!(done.outcome.observed.contains(part), "no {part:?} in {done:#?}");
    }
}

#[test]
fn a_well_behaved_rnic_is_as_expected_in_all_that_messages_show() {
    for (load, seed) in [(WRITES, 0), (SENDS, 0xff_fff0), (WRITES, 0x7f_1234)] {
        let mut world = World::new(&messages(), load, |config| {
            config.send_psn = common::psn::Psn::new(seed);
            config.recv_psn = common::psn::Psn::new(seed);
        });
        world.run();
        assert_eq!(world.results().len(), messages().len());
        for done in world.results() {
            has(done, Verdict::AsExpected, &[]);
        }
        world.is_intact();
    }
}

#[test]
fn reads_are_asked_for_again_from_the_lost_packet_on() {
    let mut world = World::new(&NEED_READS, READS, |_| {});
    world.run();
    let [control, response] = world.results() else { panic!("{:#?}", world.results()) };
    has(control, Verdict::AsExpected, &["no NAK, and nothing sent again", "no ICMP"]);
    has(response, Verdict::AsExpected, &["from the lost packet on"]);
    world.is_intact();
}

#[test]
fn an_atomic_is_answered_with_the_value_that_was_lost() {
    let mut world = World::new(&[Name::AtomicResponse, Name::Alive], ATOMICS, |_| {});
    world.run();
    let [atomic, alive] = world.results() else { panic!("{:#?}", world.results()) };
    has(atomic, Verdict::AsExpected, &["not executed twice"]);
    has(alive, Verdict::AsExpected, &[]);
    world.is_intact();
}

#[test]
fn the_baseline_names_what_was_seen() {
    let mut world = World::new(&[Name::Baseline], WRITES, |_| {});
    world.run();
    let parts =
        ["path MTU 1024", "WRITE_MIDDLE", "no limit of credits", "the same UDP source port"];
    only(&world, Verdict::AsExpected, &parts);
}

#[test]
fn a_gap_has_one_nak_and_a_rewind_with_its_times() {
    let mut world = World::new(&[Name::Gap], WRITES, |_| {});
    world.run();
    only(&world, Verdict::AsExpected, &["1 NAK ", "went back", "discards what is behind"]);
}

#[test]
fn a_responder_that_repeats_its_nak_differs() {
    let mut world = World::new(&[Name::Gap], WRITES, |config| {
        config.re_nak = Some(Span::from_micros(2));
    });
    world.run();
    only(&world, Verdict::Differs, &["NAKs", "the second NAK came"]);
}

#[test]
fn a_responder_that_keeps_what_is_behind_a_gap_differs() {
    let mut world = World::new(&[Name::Gap], WRITES, |_| {});
    world.deviate(Deviation::KeepsBehindGaps);
    world.run();
    only(&world, Verdict::Differs, &["the responder keeps what is behind a gap"]);
    world.is_intact();
}

#[test]
fn a_requester_that_goes_back_too_far_differs() {
    for name in [Name::Gap, Name::Nak] {
        let mut world = World::new(&[name], WRITES, |_| {});
        world.deviate(Deviation::GoesBackTooFar);
        world.run();
        only(&world, Verdict::Differs, &[]);
        world.is_intact();
    }
}

#[test]
fn a_timeout_that_doubles_is_said() {
    let mut world = World::new(&[Name::Timeout], WRITES, |config| {
        config.adaptive_retransmission = true;
    });
    world.run();
    only(&world, Verdict::AsExpected, &["2.0 times as long"]);
    world.is_intact();
}

#[test]
fn traffic_that_ends_during_a_check_is_no_fault_of_the_rnics() {
    for name in [Name::Ack, Name::SwallowedAcks] {
        let mut world = World::new(&[name], WRITES, |_| {});
        world.end_traffic_after(2);
        world.run();
        let [done] = world.results() else { panic!("{:#?}", world.results()) };
        assert_ne!(done.outcome.verdict, Verdict::Differs, "{done:#?}");
        world.is_intact();
    }
}

#[test]
fn a_timeout_beyond_the_trial_is_not_tried() {
    let mut world = World::new(&[Name::Timeout], WRITES, |config| {
        config.timeout = Span::from_millis(9_000);
    });
    world.run();
    only(&world, Verdict::NotTried, &["nothing was sent again within 6"]);
}

#[test]
fn a_source_that_heeds_cnps_is_seen_to_slow_down() {
    let share = |dcqcn| {
        let mut world = World::new(&[Name::Cnp], WRITES, |config| config.dcqcn = dcqcn);
        world.run();
        only(&world, Verdict::AsExpected, &["Mbit/s before"]);
        let observed = &world.results()[0].outcome.observed;
        let share = observed.split(" %").next().and_then(|text| text.rsplit(' ').next());
        share.and_then(|text| text.parse::<u32>().ok()).expect("a share in per cent")
    };
    assert!((97..=103).contains(&share(None)));
    let slowed = share(Some(rnic::Dcqcn::DEFAULT));
    assert!(slowed < 60, "{slowed} %");
}

#[test]
fn queue_pairs_at_the_same_psns_are_not_mistaken_for_one_another() {
    let mut world = World::new(&[Name::Gap, Name::Nak, Name::Alive], WRITES, |_| {});
    world.twin();
    world.run();
    for done in world.results() {
        has(done, Verdict::NotTried, &["no such traffic"]);
    }
    world.is_intact();
}

#[test]
fn queue_pairs_whose_numbers_are_used_again_are_new_ones() {
    // Far from the PSNs before, and a little before the next one.
    for psn in [0x80_0000, 3] {
        let mut world = World::new(&[Name::Gap, Name::Held, Name::Alive], WRITES, |_| {});
        world.run_until_ended(1);
        world.use_again(psn);
        world.run();
        assert_eq!(world.results().len(), 3);
        for done in world.results() {
            has(done, Verdict::AsExpected, &[]);
        }
        world.is_intact();
    }
}

#[test]
fn who_says_that_no_traffic_will_come_does_not_wait() {
    let mut world = World::new(&NEED_READS, WRITES, |_| {});
    world.stop_waiting();
    world.run();
    for done in world.results() {
        has(done, Verdict::NotTried, &["no such traffic"]);
        assert!(done.began < Span::from_millis(100), "{done:#?}");
    }
}

#[test]
fn a_requester_that_ignores_our_nak_differs() {
    let mut world = World::new(&[Name::Nak], WRITES, |_| {});
    world.deviate(Deviation::IgnoresNaks);
    world.run();
    only(&world, Verdict::Differs, &["a timeout"]);
    world.is_intact();
}

#[test]
fn a_requester_that_ignores_our_acks_differs() {
    let mut world = World::new(&[Name::Ack], WRITES, |_| {});
    world.deviate(Deviation::IgnoresOurAcks);
    world.run();
    only(&world, Verdict::Differs, &["sent again"]);
    world.is_intact();
}

#[test]
fn a_requester_that_repeats_at_an_old_ack_differs() {
    let mut world = World::new(&[Name::OldAck], WRITES, |_| {});
    world.deviate(Deviation::RepeatsAtOldAcks);
    world.run();
    only(&world, Verdict::Differs, &["sent again"]);
    world.is_intact();
}

#[test]
fn rnics_that_compute_another_icrc_differ() {
    for (name, part) in
        [(Name::Baseline, "ICRC is not the one computed here"), (Name::AckRequest, "ICRC")]
    {
        let mut world = World::new(&[name], WRITES, |_| {});
        world.deviate(Deviation::OtherIcrc);
        world.run();
        only(&world, Verdict::Differs, &[part]);
        world.is_intact();
    }
}

#[test]
fn our_nak_is_compared_with_the_responders() {
    let mut world = World::new(&[Name::Nak], WRITES, |config| config.tos = 0x68);
    world.run();
    only(&world, Verdict::AsExpected, &["went back"]);
}

#[test]
fn a_requester_that_goes_back_for_a_second_nak_differs() {
    let mut world =
        World::new(&[Name::SecondNak], WRITES, |config| config.second_nak = SecondNak::Obey);
    world.run();
    only(&world, Verdict::Differs, &["go back again"]);
}

#[test]
fn a_requester_whose_timeout_is_shorter_than_a_hold_differs() {
    let mut world =
        World::new(&[Name::Held], WRITES, |config| config.timeout = Span::from_millis(3));
    world.run();
    only(&world, Verdict::Differs, &["sent again"]);
    world.is_intact();
}

#[test]
fn a_responder_that_is_silent_about_a_duplicate_differs() {
    let mut world = World::new(&[Name::Duplicate], WRITES, |_| {});
    world.deviate(Deviation::DropsDuplicates);
    world.run();
    only(&world, Verdict::Differs, &["no response to the packet that came twice"]);
}

#[test]
fn a_responder_that_coalesces_for_longer_than_a_hold_does_not_answer_an_ack_request() {
    let mut world = World::new(&[Name::AckRequest], WRITES, |config| {
        config.ack_coalescing = AckCoalescing { packets: 8, delay: Span::from_millis(20) };
    });
    world.run();
    only(&world, Verdict::Differs, &["no response to the packet whose AckReq bit was set"]);
}

#[test]
fn an_rnic_that_answers_control_messages_differs() {
    for (load, name) in [(WRITES, Name::Control), (READS, Name::ControlAmongReads)] {
        let mut world = World::new(&[name], load, |_| {});
        world.deviate(Deviation::AnswersControl);
        world.run();
        only(&world, Verdict::Differs, &["NAK"]);
    }
}

#[test]
fn a_host_that_answers_control_messages_by_icmp_differs_and_one_that_answers_the_tunnel_does_not() {
    for (name, verdict) in [(Name::Control, Verdict::Differs), (Name::Tunnel, Verdict::AsExpected)]
    {
        let mut world = World::new(&[name], WRITES, |_| {});
        world.deviate(Deviation::AnswersByIcmp);
        world.run();
        only(&world, verdict, &["ICMP packets of the hosts"]);
    }
}

#[test]
fn a_requester_that_never_asks_again_for_lost_read_data_differs() {
    let mut world = World::new(&[Name::ReadResponse], READS, |_| {});
    world.deviate(Deviation::NeverAsksAgain);
    world.run();
    only(&world, Verdict::Differs, &["did not go on"]);
}

#[test]
fn a_requester_that_needs_every_ack_differs() {
    let mut world = World::new(&[Name::SwallowedAcks], WRITES, |_| {});
    world.deviate(Deviation::NeedsEveryAck);
    world.run();
    only(&world, Verdict::Differs, &["a newer one passed", "sent again"]);
    world.is_intact();
}

#[test]
fn a_responder_that_answers_frames_of_the_tunnel_differs() {
    let mut world = World::new(&[Name::Tunnel], WRITES, |_| {});
    world.deviate(Deviation::AnswersAll);
    world.run();
    only(&world, Verdict::Differs, &["tunnel frames", "of the responder"]);
    world.is_intact();
}

#[test]
fn a_requester_that_repeats_at_a_cnp_differs() {
    let mut world = World::new(&[Name::Cnp], WRITES, |_| {});
    world.deviate(Deviation::RepeatsAtCnps);
    world.run();
    only(&world, Verdict::Differs, &["Mbit/s before", "sent again"]);
    world.is_intact();
}

#[test]
fn a_requester_that_skips_the_oldest_packet_at_its_timeout_differs() {
    let mut world = World::new(&[Name::Timeout], WRITES, |_| {});
    world.deviate(Deviation::SkipsTheOldest);
    world.run();
    only(&world, Verdict::Differs, &["did not begin with the oldest packet"]);
    world.is_intact();
}

/// The requester has a wrong value then, so that the world is not intact.
#[test]
fn a_responder_that_executes_an_atomic_twice_differs() {
    let mut world = World::new(&[Name::AtomicResponse], ATOMICS, |_| {});
    world.deviate(Deviation::ExecutesTwice);
    world.run();
    only(&world, Verdict::Differs, &["the value is another one"]);
}

#[test]
fn a_queue_pair_that_is_dead_or_refuses_differs_in_the_end() {
    for (deviation, part) in
        [(Deviation::IsSilent, "did not go on"), (Deviation::RefusesForNothing, "NAKs")]
    {
        let mut world = World::new(&[Name::Baseline, Name::Alive], WRITES, |config| {
            config.retry = rnic::RetryLimit::Infinite;
        });
        world.run_until_ended(1);
        world.deviate(deviation);
        world.run();
        let [_, alive] = world.results() else { panic!("{:#?}", world.results()) };
        has(alive, Verdict::Differs, &[part]);
    }
}

/// One that dies while it is looked at is not alive, though packets were acknowledged before.
#[test]
fn a_queue_pair_that_dies_while_it_is_looked_at_differs() {
    let mut world = World::new(&[Name::Alive], WRITES, |config| {
        config.retry = rnic::RetryLimit::Infinite;
    });
    world.run_for(Span::from_millis(200));
    world.deviate(Deviation::IsSilent);
    world.run();
    only(&world, Verdict::Differs, &["did not go on"]);
}

#[test]
fn a_queue_pair_that_ends_at_a_gap_differs() {
    let mut world = World::new(&[Name::Gap, Name::Alive], WRITES, |config| {
        config.retry = rnic::RetryLimit::Count(0);
    });
    world.run();
    let [gap, alive] = world.results() else { panic!("{:#?}", world.results()) };
    has(gap, Verdict::Differs, &["did not go on"]);
    has(alive, Verdict::NotTried, &["no such traffic"]);
}

#[test]
fn without_traffic_nothing_is_tried() {
    let mut world = World::new(Name::ALL, Load { at_once: 0, ..WRITES }, |_| {});
    world.run();
    assert_eq!(world.results().len(), Name::ALL.len());
    for done in world.results() {
        has(done, Verdict::NotTried, &["no such traffic"]);
    }
}

#[test]
fn a_run_that_is_stopped_releases_what_it_holds() {
    for name in [Name::Held, Name::AckRequest] {
        let mut world = World::new(&[name, Name::Alive], WRITES, |_| {});
        world.run_until_held();
        world.stop();
        for ledger in world.ledgers() {
            assert_eq!((ledger.held, ledger.dropped), (0, 0), "{name:?}");
        }
        for done in world.results() {
            has(done, Verdict::NotTried, &["stopped"]);
        }
        world.is_intact();
    }
}

#[test]
fn frames_of_others_pass_as_they_are() {
    let mut world = World::new(&[Name::Gap], WRITES, |_| {});
    world.strangers_pass();
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whatever the traffic: each check has a verdict, none differs, and every byte arrives.
        #[test]
        fn a_well_behaved_rnic_never_differs(
            psn in 0..1_u32 << 24,
            len in 5_000..200_000_u32,
            at_once in 2..12_usize,
            delay in 1..400_u64,
            pmtu in prop::sample::select(vec![256_u32, 1024, 4096]),
            sends: bool,
        ) {
            let kind = if sends { WorkKind::Send } else { WorkKind::Write };
            let names = messages();
            let mut world = World::new(&names, Load { kind, len, at_once }, |config| {
                config.send_psn = common::psn::Psn::new(psn);
                config.recv_psn = common::psn::Psn::new(psn);
                config.pmtu = pmtu;
            });
            world.delay(Span::from_micros(delay));
            world.run();
            prop_assert_eq!(world.results().len(), names.len());
            for done in world.results() {
                prop_assert_ne!(done.outcome.verdict, Verdict::Differs, "{:#?}", done);
            }
            world.is_intact();
        }

        /// The same for READs.
        #[test]
        fn a_well_behaved_rnic_never_differs_in_reads(
            psn in 0..1_u32 << 24,
            len in 5_000..200_000_u32,
            at_once in 1..8_usize,
            delay in 1..400_u64,
        ) {
            let mut world = World::new(&NEED_READS, Load { len, at_once, ..READS }, |config| {
                config.send_psn = common::psn::Psn::new(psn);
                config.recv_psn = common::psn::Psn::new(psn);
            });
            world.delay(Span::from_micros(delay));
            world.run();
            for done in world.results() {
                prop_assert_ne!(done.outcome.verdict, Verdict::Differs, "{:#?}", done);
            }
            world.is_intact();
        }
    }
}
