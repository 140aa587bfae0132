//! Messages: sizes, arrivals, pairs of hosts, traces.

use common::time::{Span, Time};
use proptest::prelude::*;
use simulator::scenario::{
    LongHaul, NicModel, Scenario, Scope, Site, SizeDistribution, Topology, Traffic,
};
use simulator::traffic::{FlowSpec, PACKET_OVERHEAD, expand, sizes, trace};

const LONG_HAUL_RATE: u64 = 100_000_000_000;
const HOST_RATE: u64 = 25_000_000_000;
const PMTU: u32 = 1024;

fn scenario(topology: Topology, traffic: Vec<Traffic>) -> Scenario {
    let base = crate::support::scenario(topology);
    Scenario {
        long_haul: LongHaul { rate: LONG_HAUL_RATE, ..base.long_haul },
        site: Site { host_rate: HOST_RATE, fabric_rate: LONG_HAUL_RATE, ..base.site },
        nic: NicModel { pmtu: PMTU, ..base.nic },
        traffic,
        ..base
    }
}

const FABRIC: Topology =
    Topology::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 4, long_hauls: 2 };

fn poisson(name: &str, load: f64, flows: u32, scope: Scope) -> Traffic {
    Traffic::Poisson { sizes: sizes::named(name).unwrap(), load, flows, scope }
}

/// The bytes of a message on a wire.
fn wire_bytes(flow: &FlowSpec) -> u64 {
    flow.bytes + flow.bytes.div_ceil(PMTU.into()) * PACKET_OVERHEAD
}

#[test]
fn the_means_are_those_of_the_publication() {
    for (name, mean, largest) in [
        ("websearch", 1_711_250.0, 30_000_000),
        ("hadoop", 120_420.8, 10_000_000),
        ("alistorage", 40_869.8, 2_000_000),
    ] {
        let sizes = sizes::named(name).unwrap();
        assert_eq!(sizes.name, name);
        assert!((sizes.mean() - mean).abs() < 0.1, "{name}: {}", sizes.mean());
        assert_eq!(sizes.sample(1.0), largest);
        assert_eq!(sizes.sample(0.0), 1);
    }
    assert_eq!(sizes::named("web"), None);
}

#[test]
fn a_sample_lies_on_the_line_between_its_points() {
    let sizes =
        sizes::parse("x", "100 20 # a fifth has just 100 bytes\n\n300 60\n300 100").unwrap();
    assert_eq!(sizes.points, [(100.0, 0.2), (300.0, 0.6), (300.0, 1.0)]);
    assert_eq!([0.0, 0.1, 0.19].map(|u| sizes.sample(u)), [100; 3]);
    assert_eq!([0.3, 0.4, 0.5].map(|u| sizes.sample(u)), [150, 200, 250]);
    assert_eq!([0.6, 0.8, 0.999].map(|u| sizes.sample(u)), [300; 3]);
    // 0.2 · 100 + 0.4 · 200 + 0.4 · 300
    assert!((sizes.mean() - 220.0).abs() < 1e-9);
}

