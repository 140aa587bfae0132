//! Several pairs of ports in one real process: the traffic of each stays in its pair, and a fault of one pair does not
//! disturb the others.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::cables::{cable, in_a_namespace, ip, packet_socket, until};
use crate::support::{
    Folder, Running, SMALL, config, fails_with, free_address, lr2_gateway, read_pcap, stderr,
    write_pcap,
};
use crate::workers::frame;

/// A pair of ports, as in the file.
fn pair(name: &str, lan: &str, wan: &str) -> String {
    let port = |side: &str, device: &str| {
        format!(
            "{side}.device = \"{device}\"\n{side}.mtu = 1500\n{side}.rx_desc = 256\n{side}.tx_desc = 256\n"
        )
    };
    format!("[[pair]]\nname = \"{name}\"\n{}{}", port("lan", lan), port("wan", wan))
}

/// A gateway with these pairs, and what follows.
fn gateway(pairs: &[String], listen: SocketAddr, more: &str) -> String {
    format!(
        "{}[peer]\nlab_unkeyed = true\n[recovery]\nresend_cache = \"1MiB\"\nreorder_pool = \"1MiB\"\n\
         backup_pool = \"1MiB\"\n[eal]\nhuge_pages = \"never\"\nmemory = \"256MiB\"\n\
         [control]\nlisten = \"{listen}\"\n{more}",
        pairs.concat()
    )
}

/// Starts it, with its log in a file.
fn start(folder: &Folder, text: &str, listen: SocketAddr) -> Running {
    let log = File::create(folder.path("log")).unwrap();
    let child = lr2_gateway(&folder.config(text)).stderr(log).spawn().unwrap();
    Running { child, listen }
}

fn lr2ctl(socket: &Path, args: &[&str]) -> (u8, String, String) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let first = ["lr2ctl", "--socket", socket.to_str().unwrap()];
    let args = first.iter().chain(args).map(Into::into);
    let code = ctl::run(args, &mut out, &mut errors);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
}

