//! Every rule of the configuration, by its message.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::time::Span;
use tempfile::NamedTempFile;

use super::{alone as parse, *};

mod pairs;
mod port_pairs;
mod tunnel;

/// A file that stands for a key, readable for all and removed at the end.
fn key_file(content: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, content).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    file
}

fn show(file: &NamedTempFile) -> std::path::Display<'_> {
    file.path().display()
}

const PORTS: &str = "[lan]\ndevice = \"net_null0\"\n[wan]\ndevice = \"net_null1\"\n";

pub(crate) fn lab(more: &str) -> String {
    format!("{PORTS}[peer]\nlab_unkeyed = true\n{more}")
}

pub(crate) fn good(text: &str) -> Config {
    for_role(text, None)
}

fn for_role(text: &str, role: Option<Role>) -> Config {
    let read = parse(Path::new("gw.toml"), text, role, None);
    read.unwrap_or_else(|refusal| panic!("{}", refusal.report))
}

/// The report's lines.
fn bad(text: &str) -> Vec<String> {
    let refusal = parse(Path::new("gw.toml"), text, None, None).expect_err("must be refused");
    refusal.report.to_string().lines().map(str::to_owned).collect()
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
fn two_ports_and_a_key_are_enough() {
    let key = key_file("0123456789abcdef0123456789abcdef\n");
    let c = good(&format!("{PORTS}[peer]\nkey_file = \"{}\"\n", show(&key)));
    assert_eq!(c.role, Role::Both);
    assert_eq!((c.lan.mtu, c.lan.rx_desc, c.lan.promiscuous), (9000, 1024, true));
    assert_eq!(c.worker.idle, Idle::Adaptive, "both ports are vdevs");
    assert_eq!(c.recovery.mode, Recovery::Auto);
    assert_eq!(c.recovery.tuning.give_up, None);
    assert_eq!(c.drain_timeout, Span::from_millis(2000));
    assert_eq!(c.listen, "127.0.0.1:9469".parse().unwrap());
    let Keying::Shared { current, previous, .. } = &c.peer.keying else { panic!() };
    assert_eq!(current.bytes().len(), 32, "the line end is no part of the secret");
    assert!(previous.is_none());
    assert!(!format!("{c:?}").contains("0123456789abcdef"), "the secret is never printed");
}

#[test]
fn three_mistakes_are_all_named_with_their_lines() {
    let lines = bad("[lan]\n\
         device = \"net_null0\"\n\
         mtu = 90000\n\
         [wan]\n\
         device = \"net_null1\"\n\
         [peer]\n\
         lab_unkeyed = true\n\
         [recovery]\n\
         reorder_pol = \"1MiB\"\n\
         rtt_guess = \"10 minutes\"\n");
    assert_eq!(
        lines,
        [
            "gw.toml:3:7: lan.mtu: found 90000; allowed: 576 to 9600 bytes",
            "gw.toml:9:1: recovery.reorder_pol: found an unknown key; \
             allowed: did you mean \"reorder_pool\"?",
            "gw.toml:10:13: recovery.rtt_guess: found \"10 minutes\"; allowed: 10us to 2s, \
             written as a number and one of ns, us, ms, s, e.g. \"10ms\"",
        ]
    );
}

#[test]
fn the_rate_of_the_link_is_a_rate() {
    let with = |rate: &str| {
        format!("{}\n", lab("").replace("[wan]", &format!("[wan]\nlink_rate = {rate}")))
    };
    assert_eq!(good(&with("\"2.5Gbps\"")).wan[0].link_rate, Some(2_500_000_000));
    assert!(good(&with("\"2.5Gbps\"")).to_string().contains("\nlink_rate = \"2500Mbps\"\n"));
    assert_eq!(good(&lab("")).wan[0].link_rate, None);
    for (rate, found) in
        [("100", "found 100;"), ("\"1kbps\"", "found \"1kbps\";"), ("\"100G\"", "found \"100G\";")]
    {
        refuses(&with(rate), &["wan.link_rate:", found, "allowed: 1Mbps to 10Tbps"]);
    }
}

#[test]
fn what_is_missing_is_named() {
    let lines = bad("[lan]\nmtu = 9000\n");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("gw.toml:1:"), "{}", lines[0]);
    assert!(lines[0].contains("lan.device: found nothing"), "{}", lines[0]);
    assert!(lines[1].starts_with("gw.toml: wan.device: found nothing"), "{}", lines[1]);
    assert!(lines[2].contains("peer.key_file: found nothing"), "{}", lines[2]);
}

