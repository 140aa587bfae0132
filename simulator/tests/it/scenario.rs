//! Scenario files: accepted values, defaults, and the problems reported for
//! all others.

use std::collections::HashSet;
use std::path::Path;

use common::time::Span;
use link::LossModel;
use settings::Override;
use simulator::input::{Varied, load, parse};
use simulator::scenario::{
    Carriage, Ecn, LanQueue, LanRepair, LossIn, Policy, Scenario, Scope, Topology, Traffic,
};
use simulator::scheme::Scheme;

const LINK: &str = "[long_haul]\nrate = \"10Gbps\"\ndelay = \"1ms\"\nloss = 1e-3\n";

/// Tests that need more keys of the link or before it put them here;
/// `LINK` ends with line 4.
fn link(more: &str) -> String {
    format!("{LINK}{more}")
}

fn good(text: &str) -> Scenario {
    parse(Path::new("s.toml"), text, &[]).unwrap_or_else(|report| panic!("{report}"))
}

/// The report's lines.
fn bad(text: &str) -> Vec<String> {
    let report = parse(Path::new("s.toml"), text, &[]).expect_err("must be refused");
    report.to_string().lines().map(str::to_owned).collect()
}

/// The one line that the report has, which must contain all of `parts`.
fn refuses(text: &str, parts: &[&str]) {
    let lines = bad(text);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for part in parts {
        assert!(lines[0].contains(part), "{:?} lacks {part:?}", lines[0]);
    }
}

#[test]
fn rate_delay_and_loss_are_enough() {
    let s = good(LINK);
    assert_eq!(s.name, "s");
    assert_eq!(s.topology, Topology::Pair);
    assert_eq!(s.schemes, [Scheme::LOSSLESS, Scheme::GBN, Scheme::LR2, Scheme::CACHED]);
    assert_eq!((s.seeds, s.limit), (vec![1], Span::from_millis(60_000)));
    assert_eq!((s.long_haul.rate, s.long_haul.delay), (10_000_000_000, Span::from_millis(1)));
    assert_eq!(s.long_haul.loss, LossModel::Bernoulli(1e-3));
    assert_eq!(s.long_haul.loss_back, s.long_haul.loss, "a line is as bad both ways");
    assert_eq!((s.site.host_rate, s.site.fabric_rate), (10_000_000_000, 10_000_000_000));
    // Alone on a link there is nobody to give way to.
    assert_eq!((s.site.ecn, s.site.pfc, s.nic.dcqcn), (None, None, None));
    assert_eq!(
        (s.nic.pmtu, s.nic.window, s.nic.retries, s.nic.ack_req_every),
        (4096, None, None, 16)
    );
    // Eight bandwidth-delay products of 2.5 MB.
    assert_eq!((s.gateway.budget, s.gateway.reorder), (20_000_000, None));
    assert_eq!(s.gateway.lan_queue, LanQueue::Fair, "as the product has it");
    // Ten bandwidth-delay products are 25 MB.
    assert_eq!(s.traffic, [Traffic::Long { bytes: 25_000_000, flows: 1 }]);

    let s = good(&link("[topology]\nkind = \"dumbbell\"\n"));
    let (ecn, pfc) = (s.site.ecn.expect("on"), s.site.pfc.expect("on"));
    assert_eq!((ecn.kmin, ecn.kmax), (40_000, 160_000), "a tenth of those at 100 Gbit/s");
    assert!(pfc.xon < pfc.xoff && s.nic.dcqcn.is_some());
}

