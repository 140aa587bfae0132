//! `lr2-gateway doctor`: whether a box is set up for a gateway, and how to mend what is not.
//!
//! It reads `/proc` and `/sys`, and changes nothing. `--check` judges one configuration; this judges the box.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// One look at the box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// What to do; `None` if all is well.
    pub mend: Option<String>,
}

/// One line, and one more with what to do.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.mend.is_some() { "MEND" } else { "ok" };
        write!(f, "{word:<5} {}: {}", self.what, self.found)?;
        self.mend.as_ref().map_or(Ok(()), |mend| write!(f, "\n      {mend}"))
    }
}

/// The box whose `/proc` and `/sys` are in the folder `root`.
pub fn examine(root: &Path) -> Vec<Finding> {
    let mut all = vec![
        hugepages(root),
        iommu(root),
        governor(root),
        isolated(root),
        transparent_hugepages(root),
        clock(root),
    ];
    all.extend(nics(root));
    all
}

fn good(what: &str, found: impl Into<String>) -> Finding {
    Finding { what: what.into(), found: found.into(), mend: None }
}

fn bad(what: &str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { what: what.into(), found: found.into(), mend: Some(mend.into()) }
}

fn read(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The folders in `folder`, by name.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn hugepages(root: &Path) -> Finding {
    let count = |folder: &Path, file| read(folder.join(file)).and_then(|text| text.parse().ok());
    let each = folders(&root.join("sys/kernel/mm/hugepages")).into_iter().filter_map(|folder| {
        let kib: u64 =
            name(&folder).strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let total: u64 = count(&folder, "nr_hugepages")?;
        let free: u64 = count(&folder, "free_hugepages")?;
        (total > 0).then(|| format!("{free} of {total} pages of {} MiB are free", kib >> 10))
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() {
        return bad(
            "hugepages",
            "none are reserved",
            "echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages (1 GiB; --check says how many a configuration \
             takes), and hugepages=512 on the kernel's command line for the next boot",
        );
    }
    good("hugepages", each.join(", "))
}

fn iommu(root: &Path) -> Finding {
    let groups = folders(&root.join("sys/kernel/iommu_groups")).len();
    if groups == 0 {
        return bad(
            "IOMMU",
            "off, and vfio-pci takes no device without one",
            "switch VT-d or AMD-Vi on in the BIOS, and boot with intel_iommu=on iommu=pt (AMD: iommu=pt)",
        );
    }
    let line = read(root.join("proc/cmdline")).unwrap_or_default();
    let passes = line.split_whitespace().any(|word| word == "iommu=pt");
    let mode = if passes { ", iommu=pt" } else { "" };
    good("IOMMU", format!("on, {groups} groups{mode}"))
}

fn governor(root: &Path) -> Finding {
    let cpus = folders(&root.join("sys/devices/system/cpu"));
    let governors = cpus.iter().filter_map(|cpu| {
        let governor = read(cpu.join("cpufreq/scaling_governor"))?;
        Some((name(cpu), governor))
    });
    let (fast, slow): (Vec<_>, Vec<_>) =
        governors.partition(|(_, governor)| governor == "performance");
    match (fast.len(), slow.first()) {
        (_, Some((cpu, governor))) => bad(
            "governor",
            format!("{} CPUs change their frequency, {cpu} by \"{governor}\"", slow.len()),
            "cpupower frequency-set -g performance (package linux-cpupower)",
        ),
        (0, None) => good("governor", "the kernel does not change the frequency of CPUs here"),
        (count, None) => good("governor", format!("performance on {count} CPUs")),
    }
}

fn isolated(root: &Path) -> Finding {
    let list = |file| read(root.join("sys/devices/system/cpu").join(file)).unwrap_or_default();
    let (isolated, quiet) = (list("isolated"), list("nohz_full"));
    // The kernel writes "(null)" for none.
    let has_quiet = !quiet.is_empty() && quiet != "(null)";
    if isolated.is_empty() {
        return bad(
            "isolated cores",
            "none: other programs run on the workers' cores",
            "isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST on the kernel's command line, with the CPUs of eal.cores",
        );
    }
    if !has_quiet {
        return bad(
            "isolated cores",
            format!("{isolated}, with timer interrupts"),
            format!("nohz_full={isolated} rcu_nocbs={isolated} on the kernel's command line"),
        );
    }
    good("isolated cores", format!("{isolated}, without timer interrupts {quiet}"))
}

fn transparent_hugepages(root: &Path) -> Finding {
    let what = "transparent hugepages";
    let policy = read(root.join("sys/kernel/mm/transparent_hugepage/enabled")).unwrap_or_default();
    let chosen = policy.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match chosen.map(|(chosen, _)| chosen) {
        Some(chosen @ ("madvise" | "always")) => good(what, chosen),
        _ => bad(
            what,
            "off: slower with thousands of flows",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    }
}

/// The time-stamp counter is the gateway's clock.
fn clock(root: &Path) -> Finding {
    let text = read(root.join("proc/cpuinfo")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let has = |flag| flags.split_whitespace().any(|it| it == flag);
    if flags.is_empty() || (has("constant_tsc") && has("nonstop_tsc")) {
        return good("clock", "its counter has one rate, and never stops");
    }
    bad(
        "clock",
        "the time-stamp counter changes its rate or stops (no constant_tsc or nonstop_tsc)",
        "another machine, or in a virtual one a CPU model with invariant TSC: timers and measured times are wrong here",
    )
}

/// Kernel drivers through which DPDK drives a NIC.
const SHARED: [&str; 2] = ["mlx5_core", "mlx4_core"];
/// Kernel drivers that leave a NIC to DPDK.
const GIVEN: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

fn nics(root: &Path) -> Vec<Finding> {
    let all = folders(&root.join("sys/bus/pci/devices"));
    let ports = all
        .iter()
        .filter(|folder| read(folder.join("class")).is_some_and(|class| class.starts_with("0x02")));
    let found: Vec<_> = ports.map(|folder| nic(folder)).collect();
    if found.iter().any(|(_, is_given)| *is_given) {
        return found.into_iter().map(|(finding, _)| finding).collect();
    }
    let mut lines: Vec<_> = found.into_iter().map(|(finding, _)| finding).collect();
    lines.push(bad(
        "NICs",
        "no network port is given to DPDK",
        "lr2-bind-nics bind ADDRESS ADDRESS (in the source tree: scripts/bind-nics), for the LAN and the WAN port; without a NIC: vdevs, as in configs/lab-memif.toml",
    ));
    lines
}

/// One port, and whether DPDK can have it. That a port is the kernel's is no fault: somebody has to carry the operator's
/// connection.
fn nic(folder: &Path) -> (Finding, bool) {
    let address = name(folder);
    let driver = fs::read_link(folder.join("driver")).ok().map(|link| name(&link));
    let node = read(folder.join("numa_node")).unwrap_or_else(|| "-1".into());
    let node = if node == "-1" { String::new() } else { format!(", NUMA node {node}") };
    let interfaces: Vec<_> = folders(&folder.join("net")).iter().map(|it| name(it)).collect();
    let what = format!("port {address}");
    let (found, is_given) = match driver.as_deref() {
        Some(driver) if GIVEN.contains(&driver) => (format!("{driver}, for DPDK{node}"), true),
        Some(driver) if SHARED.contains(&driver) => {
            (format!("{driver}, which DPDK uses beside the kernel{node}"), true)
        }
        Some(driver) => (format!("the kernel's, {driver} {}{node}", interfaces.join(" ")), false),
        None => (format!("no driver{node}"), false),
    };
    let is_slow = |file| read(folder.join(file));
    // A slot that is too narrow for its card.
    let width = is_slow("current_link_width").zip(is_slow("max_link_width"));
    let width = width.filter(|(now, most)| {
        now.parse::<u32>()
            .ok()
            .zip(most.parse().ok())
            .is_some_and(|(now, most): (u32, u32)| now < most)
    });
    let finding = match width {
        Some((now, most)) if is_given => bad(
            &what,
            format!("{found}; PCIe x{now} of x{most}"),
            "a slot with all lanes, or another setting of the BIOS",
        ),
        _ => good(&what, found),
    };
    (finding, is_given)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A box of files.
    struct Made(tempfile::TempDir);

    impl Made {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn nic(&self, address: &str, driver: &str, width: &str) {
            let folder = format!("sys/bus/pci/devices/{address}");
            self.put(&format!("{folder}/class"), "0x020000\n");
            self.put(&format!("{folder}/numa_node"), "1\n");
            self.put(&format!("{folder}/current_link_width"), width);
            self.put(&format!("{folder}/max_link_width"), "16\n");
            let link = self.0.path().join(folder).join("driver");
            symlink(format!("../../drivers/{driver}"), link).unwrap();
        }

        fn lines(&self) -> Vec<String> {
            examine(self.0.path()).iter().map(Finding::to_string).collect()
        }
    }

    #[test]
    fn a_bare_box_lacks_all() {
        let lines = Made::new().lines();
        let mends: Vec<_> = lines.iter().filter(|line| line.starts_with("MEND")).collect();
        for what in ["hugepages", "IOMMU", "isolated cores", "transparent hugepages", "NICs"] {
            assert!(
                mends.iter().any(|line| line.starts_with(&format!("MEND  {what}: "))),
                "{what}"
            );
        }
        assert!(mends.iter().all(|line| line.lines().count() == 2), "each says what to do");
    }

    fn good_box() -> Made {
        let made = Made::new();
        made.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
        made.put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
        made.put("sys/kernel/iommu_groups/0/type", "identity\n");
        made.put("proc/cmdline", "ro intel_iommu=on iommu=pt\n");
        made.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\n");
        made.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        made.put("sys/devices/system/cpu/isolated", "2-5\n");
        made.put("sys/devices/system/cpu/nohz_full", "2-5\n");
        made.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        made.nic("0000:3b:00.0", "vfio-pci", "16\n");
        made.nic("0000:01:00.0", "igb", "1\n");
        made
    }

    #[test]
    fn a_good_box_has_nothing_to_mend() {
        let lines = good_box().lines();
        assert!(lines.iter().all(|line| line.starts_with("ok ")), "{lines:#?}");
        for line in [
            "ok    hugepages: 500 of 512 pages of 2 MiB are free",
            "ok    IOMMU: on, 1 groups, iommu=pt",
            "ok    port 0000:3b:00.0: vfio-pci, for DPDK, NUMA node 1",
            "ok    port 0000:01:00.0: the kernel's, igb , NUMA node 1",
        ] {
            assert!(lines.iter().any(|it| it == line), "no {line:?} in {lines:#?}");
        }
    }

    #[test]
    fn each_fault_is_one_thing_to_mend() {
        for (path, text, what) in [
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n", "hugepages"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n", "governor"),
            ("sys/devices/system/cpu/isolated", "\n", "isolated cores"),
            ("sys/devices/system/cpu/nohz_full", "(null)\n", "isolated cores"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]\n",
                "transparent hugepages",
            ),
            ("proc/cpuinfo", "flags\t\t: fpu constant_tsc\n", "clock"),
            ("sys/bus/pci/devices/0000:3b:00.0/current_link_width", "8\n", "port 0000:3b:00.0"),
        ] {
            let made = good_box();
            made.put(path, text);
            let lines = made.lines();
            let mends: Vec<_> = lines.iter().filter(|line| line.starts_with("MEND")).collect();
            assert_eq!(mends.len(), 1, "{what}: {mends:#?}");
            assert!(mends[0].starts_with(&format!("MEND  {what}: ")), "{mends:#?}");
        }
    }
}