#[test]
fn wrong_types_and_unknown_words() {
    refuses(
        &lab("[worker]\nidle = \"lazy\""),
        &["worker.idle", "\"lazy\"", "\"busy\", \"adaptive\""],
    );
    refuses(&lab("[worker]\nburst = 33"), &["worker.burst", "found 33", "16, 32, 64"]);
    refuses(&lab("[worker]\nmax_flows = \"many\""), &["worker.max_flows", "1 to 16777216"]);
    refuses(&lab("[eal]\ncores = [\"one\"]"), &["eal.cores", "a list of numbers"]);
    refuses(&lab("[eal]\nextra = \"x\""), &["eal.extra", "a list of strings"]);
    refuses(&lab("[eal]\nmemory = 512"), &["eal.memory", "found 512", "e.g. \"64MiB\""]);
    refuses(&lab("[control]\nlisten = \"9469\""), &["control.listen", "127.0.0.1:9469"]);
    refuses(&lab("pool = 3"), &["peer.pool", "an unknown key"]);
    refuses(&format!("pool = 3\n{}", lab("")), &["gw.toml:1:8: pool", "a section, [pool]"]);
    let peer = "[peer]\nlab_unkeyed = true\n";
    let wan = "[wan]\ndevice = \"net_null1\"\n";
    refuses(&format!("lan = 3\n{wan}{peer}"), &["gw.toml:1:7: lan: found 3;", "a section, [lan]"]);
    let lan = "[lan]\ndevice = \"net_null0\"\n";
    refuses(&format!("wan = \"x\"\n{lan}{peer}"), &["wan: found \"x\";", "a section, [wan]"]);
    refuses(&format!("wan = [1]\n{lan}{peer}"), &["wan: found [1];", "tables, [[wan]]"]);
    refuses(&format!("wan = []\n{lan}{peer}"), &["wan"]);
    refuses(&format!("peer = true\n{PORTS}"), &["peer: found true;", "a section, [peer]"]);
    refuses(&format!("pair = 3\n{}", lab("")), &["pair: found 3;", "tables, [[pair]]"]);
    refuses(&format!("queue_pair = 3\n{}", lab("")), &["queue_pair: found 3;"]);
    refuses(&lab("[frobnicate]\n"), &["frobnicate: found an unknown key", "recovery"]);
    refuses(&lab("control_opcode = 0x11"), &["found 0x11", "0xe0 to 0xff"]);
}

#[test]
fn bad_toml_does_not_hide_other_mistakes_nor_invent_any() {
    let lines = bad("[lan]\ndevice = \nmtu = 90000\n[wan\n[worker]\nburst = 1\n");
    let starts = [
        "gw.toml:2:10: found bad TOML",
        "gw.toml:3:7: lan.mtu: found 90000",
        "gw.toml:4:5: found bad TOML",
        "gw.toml:6:9: worker.burst: found 1;",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line:?} is not {start:?}");
    }
    let twice = format!("{}[lan]\nmtu = 9000\n", lab(""));
    refuses(&twice, &["gw.toml:7:", "bad TOML: duplicate key"]);
}