/// Says something of everything.
const EVERY_KEY: &str = "name = \"a.b-c\"\nabout = \"words\"\nschemes = [\"cached\", \"gbn-renak\"]\n\
     seeds = [7, 8]\nlimit = \"2s\"\nsample_every = \"5us\"\n\
     [topology]\nkind = \"leaf-spine\"\nleaves = 3\nspines = 4\nhosts_per_leaf = 5\n\
     long_hauls = 6\n\
     [long_haul]\nrate = \"2.5Gbps\"\nrtt = \"3ms\"\njitter = \"9us\"\n\
     loss = { rate = \"1%\", burst = 8 }\nloss_back = 0\nports = \"own\"\n\
     outage = { start = \"1ms\", duration = \"2ms\", every = \"1s\" }\n\
     reordering = { share = 1e-4, extra = \"20us\" }\n\
     [[long_haul.paths]]\nrate = \"1Gbps\"\nqueue = \"1MB\"\ndelay = \"2ms\"\n\
     jitter = \"8us\"\nloss = 0\nloss_back = \"3%\"\noutage = { start = \"3ms\" }\n\
     reordering = { share = 1e-3, extra = \"30us\" }\n\
     ecn = { kmin = \"3kB\", kmax = \"4kB\", pmax = 0.25 }\n\
     [[long_haul.paths]]\nrate = \"1.5Gbps\"\n\
     [site]\nhost_rate = \"1Gbps\"\nfabric_rate = \"4Gbps\"\ndelay = \"3us\"\nloss = \"0.01%\"\n\
     loss_in = \"source\"\nbuffer = \"1MiB\"\nshared_buffer = false\n\
     ecn = { kmin = \"1kB\", kmax = \"2kB\", pmax = 0.5 }\n\
     [site.pfc]\nxoff = \"9KiB\"\nxon = \"8KiB\"\n\
     [nic]\npmtu = 512\nwindow = 4096\nack_req_every = 3\ntimeout = \"7ms\"\nretries = 5\n\
     re_nak = \"2us\"\nirn_cap = 77\ncnp_with_nak = true\n\
     [nic.dcqcn]\ng = 0.25\nalpha_timer = \"1us\"\nrate_timer = \"2us\"\nbyte_counter = \"3MiB\"\n\
     fast_recovery = 4\nr_ai = \"5Mbps\"\nr_hai = \"6Mbps\"\nmin_rate = \"7Mbps\"\n\
     cnp_interval = \"50us\"\n\
     [gateway]\nbudget = 0.25\nreorder = \"1MB\"\nbackup = \"2MB\"\ncache = \"3MB\"\npaper_reorder = \"4MB\"\n\
     paper_backup = \"5MB\"\nnetrt_buffer = \"6MB\"\nqueue = \"7MB\"\n\
     lan_queue = \"fifo\"\ntunnel = \"udp\"\nlanes = 8\nlan = \"auto\"\nspray = \"reps\"\n\
     [[traffic]]\nkind = \"long\"\nbytes = \"1GB\"\nflows = 3\n\
     [[traffic]]\nkind = \"poisson\"\nsizes = \"hadoop\"\nload = \"30%\"\nflows = 9\n\
     scope = \"between\"\n\
     [[traffic]]\nkind = \"rounds\"\nflows = 15\nbytes = \"1KiB\"\nrounds = 2\ngap = \"1ms\"\n\
     [[traffic]]\nkind = \"incast\"\nflows = 6\nbytes = \"2KiB\"\nspread = \"4us\"\n";

