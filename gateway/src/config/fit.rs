//! Whether a configuration fits the machine that it is to run on.

use settings::device::pci_address;
use settings::sizing::{HUGE_PAGE, PAGE, pool_memory};
use settings::{Document, units};

use super::machine::{Machine, Pages, free};
use super::{Config, HugePages, Idle, Port};

/// Adds a problem for each setting that cannot work on this machine, and a warning for each that is
/// slower than it has to be. Unknown properties of the machine are not judged.
pub(super) fn all(doc: &Document<'_>, config: &mut Config, machine: &Machine) {
    cores(doc, config, machine);
    // What all pairs share is known at the last.
    let huge = if config.pair.is_last() {
        let huge = hugepages(doc, config, machine);
        memory(doc, config, machine, huge);
        huge
    } else {
        config.eal.huge_pages != HugePages::Never && machine.free_huge() >= config.eal.memory
    };
    nodes(config, machine, huge);
    if let Some(how) = machine.no_transparent_pages {
        config.warnings.push(format!(
            "transparent hugepages are off for this process, which is slower with thousands of \
             flows; for hugepages: {how}"
        ));
    }
}

fn cores(doc: &Document<'_>, config: &mut Config, machine: &Machine) {
    let missing = config.eal.cores.iter().find(|cpu| !machine.cpus.contains(cpu));
    if let Some(cpu) = missing.filter(|_| !machine.cpus.is_empty()) {
        doc.problem(
            &config.cores_key(),
            format!("{:?}, and no CPU {cpu} in this machine", config.eal.cores),
            format!("some of {}", ranges(&machine.cpus)),
        );
    }
    let isolated = machine.isolated.as_ref().filter(|_| config.worker.idle == Idle::Busy);
    let is_shared = |cpu: &u32| isolated.is_some_and(|isolated| !isolated.contains(cpu));
    let mut all = config.eal.cores.clone();
    all.sort_unstable();
    let shared: Vec<u32> = all.iter().copied().filter(is_shared).collect();
    if !shared.is_empty() {
        let warning = format!(
            "{}: other programs run on CPU {} too, and delay packets; to isolate the cores of workers: \
             isolcpus={all} nohz_full={all} rcu_nocbs={all} on the kernel's command line",
            config.cores_key(),
            ranges(&shared),
            all = ranges(&all)
        );
        config.warnings.push(warning);
    }
    let (workers, cpus) = (config.workers_so_far(), machine.cpus.len());
    let is_told = config.pair.label().is_some() && config.pair.is_last() && cpus > 0;
    if is_told && config.worker.idle == Idle::Busy && workers as usize > cpus {
        let found = format!("{workers} workers in all pairs, and {cpus} CPUs");
        let allowed = "a CPU for each worker, which polls: fewer pairs, or fewer worker.count or cores in them";
        doc.problem("pair", found, allowed);
    }
}

/// Whether DPDK's memory will be in hugepages.
fn hugepages(doc: &Document<'_>, config: &mut Config, machine: &Machine) -> bool {
    let needed = config.eal.memory;
    let enough = machine.free_huge() >= needed;
    match config.eal.huge_pages {
        HugePages::Never => false,
        HugePages::Auto | HugePages::Require if enough => true,
        HugePages::Auto => {
            config.warnings.push(format!(
                "eal.huge_pages: {} are free for eal.memory = {}, so it will run without \
                 hugepages, which is slower; for hugepages: {}",
                show_pages(&machine.pages),
                units::show_size(needed),
                how_to_reserve(&machine.pages, needed)
            ));
            false
        }
        HugePages::Require => {
            let found = format!(
                "\"require\", and {} free for eal.memory = {}",
                show_pages(&machine.pages),
                units::show_size(needed)
            );
            let allowed = if machine.memory > 0 && needed >= machine.memory {
                format!("smaller pools and eal.memory: this machine has {}", mib(machine.memory))
            } else {
                format!(
                    "{}; or smaller pools and eal.memory; or \"auto\"",
                    how_to_reserve(&machine.pages, needed)
                )
            };
            doc.problem("eal.huge_pages", found, allowed);
            true
        }
    }
}

