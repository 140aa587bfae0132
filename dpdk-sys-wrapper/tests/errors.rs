//! Messages for missing resources: one line with the finding and the
//! remedy.

mod support;

use std::fmt::Debug;
use std::process::Command;

use dpdk_sys_wrapper::{Eal, EalConfig, Error, Huge, Mempool, PoolConfig, Port, PortConfig};
use support::{config, eal, pool};

/// Tells this program to try a configuration that DPDK refuses, in a process
/// of its own, because DPDK does not start again after that.
const CHILD: &str = "LR2_TEST_REFUSED";

fn main() {
    if let Ok(what) = std::env::var(CHILD) {
        let refused = match what.as_str() {
            "memory" => EalConfig { huge: Huge::Never, ..config(1 << 30) },
            device => EalConfig { vdevs: vec![device.into()], ..config(32) },
        };
        println!("{}", Eal::init(&refused).unwrap_err());
        return;
    }
    hugepages_that_are_not_there();
    let bogus = ["DPDK does not start: ", "\"net_bogus0\""];
    what_keeps_dpdk_from_starting("net_bogus0", &bogus);
    what_keeps_dpdk_from_starting("memory", &["MiB of memory are required", "are available"]);

    let eal = eal(64);
    let again = Eal::init(&config(64));
    expect(again, &["already started", "only once"]);
    pools_that_cannot_be(&eal);
    let pool = pool(&eal, 2047, 2048);
    devices_that_are_not_there(&eal, &pool);
    ports_that_ask_too_much(&eal, &pool);
    assert_eq!((pool.in_use(), pool.claimed()), (0, 0), "failures leave nothing behind");
    println!("ok");
}

/// Checks that the error is one line with these parts; shows it.
fn expect<T: Debug>(result: Result<T, Error>, parts: &[&str]) {
    expect_line(&result.unwrap_err().to_string(), parts);
}

fn expect_line(line: &str, parts: &[&str]) {
    println!("  {line}");
    assert!(!line.contains('\n'), "more than one line: {line}");
    for part in parts {
        assert!(line.contains(part), "no {part:?} in: {line}");
    }
}

fn hugepages_that_are_not_there() {
    let memory_mib = 1 << 31;
    let needed = memory_mib.to_string();
    let result = Eal::init(&EalConfig { huge: Huge::Require, memory_mib, ..config(16) });
    expect(result, &[&needed, "MiB of hugepages are required", "without hugepages"]);
}

fn what_keeps_dpdk_from_starting(what: &str, parts: &[&str]) {
    let exe = std::env::current_exe().unwrap();
    let child = Command::new(exe).env(CHILD, what).output().unwrap();
    assert!(child.status.success(), "{child:?}");
    let line = String::from_utf8(child.stdout).unwrap();
    expect_line(line.trim_end(), parts);
}

fn pools_that_cannot_be(eal: &Eal) {
    let fine =
        PoolConfig { name: "taken".into(), mbufs: 255, cache: 0, data_room: 2048, numa_node: None };
    let _taken = Mempool::new(eal, &fine).unwrap();
    expect(Mempool::new(eal, &fine), &["mbuf pool \"taken\"", "the name is taken"]);
    let with = |change: fn(&mut PoolConfig)| {
        let mut config = PoolConfig { name: "other".into(), ..fine.clone() };
        change(&mut config);
        Mempool::new(eal, &config)
    };
    expect(
        with(|c| c.mbufs = 1 << 20),
        &[
            "\"other\"",
            "1048576 mbufs of 2048 bytes take",
            "MiB and DPDK was started with 64 MiB",
            "more memory",
        ],
    );
    expect(with(|c| c.mbufs = 0), &["mbufs = 0", "at least one"]);
    expect(with(|c| c.cache = 513), &["cache = 513", "at most 512"]);
    expect(with(|c| c.cache = 200), &["cache = 200", "mbufs / 1.5"]);
    expect(with(|c| c.data_room = 65500), &["data_room = 65500", "at most 65407"]);
    expect(with(|c| c.name = "n".repeat(26)), &["pool name", "1 to 25 bytes"]);
    with(|c| c.mbufs = 100).expect("failures leave the name free");
}

fn devices_that_are_not_there(eal: &Eal, pool: &Mempool) {
    let open =
        |device: &str| Port::open(eal, &PortConfig { mtu: 1500, ..PortConfig::new(device) }, pool);
    expect(open("net_bogus0"), &["port net_bogus0: ", "no such driver", "net_memif"]);
    expect(open("eth0"), &["port eth0: ", "neither a PCI address", "net_memif0"]);
    expect(open(""), &["neither a PCI address"]);
    expect(open("net_ring\0"), &["zero byte"]);
    expect(open(&"net_ring".repeat(20)), &["at most 63 bytes"]);
    expect(open("0000:7f:1f.7"), &["port 0000:7f:1f.7: ", "no such PCI device"]);
    expect(open("net_memif7,rolle=server"), &["\"rolle=server\" is no argument", "role,"]);
    expect(open("net_af_packet7,iface=lr2-absent"), &["lr2-absent"]);
    expect(open("net_pcap7,rx_pcap=/nonexistent/x.pcap"), &["/nonexistent/x.pcap"]);
}

fn ports_that_ask_too_much(eal: &Eal, pool: &Mempool) {
    let with = |change: fn(&mut PortConfig)| {
        let mut config = PortConfig {
            mtu: 1500,
            rx_desc: 512,
            tx_desc: 512,
            ..PortConfig::new("net_null7,copy=1")
        };
        change(&mut config);
        Port::open(eal, &config, pool)
    };
    expect(
        with(|c| c.rx_desc = 2048),
        &[
            "port net_null7,copy=1: its rings need 2560 mbufs",
            "of the 2047 in pool \"frames\" other ports claim 0",
            "larger by 513",
        ],
    );
    let first = with(|_| {}).unwrap();
    assert_eq!(pool.claimed(), 1024);
    expect(
        with(|c| c.device = "net_null8".into()),
        &["net_null8", "other ports claim 1024", "larger by 1 "],
    );
    drop(first);
    expect(with(|c| c.mtu = 4500), &["4522 bytes", "pool \"frames\" hold 2048"]);
    expect(with(|c| c.rx_queues = 0), &["rx_queues = 0", "net_null7"]);
    expect(with(|c| c.tx_queues = 2000), &["transmit queues: 2000 asked for, the device has"]);
    expect(with(|c| c.mtu = 10), &["MTU: 10 asked for, the device can do 46 to"]);
    with(|_| {}).expect("failures leave the device free");
}
