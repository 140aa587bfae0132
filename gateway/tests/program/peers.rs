//! Two gateways without a tunnel, and the mistakes of their operators: each is said in `/healthz`, in the log and by a metric
//! within seconds of traffic, since frames cross all the same. Each test has a network namespace of its own.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::cables::{Host, cable, in_a_namespace, packet_socket};
use crate::support::{Folder, Running, free_address, lr2_gateway, send, small_of};

/// Time in which a condition has to be said. On a machine that is busy with other tests everything takes longer.
const SOON: Duration = Duration::from_secs(20);

/// Between two frames of a host. A source without a pause would fill the queue between the boxes, and their messages would be
/// dropped with its frames.
const PAUSE: Duration = Duration::from_millis(1);

struct Keys {
    secret: [&'static str; 2],
    /// Of the second box.
    recovery: &'static str,
    opcode: [&'static str; 2],
    /// The second box's ports are exchanged.
    is_swapped: bool,
}

const GOOD: Keys = Keys {
    secret: ["a secret of both boxes, of 32 bytes"; 2],
    recovery: "auto",
    opcode: ["0xe1"; 2],
    is_swapped: false,
};

struct Logged {
    gateway: Running,
    log: PathBuf,
}

impl Logged {
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + SOON;
        while !done(self) {
            let has_ended = self.gateway.child.try_wait().unwrap().is_some();
            let health = if has_ended { String::new() } else { self.gateway.get("/healthz") };
            let is_over = has_ended || Instant::now() > deadline;
            assert!(!is_over, "no {what}:\n{health}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `/healthz` and the log say it, and the metric of that reason is 1.
    fn says(&mut self, text: &str, reason: &str) {
        let line = format!("degraded: {text}");
        self.wait(&line, |this| {
            let health = this.gateway.get("/healthz");
            let has_line = health.lines().any(|it| {
                it.strip_prefix("degraded for ")
                    .and_then(|it| it.split_once(": "))
                    .is_some_and(|(_, rest)| rest.starts_with(text) && rest.contains("; next: "))
            });
            health.starts_with("HTTP/1.1 503") && health.contains("\r\n\r\ndegraded\n") && has_line
        });
        self.wait(&format!("line in the log: {line}"), |this| {
            this.log().matches(&format!("WARN {line}")).count() == 1
        });
        let metric = format!("lr2_degraded{{reason=\"{reason}\"}}");
        assert_eq!(self.gateway.metric(&metric), 1.0);
    }
}

/// A host at the other end of the first box's LAN cable: it sends one flow until the returned value is dropped.
fn host() -> Sender<()> {
    cable("host", "lan");
    let host = Host::new("host");
    let (stop, stopped) = channel();
    std::thread::spawn(move || {
        let mut frames = (0..32).map(send).collect::<Vec<_>>().into_iter().cycle();
        while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            host.send(&frames.next().unwrap());
        }
    });
    stop
}

fn start(folder: &Folder, keys: &Keys) -> [Logged; 2] {
    [0, 1].map(|me| {
        let listen: SocketAddr = free_address();
        let key = folder.path(&format!("key{me}"));
        std::fs::write(&key, keys.secret[me]).unwrap();
        let role = ["server", "client"][me];
        let memif = format!(
            "net_memif0,role={role},id=0,socket={},socket-abstract=no,rsize=8",
            folder.path("wan.sock").display()
        );
        let hosts = match me {
            0 => packet_socket(0, "lan"),
            _ => "net_null0,no-rx=1".into(),
        };
        let [lan, wan] = if keys.is_swapped && me == 1 { [memif, hosts] } else { [hosts, memif] };
        // For mbufs as large as a slot of the packet socket.
        let memory = small_of(folder, me).replace("64MiB", "96MiB");
        let text = format!(
            "[lan]\ndevice = \"{lan}\"\nmtu = 1500\nrx_desc = 256\ntx_desc = 256\n\
             [wan]\ndevice = \"{wan}\"\nmtu = 1500\nrx_desc = 256\ntx_desc = 256\n\
             [peer]\nkey_file = \"{}\"\nboot_file = \"{}\"\nnode = {}\ncontrol_opcode = {}\n\
             [recovery]\nmode = \"{}\"\nresend_cache = \"1MiB\"\nreorder_pool = \"1MiB\"\nbackup_pool = \"1MiB\"\n\
             [worker]\nidle = \"adaptive\"\n[control]\nlisten = \"{listen}\"\n{}",
            key.display(),
            folder.path(&format!("boot{me}")).display(),
            me + 1,
            keys.opcode[me],
            if me == 0 { "auto" } else { keys.recovery },
            memory,
        );
        let config = folder.path(&format!("gateway{me}.toml"));
        std::fs::write(&config, text).unwrap();
        let log = folder.path(&format!("log{me}"));
        let stderr = Stdio::from(File::create(&log).unwrap());
        let child = lr2_gateway(&config).stderr(stderr).spawn().unwrap();
        let mut this = Logged { gateway: Running { child, listen }, log };
        // The client of the shared memory has to find its server.
        this.wait("open ports", |this| this.log().contains("forwarding"));
        this
    })
}

/// The folder of the gateways' files, and the host that sends. Dropping it deletes the folder and stops the host.
struct Kept {
    _folder: Folder,
    _host: Sender<()>,
}

/// Starts two gateways and traffic; `None` without the right to make a namespace.
fn boxes(name: &str, keys: &Keys) -> Option<(Kept, [Logged; 2])> {
    in_a_namespace().then(|| {
        let (folder, host) = (Folder::new(name), host());
        let boxes = start(&folder, keys);
        (Kept { _folder: folder, _host: host }, boxes)
    })
}

#[test]
fn boxes_that_know_each_other_are_peers() {
    let Some((_kept, mut boxes)) = boxes("peers-good", &GOOD) else { return };
    for (me, this) in boxes.iter_mut().enumerate() {
        let peer = 2 - me;
        this.wait("peer", |this| {
            let peers = this.gateway.get("/peers");
            peers.contains(&format!("{{\"peers\":[{{\"node\":{peer},"))
                && peers.contains("\"state\":\"answers\"")
        });
        assert_eq!(this.gateway.metric(&format!("lr2_peer_up{{peer=\"{peer}\"}}")), 1.0);
        for reason in ["key", "version", "no_peer", "swapped_ports", "mtu"] {
            // Nobody answered while the other one started.
            this.wait(reason, |this| {
                this.gateway.metric(&format!("lr2_degraded{{reason=\"{reason}\"}}")) == 0.0
            });
        }
    }
    for (this, role) in boxes.iter_mut().zip(["sentry", "depot"]) {
        let flow = format!(
            "\"role\":\"{role}\",\"source\":\"10.1.0.1\",\"destination\":\"10.2.0.1\",\"destination_qpn\":17,"
        );
        this.wait("protected flow", |this| {
            let flows = this.gateway.get("/flows?qpn=0x11&state=protected&address=10.1.0.1");
            flows.contains(&flow) && flows.contains("\"matched\":1,")
        });
        let none = this.gateway.get("/flows?qpn=0x12");
        assert!(none.contains("\"matched\":0,\"offset\":0,\"flows\":[]"), "{none}");
        let bad = this.gateway.get("/flows?qpn=red");
        assert!(
            bad.starts_with("HTTP/1.1 400") && bad.contains("qpn: found red; allowed: "),
            "{bad}"
        );
    }
    let peers = boxes[0].gateway.get("/peers");
    assert!(
        peers.contains("\"via\":\"10.2.0.1\"") && !peers.contains("\"round_trip\":null"),
        "{peers}"
    );
}

#[test]
fn another_key_is_said_at_both_boxes() {
    let secret = [GOOD.secret[0], "another secret, also of 32 bytes or so"];
    let Some((_kept, mut boxes)) = boxes("peers-key", &Keys { secret, ..GOOD }) else { return };
    boxes[0].says("the peer refuses our key, and we refuse its key: peer.key_file", "key");
    boxes[1].says("we refuse the peer's key: peer.key_file", "key");
    let peers = boxes[1].gateway.get("/peers");
    assert!(peers.contains("\"reason\":\"another key\",\"from\":\"10.1.0.1\""), "{peers}");
}

#[test]
fn a_peer_that_does_not_answer_is_said() {
    let Some((_kept, mut boxes)) = boxes("peers-off", &Keys { recovery: "off", ..GOOD }) else {
        return;
    };
    boxes[0].says("no peer answers although traffic flows", "no_peer");
    let flows = boxes[0].gateway.get("/flows?state=unprotected");
    assert!(flows.contains("\"why\":\"") && flows.contains("no Depot"), "{flows}");
    let off = boxes[1].gateway.get("/flows");
    assert!(off.contains("\"note\":\"recovery.mode is off"), "{off}");
}

#[test]
fn ports_that_are_swapped_are_said() {
    let Some((_kept, mut boxes)) = boxes("peers-swapped", &Keys { is_swapped: true, ..GOOD })
    else {
        return;
    };
    boxes[1].says("LAN and WAN look swapped", "swapped_ports");
    boxes[0].says("no peer answers although traffic flows", "no_peer");
}