#[test]
fn every_key_is_read() {
    let s = good(EVERY_KEY);
    let leaf_spine = Topology::LeafSpine { leaves: 3, spines: 4, hosts_per_leaf: 5, long_hauls: 6 };
    assert_eq!((s.name.as_str(), s.about.as_str(), s.topology), ("a.b-c", "words", leaf_spine));
    assert_eq!((s.schemes, s.seeds), (vec![Scheme::CACHED, Scheme::GBN_RENAK], vec![7, 8]));
    assert_eq!((s.limit.as_micros(), s.sample_every.as_micros()), (2_000_000, 5));
    assert_eq!((s.long_haul.rate, s.long_haul.delay.as_micros()), (2_500_000_000, 1_500));
    assert_eq!(s.long_haul.jitter.as_micros(), 9);
    assert_eq!(s.long_haul.loss, LossModel::bursts(0.01, 8.0).expect("possible"));
    assert_eq!(s.long_haul.loss_back, LossModel::None);
    let outage = s.long_haul.outage.expect("given");
    let every = outage.every.map(Span::as_micros);
    assert_eq!(
        (outage.start.as_micros(), outage.duration.as_micros(), every),
        (1_000, 2_000, Some(1_000_000))
    );
    let reordering = s.long_haul.reordering.expect("given");
    assert_eq!((reordering.probability, reordering.extra.as_micros()), (1e-4, 20));
    assert!(s.long_haul.has_own_ports);
    let [first, second] = &s.long_haul.paths[..] else { panic!("two paths") };
    assert_eq!(
        (first.rate, first.queue, second.rate),
        (Some(1_000_000_000), 1_000_000, Some(1_500_000_000))
    );
    assert_eq!((first.delay.as_micros(), first.jitter.as_micros()), (2_000, 8));
    assert_eq!((first.loss, first.loss_back), (LossModel::None, LossModel::Bernoulli(0.03)));
    let outage = first.outage.expect("given");
    assert_eq!(
        (outage.start.as_micros(), outage.duration.as_micros()),
        (3_000, 3_600_000_000),
        "for good"
    );
    assert_eq!(first.reordering.map(|it| it.extra.as_micros()), Some(30));
    assert_eq!(first.ecn, Some(Ecn { kmin: 3_000, kmax: 4_000, pmax: 0.25 }));
    // What a path does not say is as for the link.
    assert_eq!((second.delay, second.loss_back), (s.long_haul.delay, s.long_haul.loss_back));
    assert_eq!((second.loss, second.outage), (s.long_haul.loss, s.long_haul.outage));
    assert_eq!((second.ecn, second.queue), (None, 16 << 20));
    assert_eq!(s.long_haul.longest_delay().as_micros(), 2_000);
    assert_eq!((s.gateway.tunnel, s.gateway.lanes), (Carriage::Udp, 8));
    assert_eq!((s.gateway.lan, s.gateway.spray), (LanRepair::Auto, Policy::Reps));
    let site = &s.site;
    assert_eq!((site.host_rate, site.fabric_rate), (1_000_000_000, 4_000_000_000));
    assert_eq!((site.delay.as_micros(), site.loss, site.buffer), (3, 1e-4, 1 << 20));
    assert!(!site.shared_buffer && site.loss_in == LossIn::Source);
    let (ecn, pfc) = (site.ecn.expect("given"), site.pfc.expect("given"));
    assert_eq!((ecn.kmin, ecn.kmax, ecn.pmax), (1_000, 2_000, 0.5));
    assert_eq!((pfc.xoff, pfc.xon), (9 << 10, 8 << 10));
    let nic = &s.nic;
    assert_eq!(
        (nic.pmtu, nic.window, nic.ack_req_every, nic.retries),
        (512, Some(4096), 3, Some(5))
    );
    assert_eq!(
        (nic.timeout, nic.re_nak.as_micros(), nic.irn_cap),
        (Some(Span::from_millis(7)), 2, Some(77))
    );
    assert!(nic.cnp_with_nak);
    let d = nic.dcqcn.expect("given");
    assert_eq!((d.g, d.alpha_timer.as_micros(), d.rate_timer.as_micros()), (0.25, 1, 2));
    assert_eq!((d.byte_counter, d.fast_recovery), (3 << 20, 4));
    assert_eq!((d.r_ai, d.r_hai, d.min_rate), (5_000_000, 6_000_000, 7_000_000));
    assert_eq!(d.cnp_interval.as_micros(), 50);
    let g = &s.gateway;
    assert_eq!((g.reorder, g.backup, g.cache), (Some(1_000_000), Some(2_000_000), Some(3_000_000)));
    // Of 2.5 Gbit/s and 3 ms.
    assert_eq!(g.budget, 937_500 / 4);
    assert_eq!((g.paper_reorder, g.paper_backup), (Some(4_000_000), Some(5_000_000)));
    assert_eq!((g.netrt_buffer, g.queue), (Some(6_000_000), 7_000_000));
    assert_eq!(g.lan_queue, LanQueue::Fifo);
    let [
        Traffic::Long { bytes: 1_000_000_000, flows: 3 },
        Traffic::Poisson { sizes, load, flows, scope },
        Traffic::Rounds { flows: 15, bytes: 1024, rounds: 2, gap },
        Traffic::Incast { flows: 6, bytes: 2048, spread },
    ] = &s.traffic[..]
    else {
        panic!("{:?}", s.traffic)
    };
    assert_eq!((sizes.name.as_str(), *load, *flows, *scope), ("hadoop", 0.3, 9, Scope::Between));
    assert_eq!((gap.as_micros(), spread.as_micros()), (1_000, 4));
}

