//! The real `lr2-wan` and `lr2-host` on ports that need no NIC: `net_pcap`
//! replays a file and records another, `net_memif` joins programs.

mod support;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};
use support::{Folder, HOST, Running, WAN, fails_with, memif, number, output, text};

/// Small, and the same with and without hugepages. Queue pairs that have to complete have a timeout of 34 ms, `--timeout 13`: with
/// its retries they outlive a quarter of a second without a core.
const SMALL: &str = "--huge never --mtu 4200";

fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut pcap = PcapWriter::new(File::create(path).expect("a file")).expect("a header");
    for frame in frames {
        let length = u32::try_from(frame.len()).expect("short");
        pcap.write_packet(&PcapPacket::new(Duration::ZERO, length, frame)).expect("a frame");
    }
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let mut pcap = PcapReader::new(File::open(path).expect("a file")).expect("a header");
    let mut frames = Vec::new();
    while let Some(packet) = pcap.next_packet() {
        frames.push(packet.expect("a frame").data.into_owned());
    }
    frames
}

/// Frames that nobody takes for RoCE, all different.
fn frames(count: u8, salt: u8) -> Vec<Vec<u8>> {
    let frame = |n: u8| (0..60 + usize::from(n) * 5).map(|i| (i * 31) as u8 ^ n ^ salt).collect();
    (0..count).map(frame).collect()
}

/// A `net_pcap` port that replays `<name>-in.pcap` and records `<name>-out.pcap`.
fn pcap_port(folder: &Folder, number: u8, name: &str, replays: &[Vec<u8>]) -> String {
    let input = folder.path(&format!("{name}-in.pcap"));
    write_pcap(&input, replays);
    let output = folder.path(&format!("{name}-out.pcap"));
    format!("net_pcap{number},rx_pcap={},tx_pcap={}", text(&input), text(&output))
}

#[test]
fn a_wan_of_two_links_keeps_them_and_their_directions_apart() {
    let folder = Folder::new("links");
    let sent: Vec<_> = (0..4).map(|n| frames(100 + n, n * 16)).collect();
    let port = |n: u8| pcap_port(&folder, n, &format!("p{n}"), &sent[usize::from(n)]);
    let line = format!(
        "{SMALL} --live 20ms --name wan --a {} --b {} --delay 20ms --drop ab:2,50 --json {} \
         --next --name lan --a {} --b {} --drop ba:1",
        port(0),
        port(1),
        text(&folder.path("wan.json")),
        port(2),
        port(3),
    );
    let mut wan = Running::start(WAN, &line);
    let out = |n: u8| folder.path(&format!("p{n}-out.pcap"));
    let sent_all = [("wan", 98 + 101), ("lan", 102 + 102)];
    wan.wait_until("all delivered", |wan| {
        let Some(live) = wan.live() else { return false };
        let delivered = |link: &str| -> u64 {
            let ways = ["a_to_b", "b_to_a"];
            ways.map(|w| number(&live, &format!("/links/{link}/{w}/delivered/frames"))).iter().sum()
        };
        sent_all.into_iter().all(|(link, frames)| delivered(link) == frames)
    });
    wan.stop(Signal::SIGTERM);

    let without = |n: usize, lost: &[usize]| -> Vec<Vec<u8>> {
        let kept = sent[n].iter().enumerate().filter(|(at, _)| !lost.contains(&(at + 1)));
        kept.map(|(_, frame)| frame.clone()).collect()
    };
    assert_eq!(read_pcap(&out(1)), without(0, &[2, 50]));
    assert_eq!(read_pcap(&out(0)), without(1, &[]));
    assert_eq!(read_pcap(&out(3)), without(2, &[]));
    assert_eq!(read_pcap(&out(2)), without(3, &[1]));

    let report = folder.json("wan.json");
    assert_eq!(report["program"], "lr2-wan");
    let expected = [("wan", "a_to_b", 100, 2), ("wan", "b_to_a", 101, 0)];
    for (link, way, offered, lost) in
        expected.into_iter().chain([("lan", "a_to_b", 102, 0), ("lan", "b_to_a", 103, 1)])
    {
        let count = |what: &str| number(&report, &format!("/links/{link}/{way}/{what}"));
        assert_eq!(
            (count("offered/frames"), count("lost/listed")),
            (offered, lost),
            "{link} {way}"
        );
        assert_eq!(count("delivered/frames"), offered - lost);
        assert_eq!(count("held"), 0);
    }
    let late = report.pointer("/links/wan/lateness_us/count").and_then(serde_json::Value::as_u64);
    assert_eq!(late, Some(199));
}