#[test]
fn packets_are_counted_by_hand() {
    let packets = |size| sizes::parse("x", &format!("{size} 100")).unwrap().mean_packets(1000);
    assert_eq!([1, 999, 1000, 1001, 2000, 2001].map(packets), [1.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    // Evenly spread over 0 to 4000: one to four packets, equally often.
    let even = sizes::parse("even", "0 0\n4000 100").unwrap();
    assert!((even.mean_packets(1000) - 2.5).abs() < 1e-12);
}

#[test]
fn every_error_of_a_distribution_is_told_with_its_line() {
    let text = "# sizes\n10 20 30\n1.5 5\n100 101\n200 50\n150 60\n300 40\nx y\n-1 0\n";
    let errors = sizes::parse("x", text).unwrap_err();
    let errors: Vec<&str> = errors.lines().collect();
    for (error, parts) in errors.iter().zip([
        ["line 2: ", "3 fields", "<bytes> <cumulative percent>"],
        ["line 3: ", "`1.5`", "whole number"],
        ["line 4: ", "`101`", "0 to 100"],
        ["line 6: ", "150 after 200", "must not fall"],
        ["line 7: ", "40 after 50", "must not fall"],
        ["line 8: ", "`x`", "whole number"],
        ["line 9: ", "`-1`", "whole number"],
    ]) {
        assert!(parts.iter().all(|part| error.contains(part)), "{error}: {parts:?}");
    }
    assert_eq!(errors.len(), 7);

    let unfinished = sizes::parse("x", "0 0\n100 50").unwrap_err();
    assert!(unfinished.contains("line 2: the last cumulative percentage is 50"), "{unfinished}");
    assert!(sizes::parse("x", "# nothing").unwrap_err().contains("no points"));
    assert!(sizes::parse("x", "0 100").unwrap_err().contains("at least 1 byte"));
}

#[test]
fn the_offered_load_is_what_was_asked_for() {
    let per_site = u64::from(FABRIC.hosts_per_site());
    for (name, scope, capacity) in [
        ("websearch", Scope::Forward, 2 * LONG_HAUL_RATE),
        ("alistorage", Scope::Between, 2 * 2 * LONG_HAUL_RATE),
        ("hadoop", Scope::Within, 2 * per_site * HOST_RATE),
    ] {
        let scenario = scenario(FABRIC, vec![poisson(name, 0.6, 100_000, scope)]);
        let flows = expand(&scenario, 7);
        let bits = 8.0 * flows.iter().map(wire_bytes).sum::<u64>() as f64;
        let seconds = flows.last().unwrap().start.since(Time::ZERO).as_secs_f64();
        let load = bits / seconds / capacity as f64;
        assert!((load / 0.6 - 1.0).abs() < 0.02, "{name}: {load}");
    }
}

#[test]
fn both_directions_carry_the_load_and_every_host_its_part() {
    let flows = expand(&scenario(FABRIC, vec![poisson("hadoop", 0.5, 80_000, Scope::Between)]), 3);
    let forward = flows.iter().filter(|flow| flow.src < 8).count();
    assert!((39_000..41_000).contains(&forward), "{forward}");
    for host in 0..16 {
        let sent = flows.iter().filter(|flow| flow.src == host).count();
        let received = flows.iter().filter(|flow| flow.dst == host).count();
        assert!((4_600..5_400).contains(&sent) && (4_600..5_400).contains(&received));
    }
}

#[test]
fn messages_keep_to_their_scope() {
    let site = |host| host / 8;
    for (scope, fits) in [
        (Scope::Forward, (|s, d| s == 0 && d == 1) as fn(u32, u32) -> bool),
        (Scope::Between, |s, d| s != d),
        (Scope::Within, |s, d| s == d),
    ] {
        let flows = expand(&scenario(FABRIC, vec![poisson("hadoop", 0.5, 2_000, scope)]), 3);
        assert_eq!(flows.len(), 2_000);
        for flow in flows {
            assert!(flow.src < 16 && flow.dst < 16 && flow.src != flow.dst, "{flow:?}");
            assert!(fits(site(flow.src), site(flow.dst)), "{scope:?}: {flow:?}");
        }
    }
}

#[test]
fn gaps_between_arrivals_are_exponential() {
    let flows = expand(&scenario(FABRIC, vec![poisson("hadoop", 0.5, 50_000, Scope::Forward)]), 3);
    let gaps: Vec<f64> =
        flows.windows(2).map(|w| w[1].start.since(w[0].start).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    for (limit, expected) in [(0.1, 0.0952), (1.0, 0.6321), (3.0, 0.9502)] {
        let share = gaps.iter().filter(|&&gap| gap <= limit * mean).count() as f64;
        let share = share / gaps.len() as f64;
        assert!((share - expected).abs() < 0.01, "{share} of the gaps within {limit} means");
    }
}

#[test]
#[should_panic(expected = "1 hosts per site, at least 2 needed")]
fn nobody_to_send_to() {
    expand(&scenario(Topology::Pair, vec![poisson("hadoop", 0.5, 1, Scope::Within)]), 1);
}

#[test]
fn long_flows_go_to_the_counterpart_and_share_the_hosts() {
    let long = Traffic::Long { bytes: 5, flows: 5 };
    let flows = expand(&scenario(Topology::Dumbbell { hosts: 3 }, vec![long]), 1);
    let pairs: Vec<_> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    assert_eq!(pairs, [(0, 3), (1, 4), (2, 5), (0, 3), (1, 4)]);
    assert!(flows.iter().all(|flow| flow.start == Time::ZERO && flow.bytes == 5));
}

#[test]
fn rounds_are_numbered_and_use_distinct_hosts_while_there_are_enough() {
    let gap = Span::from_micros(50);
    let rounds = |flows| Traffic::Rounds { flows, bytes: 1 << 20, rounds: 3, gap };
    let flows = expand(&scenario(FABRIC, vec![rounds(8)]), 1);
    assert_eq!(flows.len(), 24);
    let pairs = |round| -> Vec<(u32, u32)> {
        let of_round = flows.iter().filter(|flow| flow.round == round);
        of_round.map(|flow| (flow.src, flow.dst)).collect()
    };
    let mut sources: Vec<u32> = pairs(0).iter().map(|pair| pair.0).collect();
    let mut destinations: Vec<u32> = pairs(0).iter().map(|pair| pair.1).collect();
    sources.sort_unstable();
    destinations.sort_unstable();
    assert_eq!(sources, (0..8).collect::<Vec<_>>());
    assert_eq!(destinations, (8..16).collect::<Vec<_>>());
    assert_eq!(pairs(0), pairs(2));
    for flow in &flows {
        let start = if flow.round == 0 { Time::ZERO } else { Time::ZERO + gap };
        assert_eq!(flow.start, start);
    }
    // With twice as many messages as hosts each host is used twice.
    let flows = expand(&scenario(FABRIC, vec![rounds(16)]), 1);
    for host in 0..8 {
        assert_eq!(flows.iter().filter(|flow| flow.src == host).count(), 2 * 3);
    }
}

#[test]
fn an_incast_is_from_all_hosts_to_one_within_its_spread() {
    let spread = Span::from_micros(50);
    let incast = |bytes| vec![Traffic::Incast { flows: 20, bytes, spread }];
    let flows = expand(&scenario(FABRIC, incast(9)), 1);
    assert!(flows.iter().all(|flow| flow.dst == 8 && flow.bytes == 9 && flow.round == 0));
    for host in 0..8 {
        let sent = flows.iter().filter(|flow| flow.src == host).count();
        assert_eq!(sent, if host < 4 { 3 } else { 2 }, "hosts in turn");
    }
    assert!(flows.iter().all(|flow| flow.start <= Time::ZERO + spread));
    let starts = |flows: &[FlowSpec]| flows.iter().map(|flow| flow.start).collect::<Vec<_>>();
    assert_eq!(starts(&flows), starts(&expand(&scenario(FABRIC, incast(10)), 1)), "same seed");
    assert_ne!(starts(&flows), starts(&expand(&scenario(FABRIC, incast(9)), 2)));
}

#[test]
fn traffic_is_mixed_by_time_and_an_entry_more_changes_no_other() {
    let first = poisson("hadoop", 0.3, 500, Scope::Between);
    let second = poisson("websearch", 0.3, 500, Scope::Forward);
    let alone = expand(&scenario(FABRIC, vec![first.clone()]), 11);
    let both = expand(&scenario(FABRIC, vec![first, second]), 11);
    assert!(both.is_sorted_by_key(|flow| flow.start));
    assert_eq!(both.len(), 1000);
    let of_first: Vec<FlowSpec> = both.iter().filter(|flow| flow.traffic == 0).copied().collect();
    assert_eq!(of_first, alone);
}

#[test]
fn entries_of_the_same_kind_do_not_repeat_each_other() {
    let entry = poisson("hadoop", 0.3, 100, Scope::Between);
    let flows = expand(&scenario(FABRIC, vec![entry.clone(), entry]), 11);
    let bytes = |traffic| -> Vec<u64> {
        let of_entry = flows.iter().filter(|flow| flow.traffic == traffic);
        of_entry.map(|flow| flow.bytes).collect()
    };
    assert_ne!(bytes(0), bytes(1));
}

#[test]
fn the_messages_of_a_seed_never_change() {
    let flows = expand(&scenario(FABRIC, vec![poisson("hadoop", 0.5, 3, Scope::Between)]), 42);
    let pinned: Vec<_> =
        flows.iter().map(|flow| (flow.start.as_nanos(), flow.src, flow.dst, flow.bytes)).collect();
    assert_eq!(pinned, PINNED);
}

/// Of the generator and the formulas, not of any document: should these change,
/// results of older versions can no longer be compared run by run.
const PINNED: [(u64, u32, u32, u64); 3] = [(261, 3, 9, 922), (4563, 1, 11, 414), (8907, 7, 8, 328)];

#[test]
fn a_trace_is_read_sorted_and_numbered() {
    let text = "# start src dst bytes\n20.5 1 3 4096\n0 0 2 1 # the first\n";
    let list = trace::parse(text).unwrap();
    assert_eq!(list[0].start, Time::from_nanos(20_500));
    let long = Traffic::Long { bytes: 7, flows: 1 };
    let topology = Topology::Dumbbell { hosts: 2 };
    let flows = expand(&scenario(topology, vec![long, Traffic::Trace(list)]), 1);
    let seen: Vec<_> = flows.iter().map(|f| (f.traffic, f.src, f.dst, f.bytes)).collect();
    assert_eq!(seen, [(0, 0, 2, 7), (1, 0, 2, 1), (1, 1, 3, 4096)]);
}

#[test]
fn every_error_of_a_trace_is_told_with_its_line() {
    let text = "0 0 1\n-1 0 9 0\n\n0 1 1 5\n1e13 x 1 1.5\n0 0 1 5\n";
    let errors = trace::parse_for(text, 4).unwrap_err();
    let expected = [
        (1, "3 fields"),
        (2, "start `-1`"),
        (2, "destination `9`: must be the number of a host, 0 to 3"),
        (2, "length `0`"),
        (4, "host 1 sends to itself"),
        (5, "start `1e13`"),
        (5, "source `x`"),
        (5, "length `1.5`"),
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for ((line, what), (expected_line, part)) in errors.iter().zip(expected) {
        assert!(*line == expected_line && what.contains(part), "{line}: {what}");
    }
}

/// Points that rise, the last at 100 %.
fn distributions() -> impl Strategy<Value = SizeDistribution> {
    prop::collection::vec((0_u64..1_000_000, 0_u32..=1000), 1..12).prop_map(|mut points| {
        let mut sizes: Vec<u64> = points.iter().map(|point| point.0).collect();
        let mut shares: Vec<u32> = points.iter().map(|point| point.1).collect();
        sizes.sort_unstable();
        shares.sort_unstable();
        let last = points.len() - 1;
        shares[last] = 1000;
        sizes[last] += 1;
        points = sizes.into_iter().zip(shares).collect();
        let points = points.into_iter().map(|(x, s)| (x as f64, f64::from(s) / 1000.0)).collect();
        SizeDistribution { name: "any".into(), points }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Over a fine grid of shares the sample's means are the exact ones, but for
    /// rounding to bytes.
    #[test]
    fn means_are_those_of_the_samples(sizes in distributions(), pmtu in 256_u32..4096) {
        const GRID: u32 = 200_000;
        let (mut bytes, mut packets) = (0_u64, 0_u64);
        for i in 0..GRID {
            let size = sizes.sample((f64::from(i) + 0.5) / f64::from(GRID));
            bytes += size;
            packets += size.div_ceil(pmtu.into());
        }
        let mean = bytes as f64 / f64::from(GRID);
        let mean_packets = packets as f64 / f64::from(GRID);
        prop_assert!((mean - sizes.mean()).abs() < 1.0 + 1e-4 * mean, "{mean} {}", sizes.mean());
        // Whether a size just above a multiple counts as one more packet depends on
        // rounding: up to half a byte in each packet.
        let slack = 0.01 + 1e-3 * mean_packets;
        let exact = sizes.mean_packets(pmtu);
        prop_assert!((mean_packets - exact).abs() < slack, "{mean_packets} {exact}");
    }

    #[test]
    fn the_same_seed_gives_the_same_messages(seed: u64, load in 0.01..1.0) {
        let traffic = vec![
            poisson("websearch", load, 200, Scope::Between),
            Traffic::Rounds { flows: 5, bytes: 9, rounds: 2, gap: Span::ZERO },
        ];
        let scenario = scenario(FABRIC, traffic);
        let flows = expand(&scenario, seed);
        prop_assert_eq!(&flows, &expand(&scenario, seed));
        prop_assert_ne!(flows, expand(&scenario, seed.wrapping_add(1)));
    }

    #[test]
    fn a_sample_rises_with_its_share(sizes in distributions(), a in 0.0..=1.0, b in 0.0..=1.0) {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        prop_assert!(1 <= sizes.sample(low) && sizes.sample(low) <= sizes.sample(high));
        prop_assert!(sizes.sample(high) as f64 <= sizes.points.last().unwrap().0.max(1.0));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "[0-9a-z .#\n-]{0,200}") {
        let _ = sizes::parse("any", &text);
        let _ = trace::parse(&text);
    }
}