#[test]
fn what_may_be_one_thing_or_another() {
    assert_eq!(good(&format!("schemes = \"all\"\n{LINK}")).schemes, Scheme::ALL);
    assert_eq!(good(&link("[nic]\nretries = \"infinite\"\n")).nic.retries, None);
    let on = good(&link("[nic]\ndcqcn = true\n[site]\necn = true\n"));
    assert!(on.nic.dcqcn.is_some() && on.site.ecn.is_some() && on.site.pfc.is_none());
    let off =
        "[topology]\nkind = \"dumbbell\"\n[nic]\ndcqcn = false\n[site]\necn = false\npfc = false\n";
    let off = good(&link(off));
    assert!(off.nic.dcqcn.is_none() && off.site.ecn.is_none() && off.site.pfc.is_none());
    let text = LINK.replace("1e-3", "{ rate = 0.25 }");
    assert_eq!(good(&text).long_haul.loss, LossModel::Bernoulli(0.25));
    assert_eq!(good(&LINK.replace("1e-3", "0")).long_haul.loss, LossModel::None);
    assert_eq!(good(&LINK.replace("1e-3", "\"2%\"")).long_haul.loss, LossModel::Bernoulli(0.02));
}

#[test]
fn mistakes_are_all_named_with_their_lines() {
    let lines = bad("schemes = [\"gbn\", \"lr3\"]\n\
         seeds = []\n\
         [long_haul]\n\
         rate = \"10Gbit\"\n\
         delay = \"5\"\n\
         los = 0.1\n\
         [nic]\n\
         pmtu = 1500\n\
         retries = 8\n\
         [[traffic]]\n\
         kind = \"poison\"\n\
         [[traffic]]\n\
         kind = \"poisson\"\n\
         load = 2\n");
    let starts = [
        "s.toml:1:19: schemes: found \"lr3\"; allowed: \"lossless\", \"gbn\"",
        "s.toml:2:9: seeds: found []; allowed: a list of at least one number",
        "s.toml:3:2: long_haul.loss: found nothing; allowed: the share of packets",
        "s.toml:4:8: long_haul.rate: found \"10Gbit\"; allowed: 1Mbps to 10Tbps, written as",
        "s.toml:5:9: long_haul.delay: found \"5\"; allowed: 100ns to 10s, written as",
        "s.toml:6:1: long_haul.los: found an unknown key; allowed: did you mean \"loss\"?",
        "s.toml:8:8: nic.pmtu: found 1500; allowed: 256, 512, 1000, 1024, 2048, 4096 bytes",
        "s.toml:9:11: nic.retries: found 8; allowed: 0 to 7 tries, or \"infinite\"",
        "s.toml:11:8: traffic[1].kind: found \"poison\"; allowed: \"long\", \"poisson\"",
        "s.toml:12:1: traffic[2].sizes: found nothing; allowed: \"websearch\"",
        "s.toml:14:8: traffic[2].load: found 2; allowed: 0.0001 to 1, written as",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line:?} is not {start:?}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let lines = bad("");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for key in ["rate", "loss", "delay"] {
        let start = format!("s.toml: long_haul.{key}: found nothing; allowed: ");
        assert!(lines.iter().any(|line| line.starts_with(&start)), "{key}: {lines:#?}");
    }
    refuses(&link("[[traffic]]\nflows = 3\n"), &["s.toml:5:1: traffic[1].kind: found nothing"]);
    let outage = link("outage = { start = \"1ms\" }\n");
    refuses(&outage, &["long_haul.outage.duration: found nothing"]);
    refuses(&link("[[traffic]]\nkind = \"trace\"\n"), &["traffic[1].file: found nothing"]);
}