#[test]
fn hosts_complete_over_a_link_that_harms_frames() {
    let folder = Folder::new("hosts");
    let socket = |name: &str| folder.path(name);
    let wan = format!(
        "{SMALL} --a {} --b {} --rate 200Mbps --delay 1ms --loss 1% --duplicate 1% --corrupt 1% \
         --json {}",
        memif(0, "server", &socket("a")),
        memif(1, "server", &socket("b")),
        text(&socket("wan.json")),
    );
    let host = |role: &str, site: &str, ip: &str, peer: &str| {
        format!(
            "{SMALL} --device {} --role {role} --ip {ip} --peer-ip {peer} --qps 2 --message 20KiB \
             --rate 190Mbps --rtt 2ms --window 4bdp --timeout 13 --warm-up 0.1 --seconds 0.8 \
             --json {}",
            memif(0, "client", &socket(site)),
            text(&socket(&format!("{role}.json"))),
        )
    };
    let mut wan = Running::start(WAN, &wan);
    let mut responder = Running::start(HOST, &host("responder", "b", "10.0.0.2", "10.0.0.1"));
    let mut requester = Running::start(HOST, &host("requester", "a", "10.0.0.1", "10.0.0.2"));
    assert_eq!(requester.wait().code(), Some(0), "{}", requester.stderr());
    responder.stop(Signal::SIGTERM);
    wan.stop(Signal::SIGINT);

    let (requester, responder) = (folder.json("requester.json"), folder.json("responder.json"));
    let completed = number(&requester, "/requester/completed/messages");
    assert!(completed > 100, "{requester:#}");
    assert_eq!(number(&responder, "/responder/received/messages"), completed);
    assert_eq!(number(&responder, "/responder/received/bytes"), completed * (20 << 10));
    for zero in ["/requester/failed", "/requester/pending", "/requester/unexpected", "/qps_failed"]
    {
        assert_eq!(number(&requester, zero), 0, "{zero}");
    }
    assert_eq!(number(&responder, "/responder/corrupt_bytes"), 0);
    // The link's counters agree with the hosts'.
    let there =
        |what: &str| number(&folder.json("wan.json"), &format!("/links/link/a_to_b/{what}"));
    assert!(there("lost/random") > 0 && there("duplicated") > 0 && there("corrupted") > 0);
    assert!(number(&requester, "/requester/retransmitted") > 0);
    assert!(number(&responder, "/responder/duplicates") > 0);
    assert!(number(&responder, "/port/bad_icrc") > 0);
}

#[test]
fn a_wan_finds_its_memif_servers_again() {
    let folder = Folder::new("again");
    let host = |role: &str, ip: &str, peer: &str| {
        format!(
            "{SMALL} --device {} --role {role} --ip {ip} --peer-ip {peer} --message 20KiB --link-wait 15s \
             --rate 50Mbps --rtt 2ms --window 4bdp --timeout 13 --warm-up 0.1 --seconds 0.3",
            memif(0, "server", &folder.path(role)),
        )
    };
    let hosts = || {
        let responder = Running::begin(HOST, &host("responder", "10.0.0.2", "10.0.0.1"));
        let mut requester = Running::begin(HOST, &host("requester", "10.0.0.1", "10.0.0.2"));
        requester.wait_until("sockets", |_| {
            ["requester", "responder"].iter().all(|role| folder.path(role).exists())
        });
        (requester, responder)
    };
    let finish = |(mut requester, mut responder): (Running, Running)| {
        assert_eq!(requester.wait().code(), Some(0), "{}", requester.stderr());
        responder.stop(Signal::SIGTERM);
    };

    let first = hosts();
    let client = |n, role| memif(n, "client", &folder.path(role));
    let line = format!(
        "{SMALL} --delay 1ms --a {} --b {}",
        client(0, "requester"),
        client(1, "responder")
    );
    let mut wan = Running::start(WAN, &line);
    finish(first);
    finish(hosts());
    wan.stop(Signal::SIGTERM);
}

