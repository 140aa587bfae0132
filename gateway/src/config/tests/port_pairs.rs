//! Several pairs of ports in one file.

use std::path::Path;

use super::super::{Machine, Node, Pages, Pairs, port_pairs};
use super::*;

const TWO: &str = "[[pair]]\nname = \"east\"\nlan.device = \"net_null0\"\nwan.device = \"net_null1\"\n\
                   [[pair]]\nlan.device = \"net_null2\"\nwan.device = \"net_null3\"\n\
                   [eal]\nmemory = \"1GiB\"\n[peer]\nlab_unkeyed = true\n";

fn read(text: &str, machine: Option<&Machine>) -> Result<Pairs, Vec<String>> {
    let lines = |report: Report| report.to_string().lines().map(str::to_owned).collect();
    let read = port_pairs::read(Path::new("gw.toml"), text, None, machine);
    read.map_err(|refusal| lines(refusal.report))
}

fn pairs(text: &str) -> Pairs {
    read(text, None).unwrap_or_else(|lines| panic!("{lines:#?}"))
}

/// The one line of the report, which must begin so and contain the rest.
fn refuses(text: &str, parts: &[&str]) {
    let lines = read(text, None).expect_err("must be refused");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].starts_with(parts[0]), "{lines:?} is not {parts:?}");
    assert!(parts[1..].iter().all(|part| lines[0].contains(part)), "{lines:?} lacks {parts:?}");
}

#[test]
fn each_pair_is_a_configuration_of_its_own() {
    let text = TWO.replace(
        "[[pair]]\nlan",
        "[[pair]]\ncores = [2, 3]\nrecovery.resend_cache = \"8MiB\"\nlan",
    ) + "node = 7\n[recovery]\nresend_cache = \"16MiB\"\nreorder_pool = \"4MiB\"\n[worker]\nburst = 16\n";
    let all = pairs(&text);
    let [east, other] = all.iter().collect::<Vec<_>>()[..] else { panic!("two") };
    assert_eq!([&*east.pair.name, &*other.pair.name], ["east", "2"]);
    assert_eq!([&*east.lan.device, &*other.lan.device], ["net_null0", "net_null2"]);
    let sizes = |config: &Config| {
        let pools = config.recovery.pools;
        (
            config.worker.count,
            config.worker.burst,
            pools.resend_cache >> 20,
            pools.reorder_pool >> 20,
        )
    };
    assert_eq!((sizes(east), sizes(other)), ((1, 16, 16, 4), (2, 16, 8, 4)));
    assert_eq!(other.eal.cores, [2, 3]);
    assert_eq!(east.peer.node.0, 7);
    assert!(other.pool.mbufs > 0 && east.eal.file_prefix == other.eal.file_prefix);
    // As if it were alone.
    let alone = good(&other.to_string());
    assert_eq!(alone.to_string(), other.to_string());
}

/// Nor do the numbers of their workers.
#[test]
fn no_two_pairs_have_the_same_node_id() {
    let mut nodes = std::collections::BTreeSet::new();
    for n in 0..8 {
        let pair = Pair { n, of: 8, name: String::new(), is_table: true };
        let node = pair.node(NodeId(7)).0;
        nodes.extend((0..64_u32).map(|n| node.wrapping_add(n.wrapping_mul(0x9e37_79b9))));
    }
    assert_eq!(nodes.len(), 8 * 64);
}

#[test]
fn what_is_printed_means_the_same() {
    let tunnel = "wan.tunnel = \"ethernet\"\nwan.device = \"net_null3\"\n";
    let tunnels = "[[pair.wan]]\ndevice = \"net_null3\"\ntunnel = \"ethernet\"\n[[pair.wan]]\ndevice = \"net_null4\"\n";
    for text in [
        TWO.to_owned(),
        TWO.replace("wan.device = \"net_null3\"\n", tunnel),
        TWO.replace("wan.device = \"net_null3\"\n", tunnels),
        TWO.split("[[pair]]\nlan").next().unwrap().to_owned() + "[peer]\nlab_unkeyed = true\n",
    ] {
        let all = pairs(&text);
        let printed = all.to_string();
        let again = pairs(&printed);
        assert_eq!(again.to_string(), printed);
        let configs = |all: &Pairs| all.iter().map(Config::to_string).collect::<Vec<_>>();
        assert_eq!(configs(&again), configs(&all));
        assert!(all.iter().map(|it| &it.pair).eq(again.iter().map(|it| &it.pair)));
    }
}

