//! Two gateways with a tunnel between them, and the mistakes of their operators: each is one line in the log
//! and in `/healthz`, and shows in a metric.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::api::{ask, lr2ctl};
use crate::support::{Folder, Running, free_address, lr2_gateway, small_of, write_pcap};
use crate::workers;

/// Keys of both boxes, as TOML.
#[derive(Clone)]
struct Keys {
    lan_mtu: [u16; 2],
    wan_mtu: [u16; 2],
    wan: [String; 2],
    /// A second WAN port, with these devices.
    second: Option<[String; 2]>,
    secret: [&'static str; 2],
    /// Of both.
    workers: u16,
    /// The LAN ports.
    lan: [String; 2],
    /// `control.socket` of the first.
    socket: Option<PathBuf>,
}

fn ethernet() -> Keys {
    Keys {
        lan_mtu: [1500; 2],
        wan_mtu: [1534; 2],
        wan: [(); 2].map(|()| "tunnel = \"ethernet\"".into()),
        second: None,
        workers: 1,
        lan: [(); 2].map(|()| "net_null0,no-rx=1".into()),
        secret: ["a secret of both boxes, of 32 bytes"; 2],
        socket: None,
    }
}

fn udp() -> Keys {
    let wan = |own, peer| format!("tunnel = \"udp\"\naddress = \"{own}/29\"\npeer = \"{peer}\"");
    Keys {
        wan_mtu: [1574; 2],
        wan: [wan("192.0.2.1", "192.0.2.2"), wan("192.0.2.2", "192.0.2.1")],
        ..ethernet()
    }
}

/// A running gateway, and its log.
struct Logged {
    gateway: Running,
    log: PathBuf,
}

impl Logged {
    fn wait(&mut self, what: &str, mut done: impl FnMut(&Running, &str) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let log = std::fs::read_to_string(&self.log).unwrap();
            if done(&self.gateway, &log) {
                return;
            }
            let has_ended = self.gateway.child.try_wait().unwrap().is_some();
            assert!(!has_ended && Instant::now() < deadline, "no {what}:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_well(&mut self) {
        self.wait("good /healthz", |gateway, _| gateway.get("/healthz").ends_with("\r\n\r\nok\n"));
    }

    /// Waits for a session. Under a flood, `/healthz` may have an overload as well.
    fn wait_up(&mut self) {
        self.wait("session", |gateway, _| gateway.metric("lr2_tunnel_up") == 1.0);
    }

    /// Waits until `/healthz` and the log have one line each of the tunnel, with all of `parts`, and a metric
    /// another value than 0, or this one.
    fn says(&mut self, parts: &[&str], metric: &str, value: Option<f64>) {
        let one = |text: &str, mark: &str| {
            let mut lines = text.lines().filter(|line| line.contains(mark));
            let fits = |line: &str| parts.iter().all(|part| line.contains(part));
            lines.next().is_some_and(fits) && lines.next().is_none()
        };
        self.wait(&format!("line with {parts:?} in /healthz and log"), |gateway, log| {
            let warnings = log.lines().filter(|line| line.contains(" WARN "));
            let warnings = warnings.collect::<Vec<_>>().join("\n");
            one(&gateway.get("/healthz"), "tunnel: ") && one(&warnings, "tunnel: ")
        });
        let found = self.gateway.metric(metric);
        assert!(value.map_or(found > 0.0, |value| found == value), "{metric} is {found}");
    }
}

/// Starts both boxes; the WAN ports are joined by shared memory, and nothing comes from the LANs.
fn start(folder: &Folder, keys: &Keys) -> [Logged; 2] {
    [0, 1].map(|me| {
        let listen: SocketAddr = free_address();
        let key = folder.path(&format!("key{me}"));
        std::fs::write(&key, keys.secret[me]).unwrap();
        let role = ["server", "client"][me];
        let second = keys.second.as_ref().map_or(String::new(), |devices| {
            let (device, mtu) = (&devices[me], keys.wan_mtu[me]);
            format!("[[wan]]\ndevice = \"{device}\"\nmtu = {mtu}\nrx_desc = 256\ntx_desc = 256\n")
        });
        let socket = keys.socket.as_ref().filter(|_| me == 0);
        let socket = socket.map_or(String::new(), |path| format!("socket = {path:?}\n"));
        let text = format!(
            "[lan]\ndevice = \"{}\"\nmtu = {}\nrx_desc = 256\ntx_desc = 256\n\
             [[wan]]\ndevice = \"net_memif0,role={role},id=0,socket={},socket-abstract=no,rsize=8\"\n\
             mtu = {}\nrx_desc = 256\ntx_desc = 256\n{}\n{second}\
             [peer]\nkey_file = \"{}\"\nboot_file = \"{}\"\nnode = {}\n\
             [recovery]\nresend_cache = \"1MiB\"\nreorder_pool = \"1MiB\"\nbackup_pool = \"1MiB\"\n\
             [worker]\nidle = \"adaptive\"\ncount = {}\n\
             [control]\nlisten = \"{listen}\"\n{socket}{}",
            keys.lan[me],
            keys.lan_mtu[me],
            folder.path("wan.sock").display(),
            keys.wan_mtu[me],
            keys.wan[me],
            key.display(),
            folder.path(&format!("boot{me}")).display(),
            me + 1,
            keys.workers,
            small_of(folder, me).replace("64MiB", if keys.workers > 1 { "256MiB" } else { "64MiB" }),
        );
        let config = folder.path(&format!("gateway{me}.toml"));
        std::fs::write(&config, text).unwrap();
        let log = folder.path(&format!("log{me}"));
        let stderr = Stdio::from(File::create(&log).unwrap());
        let child = lr2_gateway(&config).stderr(stderr).spawn().unwrap();
        let mut this = Logged { gateway: Running { child, listen }, log };
        // The client of the shared memory has to find its server.
        this.wait("open ports", |_, log| log.contains("forwarding"));
        this
    })
}

#[test]
fn two_boxes_meet_and_say_so() {
    for (keys, name, lanes) in [(ethernet(), "ethernet", 1), (udp(), "udp", 8)] {
        let folder = Folder::new(&format!("tunnel-{name}"));
        let mut boxes = start(&folder, &keys);
        for this in &mut boxes {
            this.wait_well();
            this.wait("session", |_, log| log.contains("tunnel: session with the peer"));
            assert_eq!(this.gateway.metric("lr2_tunnel_up"), 1.0);
        }
        let told = boxes[0].gateway.get("/capabilities");
        let peer = format!("\"peer\":2,\"lanes\":{lanes},");
        assert!(
            told.contains(&peer) && told.contains("\"wan_ports\":1,\"lan_repair\":\"auto\"}"),
            "{told}"
        );
        assert!(told.ends_with("\"differs\":[]}\n"), "{told}");
        let [mut stays, mut leaves] = boxes;
        let pid = Pid::from_raw(leaves.gateway.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(leaves.gateway.child.wait().unwrap().success());
        stays.wait("end of the session", |gateway, log| {
            let answer = gateway.get("/events");
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let told: api::Events = serde_json::from_str(body).unwrap_or_default();
            let has = |kind: &str, field: &str, value: Value| {
                told.events
                    .iter()
                    .any(|it| it.event == kind && it.fields.get(field) == Some(&value))
            };
            log.contains("the session is over: the peer ended it")
                && has("session_up", "peer", 2.into())
                && has("link_up", "port", "wan".into())
        });
        assert_eq!(stays.gateway.metric("lr2_events_total{event=\"session_lost\"}"), 1.0);
    }
}

#[test]
fn a_parameter_is_set_through_the_socket() {
    let folder = Folder::new("tunnel-parameter");
    let socket = folder.path("control.sock");
    let mut keys = ethernet();
    keys.socket = Some(socket.clone());
    let [mut this, _other] = start(&folder, &keys);
    this.wait_well();
    let put = |name: &str, value: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let headers = format!("Connection: close\r\nContent-Length: {}", value.len());
        write!(
            stream,
            "PUT /parameters/{name} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n{value}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = put("wan.spray", "pinned");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = put("wan.spray", "random");
    let error = "\r\n\r\n{\"error\":\"wan.spray: found random; allowed: \\\"earliest\\\"";
    assert!(answer.contains(error), "{answer}");
    this.wait("line in the log", |_, log| log.contains("wan.spray is \"pinned\" from now on"));
    let answer = put("recovery.tolerance_depth", "77");
    assert!(answer.contains("\"value\":77"), "{answer}");
    let all = this.gateway.get("/parameters");
    assert!(all.contains("{\"name\":\"wan.spray\",\"value\":\"pinned\","), "{all}");
    assert!(all.contains("{\"name\":\"recovery.tolerance_depth\",\"value\":77,"), "{all}");
}

/// R-TUN-44: real queues, rings and threads. Without a peer of the same division, there is no session.
#[test]
fn two_workers_have_a_tunnel_each() {
    for (keys, name) in [(ethernet(), "ethernet"), (udp(), "udp")] {
        let folder = Folder::new(&format!("tunnel-workers-{name}"));
        let source = folder.path("in.pcap");
        write_pcap(&source, &(0..24).map(|pair| workers::frame(pair, 1)).collect::<Vec<_>>());
        let sinks = ["a", "b"].map(|n| folder.path(n));
        let [a, b] = sinks.each_ref().map(|sink| sink.display());
        // The same frames again and again, as fast as they are taken.
        let flood =
            format!("net_pcap0,rx_pcap={},tx_pcap={a},tx_pcap={b},infinite_rx=1", source.display());
        let lan = [flood, "net_null0,no-rx=1".into()];
        let [here, mut there] = start(&folder, &Keys { workers: 2, lan, ..keys });
        there.wait_up();
        there.wait("frames of each tunnel", |gateway, _| {
            ["0", "1"].iter().all(|n| {
                let labels = format!("{{tunnel=\"{n}\",lane=\"0\",order=\"kept\"}}");
                gateway.metric(&format!("lr2_tunnel_delivered_frames_total{labels}")) > 20_000.0
            })
        });
        // The flood is more than the cache holds, and /healthz says so.
        assert_eq!(here.gateway.metric("lr2_tunnel_up"), 1.0);
        assert!(here.gateway.metric("lr2_port_handoff_frames_total{port=\"lan\"}") > 20_000.0);
        for order in ["late", "given_up"] {
            for n in 0..2 {
                let labels = format!("{{tunnel=\"{n}\",lane=\"0\",order=\"{order}\"}}");
                let metric = format!("lr2_tunnel_delivered_frames_total{labels}");
                assert_eq!(there.gateway.metric(&metric), 0.0, "{metric}");
            }
        }
    }
    let folder = Folder::new("tunnel-division");
    let mut keys = ethernet();
    keys.wan[1] += "\ntunnels = 4";
    for this in &mut start(&folder, &keys) {
        let metric = "lr2_tunnel_refused_messages_total{reason=\"tunnels\"}";
        this.says(&["no session", "another number of tunnels", "set wan.tunnels"], metric, None);
    }
}

/// R-TUN-60: under a flood, and the repair of the LANs beside it.
#[test]
fn timers_and_pools_change_under_traffic() {
    let folder = Folder::new("tunnel-retune");
    let (source, socket) = (folder.path("in.pcap"), folder.path("control.sock"));
    write_pcap(&source, &(0..24).map(|pair| workers::frame(pair, 1)).collect::<Vec<_>>());
    let lan = format!("net_pcap0,rx_pcap={},infinite_rx=1", source.display());
    let lan = [lan.clone(), lan.replace("infinite_rx=1", "tx_pcap=/dev/null")];
    let mut boxes = start(&folder, &Keys { lan, socket: Some(socket.clone()), ..ethernet() });
    let crossed = |boxes: &mut [Logged; 2]| {
        let name = "lr2_tunnel_delivered_frames_total{lane=\"0\",order=\"kept\"}";
        let before = boxes[1].gateway.metric(name);
        boxes[1].wait("more frames", |gateway, _| gateway.metric(name) > before + 5_000.0);
    };
    boxes[1].wait_up();
    let files = [0, 1].map(|me| folder.path(&format!("gateway{me}.toml")));
    let texts = files.each_ref().map(|file| std::fs::read_to_string(file).unwrap());
    let all = "[recovery]\n";
    let limits = || {
        let pools = ask(&socket, "GET /pools", "").1;
        [1, 2, 3].map(|n| pools["pools"][n]["limit"].as_u64().unwrap())
    };
    let [reorder, cache, backup] = limits();
    for (change, names, expected) in [
        (
            "rtt_guess = \"3ms\"\ngive_up = \"90ms\"",
            "recovery.rtt_guess, recovery.give_up",
            [reorder, cache, backup],
        ),
        ("resend_cache = \"256KiB\"", "recovery.resend_cache", [reorder, cache / 4, backup]),
        (
            "resend_cache = \"256KiB\"\nreorder_pool = \"1792KiB\"",
            "recovery.reorder_pool",
            [reorder * 7 / 4, cache / 4, backup],
        ),
        ("tolerance = \"fixed\"", "recovery.tolerance", [reorder, cache, backup]),
        ("", "recovery.tolerance", [reorder, cache, backup]),
    ] {
        for me in 0..2 {
            let mut text = texts[me].clone();
            for line in change.lines() {
                let key = line.split(' ').next().unwrap();
                text = text
                    .lines()
                    .filter(|it| !it.starts_with(key))
                    .map(|it| format!("{it}\n"))
                    .collect();
            }
            std::fs::write(&files[me], text.replace(all, &format!("{all}{change}\n"))).unwrap();
            let pid = Pid::from_raw(boxes[me].gateway.child.id().try_into().unwrap());
            let lines = |log: &str| log.lines().filter(|line| line.contains("reloaded: ")).count();
            let before = lines(&std::fs::read_to_string(&boxes[me].log).unwrap());
            kill(pid, Signal::SIGHUP).unwrap();
            boxes[me].wait("reload", |_, log| lines(log) > before);
            let log = std::fs::read_to_string(&boxes[me].log).unwrap();
            let line = log.lines().rfind(|line| line.contains("reloaded: ")).unwrap();
            assert!(line.contains("INFO reloaded") && line.contains(names), "{line}");
            crossed(&mut boxes);
        }
        assert_eq!(limits(), expected, "{change}");
    }
    let larger = texts[0].replace("reorder_pool = \"1MiB\"", "reorder_pool = \"2MiB\"");
    std::fs::write(&files[0], larger).unwrap();
    let (code, _, errors) = lr2ctl(&socket, &["reload"]);
    assert!(code == 2 && errors.contains("were reserved"), "{errors}");
    let off = texts[0].replace(all, &format!("{all}lan = \"off\"\n"));
    std::fs::write(&files[0], off).unwrap();
    let (code, _, errors) = lr2ctl(&socket, &["reload"]);
    assert!(code == 2 && errors.contains("a restart is needed for recovery.lan"), "{errors}");
    crossed(&mut boxes);
    for (me, this) in boxes.iter().enumerate() {
        assert_eq!(this.gateway.metric("lr2_tunnel_session_changes_total"), 1.0, "{me}");
    }
    for order in ["late", "given_up"] {
        let labels = format!("{{lane=\"0\",order=\"{order}\"}}");
        let metric = format!("lr2_tunnel_delivered_frames_total{labels}");
        assert_eq!(boxes[1].gateway.metric(&metric), 0.0, "{metric}");
    }
}

#[test]
fn a_wan_port_that_leads_nowhere_is_said_beside_one_that_works() {
    let folder = Folder::new("tunnel-two-ports");
    let memif = |role| {
        let socket = folder.path("wan1.sock");
        format!(
            "net_memif1,role={role},id=1,socket={},socket-abstract=no,rsize=8",
            socket.display()
        )
    };
    let joined = Keys { second: Some(["server", "client"].map(memif)), ..ethernet() };
    for this in &mut start(&folder, &joined) {
        this.wait_well();
        this.wait("both ports", |gateway, _| {
            ["wan", "wan1"].iter().all(|port| {
                gateway.metric(&format!("lr2_tunnel_port_used{{port=\"{port}\"}}")) == 1.0
            })
        });
    }
    let folder = Folder::new("tunnel-half-a-port");
    let nowhere = [(); 2].map(|()| "net_null1,no-rx=1".into());
    for this in &mut start(&folder, &Keys { second: Some(nowhere), ..ethernet() }) {
        let metric = "lr2_tunnel_port_used{port=\"wan1\"}";
        this.says(&["port wan1", "tunnel: carries nothing", "both ways"], metric, Some(0.0));
        assert_eq!(this.gateway.metric("lr2_tunnel_up"), 1.0);
    }
}

#[test]
fn another_key_is_said() {
    for (keys, name) in [(ethernet(), "ethernet"), (udp(), "udp")] {
        let folder = Folder::new(&format!("key-{name}"));
        let secret = [keys.secret[0], "another secret, also of 32 bytes or so"];
        for gateway in &mut start(&folder, &Keys { secret, ..keys }) {
            let metric = "lr2_tunnel_refused_messages_total{reason=\"bad_tag\"}";
            gateway.says(&["no session", "another key: peer.key_file"], metric, None);
        }
    }
}

#[test]
fn a_wrong_peer_is_said() {
    let folder = Folder::new("peer-ethernet");
    let mut keys = ethernet();
    keys.wan[1] += "\ntunnel_ethertype = 0x9999";
    for gateway in &mut start(&folder, &keys) {
        gateway.says(&["no peer answers", "same tunnel_ethertype"], "lr2_tunnel_up", Some(0.0));
    }

    let folder = Folder::new("peer-udp");
    let mut keys = udp();
    keys.wan[0] = keys.wan[0].replace("peer = \"192.0.2.2\"", "peer = \"192.0.2.3\"");
    let [here, there] = &mut start(&folder, &keys);
    let metric = "lr2_tunnel_dropped_frames_total{reason=\"source\"}";
    here.says(&["is wan.peer = \"192.0.2.3\" the address of the other box"], metric, None);
    there.says(&["192.0.2.1 answers pings", "wan.peer = this box"], "lr2_tunnel_up", Some(0.0));
}

#[test]
fn a_next_hop_that_does_not_answer_is_said() {
    let folder = Folder::new("hop-ethernet");
    let [mut alone, _] = start(
        &folder,
        &Keys {
            wan: [ethernet().wan[0].clone(), "tunnel = \"off\"".into()],
            lan_mtu: [1500, 1534],
            ..ethernet()
        },
    );
    alone.says(&["no peer answers"], "lr2_tunnel_peer_heard", Some(0.0));

    let folder = Folder::new("hop-udp");
    let mut keys = udp();
    keys.wan[0] = keys.wan[0]
        .replace("peer = \"192.0.2.2\"", "peer = \"198.51.100.7\"\ngateway = \"192.0.2.6\"");
    keys.wan[1] = keys.wan[1].replace("peer = \"192.0.2.1\"", "peer = \"192.0.2.3\"");
    let [here, _] = &mut start(&folder, &keys);
    let metric = "lr2_tunnel_next_hop_known{port=\"wan\"}";
    here.says(&["next hop 192.0.2.6 does not answer ARP"], metric, Some(0.0));
}

#[test]
fn a_small_mtu_is_said() {
    for (mut keys, name) in [(ethernet(), "ethernet"), (udp(), "udp")] {
        let folder = Folder::new(&format!("mtu-{name}"));
        (keys.lan_mtu[1], keys.wan_mtu[1]) = (1400, keys.wan_mtu[1] - 100);
        let [here, there] = &mut start(&folder, &keys);
        let mtu = keys.wan_mtu[0];
        let parts = [format!("wan.mtu of the peer is {}, and {mtu} has room", mtu - 100)];
        let metric = "lr2_tunnel_peer_frame_bytes";
        here.says(&parts.each_ref().map(|s| &s[..]), metric, Some(f64::from(mtu - 100 + 14)));
        there.wait_well();
    }
}