fn memory(doc: &Document<'_>, config: &mut Config, machine: &Machine, huge: bool) {
    if machine.memory == 0 {
        return;
    }
    let process = config.process_memory();
    // Memory in hugepages is not available for anything else.
    let reserved: u64 = machine.pages.iter().map(|pages| pages.size * pages.total).sum();
    let ordinary = machine.memory.saturating_sub(reserved);
    let (dpdk, key) =
        if huge { (0, "worker.max_flows") } else { (config.dpdk_memory(PAGE), "eal.memory") };
    // `check` found it already unless hugepages were expected.
    if !huge
        && config.eal.huge_pages == HugePages::Auto
        && let Some((found, allowed)) = config.memory_shortage(PAGE)
    {
        let reserve = how_to_reserve(&machine.pages, config.eal.memory);
        doc.problem("eal.memory", found, format!("{allowed}, or hugepages: {reserve}"));
    }
    let takes = dpdk.saturating_add(process);
    if takes > ordinary {
        doc.problem(
            key,
            format!(
                "a configuration that takes {} beside hugepages: {} for DPDK, {} for {} flows \
                 and packets in flight",
                mib(takes),
                mib(dpdk),
                mib(process),
                config.worker.max_flows
            ),
            format!(
                "at most the {} of this machine: smaller worker.max_flows, \
                 recovery.resend_cache, recovery.reorder_pool, recovery.backup_pool or mtu",
                mib(ordinary)
            ),
        );
    } else if takes > machine.available {
        config.warnings.push(format!(
            "{key}: takes up to {}, and {} are available: another program may be in the way",
            mib(takes),
            mib(machine.available)
        ));
    }
}

/// Frames and workers belong to the node of the ports.
fn nodes(config: &mut Config, machine: &Machine, huge: bool) {
    if machine.nodes.len() < 2 {
        return;
    }
    let mut warnings = Vec::new();
    for (side, port) in config.ports() {
        let node = node_of(port, machine);
        let Some(node) = machine.nodes.iter().find(|n| Some(n.id) == node) else { continue };
        // The pools of several pairs are each at the node of its ports.
        let (needed, what) = if config.pair.label().is_some() {
            let pool = pool_memory(config.pool.mbufs.into(), config.pool.data_room, HUGE_PAGE);
            (pool, format!("the {} of its mbufs", mib(pool)))
        } else {
            (config.eal.memory, format!("eal.memory = {}", units::show_size(config.eal.memory)))
        };
        if huge && free(&node.pages) < needed {
            warnings.push(format!(
                "{side}.device: it is at NUMA node {}, with {} free there for {what}: \
                 frames in another node's memory cost speed; {} is for the node",
                node.id,
                show_pages(&node.pages),
                format_args!("/sys/devices/system/node/node{}/hugepages", node.id)
            ));
        }
        if let Some(cpu) = config.eal.cores.iter().find(|cpu| !node.cpus.contains(cpu)) {
            warnings.push(format!(
                "{}: CPU {cpu} is not at NUMA node {}, where {side}.device is; those there \
                 are {}",
                config.cores_key(),
                node.id,
                ranges(&node.cpus)
            ));
        }
    }
    config.warnings.append(&mut warnings);
}

/// The NUMA node of a port, if it is known.
fn node_of(port: &Port, machine: &Machine) -> Option<u32> {
    machine.devices.get(&pci_address(&port.device)?).copied()
}

impl Config {
    /// The NUMA node of the ports, if it is known: that of the LAN port, where they are at several.
    pub fn numa_node(&self, machine: &Machine) -> Option<u32> {
        self.ports().find_map(|(_, port)| node_of(port, machine))
    }
}

/// `512 of 2MiB (1GiB), none of 1GiB`: the free ones.
pub(super) fn show_pages(pages: &[Pages]) -> String {
    let each = pages.iter().map(|p| format!("{} pages of {}", p.free, units::show_size(p.size)));
    let all: Vec<_> = each.collect();
    if all.is_empty() { "no hugepages".into() } else { all.join(" and ") }
}

/// The command that frees `needed` bytes of hugepages.
fn how_to_reserve(pages: &[Pages], needed: u64) -> String {
    let Some(smallest) = pages.first() else {
        return "a kernel that offers hugepages".into();
    };
    let more = needed.saturating_sub(free(pages)).div_ceil(smallest.size);
    let file = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages", smallest.size >> 10);
    let at_boot = format!("hugepages={} on the kernel's command line", smallest.total + more);
    format!(
        "{more} more pages of {} (as root: echo {} > {file}; or {at_boot})",
        units::show_size(smallest.size),
        smallest.total + more
    )
}

