//! Interfaces of the kernel in a network namespace of a test's own.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};

/// Runs `ip`; whether it succeeded.
pub fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split_whitespace()).status().unwrap().success()
}

/// Whether an interface of this namespace has a carrier, by `ip`: `/sys` is that of another namespace.
pub fn has_carrier(name: &str) -> bool {
    let output = Command::new("ip").args(["-o", "link", "show", "dev", name]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let flags = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    let flags: Vec<_> = flags.map(|(flags, _)| flags.split(',').collect()).unwrap_or_default();
    flags.contains(&"UP") && flags.contains(&"LOWER_UP")
}

/// How long it takes until an interface has a carrier, or none.
pub fn until(name: &str, carrier: bool) -> Duration {
    let start = Instant::now();
    while has_carrier(name) != carrier {
        assert!(start.elapsed() < Duration::from_secs(20), "{name} has not {carrier}");
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

/// In a namespace of this thread's own; `false` without the right to make one.
pub fn in_a_namespace() -> bool {
    let is_there = unshare(CloneFlags::CLONE_NEWNET).is_ok();
    if is_there {
        assert!(ip("link set lo up"));
    } else {
        eprintln!("not tested: only root may make a network namespace");
    }
    is_there
}

/// A cable: two interfaces, both of them up.
pub fn cable(a: &str, b: &str) {
    assert!(ip(&format!("link add {a} type veth peer name {b}")));
    assert!(ip(&format!("link set {a} up")) && ip(&format!("link set {b} up")));
}

/// DPDK's name of port `n` on an interface.
pub fn packet_socket(n: u8, name: &str) -> String {
    format!("net_af_packet{n},iface={name},blocksz=4096,framesz=2048")
}

/// A host that sends frames from an interface of this namespace.
pub struct Host {
    socket: OwnedFd,
    interface: LinkAddr,
}

impl Host {
    pub fn new(name: &str) -> Self {
        let interface = getifaddrs().unwrap().find_map(|interface| {
            let address = *interface.address?.as_link_addr()?;
            (interface.interface_name == name).then_some(address)
        });
        let interface = interface.expect("the kernel lists the interface's link-layer address");
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).unwrap();
        Self { socket, interface }
    }

    /// Sends a frame, again if the kernel dropped it: all namespaces share the kernel's receive queue, which may be full.
    pub fn send(&self, frame: &[u8]) {
        let fd = self.socket.as_raw_fd();
        while let Err(error) = sendto(fd, frame, &self.interface, MsgFlags::empty()) {
            assert_eq!(error, Errno::ENOBUFS);
            std::thread::yield_now();
        }
    }
}