#[test]
fn keys() {
    let (a, b) = (key_file(&"a".repeat(32)), key_file(&"b".repeat(32)));
    let short = key_file("abc\n");
    let peer = |text: String| format!("{PORTS}[peer]\n{text}");

    let c =
        good(&peer(format!("key_file = \"{}\"\nprevious_key_file = \"{}\"", show(&a), show(&b))));
    assert!(matches!(c.peer.keying, Keying::Shared { previous: Some(_), .. }));
    assert!(c.warnings.iter().any(|w| w.contains("chmod 600")), "{:?}", c.warnings);

    let both = format!("key_file = \"{}\"\nlab_unkeyed = true", show(&a));
    refuses(&peer(both), &["gw.toml:7:15: peer.lab_unkeyed", "one or the other"]);
    let same = format!("key_file = \"{0}\"\nprevious_key_file = \"{0}\"", show(&a));
    refuses(&peer(same), &["peer.previous_key_file", "the same secret"]);
    refuses(
        &peer("key_file = \"/nonexistent/key\"".into()),
        &["gw.toml:6:12: peer.key_file", "can't be read: No such file", "openssl rand"],
    );
    let short = format!("key_file = \"{}\"", show(&short));
    refuses(&peer(short), &["a secret of 3 bytes", "16 to 4096 bytes"]);
    refuses(&peer("lab_unkeyed = false".into()), &["peer.key_file: found nothing"]);
}

fn devices(lan: &str, wan: &str) -> String {
    format!("[lan]\ndevice = \"{lan}\"\n[wan]\ndevice = \"{wan}\"\n[peer]\nlab_unkeyed = true\n")
}

#[test]
fn devices_must_be_two_and_real() {
    refuses(&devices("net_null0,size=64", "net_null0"), &["gw.toml:4:10", "LAN port's device too"]);
    refuses(&devices("3b:00.0", "0000:3B:00.0"), &["0000:3b:00.0, the LAN port's device too"]);
    refuses(&devices("eth0", "net_null0"), &["gw.toml:2:10", "\"eth0\"", "iface=NAME"]);
    refuses(&devices("net_null0", "3b:00.9"), &["\"3b:00.9\"", "0000:3b:00.0"]);
    refuses(
        &devices("net_memif0,role=server,socket=/a", "net_memif1,role=server,socket=/a"),
        &["wan.device", "the LAN port's socket and id"],
    );
    let c = good(&devices("0000:3b:00.0,mprq_en=0", "3b:00.1"));
    assert_eq!(c.worker.idle, Idle::Busy, "a real NIC");
    let c = good(&devices("net_memif0,socket=/a", "net_memif1,socket=/b,bsize=9216"));
    assert_eq!(c.warnings.iter().filter(|w| w.contains("memif buffers")).count(), 1);
}

#[test]
fn one_wrong_mtu_is_one_problem() {
    let ports =
        |lan: &str, wan: &str| format!("[lan]\n{lan}\n[wan]\n{wan}\n[peer]\nlab_unkeyed = true\n");
    let null = |n, mtu: &str| format!("device = \"net_null{n}\"\nmtu = {mtu}");
    refuses(&ports(&null(0, "90000"), &null(1, "1500")), &["gw.toml:3:7: lan.mtu: found 90000"]);
    refuses(&ports(&null(0, "1500"), &null(1, "\"x\"")), &["gw.toml:6:7: wan.mtu: found \"x\""]);
    let packet = "device = \"net_af_packet1,iface=eth1\"\nmtu = 9000";
    refuses(&ports(&null(0, "1500"), packet), &["lan.mtu 1500 beside wan.mtu 9000"]);
}

#[test]
fn frames_must_fit_everywhere() {
    let mtus = |lan, wan, more: &str| {
        format!(
            "[lan]\ndevice = \"net_null0\"\nmtu = {lan}\n[wan]\ndevice = \"net_null1\"\n\
             mtu = {wan}\n[peer]\nlab_unkeyed = true\n{more}"
        )
    };
    refuses(&mtus(9000, 1500, ""), &["gw.toml:6:7: wan.mtu", "lan.mtu 9000 beside wan.mtu 1500"]);
    refuses(
        &mtus(4200, 4200, "[pool]\ndata_room = 2048"),
        &["pool.data_room", "found 2048", "at least 4226 bytes: mtu 4200 and 26"],
    );
    let c = good(&mtus(4200, 4200, ""));
    assert_eq!(c.pool.data_room, 4226);
    refuses(
        &devices("net_af_packet0,iface=eth0", "net_null0"),
        &["lan.device", "framesz=2048 beside mtu 9000", "blocksz=16384,framesz=16384"],
    );
    // Its mbufs are as large as the slots of its ring.
    let packet = devices("net_af_packet0,iface=eth0,blocksz=16384,framesz=16384", "net_null0");
    let c = good(&format!("{packet}[eal]\nmemory = \"1GiB\"\n"));
    assert_eq!(c.pool.data_room, 16384);
}