#[test]
fn one_form_at_a_time() {
    let found = "lan: found [lan] beside [[pair]]";
    refuses(
        &format!("[lan]\ndevice = \"net_null8\"\n{TWO}"),
        &["gw.toml:1:2: ", found, "one form"],
    );
    let wan = format!("{TWO}[[wan]]\ndevice = \"net_null8\"\n");
    refuses(&wan, &["gw.toml:", "wan: found [wan] beside [[pair]]"]);
    refuses(
        &TWO.replace("memory", "cores = [1]\nmemory"),
        &["gw.toml:9:9: eal.cores: found a list beside [[pair]]", "cores in each [[pair]]"],
    );
    refuses(
        "pair = 3\n[lan]\ndevice = \"net_null0\"\n[wan]\ndevice = \"net_null1\"\n[peer]\nlab_unkeyed = true\n",
        &["gw.toml:1:1: pair: found 3; allowed: tables"],
    );
}

#[test]
fn no_two_pairs_have_the_same_port_core_or_name() {
    for (from, to, parts) in [
        (
            "net_null3",
            "net_null0",
            [
                "gw.toml:7:14: pair[2].wan.device: found net_null0, pair east's lan device too",
                "ports of its own",
            ],
        ),
        (
            "[[pair]]\nlan",
            "[[pair]]\nname = \"east\"\nlan",
            ["gw.toml:6:1: pair[2].name: found \"east\"", "of its own"],
        ),
        ("\"east\"\n", "\"2\"\n", ["gw.toml:5:1: pair[2].name: found \"2\", another", ""]),
        (
            "\"east\"",
            "\"east of the river\"",
            ["gw.toml:2:8: pair[1].name: found \"east of", "1 to 12 letters"],
        ),
        (
            "lan.device = \"net_null2\"",
            "lan.colour = 1\nlan.device = \"net_null2\"",
            ["gw.toml:6:5: pair[2].lan.colour: found an unknown key", ""],
        ),
        (
            "lan.device = \"net_null2\"\n",
            "",
            ["gw.toml:5:1: pair[2].lan.device: found nothing", ""],
        ),
        (
            "lan.device = \"net_null2\"",
            "worker.count = 65\nlan.device = \"net_null2\"",
            ["gw.toml:6:16: pair[2].worker.count: found 65", "1 to 64"],
        ),
        (
            "lan.device = \"net_null2\"",
            "control.records = 5\nlan.device = \"net_null2\"",
            ["gw.toml:6:1: pair[2].control: found an unknown key", "cores"],
        ),
        ("memory = \"1GiB\"", "memory = \"1\"", ["gw.toml:9:10: eal.memory: found \"1\"", ""]),
        (
            "lan.device = \"net_null2\"",
            "cores = [1, 1]\nlan.device = \"net_null2\"",
            ["gw.toml:6:9: pair[2].cores: found core 1 twice", ""],
        ),
        (
            "lan.device = \"net_null2\"",
            "cores = [1, 3]\nworker.count = 1\nlan.device = \"net_null2\"",
            ["gw.toml:6:9: pair[2].cores: found 2 cores for worker.count = 1", ""],
        ),
    ] {
        refuses(&TWO.replacen(from, to, 1), &parts);
    }
    let cores = TWO.replace("lan.", "cores = [4, 5]\nlan.").replace("1GiB", "2GiB");
    refuses(&cores, &["gw.toml:7:9: pair[2].cores: found core 4, which pair east has too"]);
    let interface =
        TWO.replace("net_null0", "net_tap0,iface=x").replace("net_null3", "net_tap1,iface=x");
    refuses(
        &interface,
        &["gw.toml:7:14: pair[2].wan.device: found interface x, pair east's lan too"],
    );
    let nine: String = (0..9)
        .map(|n| {
            format!(
                "[[pair]]\nlan.device = \"net_null{}\"\nwan.device = \"net_null{}\"\n",
                2 * n,
                2 * n + 1
            )
        })
        .collect();
    refuses(
        &format!("{nine}[peer]\nlab_unkeyed = true\n[eal]\nmemory = \"4GiB\"\n"),
        &["gw.toml:1:3: pair: found 9 pairs; allowed: at most 8"],
    );
}