#[test]
fn values_that_contradict_each_other() {
    refuses(&link("rtt = \"2ms\"\n"), &["s.toml:5:7: long_haul.rtt: found rtt beside delay"]);
    refuses(
        &link("paths = [{ rate = \"1Gbps\" }, { rate = \"2Gbps\" }]\n"),
        &["long_haul.rate: found 3Gbps altogether beside long_haul.rate"],
    );
    refuses(
        &link("paths = [{ ecn = true }]\n"),
        &["long_haul.paths[1].ecn: found ecn without rate"],
    );
    refuses(
        &link("ports = \"own\"\n"),
        &["long_haul.ports: found \"own\" beside paths without a rate"],
    );
    refuses(&link("paths = [{ hops = 3 }]\n"), &["long_haul.paths[1].hops"]);
    let impossible = LINK.replace("1e-3", "{ rate = 0.9, burst = 2 }");
    refuses(&impossible, &["s.toml:4:30: long_haul.loss.burst", "at most 0.667 can be lost"]);
    let outage = link("outage = { start = \"0\", duration = \"5ms\", every = \"5ms\" }\n");
    refuses(&outage, &["long_haul.outage.every: found 5ms; allowed: more than duration = 5ms"]);

    let site = |more| link(&format!("[site]\n{more}\n"));
    refuses(
        &site("pfc = { xoff = \"8KiB\", xon = \"8KiB\" }"),
        &["s.toml:6:30: site.pfc.xon: found 8KiB beside xoff = 8KiB; allowed: less than xoff"],
    );
    refuses(
        &site("buffer = \"64KiB\"\npfc = true"),
        &["site.buffer: found xoff 512KiB beside buffer = 64KiB"],
    );
    refuses(
        &site("ecn = { kmin = \"2MB\", kmax = \"1MB\" }"),
        &["site.ecn.kmin: found 2MB above kmax = 1MB; allowed: at most kmax"],
    );
    refuses(&site("ecn = { kmax = \"64MiB\" }"), &["site.ecn.kmax", "beside buffer = 32MiB"]);

    let nic = |more| link(&format!("[nic]\n{more}\n"));
    refuses(
        &nic("window = 64\nirn_cap = 65"),
        &["s.toml:7:11: nic.irn_cap: found 65 beside window = 64"],
    );
    refuses(&nic("window = 8"), &["nic.window: found 16 beside window = 8"]);
    refuses(&nic("window = 4194305"), &["nic.window", "1 to 4194304 packets"]);
    refuses(
        &link("[nic]\ndcqcn = { min_rate = \"20Gbps\" }\n[site]\necn = true\n"),
        &["nic.dcqcn.min_rate: found 20Gbps beside host_rate = 10Gbps"],
    );
    refuses(&nic("dcqcn = true"), &["nic.dcqcn: found true beside ecn = false"]);
    refuses(
        &format!("limit = \"2ms\"\n{LINK}"),
        &["s.toml:1:9: limit: found 2ms beside a round trip of 2ms"],
    );
    refuses(
        &format!("limit = \"1s\"\nsample_every = \"2s\"\n{LINK}"),
        &["sample_every: found 2s beside limit = 1s"],
    );
    let far = "[long_haul]\nrate = \"400Gbps\"\nrtt = \"100ms\"\nloss = 0\n[nic]\npmtu = 1024\n";
    refuses(far, &["nic.pmtu: found 400Gbps with a round trip of 100ms", "at most 4194304"]);
}

/// Nor is anything concluded from its stand-in.
#[test]
fn a_mistake_is_told_once() {
    for rate in ["10Gbit", "", "1Ybps"] {
        let text = LINK.replace("10Gbps", rate).replace("1ms", "10s");
        let text = format!("limit = \"1s\"\n{text}[topology]\nkind = \"dumbbell\"\n");
        refuses(&text, &["s.toml:3:8: long_haul.rate: found"]);
    }
    refuses(&LINK.replace("1ms", "1m"), &["s.toml:3:9: long_haul.delay: found \"1m\""]);
    refuses(&LINK.replace("1e-3", "1.5"), &["s.toml:4:8: long_haul.loss: found 1.5"]);
}

