//! The real program with several workers on ports that have one receive queue:
//! each frame has to find the worker of its pair of hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use common::psn::Psn;
use common::wire::{Bth, Headers, Opcode, Vlans, parse};
use nix::sys::signal::Signal;

use crate::support::{Folder, Running, config, free_address, lr2_gateway, read_pcap, write_pcap};

const PAIRS: u8 = 24;
/// All of them fit into one ring between two workers, however slow one is.
const FRAMES: u16 = 16;

/// UDP between hosts 10.1.0.`pair` and 10.2.0.`pair`, the `n`th frame of theirs.
fn frame(pair: u8, n: u16) -> Vec<u8> {
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
        let handed = metric("lr2_port_handed_over_frames_total");
        assert!(handed > 0.2 * all && handed < all, "{handed} of {all}");
        assert_eq!(metric("lr2_port_handover_dropped_frames_total"), 0.0);
    }
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"not_roce\"}"), 2.0 * all);

    gateway.signal(Signal::SIGTERM);
    let status = gateway.child.wait().unwrap();
    let stderr = gateway.stderr();
    assert_eq!(status.code(), Some(0), "{stderr}");
    let expected = by_pair(frames);
    for side in ["lan", "wan"] {
        let sent: Vec<_> = outs(side).iter().map(|path| read_pcap(path)).collect();
        assert!(sent.iter().all(|frames| !frames.is_empty()), "a worker had nothing to do");
        // A pair belongs to one worker; what that one sent is in order.
        assert_eq!(by_pair(sent.into_iter().flatten()), expected);
    }
}

/// Queue pairs between 10.1.0.1 and 10.2.0.1 that the operator names.
const QPS: u32 = 24;

/// The `n`th SEND of a queue pair.
fn send(qp: u32, n: u32) -> Vec<u8> {
    let ip = |net| IpAddr::from([10, net, 0, 1]);
    let headers = Headers::new([2; 6], [4; 6], Vlans::NONE, ip(1), ip(2), 50_000, 0, 64);
    let mut frame = vec![0; headers.frame_len(64)];
    let bth = Bth::new(Opcode::SEND_ONLY, 0x200 + qp, Psn::new(n));
    headers.emit(&bth, &mut frame, |body| body.fill(n as u8));
    frame
}

/// All queue pairs are of one pair of hosts, so one worker has them all at first.
#[test]
fn two_workers_share_the_queue_pairs_of_two_hosts() {
    let folder = Folder::new("spread");
    let frames: Vec<_> =
        (0..u32::from(FRAMES)).flat_map(|n| (0..QPS).map(move |qp| send(qp, n))).collect();
    let input = folder.path("lan-in.pcap");
    write_pcap(&input, &frames);
    let nothing = folder.path("wan-in.pcap");
    write_pcap(&nothing, &[]);
    let outs = |side: &str| [0, 1].map(|n| folder.path(&format!("{side}-out-{n}.pcap")));
    let device = |n: u8, side: &str, input: &Path| {
        let [a, b] = outs(side);
        let input = input.display();
        format!("net_pcap{n},rx_pcap={input},tx_pcap={},tx_pcap={}", a.display(), b.display())
    };
    let listen = free_address();
    let mut more = String::from(
        "[worker]\ncount = 2\nqueue_pairs = \"spread\"\n\
         [eal]\nhuge_pages = \"never\"\nmemory = \"256MiB\"\n",
    );
    for qp in 0..QPS {
        more += &format!(
            "[[queue_pair]]\na = \"10.1.0.1\"\na_qpn = {}\nb = \"10.2.0.1\"\nb_qpn = {}\n",
            0x100 + qp,
            0x200 + qp
        );
    }
    let text = config(&device(0, "lan", &input), &device(1, "wan", &nothing), listen, &more);
    let mut gateway = Running::start(&folder.config(&text), listen);
    let all = frames.len() as f64;
    let new = "lr2_sentry_packets_total{event=\"new\"}";
    gateway.wait("every packet at a Sentry", |gateway| gateway.metric(new) == all);
    let moves = |event| format!("lr2_queue_pair_moves_total{{event=\"{event}\"}}");
    let moved = gateway.metric(&moves("moved"));
    assert!(moved > 0.0 && moved < f64::from(QPS), "{moved} of {QPS} queue pairs moved");
    assert_eq!(gateway.metric(&moves("not_moved")), 0.0);
    let frames_of_moved = moved * f64::from(FRAMES);
    for event in ["handed_over", "taken_over"] {
        let name = format!("lr2_worker_frames_total{{event=\"{event}\"}}");
        assert_eq!(gateway.metric(&name), frames_of_moved);
    }
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"moved_pair_unknown\"}"), 0.0);
    assert_eq!(gateway.metric("lr2_flows{state=\"guests\"}"), 2.0 * moved);

    gateway.signal(Signal::SIGTERM);
    let status = gateway.child.wait().unwrap();
    let stderr = gateway.stderr();
    assert_eq!(status.code(), Some(0), "{stderr}");
    let data = outs("wan").map(|path| {
        let is_data = |frame: &Vec<u8>| parse(frame).is_ok_and(|r| r.opcode == Opcode::SEND_ONLY);
        read_pcap(&path).into_iter().filter(is_data).collect::<Vec<_>>()
    });
    let by_worker = data.each_ref().map(|frames| frames.len() as f64);
    assert!(by_worker.contains(&frames_of_moved), "{by_worker:?}: each sends what it has");
    let by_qp = |frames: &[Vec<u8>]| {
        let mut qps = BTreeMap::<_, Vec<_>>::new();
        for frame in frames {
            qps.entry(parse(frame).unwrap().dest_qpn).or_default().push(frame.clone());
        }
        qps
    };
    assert_eq!(by_qp(&data.concat()), by_qp(&frames));
}

#[test]
fn two_workers_keep_the_order_of_each_pair() {
    crosses_in_order(2);
}

#[test]
fn four_workers_keep_the_order_of_each_pair() {
    crosses_in_order(4);
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
    let output = lr2_gateway(&folder.config(&text)).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.contains("lan.device") && last.contains("transmit queues: 3 asked for"), "{last}");
}
