//! Resources of the machine: memory, hugepages, CPUs, and the NUMA nodes of its devices.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Hugepages of one size, of the machine or one of its NUMA nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages {
    /// Bytes of one.
    pub size: u64,
    /// All that there are.
    pub total: u64,
    /// Those that nobody uses or was promised.
    pub free: u64,
}

/// A NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Its hugepages, smallest first.
    pub pages: Vec<Pages>,
}

/// A machine. Properties that can't be read are empty or zero, and nothing is concluded
/// from it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Machine {
    /// Memory, bytes.
    pub memory: u64,
    /// The part that programs can still have in ordinary pages, bytes.
    pub available: u64,
    /// Hugepages, smallest first.
    pub pages: Vec<Pages>,
    /// NUMA nodes, by number.
    pub nodes: Vec<Node>,
    /// CPUs that are online.
    pub cpus: Vec<u32>,
    /// Those on which the scheduler places no program by itself; `None`: not known.
    pub isolated: Option<Vec<u32>>,
    /// PCI devices whose node is known.
    pub devices: BTreeMap<String, u32>,
    /// How the heap of this process gets transparent hugepages, if it gets none.
    pub no_transparent_pages: Option<&'static str>,
}

/// Tunables of glibc with which malloc asks for transparent hugepages. Memory of further arenas
/// would not be aligned for them, so there is one.
const TUNABLES: &str = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1";

impl Machine {
    /// This one.
    pub fn read() -> Self {
        Self::read_at(Path::new("/"), &env::var("GLIBC_TUNABLES").unwrap_or_default())
    }

    /// The one whose `/proc` and `/sys` are in the folder `root`, for a process with `tunables`.
    pub fn read_at(root: &Path, tunables: &str) -> Self {
        let memory = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let memory_of = |name: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
            kib.map_or(0, |kib: u64| kib * 1024)
        };
        let system = root.join("sys/devices/system");
        let node = |(name, folder): (String, PathBuf)| {
            Some(Node {
                id: name.strip_prefix("node")?.parse().ok()?,
                cpus: list(&folder.join("cpulist")),
                pages: pages(&folder.join("hugepages")),
            })
        };
        let mut nodes: Vec<_> = entries(&system.join("node")).filter_map(node).collect();
        nodes.sort_by_key(|node| node.id);
        Self {
            memory: memory_of("MemTotal"),
            available: memory_of("MemAvailable"),
            pages: pages(&root.join("sys/kernel/mm/hugepages")),
            nodes,
            cpus: list(&system.join("cpu/online")),
            isolated: system
                .join("cpu/isolated")
                .exists()
                .then(|| list(&system.join("cpu/isolated"))),
            devices: devices(&root.join("sys/bus/pci/devices")),
            no_transparent_pages: no_transparent_pages(root, tunables),
        }
    }

    /// Memory in free hugepages, bytes.
    pub fn free_huge(&self) -> u64 {
        free(&self.pages)
    }
}

/// See [`Machine::no_transparent_pages`]. An operator who sets the tunable has decided.
fn no_transparent_pages(root: &Path, tunables: &str) -> Option<&'static str> {
    let policy = root.join("sys/kernel/mm/transparent_hugepage/enabled");
    let policy = fs::read_to_string(policy).unwrap_or_default();
    if policy.contains("[never]") {
        Some("as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
    } else {
        let is_asked = policy.contains("[madvise]") && !tunables.contains("glibc.malloc.hugetlb");
        is_asked.then_some(TUNABLES)
    }
}

/// Bytes in those that are free.
pub fn free(pages: &[Pages]) -> u64 {
    pages.iter().map(|pages| pages.size * pages.free).sum()
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Names and paths of everything in `folder`.
fn entries(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

/// The kernel's lists: `0-3,8`.
fn list(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let ranges = text.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse().ok()?)
    });
    ranges.flatten().collect()
}