#[test]
fn hosts_and_loads_must_be_there() {
    let dumbbell =
        |more: &str| link(&format!("[topology]\nkind = \"dumbbell\"\nhosts = 2\n{more}"));
    refuses(
        &dumbbell("[[traffic]]\nkind = \"rounds\"\nflows = 3\n"),
        &["s.toml:10:9: traffic[1].flows: found 3 messages per round beside 2 hosts per site"],
    );
    good(&dumbbell("[[traffic]]\nkind = \"rounds\"\n[[traffic]]\nkind = \"long\"\nflows = 99\n"));
    let poisson = |load: f64, scope: &str| {
        format!(
            "[[traffic]]\nkind = \"poisson\"\nsizes = \"hadoop\"\nload = {load:?}\nscope = \"{scope}\"\n"
        )
    };
    refuses(
        &link(&poisson(0.5, "within")),
        &["traffic[1].scope: found \"within\" beside 1 host per site"],
    );
    let two = |a, b| dumbbell(&format!("{}{}", poisson(a, "forward"), poisson(b, "between")));
    refuses(&two(0.7, 0.4), &["s.toml:16:8: traffic[2].load: found 0.4 on top of what else"]);
    good(&two(0.7, 0.3));
    let slow = |more: String| dumbbell(&format!("[site]\nhost_rate = \"1Gbps\"\n{more}"));
    refuses(
        &slow(poisson(0.5, "forward")),
        &["traffic[1].load: found 0.5, which is more than the NICs of a site can send: 2Gbps"],
    );
    good(&slow(poisson(0.2, "forward")));
    refuses(
        &slow(poisson(0.2, "forward") + &poisson(0.1, "within")),
        &["traffic[2].load: found 0.1"],
    );
}

/// Reads `scenario` with a file of this name and content beside it.
fn read_beside(scenario: &str, file: &str, content: &str) -> Result<Scenario, String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(file), content).expect("written");
    let path = folder.path().join("s.toml");
    std::fs::write(&path, scenario).expect("written");
    let folder = format!("{}/", folder.path().display());
    load(&path, &[]).map_err(|report| report.to_string().replace(&folder, ""))
}

#[test]
fn sizes_and_traces_stand_in_files_beside_the_scenario() {
    let sizes = link("[[traffic]]\nkind = \"poisson\"\nsizes = \"my.cdf\"\n");
    let s = read_beside(&sizes, "my.cdf", "0 0\n1000 50\n2000 100\n").expect("valid");
    let [Traffic::Poisson { sizes: read, .. }] = &s.traffic[..] else { panic!("{:?}", s.traffic) };
    assert_eq!((read.name.as_str(), read.points.len()), ("my", 3));
    let error = read_beside(&sizes, "my.cdf", "0 0\n1000 x\n2000 y\n").expect_err("wrong");
    assert_eq!(error.lines().count(), 2, "{error}");
    assert!(
        error.starts_with("s.toml:7:9: traffic[1].sizes: found \"my.cdf\", line 2: "),
        "{error}"
    );

    let trace = link("[[traffic]]\nkind = \"trace\"\nfile = \"t.txt\"\n");
    let s = read_beside(&trace, "t.txt", "# a comment\n1.5 0 1 64\n").expect("valid");
    let [Traffic::Trace(flows)] = &s.traffic[..] else { panic!("{:?}", s.traffic) };
    assert_eq!((flows.len(), flows[0].start.as_nanos(), flows[0].bytes), (1, 1_500, 64));
    let error = read_beside(&trace, "t.txt", "0 0 2 64\n").expect_err("no such host");
    assert!(error.starts_with("s.toml:7:8: traffic[1].file: found \"t.txt\", line 1: "), "{error}");
    let error = read_beside(&trace, "t.txt", "# nothing\n").expect_err("empty");
    assert!(error.contains("found \"t.txt\", no messages"), "{error}");
    let error = read_beside(&trace, "t.txt", &"x\n".repeat(30)).expect_err("wrong");
    assert_eq!(error.lines().count(), 11, "{error}");
    assert!(error.contains("20 more such lines"), "{error}");

    let error = read_beside(&sizes.replace("my.cdf", "none.cdf"), "x", "").expect_err("no file");
    assert!(error.contains("found \"none.cdf\", which can't be read: No such"), "{error}");
}

