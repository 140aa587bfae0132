//! The real program with several workers on ports that have one receive queue:
//! each frame has to find the worker of its pair of hosts.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use crate::support::{
    Folder, Running, SMALL, config, fails_with, free_address, read_pcap, stderr, write_pcap,
};

const PAIRS: u8 = 24;
/// All of them fit into one ring between two workers, however slow one is.
const FRAMES: u16 = 16;

/// UDP between hosts 10.1.0.`pair` and 10.2.0.`pair`, the `n`th frame of theirs.
pub fn frame(pair: u8, n: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    f.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, pair, 10, 2, 0, pair]);
    f.extend([0xc0, 0, 0, 53, 0, 26, 0, 0]);
    f.extend(n.to_be_bytes());
    f.extend([0; 16]);
    f
}

/// The frames of each pair, in the order in which they are here.
fn by_pair(frames: impl IntoIterator<Item = Vec<u8>>) -> BTreeMap<u8, Vec<Vec<u8>>> {
    let mut pairs = BTreeMap::<_, Vec<_>>::new();
    for frame in frames {
        pairs.entry(frame[29]).or_default().push(frame);
    }
    pairs
}

fn crosses_in_order(workers: usize) {
    let folder = Folder::new(&format!("workers-{workers}"));
    let frames: Vec<_> =
        (0..FRAMES).flat_map(|n| (0..PAIRS).map(move |pair| frame(pair, n))).collect();
    let outs = |side: &str| -> Vec<_> {
        (0..workers).map(|n| folder.path(&format!("{side}-out-{n}.pcap"))).collect()
    };
    let device = |n: u8, side: &str| {
        let rx = folder.path(&format!("{side}-in.pcap"));
        write_pcap(&rx, &frames);
        let tx: String =
            outs(side).iter().map(|path| format!(",tx_pcap={}", path.display())).collect();
        format!("net_pcap{n},rx_pcap={}{tx}", rx.display())
    };
    let listen = free_address();
    let more = format!(
        "[worker]\ncount = {workers}\n[eal]\nhuge_pages = \"never\"\nmemory = \"256MiB\"\n"
    );
    let text = config(&device(0, "lan"), &device(1, "wan"), listen, &more);
    let mut gateway = Running::start(&folder.config(&text), listen);

    let all = frames.len() as f64;
    gateway.wait_transmitted(all);
    for port in ["lan", "wan"] {
        let metric = |name: &str| gateway.metric(&format!("{name}{{port=\"{port}\"}}"));
        assert_eq!(metric("lr2_port_received_frames_total"), all);
        let handed = metric("lr2_port_handoff_frames_total");
        assert!(handed > 0.2 * all && handed < all, "{handed} of {all}");
        assert_eq!(metric("lr2_port_handoff_dropped_frames_total"), 0.0);
    }
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"not_roce\"}"), 2.0 * all);

    gateway.end(Signal::SIGTERM);
    let expected = by_pair(frames);
    for side in ["lan", "wan"] {
        let sent: Vec<_> = outs(side).iter().map(|path| read_pcap(path)).collect();
        assert!(sent.iter().all(|frames| !frames.is_empty()), "a worker had nothing to do");
        // A pair belongs to one worker, which keeps its order.
        assert_eq!(by_pair(sent.into_iter().flatten()), expected);
    }
}

#[test]
fn two_workers_keep_the_order_of_each_pair() {
    crosses_in_order(2);
}

#[test]
fn four_workers_keep_the_order_of_each_pair() {
    crosses_in_order(4);
}

/// A start, and `--check` of this machine and of another one, say the same.
#[test]
fn whether_the_workers_are_enough_for_the_link() {
    let folder = Folder::new("cores");
    for (rate, is_enough) in [("1Gbps", true), ("10Tbps", false)] {
        let listen = free_address();
        let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, SMALL);
        let text = text.replace("[wan]", &format!("[wan]\nlink_rate = \"{rate}\""));
        let found = format!("{rate} in both directions takes ");
        for (options, clock) in [
            (&["--check"][..], "this one's runs at "),
            (&["--check", "--elsewhere"], "taken to be"),
        ] {
            let output = folder.run(&text, options);
            assert!(output.status.success(), "{}", stderr(&output));
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let said = stderr(&output);
            let line = if is_enough {
                printed.lines().find(|line| line.starts_with("# cores for the link: "))
            } else {
                said.lines().find(|line| line.contains(": warning: worker.count: "))
            };
            let line = line.unwrap_or_else(|| panic!("{printed}{said}"));
            assert!(line.contains(&found) && line.contains(clock), "{line}");
            assert_eq!(printed.contains("in both directions"), is_enough, "{printed}");
            assert_eq!(said.contains("in both directions"), !is_enough, "{said}");
        }
        let gateway = Running::start(&folder.config(&text), listen);
        let log = gateway.end(Signal::SIGTERM);
        let lines: Vec<_> = log.lines().filter(|line| line.contains(&found)).collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert_eq!(lines[0].contains(" WARN worker.count: "), !is_enough, "{log}");
    }
    // A virtual device has no rate.
    let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", free_address(), SMALL);
    let output = folder.run(&text, &["--check"]);
    assert!(!stderr(&output).contains("in both directions"), "{}", stderr(&output));
}

#[test]
fn a_port_with_too_few_transmit_queues_is_named() {
    let folder = Folder::new("few-queues");
    let (lan, wan) = (folder.path("lan.pcap"), folder.path("wan.pcap"));
    let text = config(
        &format!("net_pcap0,tx_pcap={}", lan.display()),
        &format!("net_pcap1,tx_pcap={}", wan.display()),
        free_address(),
        "[worker]\ncount = 3\n[eal]\nhuge_pages = \"never\"\nmemory = \"256MiB\"\n",
    );
    fails_with(&folder.run(&text, &[]), 1, &["lan.device", "transmit queues: 3 asked for"]);
}
