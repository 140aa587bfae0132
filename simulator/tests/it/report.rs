//! Figures, files and the report, from results made up by hand.

use crate::support::run_of as run;
use common::time::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use simulator::report::figures::{of_study, of_sweep};
use simulator::report::{
    Parameter, Part, Report, Study, Sweep, SweepPoint, csv_flows, csv_summary, csv_sweeps, html,
    json, json_sweep,
};
use simulator::results::{
    FlowResult, HostUse, LongHaulUse, PoolSample, Pools, RunResult, Summary, summary,
};
use simulator::scheme::Scheme;
use simulator::traffic::sizes;

fn us(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

fn flow(
    bytes: u64,
    posted: u64,
    completed: Option<u64>,
    ideal: u64,
    hosts: (u32, u32),
) -> FlowResult {
    let spec = crate::support::flow(posted, hosts.0, hosts.1, bytes);
    let is_long_haul = (hosts.0 < 2) != (hosts.1 < 2);
    let fct = completed.map(|at| at - posted);
    FlowResult { is_long_haul, ..crate::support::result(spec, fct, ideal) }
}

fn pools(at: u64, [reorder_bytes, backup_bytes, cache_bytes]: [u64; 3]) -> PoolSample {
    PoolSample { at: us(at), held: Pools { reorder_bytes, backup_bytes, cache_bytes } }
}

/// Two runs of go-back-N on two hosts per site, one message unfinished.
fn two_runs() -> Vec<RunResult> {
    let mut first = run(
        Scheme::GBN,
        1,
        1000,
        vec![
            flow(10_000, 0, Some(100), 50, (0, 2)),
            flow(10_001, 100, Some(400), 100, (1, 3)),
            flow(1_000_000, 0, Some(200), 100, (0, 1)),
        ],
    );
    first.long_haul = LongHaulUse {
        offered: None,
        rate: 1_000_000_000,
        data_bytes: 100_000,
        repeated_bytes: 50_000,
        other_bytes: 5_000,
        lost_packets: 3,
        queue_drops: 1,
    };
    first.hosts =
        HostUse { packets: 100, repeated: 40, timeouts: 2, naks: 3, cnps: 4, failed_qps: 0 };
    first.pools = vec![pools(0, [10, 1, 0]), pools(500, [5, 7, 0])];
    first.recoveries = vec![Span::from_micros(30), Span::from_micros(10)];
    let mut second = run(
        Scheme::GBN,
        2,
        2000,
        vec![flow(10_000, 0, Some(200), 50, (0, 2)), flow(20_000_000, 0, None, 100, (2, 0))],
    );
    second.long_haul = LongHaulUse {
        offered: None,
        rate: 1_000_000_000,
        data_bytes: 100_000,
        repeated_bytes: 0,
        lost_packets: 1,
        ..LongHaulUse::default()
    };
    second.hosts = HostUse { timeouts: 1, failed_qps: 1, ..HostUse::default() };
    second.recoveries = vec![Span::from_micros(20)];
    vec![first, second]
}

fn study(name: &str, about: &str, shown: &[(&str, &str)], results: Vec<RunResult>) -> Study {
    Study {
        scenario: name.into(),
        about: about.into(),
        parameters: shown.iter().map(|(name, value)| Parameter::new(*name, *value)).collect(),
        results,
    }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} instead of {b}");
}

#[test]
fn times_of_all_runs_are_pooled() {
    let s = Summary::of(Scheme::GBN, &two_runs()).unwrap();
    assert_eq!(s.seeds, [1, 2]);
    // Completed: 100, 300, 200, 200 µs; one was not.
    assert_eq!((s.all.fct_us.count, s.all.fct_us.unfinished), (5, 1));
    assert_eq!((s.all.fct_us.p50, s.all.fct_us.p95), (Some(200.0), None));
    assert_eq!((s.all.fct_us.mean, s.all.fct_us.mean_of_finished), (None, Some(200.0)));
    // 2, 3, 2, 4.
    assert_eq!(s.all.slowdown.p50, Some(3.0));

    assert_eq!((s.long_haul.fct_us.count, s.within.fct_us.count), (4, 1));
    assert_eq!(s.long_haul.fct_us.p50, Some(200.0));
    assert_eq!((s.within.fct_us.mean, s.within.slowdown.max), (Some(200.0), Some(2.0)));
    assert_eq!(s.main(), &s.long_haul);
    assert!(Summary::of(Scheme::LR2, &two_runs()).is_none());
}