#[test]
fn parameters_of_a_sweep_take_the_place_of_keys() {
    let with = |text: &str, options: &[&str]| {
        let overrides: Vec<Override> =
            options.iter().map(|o| Varied::parse(o).expect(o).overriding(0)).collect();
        parse(Path::new("s.toml"), text, &overrides)
    };
    let s = with(LINK, &["loss=1e-2", "rtt=8ms", "nic.window=99", "pmtu=256"]).expect("valid");
    assert_eq!(s.long_haul.loss, LossModel::Bernoulli(0.01));
    assert_eq!((s.long_haul.delay.as_micros(), s.nic.window, s.nic.pmtu), (4_000, Some(99), 256));

    // A burst stays when the loss changes, and the other way round.
    let bursts = LINK.replace("1e-3", "{ rate = 1e-3, burst = 8 }");
    let expected = LossModel::bursts(0.01, 8.0).expect("possible");
    assert_eq!(with(&bursts, &["loss=1%"]).expect("valid").long_haul.loss, expected);
    let expected = LossModel::bursts(1e-3, 4.0).expect("possible");
    assert_eq!(with(LINK, &["burst=4"]).expect("valid").long_haul.loss, expected);
    assert_eq!(with(&bursts, &["burst=4"]).expect("valid").long_haul.loss, expected);

    let text = link(
        "[[traffic]]\nkind = \"long\"\n[[traffic]]\nkind = \"poisson\"\nsizes = \"hadoop\"\nload = 0.1\n",
    );
    let s = with(&text, &["load=0.25", "sizes=websearch"]).expect("valid");
    let Traffic::Poisson { load, sizes, .. } = &s.traffic[1] else { panic!("{:?}", s.traffic) };
    assert_eq!((*load, sizes.name.as_str()), (0.25, "websearch"));

    let report = with(LINK, &["loss=2", "rte=3"]).expect_err("wrong").to_string();
    let lines: Vec<_> = report.lines().collect();
    assert!(
        lines[0].starts_with("--over loss=2: long_haul.loss: found 2; allowed: 0 to 0.9"),
        "{report}"
    );
    assert!(lines[1].starts_with("--over rte=3: rte: found an unknown key"), "{report}");
}

#[test]
fn a_parameter_is_a_key_and_its_values() {
    let parameter = Varied::parse("loss= {rate = 1e-3, burst = 2}, 1% ").expect("valid");
    assert_eq!(parameter.name, "loss");
    assert_eq!(parameter.values, ["{rate = 1e-3, burst = 2}", "1%"]);
    for wrong in ["loss", "loss=", "=1", "loss=1,,2", "loss=1,2,1"] {
        let error = Varied::parse(wrong).expect_err(wrong);
        assert!(error.starts_with(&format!("{wrong:?}: ")), "{error}");
    }
}

/// Every topology has one.
#[test]
fn the_shipped_examples_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut kinds = HashSet::new();
    let folders = [folder.join("never-worse"), folder];
    let entries = folders.iter().flat_map(|f| std::fs::read_dir(f).expect("a folder"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "toml") {
            let scenario = load(&path, &[]).unwrap_or_else(|report| panic!("{report}"));
            assert_eq!(Some(scenario.name.as_str()), path.file_stem().and_then(|s| s.to_str()));
            kinds.insert(std::mem::discriminant(&scenario.topology));
        }
    }
    assert_eq!(kinds.len(), 3);
}

#[test]
fn the_manual_knows_every_key_and_scheme() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulator.md");
    let manual = std::fs::read_to_string(manual).expect("a manual");
    let words = EVERY_KEY.split(['\n', '{', ',']).filter_map(|part| part.split_once(" = "));
    let keys: Vec<_> = words.map(|(key, _)| key.trim()).collect();
    assert!(keys.len() > 60, "{keys:?}");
    let schemes = Scheme::ALL.into_iter().chain([Scheme::CONWEAVE]).map(Scheme::name);
    for word in keys.into_iter().chain(schemes) {
        let is_named = ["`", ".", "{ ", ", ", "\""].iter().any(|before| {
            ["`", ",", " }", " =", "\""]
                .iter()
                .any(|after| manual.contains(&format!("{before}{word}{after}")))
        });
        assert!(is_named, "{word} is not in the manual");
    }
}