/// The pairs have two workers and one.
#[test]
fn the_traffic_of_each_pair_stays_in_it() {
    let (folder, listen) = (Folder::new("pairs"), free_address());
    let frames = |from: u8| -> Vec<_> {
        (0..64).flat_map(|n| (from..from + 10).map(move |host| frame(host, n))).collect()
    };
    let device = |n: u8, name: &str, side: &str, queues: u8| {
        let rx = folder.path(&format!("{name}-{side}-in.pcap"));
        write_pcap(&rx, &frames(if name == "east" { 1 } else { 101 }));
        let out = |queue| folder.path(&format!("{name}-{side}-out-{queue}.pcap"));
        let tx: String =
            (0..queues).map(|queue| format!(",tx_pcap={}", out(queue).display())).collect();
        format!("net_pcap{n},rx_pcap={}{tx}", rx.display())
    };
    let ports = |first: u8, name: &str, workers: u8| {
        let [lan, wan] =
            [(0, "lan"), (1, "wan")].map(|(n, side)| device(first + n, name, side, workers));
        format!("{}worker.count = {workers}\n", pair(name, &lan, &wan))
    };
    let socket = folder.path("control.sock");
    let more = format!("socket = {socket:?}\n");
    let text = gateway(&[ports(0, "east", 2), ports(2, "west", 1)], listen, &more);
    let log = folder.path("log");
    let mut gateway = start(&folder, &text, listen);
    gateway.wait_quietly("forwarding", || {
        std::fs::read_to_string(&log).unwrap().matches("forwarding: role").count() == 2
    });
    let all = 640.0;
    for name in ["east", "west"] {
        for port in ["lan", "wan"] {
            let metric = |what: &str| {
                format!("lr2_port_{what}_frames_total{{pair=\"{name}\",port=\"{port}\"}}")
            };
            gateway.wait_quietly("frames", || {
                gateway_metric(listen, &metric("transmitted")) == Some(all)
            });
        }
    }
    assert!(gateway.get("/healthz").ends_with("\r\n\r\nok\n"));
    assert!(gateway.get("/pairs/west/healthz").ends_with("\r\n\r\nok\n"));
    let body = |path: &str| -> Value {
        let answer = gateway.get(path);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
    };
    let both = body("/pairs");
    assert_eq!(
        (&both["pairs"][0]["pair"], &both["pairs"][1]["pair"]),
        (&"east".into(), &"west".into())
    );
    assert_eq!(both["pairs"][0]["workers"].as_array().unwrap().len(), 2);
    assert_ne!(both["pairs"][0]["node"], both["pairs"][1]["node"]);
    assert_eq!(body("/pairs/west/status")["pair"], "west");
    assert!(body("/pairs/west/ports").to_string().contains("net_pcap3"));
    assert!(!body("/pairs/west/ports").to_string().contains("net_pcap1"));
    assert!(body("/pairs/east/parameters").to_string().contains("\"wan.device\""));
    assert!(gateway.get("/pairs/east").contains("<html"));
    let several = gateway.get("/flows");
    assert!(several.starts_with("HTTP/1.1 300"), "{several}");
    assert!(several.contains("ask one: /pairs/east/flows, /pairs/west/flows"), "{several}");
    let page = gateway.get("/");
    assert!(
        page.starts_with("HTTP/1.1 300") && page.contains("/pairs/east, /pairs/west"),
        "{page}"
    );
    assert!(gateway.get("/pairs/north/flows").starts_with("HTTP/1.1 404"));
    assert!(gateway.get("/pairs/west/metrics").contains("{pair=\"west\""));
    assert!(!gateway.get("/pairs/west/metrics").contains("{pair=\"east\""));

    for (args, parts) in [
        (&["pairs"][..], ["east", "lan up (net_pcap2"]),
        (&["status"], ["pair east\npair east, node ", "\n\npair west\npair west, node "]),
        (&["flows"], ["pair east\n", "pair west\n"]),
        (&["--pair", "west", "ports"], ["net_pcap2", "net_pcap3"]),
        (&["log-level", "info"], ["the log level is info", ""]),
        (&["--pair", "east", "config"], ["net_pcap1", "lab_unkeyed = true"]),
        (&["--pair", "west", "top", "--once"], ["pair west, node ", "net_pcap3"]),
    ] {
        let (code, out, errors) = lr2ctl(&socket, args);
        assert_eq!((code, &*errors), (0, ""), "{args:?}");
        assert!(parts.iter().all(|part| out.contains(part)), "{args:?}: {out}");
    }
    for (args, part) in [
        (&["set", "wan.spray", "reps"][..], "--pair NAME chooses one"),
        (&["unprotect", "10.2.0.1", "17"], "--pair NAME chooses one"),
        (&["--pair", "west", "unprotect", "10.2.0.1", "17"], "there is no flow to queue pair 0x11"),
        (&["--json", "flows"], "/pairs/west/flows"),
        (&["top", "--once"], "--pair NAME chooses one"),
        (&["--pair", "north", "status"], "there is no /pairs/north/status"),
    ] {
        let (code, out, errors) = lr2ctl(&socket, args);
        assert_eq!((code, &*out, errors.lines().count()), (2, "", 1), "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
    kill(Pid::from_raw(gateway.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let status = gateway.child.wait().unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("pair{name=\"west\"}: forwarding: role"), "{said}");
    assert!(said.trim_end().ends_with("stopped"), "{said}");
    for (name, from, queues) in [("east", 1, 2), ("west", 101, 1)] {
        for side in ["lan", "wan"] {
            let outs = (0..queues).map(|n| folder.path(&format!("{name}-{side}-out-{n}.pcap")));
            let mut sent: Vec<_> = outs.flat_map(|path| read_pcap(&path)).collect();
            let mut expected = frames(from);
            sent.sort();
            expected.sort();
            assert!(sent == expected, "{name} {side}: {} frames", sent.len());
        }
    }
}

/// An answer of a gateway, which may not serve yet.
fn ask(listen: SocketAddr, path: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(listen) {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        if stream.write_all(request.as_bytes()).is_ok() {
            let _ = stream.read_to_string(&mut text);
        }
    }
    text
}

/// Whether overloads of these pairs are the only reasons in `/healthz`. Their LAN devices have frames without end, so that
/// no poll empties the receive queue.
fn is_well(listen: SocketAddr, endless: &[&str]) -> bool {
    let health = ask(listen, "/healthz");
    let Some((_, body)) = health.split_once("\r\n\r\n") else { return false };
    let mut lines = body.lines();
    matches!(lines.next(), Some("ok" | "degraded"))
        && lines.all(|line| endless.iter().any(|pair| is_of_endless_frames(line, pair)))
}

/// Whether a line of `/healthz` is the overload of a LAN port with frames without end.
fn is_of_endless_frames(line: &str, pair: &str) -> bool {
    let text = ": port lan: worker 0 does not keep up with the frames: new flows are not protected";
    line.starts_with(&format!("pair {pair}: degraded for ")) && line.contains(text)
}

/// A metric of a gateway, which may not serve yet.
fn gateway_metric(listen: SocketAddr, name: &str) -> Option<f64> {
    let text = ask(listen, "/metrics");
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()
}

/// The east has frames without end from `net_null`; the west loses the box at the other end.
#[test]
fn a_peer_that_goes_disturbs_no_other_pair() {
    let (folder, listen) = (Folder::new("pairs-peer"), free_address());
    let socket = folder.path("wan.sock");
    let memif = |role: &str, n: u8| {
        let role = if role == "server" {
            "server,socket-abstract=no,bsize=2048"
        } else {
            "client,socket-abstract=no,bsize=2048"
        };
        format!("net_memif{n},role={role},id=0,socket={}", socket.display())
    };
    let east = pair("east", "net_null0", "net_null1,no-rx=1");
    let west = pair("west", "net_null2,no-rx=1", &memif("server", 0));
    let text = gateway(&[east, west], listen, "");
    let mut gateway = start(&folder, &text, listen);
    gateway.wait_quietly("the socket", || socket.exists());
    let far_listen = free_address();
    let far = folder.path("far.toml");
    let text = config("net_null0,no-rx=1", &memif("client", 0), far_listen, SMALL);
    std::fs::write(&far, text).unwrap();
    let peer = lr2_gateway(&far).stderr(File::create(folder.path("far-log")).unwrap()).spawn();
    let mut peer = Running { child: peer.unwrap(), listen: far_listen };
    gateway.wait_quietly("a link in the west", || is_well(listen, &["east"]));
    assert!(ask(listen, "/pairs/west/healthz").ends_with("\r\n\r\nok\n"));
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    gateway.wait_quietly("word of the west", || {
        let health = ask(listen, "/healthz");
        health.lines().any(|line| {
            line.starts_with("pair west: down for ") && line.contains(": port wan is down; next: ")
        })
    });
    let health = ask(listen, "/healthz");
    let mut east = health.lines().filter(|line| line.starts_with("pair east: "));
    assert!(east.all(|line| is_of_endless_frames(line, "east")), "{health}");
    let sent = "lr2_port_transmitted_frames_total{pair=\"east\",port=\"wan\"}";
    let before = gateway.metric(sent);
    gateway.wait_quietly("frames of the east", || {
        gateway_metric(listen, sent).is_some_and(|now| now > before + 10_000.0)
    });
    let dropped =
        "lr2_port_egress_dropped_frames_total{pair=\"east\",port=\"wan\",reason=\"queue_full\"}";
    assert_eq!(gateway.metric(dropped), 0.0);
}

#[test]
fn a_pair_that_cannot_be_opened_stops_no_other() {
    let (folder, listen) = (Folder::new("pairs-open"), free_address());
    let east = pair("east", "net_null0", "net_null1,no-rx=1");
    let west = |device: &str| pair("west", device, "net_null3,no-rx=1");
    let broken = "net_af_packet0,iface=nosuch0";
    let text = gateway(&[east.clone(), west(broken)], listen, "");
    let parts = ["pair west: pair[2].lan.device: port net_af_packet0", "nosuch0"];
    fails_with(&folder.run(&text, &["--check"]), 1, &parts);
    let log = folder.path("log");
    let mut gateway = start(&folder, &text, listen);
    let sent = "lr2_port_transmitted_frames_total{pair=\"east\",port=\"wan\"}";
    gateway.wait_quietly("frames of the east", || {
        gateway_metric(listen, sent).is_some_and(|now| now > 10_000.0)
    });
    let health = ask(listen, "/healthz");
    assert!(health.starts_with("HTTP/1.1 503"), "{health}");
    let reasons = health.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(reasons.lines().count(), 2, "{reasons}");
    assert!(
        reasons.starts_with("down\npair west: down for ")
            && reasons.contains(": it does not forward: pair[2].lan.device: "),
        "{reasons}"
    );
    assert_eq!(gateway.metric("lr2_pair_up{pair=\"west\"}"), 0.0);
    assert_eq!(gateway.metric("lr2_pair_up{pair=\"east\"}"), 1.0);
    kill(Pid::from_raw(gateway.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("ERROR pair west: pair[2].lan.device: "), "{said}");

    // None can be opened.
    let other = east.replace("net_null0", "net_frobnicate0");
    let text = self::gateway(&[other, west(broken)], listen, "");
    fails_with(&folder.run(&text, &[]), 1, &["pair east: pair[1].lan.device", parts[0]]);

    // Nothing of this is found by a parser.
    let text = self::gateway(&[east.clone(), west("net_null2,no-rx=1")], listen, "");
    let output = folder.run(&text, &["--check"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", stderr(&output));
    for part in [
        "\n[[pair]]\nname = \"east\"\n",
        "# pair west: 1 worker(s) on any CPU\n",
        "# pair west: port lan: net_null2 (net_null)",
        "# pair east: port wan: net_null1 (net_null)",
    ] {
        assert!(printed.contains(part), "{printed}");
    }
    let text = self::gateway(&[east, west("net_null0")], listen, "");
    let output = folder.run(&text, &["--check"]);
    assert_eq!(output.status.code(), Some(2));
    let line = stderr(&output);
    assert!(
        line.contains(": pair[2].lan.device: found net_null0, pair east's lan device too"),
        "{line}"
    );
}

/// Its interface comes with a cable to the far side, while the other pair forwards.
#[test]
fn a_pair_is_opened_as_soon_as_it_can_be() {
    if !in_a_namespace() {
        return;
    }
    let (folder, listen) = (Folder::new("pairs-late"), free_address());
    let east = pair("east", "net_null0", "net_null1,no-rx=1");
    let west = pair("west", "net_null2", &packet_socket(3, "late"));
    let socket = folder.path("control.sock");
    let text = gateway(&[east, west], listen, &format!("socket = {socket:?}\n"));
    let log = folder.path("log");
    let mut gateway = start(&folder, &text, listen);
    let said = |part: &str| std::fs::read_to_string(&log).unwrap().matches(part).count();
    let pid = gateway.child.id();
    let handles = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    gateway.wait_quietly("a fault", || ask(listen, "/healthz").contains("it is tried again in "));
    let sent = |pair: &str| {
        gateway_metric(
            listen,
            &format!("lr2_port_transmitted_frames_total{{pair=\"{pair}\",port=\"wan\"}}"),
        )
    };
    gateway.wait_quietly("frames of the east", || sent("east").is_some_and(|sent| sent > 0.0));
    let before = handles();
    // The third wait is of four seconds.
    gateway.wait_quietly("two more tries", || {
        let health = ask(listen, "/healthz");
        let next =
            health.split_once("it is tried again in ").and_then(|(_, it)| it.split_once(" s"));
        next.is_some_and(|(seconds, _)| {
            seconds.parse::<u64>().is_ok_and(|it| (3..=4).contains(&it))
        })
    });
    assert_eq!(said("port lan: net_null2"), 1, "the port that can be opened is left alone");
    let (code, out, errors) = lr2ctl(&socket, &["pairs"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(out.contains("pair west: down for "), "{out}");
    assert!(out.contains(": it does not forward: pair[2].wan.device: "), "{out}");
    assert!(out.contains("mend it: it is tried again in "), "{out}");
    assert_eq!((said("ERROR"), said("this pair is tried again")), (1, 1), "once, not at each try");
    assert_eq!(gateway.metric("lr2_pair_up{pair=\"west\"}"), 0.0);
    let east = sent("east").unwrap();
    // A connection that was answered may be open for a moment.
    gateway.wait_quietly("as few open files as before", || handles() <= before);

    cable("far", "late");
    gateway.wait_quietly("a good /healthz", || is_well(listen, &["east", "west"]));
    gateway.wait_quietly("frames of the west", || sent("west").is_some_and(|sent| sent > 1_000.0));
    assert!(sent("east").unwrap() > east);
    assert_eq!(gateway.metric("lr2_pair_up{pair=\"west\"}"), 1.0);
    assert_eq!(said("pair{name=\"west\"}: forwarding: role"), 1);
    kill(Pid::from_raw(gateway.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let status = gateway.child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());
    assert_eq!(said("ERROR"), 1);
}

#[test]
fn a_changed_file_names_the_pair() {
    let (folder, listen) = (Folder::new("pairs-reload"), free_address());
    let pairs = [
        pair("east", "net_null0,no-rx=1", "net_null1,no-rx=1"),
        pair("west", "net_null2,no-rx=1", "net_null3,no-rx=1"),
    ];
    let text = gateway(&pairs, listen, "");
    let log = folder.path("log");
    let mut gateway = start(&folder, &text, listen);
    gateway.wait_quietly("a good /healthz", || ask(listen, "/healthz").ends_with("\r\n\r\nok\n"));
    let pid = Pid::from_raw(gateway.child.id().try_into().unwrap());
    let prefixes = "lab_unkeyed = true\nremote_prefixes = [\"10.2.0.0/16\"]\n";
    let changed = text.replace("lab_unkeyed = true\n", prefixes);
    let west = "wan.device = \"net_null3,no-rx=1\"\n";
    for (text, expected) in [
        (changed.clone(), "INFO reloaded: peer.remote_prefixes applied"),
        (
            changed.replace(west, &format!("{west}worker.max_flows = 1000\n")),
            "a restart is needed for pair[2].worker.max_flows",
        ),
        (changed.replace("\"west\"", "\"north\""), "a restart is needed for pair"),
        (changed.clone(), "reloaded: nothing is different"),
        (
            changed.replace(west, &format!("{west}recovery.resend_cache = \"64MiB\"\n")),
            "pair west: a restart is needed for recovery.resend_cache: the pools take",
        ),
        (
            changed.replace(west, &format!("{west}recovery.mode = \"lr2\"\n")),
            "INFO reloaded: pair[2].recovery.mode applied",
        ),
    ] {
        folder.config(&text);
        kill(pid, Signal::SIGHUP).unwrap();
        gateway
            .wait_quietly(expected, || std::fs::read_to_string(&log).unwrap().contains(expected));
    }
    for (name, mode) in [("east", "auto"), ("west", "lr2")] {
        let status = gateway.get(&format!("/pairs/{name}/status"));
        assert!(status.contains(&format!("\"recovery\":\"{mode}\"")), "{status}");
        let parameters = gateway.get(&format!("/pairs/{name}/parameters"));
        assert!(parameters.contains("[\"10.2.0.0/16\"]"), "{parameters}");
    }
}

/// Each pair has a cable to its host and one to the far side.
#[test]
fn a_lost_link_is_passed_on_within_its_pair() {
    if !in_a_namespace() {
        return;
    }
    let (folder, listen) = (Folder::new("pairs-links"), free_address());
    let mut all = Vec::new();
    for (n, name) in [(0, "east"), (2, "west")] {
        for (a, b) in [("host", "lan"), ("far", "wan")] {
            cable(&format!("{name}-{a}"), &format!("{name}-{b}"));
        }
        let port = |n, side| packet_socket(n, &format!("{name}-{side}"));
        all.push(pair(name, &port(n, "lan"), &port(n + 1, "wan")));
    }
    let text = gateway(&all, listen, "[link_loss]\nhold_down = \"300ms\"\n");
    let mut gateway = start(&folder, &text, listen);
    gateway.wait_quietly("a good /healthz", || ask(listen, "/healthz").ends_with("\r\n\r\nok\n"));
    assert!(ip("link set west-far down"));
    until("west-host", false);
    let sentence = ": port lan is taken down, as no WAN port has a link";
    gateway.wait_quietly("word of it", || {
        let health = ask(listen, "/healthz");
        health.lines().any(|it| it.starts_with("pair west: down for ") && it.contains(sentence))
    });
    assert!(!ask(listen, "/healthz").contains("pair east"));
    until("east-host", true);
    for (name, held) in [("east", 0.0), ("west", 1.0)] {
        let metric = format!("lr2_port_held_down{{pair=\"{name}\",port=\"lan\"}}");
        assert_eq!(gateway.metric(&metric), held, "{name}");
    }
}