#[test]
fn dpdk_has_an_lcore_id_for_each_worker_of_all_pairs() {
    let with = |first, second| {
        let text = TWO.replace("1GiB", "96GiB");
        let text = text.replacen("lan.", &format!("worker.count = {first}\nlan."), 1);
        text.replacen("[[pair]]\nlan.", &format!("[[pair]]\nworker.count = {second}\nlan."), 1)
    };
    assert_eq!(pairs(&with(64, 63)).last().workers_so_far(), 127);
    refuses(
        &with(64, 64),
        &["gw.toml", "pair: found 128 workers in all pairs; allowed: at most 127"],
    );
}

#[test]
fn all_pairs_have_to_fit_together() {
    // One alone fits.
    let small = TWO.replace("1GiB", "640MiB");
    let alone = small.split("[[pair]]\nlan").next().unwrap().to_owned();
    assert!(
        read(&(alone + "[eal]\nmemory = \"640MiB\"\n[peer]\nlab_unkeyed = true\n"), None).is_ok()
    );
    refuses(&small, &["gw.toml:9:10: eal.memory: found", " mbufs of 9408 bytes and ", "at least "]);

    let pages = |total| vec![Pages { size: 1 << 30, total, free: total }];
    let node = |id, cpus| Node { id, cpus, pages: pages(4) };
    let machine = Machine {
        memory: 64 << 30,
        available: 32 << 30,
        pages: pages(8),
        nodes: vec![node(0, vec![0, 1]), node(1, vec![2, 3])],
        cpus: vec![0, 1, 2, 3],
        devices: [("0000:3b:00.0".to_owned(), 1), ("0000:3b:00.1".to_owned(), 1)].into(),
        ..Machine::default()
    };
    let text = TWO.replace("net_null2", "3b:00.0").replace("net_null3", "3b:00.1");
    let all =
        read(&text.replacen("[[pair]]\nlan", "[[pair]]\ncores = [2]\nlan", 1), Some(&machine));
    let all = all.unwrap_or_else(|lines| panic!("{lines:#?}"));
    assert_eq!(all.warnings().len(), 1, "of the missing key, once: {:?}", all.warnings());
    assert_eq!(all.last().numa_node(&machine), Some(1));
    let statement = Statement { pairs: &all, machine: Some(&machine) }.to_string();
    for part in [
        "# pair east: 1 worker(s) on any CPU\n",
        "# pair 2: 1 worker(s) on CPU [2], NUMA node 1\n",
        " for DPDK, of eal.memory = 1GiB",
    ] {
        assert!(statement.contains(part), "{statement}");
    }
    let all =
        read(&text.replacen("[[pair]]\nlan", "[[pair]]\ncores = [1]\nlan", 1), Some(&machine))
            .unwrap();
    assert!(
        all.warnings()[1].starts_with("pair 2: pair[2].cores: CPU 1 is not at NUMA node 1"),
        "{:?}",
        all.warnings()
    );
    let many = text.replace("1GiB", "2GiB") + "[worker]\ncount = 3\nidle = \"busy\"\n";
    let lines = read(&many, Some(&machine)).expect_err("must be refused");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("pair: found 6 workers in all pairs, and 4 CPUs"), "{lines:?}");
}