fn pages(folder: &Path) -> Vec<Pages> {
    let mut all: Vec<_> = entries(folder)
        .filter_map(|(name, folder)| {
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let count = |file| number::<u64>(&folder.join(file)).unwrap_or(0);
            // Nodes don't say which of theirs are promised to somebody.
            let free = count("free_hugepages").saturating_sub(count("resv_hugepages"));
            Some(Pages {
                size: kib.parse::<u64>().ok()? * 1024,
                total: count("nr_hugepages"),
                free,
            })
        })
        .collect();
    all.sort_by_key(|pages| pages.size);
    all
}

/// A node of -1 means that there is only one.
fn devices(folder: &Path) -> BTreeMap<String, u32> {
    let node = |(name, folder): (String, PathBuf)| Some((name, number(&folder.join("numa_node"))?));
    entries(folder).filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_two_nodes() {
        let huge = "sys/kernel/mm/hugepages/hugepages";
        let node = "sys/devices/system/node/node1";
        let files = [
            ("proc/meminfo", "MemTotal:       24684096 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\n"),
            (&format!("{huge}-1048576kB/nr_hugepages"), "4\n"),
            (&format!("{huge}-1048576kB/free_hugepages"), "3\n"),
            (&format!("{huge}-2048kB/nr_hugepages"), "512\n"),
            (&format!("{huge}-2048kB/free_hugepages"), "300\n"),
            (&format!("{huge}-2048kB/resv_hugepages"), "100\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1,4\n"),
            (&format!("{node}/cpulist"), "2-3\n"),
            (&format!("{node}/hugepages/hugepages-2048kB/free_hugepages"), "7\n"),
            (&format!("{node}/hugepages/hugepages-2048kB/nr_hugepages"), "9\n"),
            ("sys/devices/system/node/possible", "0-1\n"),
            ("sys/devices/system/cpu/online", "0-4\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n"),
            ("sys/bus/pci/devices/0000:00:00.0/numa_node", "-1\n"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::read_at(root, "glibc.malloc.arena_max=1");
        let pages = |size, total, free| Pages { size, total, free };
        let expected = Machine {
            memory: 24_684_096 << 10,
            available: 1 << 20,
            pages: vec![pages(2 << 20, 512, 200), pages(1 << 30, 4, 3)],
            nodes: vec![
                Node { id: 0, cpus: vec![0, 1, 4], pages: vec![] },
                Node { id: 1, cpus: vec![2, 3], pages: vec![pages(2 << 20, 9, 7)] },
            ],
            cpus: vec![0, 1, 2, 3, 4],
            isolated: Some(vec![]),
            devices: [("0000:3b:00.0".to_owned(), 1)].into(),
            no_transparent_pages: Some(TUNABLES),
        };
        assert_eq!(machine, expected);
        let (_, ours) = TUNABLES.split_once('=').unwrap();
        assert_eq!(Machine::read_at(root, ours).no_transparent_pages, None);
        let policy = |policy| {
            let file = root.join("sys/kernel/mm/transparent_hugepage/enabled");
            fs::write(file, policy).unwrap();
            Machine::read_at(root, ours).no_transparent_pages
        };
        assert_eq!(policy("[always] madvise never\n"), None);
        assert!(policy("always madvise [never]\n").is_some_and(|how| how.contains("madvise >")));
        assert_eq!(machine.free_huge(), (400 << 20) + (3 << 30));
    }

    #[test]
    fn a_machine_that_says_nothing() {
        assert_eq!(Machine::read_at(Path::new("/nonexistent"), ""), Machine::default());
    }

    #[test]
    fn the_unit_and_the_scripts_set_the_tunables() {
        for user in ["configs/lr2-gateway.service", "scripts/lib/lr2run/gateway.py"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(user);
            assert!(fs::read_to_string(path).unwrap().contains(TUNABLES), "{user}");
        }
    }

    #[test]
    fn this_one_has_memory_and_a_cpu() {
        let machine = Machine::read();
        assert!(machine.memory >= machine.available && machine.available > 0);
        assert!(!machine.cpus.is_empty());
    }
}