#[test]
fn pools_must_fit_into_memory() {
    refuses(
        &lab("[recovery]\nresend_cache = \"2GiB\""),
        &["gw.toml:8:16: recovery.resend_cache", "eal.memory = 512MiB", "eal.memory of at least"],
    );
    refuses(
        &lab("[eal]\nmemory = \"64MiB\""),
        &["gw.toml:8:10: eal.memory", "in eal.memory = 64MiB"],
    );
    refuses(
        &lab("[pool]\nmbufs = 4096"),
        &["pool.mbufs: found 4096", "8192 for rings, queues and caches", "40960 to hold 160MiB"],
    );
    refuses(
        &lab("[pool]\nmbufs = 1000000"),
        &["pool.mbufs", "1000000 mbufs of 9408 bytes in hugepages"],
    );
    // An ordinary page holds one mbuf of 2624 bytes, a hugepage 799.
    let pages = |which: &str, memory: &str| {
        let text = lab(&format!("[eal]\nhuge_pages = \"{which}\"\nmemory = \"{memory}\""));
        text.replace("[wan]", "mtu = 2200\n[wan]\nmtu = 2200")
    };
    good(&pages("auto", "260MiB"));
    good(&pages("never", "386MiB"));
    refuses(
        &pages("never", "385MiB"),
        &["gw.toml:11:10: eal.memory", "90112 mbufs of 2624 bytes in ordinary pages", "386MiB"],
    );
    // A plain wire holds nothing, a Sentry needs no reordering pool.
    good(&lab("[recovery]\nmode = \"off\"\nresend_cache = \"2GiB\""));
    let sentry = for_role(&lab(""), Some(Role::Sentry));
    assert_eq!(sentry.pool.holdable(), 16384);
    assert_eq!(good(&lab("")).pool.holdable(), 40960);
    refuses(
        &lab("[recovery]\nbackup_pool = \"2GiB\""),
        &["gw.toml:8:15: recovery.backup_pool", "eal.memory of at least"],
    );
}

#[test]
fn eal_arguments_that_are_keys() {
    refuses(&lab("[eal]\nextra = [\"--no-huge\"]"), &["\"--no-huge\"", "eal.huge_pages instead"]);
    refuses(&lab("[eal]\nextra = [\"--vdev=net_null9\"]"), &["lan.device and wan.device instead"]);
    let two = lab("[eal]\ncores = [1, 2]\nmemory = \"2GiB\"\n[worker]\ncount = 3");
    refuses(&two, &["eal.cores: found 2 cores for worker.count = 3", "a core for each worker"]);
    refuses(
        &lab("[eal]\ncores = [4, 1, 4]\nmemory = \"2GiB\""),
        &["eal.cores: found core 4 twice"],
    );
    refuses(&lab("[worker]\ncount = 65"), &["worker.count", "1 to 64 workers"]);
    let two = good(&lab("[eal]\ncores = [1, 2]\nmemory = \"1GiB\""));
    assert_eq!((two.worker.count, two.worker.spread), (2, Spread::Mixed));
    refuses(&lab("[eal]\nfile_prefix = \"a/b\""), &["eal.file_prefix: found \"a/b\""]);
    let long = "x".repeat(65);
    refuses(&lab(&format!("[eal]\nfile_prefix = \"{long}\"")), &[&long, "64 letters"]);
    refuses(
        &lab("[eal]\nfile_prefix = \"..\""),
        &["eal.file_prefix: found \"..\"", "not the first"],
    );
    refuses(&lab("[eal]\nmemory = \"512MB\""), &["a multiple of 1MiB"]);
    good(&lab("[eal]\nextra = [\"--log-level=debug\"]\ncores = [1]"));
}