#[test]
fn a_message_belongs_to_the_bucket_of_its_size() {
    let s = Summary::of(Scheme::GBN, &two_runs()).unwrap();
    let counts: Vec<u64> = s.all.sizes.iter().map(|bucket| bucket.fct_us.count).collect();
    assert_eq!(counts, [2, 1, 0, 1, 0, 1]);
    assert_eq!(s.all.sizes[0].fct_us.mean, Some(150.0));
    assert_eq!(s.all.sizes[5].fct_us.unfinished, 1);
    let bounds: Vec<_> = s.all.sizes.iter().map(|bucket| bucket.up_to_bytes).collect();
    assert_eq!(bounds[..5], summary::SIZE_BOUNDS.map(Some));
    assert_eq!(bounds[5], None);
}

#[test]
fn goodput_is_what_was_completed_until_the_last_completion() {
    let s = Summary::of(Scheme::GBN, &two_runs()).unwrap();
    // 1,020,001 bytes in 400 µs, and 10,000 in 200 µs: the mean of both runs.
    close(s.all.goodput_bps, (8.0 * 1_020_001.0 / 400e-6 + 8.0 * 10_000.0 / 200e-6) / 2.0);
    close(s.within.goodput_bps, 8.0 * 1_000_000.0 / 200e-6 / 2.0);
    // Of the long-haul messages: one had nothing.
    let each = [10_000.0 / 100e-6, 10_001.0 / 300e-6, 10_000.0 / 200e-6, 0.0];
    close(s.long_haul.message_goodput_bps, 8.0 * each.iter().sum::<f64>() / 4.0);
}

#[test]
fn the_useful_share_counts_no_packet_twice_and_only_directions_in_use() {
    let s = Summary::of(Scheme::GBN, &two_runs()).unwrap();
    // First run: one direction, 125,000 bytes in 1 ms. Second: both, in 2 ms.
    close(s.link.useful_share, (50_000.0 / 125_000.0 + 100_000.0 / 500_000.0) / 2.0);
    close(s.link.sent_twice_share, 0.25);
    assert_eq!((s.link.lost_packets, s.link.queue_drops), (4, 1));
    assert_eq!((s.hosts.timeouts, s.hosts.naks, s.hosts.failed_qps), (3, 3, 1));
    assert_eq!((s.hosts.packets, s.hosts.repeated, s.hosts.cnps), (100, 40, 4));
    assert_eq!((s.pools.reorder_bytes, s.pools.backup_bytes), (10, 7));
    assert_eq!((s.recovery_us.p50, s.recovery_us.p99), (Some(20.0), Some(30.0)));
    assert_eq!(s.packet_events, 20);
}

#[test]
fn a_round_ends_with_its_last_message() {
    let message = |traffic, round, posted, completed| {
        let mut flow = flow(1000, posted, completed, 10, (0, 2));
        (flow.spec.traffic, flow.spec.round) = (traffic, round);
        flow
    };
    let flows = vec![
        message(0, 0, 7, Some(9)), // of something without rounds
        message(1, 0, 0, Some(100)),
        message(1, 0, 0, Some(150)),
        message(1, 1, 200, Some(260)),
        message(1, 1, 200, Some(250)),
        message(1, 2, 300, Some(350)),
        message(1, 2, 300, None),
    ];
    let s = Summary::of(Scheme::GBN, &[run(Scheme::GBN, 1, 400, flows)]).unwrap();
    assert_eq!((s.rounds_us.count, s.rounds_us.unfinished), (3, 1));
    assert_eq!((s.rounds_us.mean_of_finished, s.rounds_us.p50), (Some(105.0), Some(150.0)));
}