#[test]
fn a_killed_program_leaves_no_folder_of_dpdk() {
    let name = format!("lr2-tb-{}-killed", std::process::id());
    let line = format!("{SMALL} --file-prefix {name} --a net_null0 --b net_null1");
    let mut wan = Running::start(WAN, &line);
    wan.signal(Signal::SIGKILL);
    wan.wait();
    for base in ["/run/dpdk", "/var/run/dpdk"] {
        let folder = Path::new(base).join(&name);
        assert!(!folder.exists(), "{}", folder.display());
    }
}

#[test]
fn a_link_for_which_the_machine_has_no_memory_is_refused() {
    let line = "--huge never --a net_null0 --b net_null1 --rate 400Gbps --delay 900ms";
    fails_with(&output(WAN, line), "lr2-wan", &["MiB of memory are required", "are available"]);
}

#[test]
fn a_queue_pair_that_fails_is_an_exit_code() {
    let folder = Folder::new("failed");
    let report = folder.path("host.json");
    let line = format!(
        "{SMALL} --device net_null0,no-rx=1 --role requester --ip 10.0.0.1 --peer-ip 10.0.0.2 \
         --timeout 8 --retry 2 --seconds 5 --json {}",
        text(&report)
    );
    let start = Instant::now();
    let mut host = Running::begin(HOST, &line);
    assert_eq!(host.wait().code(), Some(1), "{}", host.stderr());
    // All failed: it does not go on for its five seconds.
    assert!(start.elapsed() < Duration::from_secs(5));
    let report = folder.json("host.json");
    assert_eq!(number(&report, "/qps_failed"), 1);
    assert!(number(&report, "/requester/failed") > 0);
    assert_eq!(number(&report, "/requester/completed/messages"), 0);
}

#[test]
fn what_is_waiting_ends_when_told_to() {
    let folder = Folder::new("waiting");
    let host = |more: &str| {
        let device = memif(0, "server", &folder.path("nobody"));
        format!("{SMALL} --device {device} --role responder --ip fd00::1 --peer-ip fd00::2 {more}")
    };
    // No link yet, nor in a minute; it says so only when the time is over.
    let mut waits = Running::begin(HOST, &host("--link-wait 1min"));
    std::thread::sleep(Duration::from_millis(700));
    waits.stop(Signal::SIGTERM);

    let output = output(HOST, &host("--link-wait 100ms"));
    fails_with(&output, "lr2-host", &["net_memif0", "no link; is the other end there?"]);
}

#[test]
fn mistakes_on_the_command_line_are_told_before_anything_starts() {
    let ports = "--a net_null0 --b net_null1";
    let host = "--device net_null0 --ip 10.0.0.1 --peer-ip 10.0.0.2";
    for (program, line, parts) in [
        (WAN, "--a net_null0".into(), vec!["--b <DEVICE>"]),
        (WAN, format!("{ports} --rate fast"), vec!["\"fast\" is no rate", "Gbps"]),
        (WAN, format!("{ports} --next {ports}"), vec!["two links are called \"link\""]),
        (HOST, format!("{host} --role spectator"), vec!["requester, responder, both"]),
        (HOST, format!("{host} --role both --retry 9"), vec!["0 to 7, or infinite"]),
        (WAN, format!("{ports} --loss 60% --burst 1"), vec!["A to B", "B to A", "0.500"]),
        (WAN, format!("{ports} --outage 1s,2s,1s"), vec!["the period must exceed"]),
        (HOST, format!("{host} --role requester --window 4bdp"), vec!["needs --rtt"]),
        (HOST, format!("{host} --role requester --pmtu 1500"), vec!["1500"]),
        (
            HOST,
            "--device net_null0 --role responder --ip 10.0.0.1 --peer-ip fd00::2".into(),
            vec!["one is IPv4, the other IPv6"],
        ),
    ] {
        let output = output(program, &line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{line}: {stderr:?} lacks {part:?}");
        }
    }
}

#[test]
fn ports_that_do_not_exist_are_named() {
    let host = "--role responder --ip 10.0.0.1 --peer-ip 10.0.0.2";
    for (program, name, line, device) in [
        (WAN, "lr2-wan", "--a net_null0 --b net_frobnicate0".into(), "net_frobnicate0"),
        (WAN, "lr2-wan", "--a 0000:ff:1f.7 --b net_null0".into(), "0000:ff:1f.7"),
        (HOST, "lr2-host", format!("{host} --device net_frobnicate0"), "net_frobnicate0"),
    ] {
        fails_with(&output(program, &format!("{SMALL} {line}")), name, &[device]);
    }
}