#[test]
fn timers_must_make_sense() {
    refuses(
        &lab("[recovery]\nstatus_interval = \"5ms\"\npeer_timeout = \"5ms\""),
        &["recovery.peer_timeout: found 5ms", "more than status_interval = 5ms"],
    );
    refuses(&lab("[shutdown]\ndrain_timeout = \"5m\""), &["shutdown.drain_timeout", "0ns to 60s"]);
}

#[test]
fn the_command_line_overrides_the_role() {
    let text = format!("role = \"depot\"\n{}", lab(""));
    assert_eq!(good(&text).role, Role::Depot);
    assert_eq!(for_role(&text, Some(Role::Sentry)).role, Role::Sentry);
}

#[test]
fn node_ids_stay_and_differ() {
    let node = |file: &str, text: &str| parse(Path::new(file), text, None, None).unwrap().peer.node;
    let a = node("/a.toml", &lab(""));
    assert_eq!(a, node("/a.toml", &lab("")));
    assert_ne!(a, node("/b.toml", &lab("")));
    assert_ne!(a, node("/a.toml", &devices("net_null7", "net_null8")));
    assert_eq!(node("/a.toml", &lab("node = 7")).0, 7);
}

#[test]
fn what_is_printed_has_the_same_effect() {
    let a = key_file(&"p".repeat(32));
    let b = key_file(&"o".repeat(32));
    for text in [
        lab(""),
        format!(
            "{PORTS}[peer]\nkey_file = \"{}\"\nprevious_key_file = \"{}\"\n\
             remote_prefixes = [\"10.0.0.0/8\", \"fd00::/16\"]\n\
             [recovery]\ngive_up = \"1.5ms\"\ntail_timeout = \"1ms\"\nt_out = \"70us\"\n\
             backup_pool = \"1MiB\"\nlocal_retries = 0\npacing = false\n\
             [[queue_pair]]\na = \"10.0.0.1\"\na_qpn = 17\nb = \"10.1.0.1\"\nb_qpn = 0x22\n\
             [[queue_pair]]\na = \"fd00::1\"\na_qpn = 17\nb = \"fd01::1\"\nb_qpn = 0x22\n\
             vlans = [7, 8]\n\
             [eal]\nextra = [\"--log-level=a\\\"b\\\\\\u0007\"]\ncores = [3]\n",
            show(&a),
            show(&b)
        ),
    ] {
        let mut config = good(&text);
        let mut again = good(&config.to_string());
        config.warnings.clear();
        again.warnings.clear();
        assert_eq!(config.peer, again.peer, "secrets are not shown");
        assert_eq!(format!("{config:?}"), format!("{again:?}"));
    }
}

#[test]
fn sources_are_told_of_congestion_unless_it_is_off() {
    let congestion = |text: &str| good(&lab(text)).congestion;
    let Congestion { cnp, cnp_interval } = congestion("");
    assert_eq!((cnp, cnp_interval), (true, Span::from_micros(50)));
    let Congestion { cnp, cnp_interval } =
        congestion("[congestion]\ncnp = \"off\"\ncnp_interval = \"4us\"");
    assert_eq!((cnp, cnp_interval), (false, Span::from_micros(4)));
    refuses(&lab("[congestion]\ncnp = \"on\""), &["congestion.cnp", "\"auto\""]);
    refuses(&lab("[congestion]\ncnp_interval = \"0ns\""), &["congestion.cnp_interval", "1us"]);
}