#[test]
fn nothing_at_all_is_no_reason_to_divide_by_it() {
    let s = Summary::of(Scheme::GBN, &[run(Scheme::GBN, 1, 0, Vec::new())]).unwrap();
    assert_eq!((s.all.goodput_bps, s.link.useful_share), (0.0, 0.0));
    let study = study("empty", "", &[], vec![run(Scheme::GBN, 1, 0, Vec::new())]);
    assert_eq!(of_study(&study), []);
    let none = Study { results: Vec::new(), ..study.clone() };
    let parts = vec![Part::Study(study), Part::Study(none)];
    let page = html(&Report { title: "t".into(), about: String::new(), parts });
    assert!(page.contains("Nothing was run."));
}

#[test]
fn json_tells_what_the_summary_does() {
    let study = study("by \"hand\"", "two runs", &[("loss", "1 %")], two_runs());
    let value: serde_json::Value = serde_json::from_str(&json(&study)).unwrap();
    assert_eq!(value["scenario"], "by \"hand\"");
    assert_eq!(value["parameters"][0]["name"], "loss");
    let scheme = &value["schemes"][0];
    assert_eq!(scheme["scheme"], "gbn");
    assert_eq!(scheme["all"]["fct_us"]["p50"], 200.0);
    assert_eq!(scheme["all"]["fct_us"]["p99"], serde_json::Value::Null);
    assert_eq!(scheme["long_haul"]["sizes"][0]["up_to_bytes"], 10_000);
    assert_eq!(scheme["link"]["lost_packets"], 4);
    assert_eq!(scheme["series"]["pools"][1]["backup_bytes"], 7);
    // Of four long-haul messages one never ended.
    let cdf = scheme["series"]["fct_us_cdf"].as_array().unwrap();
    assert_eq!(cdf.last().unwrap(), &serde_json::json!([300.0, 0.75]));
}

#[test]
fn csv_has_a_heading_and_leaves_empty_what_did_not_end() {
    let study = study("x", "", &[], two_runs());
    let flows = csv_flows(&study);
    let flows: Vec<&str> = flows.lines().collect();
    assert_eq!(flows.len(), 6);
    assert_eq!(flows[2], "gbn,1,0,0,1,3,10001,true,100.000,100.000,300.000,100.000,3");
    assert_eq!(flows[5], "gbn,2,0,0,2,0,20000000,true,0.000,0.000,,100.000,");

    let summary = csv_summary(&study);
    let rows: Vec<Vec<&str>> = summary.lines().map(|row| row.split(',').collect()).collect();
    let column = |name| rows[0].iter().position(|head| *head == name).unwrap();
    assert_eq!(rows[1][..5], ["gbn", "all", "all", "5", "1"]);
    assert_eq!(rows[1][column("fct_p50_us")], "200");
    assert_eq!(rows[1][column("fct_mean_us")], "");
    assert_eq!(rows[1][column("sent_twice_share")], "0.25");
    assert_eq!(rows[2][..5], ["gbn", "all", "10000", "2", "0"]);
    // All, long haul and within, with four, three and one size in use.
    assert_eq!(rows.len(), 1 + 5 + 4 + 2);

    let sweep = sweep_by_hand();
    let first = csv_sweeps(std::slice::from_ref(&sweep), None);
    assert!(first.lines().nth(1).unwrap().starts_with("0.01,\"1,0 %\",gbn,all,all,5,1,"));
    let value: serde_json::Value = serde_json::from_str(&json_sweep(&sweep)).unwrap();
    assert_eq!(value["points"][0]["summaries"][0]["scheme"], "gbn");
}