/// In MiB, rounded up.
pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// `0-3,8`
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match ranges.last_mut().filter(|(_, end)| *end + 1 == n) {
            Some((_, end)) => *end = n,
            None => ranges.push((n, n)),
        }
    }
    let show = |(from, to): &(u32, u32)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    ranges.iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Machine, Node, Refusal, alone as parse};
    use super::*;

    const GIB: u64 = 1 << 30;
    const SMALL: u64 = 2 << 20;

    fn pages(size: u64, total: u64, free: u64) -> Pages {
        Pages { size, total, free }
    }

    /// 64 GiB, 8 CPUs, and as many hugepages as are free.
    fn machine(free: &[Pages]) -> Machine {
        let huge: u64 = free.iter().map(|p| p.size * p.total).sum();
        let memory = 64 * GIB;
        Machine {
            memory,
            available: memory - huge - GIB,
            pages: free.to_vec(),
            nodes: vec![Node { id: 0, cpus: (0..8).collect(), pages: free.to_vec() }],
            cpus: (0..8).collect(),
            ..Machine::default()
        }
    }

    fn text(more: &str) -> String {
        format!(
            "[lan]\ndevice = \"0000:3b:00.0\"\n[wan]\ndevice = \"0000:3b:00.1\"\n\
             [peer]\nlab_unkeyed = true\n{more}"
        )
    }

    fn load(more: &str, machine: &Machine) -> Result<Config, Refusal> {
        parse(Path::new("gw.toml"), &text(more), None, Some(machine))
    }

    fn unfit(more: &str, machine: &Machine, parts: &[&str]) {
        let Err(Refusal { report, unfit: Some(_) }) = load(more, machine) else {
            panic!("must be refused for this machine: {more}")
        };
        assert_eq!(report.problems.len(), 1, "{report}");
        let line = report.to_string();
        for part in parts {
            assert!(line.contains(part), "{line:?} lacks {part:?}");
        }
    }

    fn warnings(more: &str, machine: &Machine) -> Vec<String> {
        let config = load(more, machine).unwrap_or_else(|refusal| panic!("{}", refusal.report));
        config.warnings.into_iter().filter(|w| !w.contains("lab_unkeyed")).collect()
    }

    #[test]
    fn cores_that_others_use_are_told() {
        let warnings = |isolated: Option<&[u32]>, more: &str| {
            let isolated = isolated.map(<[u32]>::to_vec);
            let huge = [pages(SMALL, 600, 600)];
            warnings(&format!("[eal]\n{more}"), &Machine { isolated, ..machine(&huge) })
        };
        let cores = "memory = \"1GiB\"\ncores = [4, 2, 3]\n[worker]\nidle = \"busy\"\n";
        assert_eq!(
            warnings(Some(&[2]), cores),
            [
                "eal.cores: other programs run on CPU 3-4 too, and delay packets; to isolate the cores of \
                 workers: isolcpus=2-4 nohz_full=2-4 rcu_nocbs=2-4 on the kernel's command line"
            ]
        );
        for (isolated, more) in [
            (Some(&[2, 3, 4][..]), cores),
            (None, cores),
            (Some(&[]), "memory = \"1GiB\"\n[worker]\nidle = \"busy\"\n"),
            (Some(&[]), &*cores.replace("busy", "adaptive")),
        ] {
            assert_eq!(warnings(isolated, more), [""; 0], "{isolated:?} {more}");
        }
    }

    #[test]
    fn what_is_wrong_everywhere_is_not_judged_here() {
        let refusal = load("[eal]\nhuge_pages = \"require\"\nmemory = 3", &machine(&[]));
        let Err(Refusal { report, unfit: None }) = refusal else { panic!("{refusal:?}") };
        assert_eq!(report.problems.len(), 1, "{report}");
    }

    #[test]
    fn hugepages_that_are_required_must_be_free() {
        let required = "[eal]\nhuge_pages = \"require\"\nmemory = \"1GiB\"\n";
        let some = [pages(SMALL, 600, 500), pages(GIB, 1, 0)];
        unfit(
            required,
            &machine(&some),
            &[
                "gw.toml:8:14: eal.huge_pages: found \"require\"",
                "500 pages of 2MiB and 0 pages of 1GiB free for eal.memory = 1GiB",
                "allowed: 12 more pages of 2MiB (as root: echo 612 > \
                 /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages; or hugepages=612 on the",
                "or \"auto\"",
            ],
        );
        unfit(
            &required.replace("1GiB", "64GiB"),
            &machine(&some),
            &["for eal.memory = 64GiB; allowed: smaller pools", "this machine has 65536 MiB"],
        );
        unfit(required, &machine(&[]), &["no hugepages free", "a kernel that offers hugepages"]);
        assert_eq!(warnings(required, &machine(&[pages(SMALL, 512, 512)])), [""; 0]);
        assert_eq!(warnings(required, &machine(&[pages(SMALL, 0, 0), pages(GIB, 1, 1)])), [""; 0]);
    }

    #[test]
    fn hugepages_that_are_wished_for_may_be_missing_if_there_is_room_without() {
        let none = machine(&[pages(SMALL, 0, 0)]);
        let memory = |size: &str| {
            let text = text(&format!("[eal]\nmemory = \"{size}\"\n"));
            // In an ordinary page there is room for one mbuf of 2624 bytes.
            let text = text.replace("[wan]", "mtu = 2200\n[wan]\nmtu = 2200");
            parse(Path::new("gw.toml"), &text, None, Some(&none))
        };
        let Err(Refusal { report, unfit: Some(_) }) = memory("260MiB") else {
            panic!("must be refused")
        };
        let line = report.to_string();
        assert!(line.starts_with("gw.toml:10:10: eal.memory: found 90112 mbufs"), "{line}");
        assert!(line.contains("in ordinary pages") && line.contains("eal.memory = 260MiB"));
        assert!(line.contains("at least 386MiB, or") && line.contains("130 more"), "{line}");
        let config = memory("400MiB").unwrap_or_else(|refusal| panic!("{}", refusal.report));
        let warned = &config.warnings[1];
        assert!(warned.starts_with("eal.huge_pages: 0 pages of 2MiB are free"), "{warned}");
        assert!(warned.contains("without hugepages"), "{warned}");
        let enough = machine(&[pages(SMALL, 256, 256)]);
        assert_eq!(warnings("[eal]\nmemory = \"512MiB\"\n", &enough), [""; 0]);
    }

    #[test]
    fn there_must_be_memory_for_everything() {
        let mut small = machine(&[]);
        (small.memory, small.available) = (GIB, GIB / 2);
        let never = "[eal]\nhuge_pages = \"never\"\nmemory = \"2GiB\"\n";
        let lines = warnings(never, &small);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("512 MiB are available"), "{lines:?}");
        unfit(
            &format!("{never}[recovery]\nresend_cache = \"384MiB\"\n"),
            &small,
            &["gw.toml:9:10: eal.memory: found a configuration that takes", "the 1024 MiB of"],
        );
        // The flows' state is never in hugepages.
        let mut reserved = machine(&[pages(GIB, 60, 60)]);
        reserved.available = 3 * GIB;
        let flows = |n| format!("[worker]\nmax_flows = {n}\n");
        assert_eq!(warnings(&flows(1 << 20), &reserved), [""; 0]);
        unfit(
            &flows(1 << 23),
            &reserved,
            &["gw.toml:8:13: worker.max_flows: found", "beside hugepages", "4096 MiB"],
        );
    }

    #[test]
    fn workers_need_cpus() {
        let enough = machine(&[pages(SMALL, 1024, 1024)]);
        unfit(
            "[eal]\nmemory = \"2GiB\"\ncores = [7, 8]\n",
            &enough,
            &["gw.toml:9:9: eal.cores: found [7, 8], and no CPU 8", "some of 0-7"],
        );
        assert_eq!(ranges(&[0, 1, 3, 5, 6, 7]), "0-1,3,5-7");
    }

    #[test]
    fn memory_and_cores_belong_to_the_node_of_the_ports() {
        let mut machine = machine(&[pages(SMALL, 512, 512)]);
        let node = |id, cpus, free| Node { id, cpus, pages: vec![pages(SMALL, 256, free)] };
        machine.nodes = vec![node(0, vec![0, 1, 2, 3], 256), node(1, vec![4, 5, 6, 7], 255)];
        machine.devices = [("0000:3b:00.0".to_owned(), 1), ("0000:3b:00.1".to_owned(), 0)].into();
        let lines = warnings("[eal]\nmemory = \"512MiB\"\ncores = [3]\n", &machine);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("lan.device: it is at NUMA node 1, with 255 pages"), "{lines:?}");
        assert!(lines[1].contains("eal.cores: CPU 3 is not at NUMA node 1"), "{lines:?}");
        assert!(lines[1].contains("those there are 4-7"), "{lines:?}");
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        let config =
            load("[eal]\nhuge_pages = \"never\"\nmemory = \"1GiB\"\n", &Machine::default());
        assert!(config.is_ok());
    }
}