#[test]
fn recovery_behind_the_depot() {
    let c = good(&lab("[recovery]\nlocal_retries = 16\nt_out = \"50us\"\nbackup_pool = \"0B\""));
    let recovery = &c.recovery;
    assert_eq!((recovery.local_retries, recovery.pools.backup_pool), (16, 0));
    assert_eq!(recovery.tuning.t_out, Some(Span::from_micros(50)));
    assert_eq!(recovery.tuning.t_out_min, Span::from_micros(500));
    let c = good(&lab("[recovery]\nt_out_min = \"2ms\""));
    assert_eq!(c.recovery.tuning.t_out_min, Span::from_millis(2));
    let c = good(&lab(""));
    let recovery = &c.recovery;
    assert_eq!((recovery.local_retries, recovery.pools.backup_pool), (3, 32 << 20));
    assert_eq!(recovery.tuning.t_out, None);
    refuses(&lab("[recovery]\nlocal_retries = 17"), &["local_retries: found 17", "0 to 16 times"]);
    refuses(&lab("[recovery]\nt_out = \"0ns\""), &["recovery.t_out", "1us to 60s"]);
    refuses(&lab("[recovery]\nt_out_min = \"0ns\""), &["recovery.t_out_min", "1us to 60s"]);
}

#[test]
fn what_waited_is_played_out_unless_told_otherwise() {
    let pacing = |text: &str| good(&lab(text)).recovery.pacing;
    assert!(pacing("") && pacing("[recovery]\npacing = true"));
    assert!(!pacing("[recovery]\npacing = false"));
    for wrong in ["\"no\"", "0", "\"10ms\""] {
        refuses(
            &lab(&format!("[recovery]\npacing = {wrong}")),
            &["recovery.pacing", wrong, "true or false"],
        );
    }
}

#[test]
fn each_wrong_prefix_is_named() {
    let lines = bad(&lab("remote_prefixes = [\"10.2.0.0/16\", \"10.2.3.4/16\",\n\
         \"fd00::/129\", 7]"));
    assert_eq!(
        lines,
        [
            "gw.toml:7:35: peer.remote_prefixes: found \"10.2.3.4/16\"; allowed: \
             \"10.2.0.0/16\", or \"10.2.3.4/32\" for one host",
            "gw.toml:8:1: peer.remote_prefixes: found \"fd00::/129\"; allowed: an IP prefix, \
             e.g. \"10.2.0.0/16\" or \"fd00:2::/32\"",
            "gw.toml:8:15: peer.remote_prefixes: found 7; allowed: an IP prefix, \
             e.g. \"10.2.0.0/16\" or \"fd00:2::/32\"",
        ]
    );
    refuses(&lab("remote_prefixes = \"10.0.0.0/8\""), &["a list of IP prefixes"]);
    let c = good(&lab("remote_prefixes = [\"10.0.0.0/8\", \"10.1.0.0/16\", \"::/0\", \"::/0\"]"));
    assert_eq!(c.peer.remote_prefixes.len(), 4);
    let about: Vec<_> = c.warnings.iter().filter(|w| w.contains("is part of")).collect();
    assert_eq!(about.len(), 2, "{about:?}");
    assert!(about[0].contains("10.1.0.0/16 is part of 10.0.0.0/8"));
}

/// The examples that are shipped, with a key in place of `/etc/lr2/key`.
#[test]
fn the_shipped_examples_are_valid() {
    let key = key_file(&"e".repeat(32));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("/etc/lr2/key", &show(&key).to_string());
        if let Err(refusal) = parse(&path, &text, None, None) {
            panic!("{}", refusal.report);
        }
        seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "e810.toml",
            "lab-af-packet.toml",
            "lab-memif.toml",
            "long-haul-100g.toml",
            "minimal.toml",
            "mlx5.toml",
            "queue-pairs.toml",
            "tunnel-ethernet.toml",
            "tunnel-udp.toml",
            "two-pairs.toml"
        ]
    );
}

#[test]
fn a_file_that_is_not_there() {
    let refusal = load(Path::new("/nonexistent/gw.toml"), None, None).unwrap_err();
    let text = refusal.report.to_string();
    assert!(text.starts_with("/nonexistent/gw.toml: found a file that can't be read: No such"));
}