fn sweep_by_hand() -> Sweep {
    let summaries = vec![Summary::of(Scheme::GBN, &two_runs()).unwrap()];
    Sweep {
        name: "s".into(),
        about: String::new(),
        parameters: Vec::new(),
        axis: "loss".into(),
        is_log: true,
        points: vec![SweepPoint { x: 0.01, label: "1,0 %".into(), summaries }],
    }
}

#[test]
fn a_page_is_escaped_and_needs_nothing_from_elsewhere() {
    let study = study("<b>&\"", "<script>", &[("<i>", "<u>")], two_runs());
    let parts = vec![Part::Study(study), Part::Sweep(sweep_by_hand())];
    let page = html(&Report { title: "<title>".into(), about: "</p>".into(), parts });
    for bad in ["<b>&", "<script", "<i>", "<u>", "<title><title>", "</p></p>"] {
        assert!(!page.contains(bad), "{bad}");
    }
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for bad in ["http:", "https:", "src=", "url(", "@import"] {
        assert!(!outside.contains(bad), "{bad}");
    }
    assert!(page.contains("unfinished"));
}

#[test]
fn figures_stand_by_themselves() {
    let study = made_up_study();
    let names: Vec<&str> = of_study(&study).iter().map(|figure| figure.name).collect();
    let all = [
        "fct-cdf",
        "fct-tail",
        "slowdown-mean",
        "slowdown-p99",
        "recovery-cdf",
        "reorder-pool",
        "backup-pool",
        "resend-cache",
    ];
    assert_eq!(names, all);
    for figure in of_study(&study).iter().chain(&of_sweep(&made_up_sweep())) {
        let svg = figure.standalone();
        assert!(svg.starts_with("<svg class=\"plot\"") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<style>").count(), 1);
        for scheme in ["gbn", "cached"] {
            let named = svg.lines().any(|line| line.trim() == scheme);
            assert!(named || figure.name.contains("pool") || figure.name.contains("cache"));
        }
    }
}

/// A handful of messages has no tail.
#[test]
fn an_empty_tail_is_left_out() {
    let study = study("few", "", &[], two_runs());
    assert!(of_study(&study).iter().all(|figure| figure.name != "fct-tail"));
}

/// The report as it looks, to be looked at: in Cargo's directory for the files of
/// tests, `target/tmp/report.html`, and one of its plots, `figure.svg`.
#[test]
fn the_whole_report() {
    let parts = vec![Part::Study(made_up_study()), Part::Sweep(made_up_sweep())];
    let about = "Figures made up to see the report; nothing was simulated.";
    let report = Report { title: "Sample of a report".into(), about: about.into(), parts };
    let page = html(&report);
    assert_eq!(page.matches("<svg").count(), 8 + 3);
    for scheme in Scheme::ALL {
        assert!(page.contains(scheme.name()));
    }
    assert!(page.contains("Under cached a message completes in "));
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/report.html"), page).unwrap();
    let figure = of_study(&made_up_study()).swap_remove(0).standalone();
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/figure.svg"), figure).unwrap();
}

/// How much a scheme suffers from loss, and how much it needs.
fn burden(scheme: Scheme) -> f64 {
    match scheme.name() {
        "lossless" => 0.0,
        "gbn" => 4.0,
        "gbn-renak" => 5.5,
        "irn" => 1.0,
        "slr" => 2.8,
        "netrt" => 1.7,
        "lr2-paper" => 1.3,
        "lr2" => 0.8,
        _ => 0.15,
    }
}

fn made_up_study() -> Study {
    let sizes = sizes::named("websearch").unwrap();
    let results = Scheme::ALL.map(|scheme| {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut flows = Vec::new();
        for i in 0..3000_u64 {
            let bytes = sizes.sample(rng.random());
            let ideal = 1000 + bytes / 12_500;
            let luck: f64 = rng.random::<f64>().powi(12);
            let size = 1.0 + (bytes as f64 / 3e5).min(8.0);
            let slowdown = 1.05 + burden(scheme) * (luck * 6.0 + 0.04) * size.sqrt();
            let fct = (ideal as f64 * slowdown) as u64;
            let failed = scheme == Scheme::GBN_RENAK && i % 150 == 0;
            flows.push(flow(bytes, 10 * i, (!failed).then_some(10 * i + fct), ideal, (0, 2)));
        }
        let mut run = run(scheme, 1, 60_000, flows);
        let burden = burden(scheme);
        run.long_haul = LongHaulUse {
            offered: None,
            rate: 100_000_000_000,
            data_bytes: 420_000_000 + (1e8 * burden) as u64,
            repeated_bytes: (1e8 * burden) as u64,
            other_bytes: 9_000_000,
            lost_packets: if scheme == Scheme::LOSSLESS { 0 } else { 4512 },
            queue_drops: 0,
        };
        run.hosts.timeouts = (burden * 30.0) as u64;
        run.hosts.naks = (burden * 800.0) as u64;
        let has_cache = [Scheme::CACHED, Scheme::AUTO].contains(&scheme);
        let has_pools = has_cache || [Scheme::LR2_PAPER, Scheme::LR2].contains(&scheme);
        if has_pools {
            let mut held: f64 = 0.0;
            run.pools.extend((0..2000).map(|i| {
                held = (held + rng.random_range(-40_000.0..42_000.0)).max(0.0);
                let cached = if has_cache { 9_000_000 + held as u64 } else { 0 };
                pools(30 * i, [held as u64, (held / 20.0) as u64, cached])
            }));
        }
        let base = if has_cache { 1000 } else { 1900 };
        if scheme != Scheme::LOSSLESS {
            run.recoveries.extend((0..4000).map(|_| {
                let tail = -rng.random::<f64>().max(1e-9).ln() * burden * 400.0;
                Span::from_micros(base + tail as u64)
            }));
        }
        run
    });
    Study {
        scenario: "WebSearch at 50 % load, loss 1e-3".into(),
        about: "Two leaf–spine sites joined by one long-haul link of 100 Gbit/s that loses one \
                packet in a thousand. Hosts send messages of the sizes of a search back end to \
                random hosts of the other site."
            .into(),
        parameters: [
            ("long haul", "100 Gbit/s, 500 µs one way"),
            ("loss", "1e-3, each packet by itself"),
            ("hosts", "16 per site, 25 Gbit/s"),
            ("path MTU", "1024 bytes"),
            ("congestion control", "DCQCN, CNPs every 4 µs"),
            ("messages", "3,000, WebSearch, load 50 %"),
            ("seeds", "1"),
        ]
        .map(|(name, value)| Parameter::new(name, value))
        .into(),
        results: results.into(),
    }
}

fn made_up_sweep() -> Sweep {
    let losses = [
        (1e-5, "1e-5"),
        (1e-4, "1e-4"),
        (3e-4, "3e-4"),
        (1e-3, "1e-3"),
        (3e-3, "3e-3"),
        (1e-2, "1e-2"),
        (3e-2, "3e-2"),
    ];
    let point = |(loss, label): (f64, &str)| {
        let summary = |scheme| {
            let share = 1.0 / (1.0 + 250.0 * loss * burden(scheme));
            let fct = (80_000.0 / share) as u64;
            let mut run =
                run(scheme, 1, fct, vec![flow(1_000_000_000, 0, Some(fct), 80_000, (0, 2))]);
            run.long_haul.data_bytes = 1000;
            run.long_haul.repeated_bytes = (900.0 * (1.0 - share)) as u64;
            Summary::of(scheme, &[run]).unwrap()
        };
        SweepPoint { x: loss, label: label.into(), summaries: Scheme::ALL.map(summary).into() }
    };
    Sweep {
        name: "One long message against loss".into(),
        about: "A message of 1 GB on a link of 100 Gbit/s and 2 ms round trip.".into(),
        parameters: vec![Parameter::new("round trip", "2 ms")],
        axis: "share of packets lost".into(),
        is_log: true,
        points: losses.map(point).into(),
    }
}
