//! Faults of ports that are interfaces of the kernel: truncated frames, and receive queues that overflow. Each test has a network
//! namespace of its own.

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cables::{cable, in_a_namespace, ip, packet_socket};
use crate::support::{Folder, Running, SMALL, config, free_address};

/// A cable from `host` to `lan`, with a neighbour at its end to whom the host can send; and `wan`.
fn cables() -> UdpSocket {
    for (a, b) in [("host", "lan"), ("wan", "far")] {
        cable(a, b);
        assert!(ip(&format!("link set {a} mtu 9000")) && ip(&format!("link set {b} mtu 9000")));
    }
    assert!(ip("address add 10.77.0.1/24 dev host"));
    assert!(ip("neighbour add 10.77.0.2 lladdr 02:00:00:00:00:02 dev host"));
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    socket.connect("10.77.0.2:9").unwrap();
    socket
}

/// The kernel truncates frames that are longer than a slot of a packet socket, such as TCP segments that it has merged (GRO) or not
/// yet split (TSO). The gateway drops truncated frames.
#[test]
fn a_frame_that_a_packet_socket_cuts_is_dropped_and_said() {
    if !in_a_namespace() {
        return;
    }
    let (folder, listen) = (Folder::new("cut"), free_address());
    let host = cables();
    let memory = SMALL.replace("64MiB", "96MiB");
    let text = config(&packet_socket(0, "lan"), &packet_socket(1, "wan"), listen, &memory);
    let mut gateway = Running::start(&folder.config(&text), listen);
    let bytes = "lr2_port_transmitted_bytes_total{port=\"wan\"}";
    // Of 2,048 bytes of a slot, 66 are the kernel's; 42 are headers. The longest that is not cut, and the next.
    for payload in [100, 2048 - 66 - 42 - 1] {
        let before = gateway.metric(bytes);
        host.send(&vec![1; payload]).unwrap();
        let len = (payload + 42) as f64;
        gateway.wait("the frame", |gateway| gateway.metric(bytes) >= before + len);
    }
    let too_long = "lr2_port_receive_dropped_frames_total{port=\"lan\",reason=\"too_long\"}";
    assert_eq!(gateway.metric(too_long), 0.0);
    let before = gateway.metric(bytes);
    for (n, payload) in (1..).zip([2048 - 66 - 42, 3000, 8900]) {
        host.send(&vec![2; payload]).unwrap();
        gateway.wait("the drop", |gateway| gateway.metric(too_long) == f64::from(n));
    }
    assert!(gateway.metric(bytes) < before + 1900.0, "a cut frame was sent on");
    gateway.wait("the sentence", |gateway| {
        let health = gateway.get("/healthz");
        health.contains("longer than a port's MTU") && health.contains("ethtool -K")
    });
    gateway.end(Signal::SIGTERM);
}

/// Frames that arrived at an interface of this thread's namespace, by the kernel: it may have dropped some before.
fn arrived(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")));
    line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The receive queue overflows while the worker gets no CPU. The port counts the frames that it lost as missed.
#[test]
fn what_a_full_receive_queue_loses_is_counted_as_missed() {
    const SENT: u32 = 20_000;
    if !in_a_namespace() {
        return;
    }
    let (folder, listen) = (Folder::new("missed"), free_address());
    let host = cables();
    // `net_pcap` needs no NIC, and reports the frames that the kernel dropped.
    let lan = "net_pcap0,rx_iface_in=lan,tx_iface=lan";
    let text = config(lan, "net_null1,no-rx=1", listen, SMALL);
    let mut gateway = Running::start(&folder.config(&text), listen);
    let missed = "lr2_port_missed_frames_total{port=\"lan\"}";
    let received = "lr2_port_received_frames_total{port=\"lan\"}";
    assert_eq!(gateway.metric(missed), 0.0);
    let pid = Pid::from_raw(gateway.child.id().try_into().unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    for _ in 0..SENT {
        host.send(&[3; 1400]).unwrap();
    }
    assert!(arrived("lan") > f64::from(SENT / 2), "{}", arrived("lan"));
    std::thread::sleep(Duration::from_millis(50));
    kill(pid, Signal::SIGCONT).unwrap();
    // Each is received or missed, but for some that the hosts' kernel sent before the port was open.
    gateway.wait("all frames", |gateway| {
        gateway.metric(missed) + gateway.metric(received) >= arrived("lan") - 100.0
    });
    let lost = gateway.metric(missed);
    assert!(lost > arrived("lan") / 2.0, "{lost} missed of {}", arrived("lan"));
    let ports = gateway.get("/ports");
    assert!(ports.contains(&format!("\"missed\":{lost}")), "{ports}");
    gateway.end(Signal::SIGTERM);
}
