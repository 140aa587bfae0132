//! The answer on links whose figures are known by hand.

use super::*;

fn question() -> Question {
    Question {
        rate_bps: 100_000_000_000,
        rtt: Span::from_millis(10),
        loss: 1e-3,
        burst: 1.0,
        pmtu: 4096,
        flows: 1,
        lan_rtt: Span::from_micros(20),
        window: None,
        timeout: None,
        workers: 1,
        descriptors: 1024,
        mtu: None,
    }
}

fn of(plan: &Plan, scheme: Scheme) -> Outlook {
    *plan.schemes.iter().find(|outlook| outlook.scheme == scheme).expect("in every answer")
}

fn warned(plan: &Plan, words: &str) -> bool {
    plan.warnings.iter().any(|warning| warning.contains(words))
}

#[test]
fn a_link_of_100_gbps_and_10_ms() {
    let plan = question().answer();
    // 4096 + 82 bytes take 334.24 ns.
    assert_eq!(plan.packets_in_flight.round(), 29_919.0);
    assert_eq!(plan.window_needed, 59_838, "two round trips");
    assert_eq!((question().good_exponent(), plan.timeout.as_micros()), (14, 67_108));
    let [gbn, lr2, cached] = [Scheme::GBN, Scheme::LR2, Scheme::CACHED].map(|s| of(&plan, s));
    // 1 / (1 + 29.9 + 8.5 · 0.2), and 1/(1-p) less.
    assert!((gbn.efficiency - 0.0306).abs() < 1e-4, "{}", gbn.efficiency);
    assert!((lr2.efficiency - 0.504).abs() < 1e-3, "{}", lr2.efficiency);
    // Two round trips don't cover repeats that are lost: 1 / (1/0.999 + p²W).
    assert!((cached.efficiency - 0.970).abs() < 1e-3, "{}", cached.efficiency);
    assert!((cached.goodput_bps / 1e9 - 95.1).abs() < 0.05, "{}", cached.goodput_bps);
    // One packet, a round trip.
    let lossless = of(&plan, Scheme::LOSSLESS);
    assert!((lossless.fct_s[0] - 0.010_001).abs() < 1e-6, "{:?}", lossless.fct_s);
    for (n, bytes) in MESSAGES.iter().enumerate() {
        let times = [lossless, cached, lr2, gbn].map(|outlook| outlook.fct_s[n]);
        assert!(times.is_sorted(), "{bytes} bytes: {times:?}");
    }
}

#[test]
fn a_small_window_bounds_every_scheme() {
    let plan = Question { window: Some(2_992), ..question() }.answer();
    for outlook in &plan.schemes {
        assert!(outlook.efficiency <= 0.101, "{outlook:?}");
    }
    assert!(warned(&plan, "window of 2992 packets is too small"), "{:#?}", plan.warnings);
    // A round trip is enough to send, but not to repair.
    let plan = Question { window: Some(29_920), ..question() }.answer();
    let [irn, cached] = [Scheme::IRN, Scheme::CACHED].map(|s| of(&plan, s).efficiency);
    assert!((cached - irn).abs() < 0.001 && cached < 0.52, "{cached}, {irn}");
}

#[test]
fn flows_share_the_link_and_the_cost_of_a_loss() {
    let many = Question { flows: 100, ..question() }.answer();
    let gbn = of(&many, Scheme::GBN).efficiency;
    // A hundredth of the packets follow a loss: 1 / (1 + 0.3 + …).
    assert!((gbn - 0.759).abs() < 0.01, "{gbn}");
    assert_eq!(many.window_needed, 599);
}

#[test]
fn warnings_fit_the_link() {
    let plan = question().answer();
    assert!(warned(&plan, "adaptive retransmission"), "{:#?}", plan.warnings);
    assert!(warned(&plan, "exponent 14"));
    let short = Question { rtt: Span::from_micros(100), ..question() }.answer();
    assert!(!warned(&short, "adaptive") && warned(&short, "exponent 8"), "{:#?}", short.warnings);
    let timeout = Some(Span::from_millis(8));
    let plan = Question { timeout, ..question() }.answer();
    assert!(warned(&plan, "timeout of 8.00 ms is too short"), "{:#?}", plan.warnings);
    let far = Question {
        rtt: Span::from_millis(100),
        rate_bps: 400_000_000_000,
        pmtu: 1024,
        ..question()
    };
    let plan = far.answer();
    assert!(warned(&plan, "at least 3 queue pairs"), "{:#?}", plan.warnings);
    let bursts = Question { burst: 20_000.0, loss: 0.01, ..question() }.answer();
    assert!(warned(&bursts, "simulate it"));
}

#[test]
fn it_fits_on_a_screen() {
    for question in [question(), Question { loss: 0.1, burst: 4.0, flows: 64, ..question() }] {
        let text = text(&question.answer());
        assert!(text.lines().count() <= 40, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    let text = text(&question().answer());
    for part in [
        "100Gbps, round trip 10ms, 0.1 % of packets lost, path MTU 4096",
        "retransmission timeout 67.1 ms",
        "gateways, from a cache    95.1 Gbit/s",
        "RNICs must be allowed",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn the_workload_is_tried_on_the_same_link() {
    use crate::input::parse;
    use crate::scenario::{Topology, Traffic};
    let question = Question { burst: 8.0, rtt: Span::from_nanos(1_600_001), ..question() };
    let scenario = parse("plan".as_ref(), &question.scenario("hadoop", 50), &[]);
    let scenario = scenario.unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(scenario.topology, Topology::Dumbbell { hosts: 8 });
    assert_eq!(
        (scenario.long_haul.rate, scenario.long_haul.delay.as_nanos()),
        (question.rate_bps, 800_000)
    );
    assert!((scenario.long_haul.loss.mean() - 1e-3).abs() < 1e-12);
    let [Traffic::Poisson { sizes, load, flows: 50, .. }] = &scenario.traffic[..] else {
        panic!("{:?}", scenario.traffic)
    };
    assert_eq!((sizes.name.as_str(), *load), ("hadoop", 0.5));
    assert_eq!(scenario.schemes.len(), 4);
}

#[test]
fn json_has_units_in_its_names() {
    let json = serde_json::to_value(question().answer()).expect("plain data");
    assert_eq!(json["question"]["rtt_ns"], 10_000_000);
    assert_eq!(json["question"]["timeout_ns"], serde_json::Value::Null);
    assert_eq!(json["schemes"][1]["scheme"], "gbn");
    assert_eq!(json["memory"]["bdp"], 125_000_000);
}
