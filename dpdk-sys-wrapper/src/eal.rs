//! DPDK's environment abstraction layer (EAL): memory, devices, threads.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Calibration, Clock};
use crate::error::{Error, last_error};
use crate::{cpus, ffi, hugepages, log};

/// Where DPDK's memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Huge {
    /// Hugepages if enough of them are free, else ordinary pages, which cost
    /// speed (more TLB misses) and exclude most real NICs.
    #[default]
    Auto,
    /// Ordinary pages.
    Never,
    /// Hugepages, or an error that says how to get them.
    Require,
}

/// How to start DPDK.
#[derive(Clone, Debug)]
pub struct EalConfig {
    /// The program's name, for messages.
    pub program: String,
    /// Whether to use hugepages.
    pub huge: Huge,
    /// All memory DPDK may use, in MiB: mbuf pools, rings, some for itself
    /// (about 16 MiB). At least 16. With hugepages it is taken at once, and DPDK takes
    /// more when a pool needs it and pages are free; without them it is fixed.
    pub memory_mib: u32,
    /// Keeps several DPDK processes apart.
    pub file_prefix: String,
    /// CPUs on which the starting thread, and threads it starts, may run;
    /// empty: all that the process may use. Workers pin themselves with
    /// [`LcoreGuard::pin`](crate::LcoreGuard::pin).
    pub cores: Vec<u32>,
    /// PCI addresses DPDK may take; all others are left alone.
    pub pci_allow: Vec<String>,
    /// Virtual devices to make at the start.
    /// [`Port::open`](crate::Port::open) makes others later.
    pub vdevs: Vec<String>,
    /// More EAL arguments, last on the command line.
    pub extra: Vec<String>,
}

impl Default for EalConfig {
    /// 256 MiB on any CPU, no device, hugepages if there are any.
    fn default() -> Self {
        Self {
            program: "lr2".into(),
            huge: Huge::Auto,
            memory_mib: 256,
            file_prefix: format!("lr2-{}", std::process::id()),
            cores: Vec::new(),
            pci_allow: Vec::new(),
            vdevs: Vec::new(),
            extra: Vec::new(),
        }
    }
}

/// The running EAL, one per process. Ports, queues, pools and registered
/// threads keep it running: it ends when the last of them is dropped.
#[derive(Debug)]
pub struct Eal(Arc<EalInner>);

/// The EAL, kept alive by every other object.
#[derive(Debug)]
pub(crate) struct EalInner {
    pub(crate) clock: Clock,
    pub(crate) memory_mib: u32,
    pub(crate) hugepages: bool,
    pub(crate) pci_allow: Vec<String>,
    /// Ports that are open: each has one set of queues. Devices are probed and
    /// removed under this lock, so that a port is not found and closed at once.
    pub(crate) open_ports: Mutex<HashSet<u16>>,
    retired_pools: Mutex<Vec<RetiredPool>>,
}

/// A pool without handles, waiting for the EAL to end. See [`EalInner::drop`].
#[derive(Debug)]
struct RetiredPool(NonNull<ffi::rte_mempool>);

// SAFETY: mempools belong to no thread, and this is the last handle.
unsafe impl Send for RetiredPool {}

static STARTED: AtomicBool = AtomicBool::new(false);

/// The smallest memory DPDK gets along with.
const MIN_MEMORY_MIB: u32 = 16;

impl Eal {
    /// Starts DPDK. The calling thread becomes its main lcore; threads that it
    /// starts later inherit its CPUs.
    ///
    /// # Errors
    /// [`Error::Hugepages`] and [`Error::Eal`] name the missing resource;
    /// [`Error::AlreadyStarted`] on a second start, even after the first EAL
    /// ended; [`Error::Setting`] for values that cannot work.
    pub fn init(config: &EalConfig) -> Result<Self, Error> {
        check(config)?;
        let hugepages = choose_memory(config)?;
        if !hugepages {
            check_memory(config.memory_mib, available_mib())?;
        }
        let args = arguments(config, hugepages)?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::AlreadyStarted);
        }
        log::redirect();
        tracing::debug!(?args, "starting the EAL");
        let calibration = Calibration::start();
        let (ret, said) = log::collect(|| start(args));
        remove_runtime_dir();
        if ret < 0 {
            let reason = if said.is_empty() { last_error() } else { said };
            return Err(Error::Eal { reason: with_hint(reason) });
        }
        Ok(Self(Arc::new(EalInner {
            clock: calibration.finish(),
            memory_mib: config.memory_mib,
            hugepages,
            pci_allow: config.pci_allow.clone(),
            open_ports: Mutex::default(),
            retired_pools: Mutex::default(),
        })))
    }

    /// Whether DPDK's memory is in hugepages.
    pub fn uses_hugepages(&self) -> bool {
        self.0.hugepages
    }

    /// The clock of this process.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    pub(crate) fn inner(&self) -> &Arc<EalInner> {
        &self.0
    }
}

impl EalInner {
    /// Takes a pool that has no handle any more.
    pub(crate) fn retire(&self, pool: NonNull<ffi::rte_mempool>) {
        let mut pools = self.retired_pools.lock();
        pools.push(RetiredPool(pool));
    }
}

impl Drop for EalInner {
    /// Frees the pools and ends the EAL, unless frames are still held.
    ///
    /// An [`Mbuf`](crate::Mbuf) doesn't count as a user of the EAL, since that
    /// would cost an atomic operation per frame. So mbufs may be alive here,
    /// and their memory must then stay; the operating system takes it back
    /// with the process. All else that could take or free mbufs (ports,
    /// queues, pools, registered threads) is gone by now.
    fn drop(&mut self) {
        let pools = self.retired_pools.get_mut();
        // A thread may be about to finish dropping the last frame, which counts
        // as free a moment before DPDK is done with it: look twice.
        let held = (0..2).any(|_| {
            thread::sleep(Duration::from_millis(1));
            // SAFETY: retired pools are valid until freed below.
            pools.iter().any(|p| unsafe { ffi::rte_mempool_in_use_count(p.0.as_ptr()) } != 0)
        });
        if held {
            tracing::warn!("frames are still held: DPDK's memory stays until the process ends");
            return;
        }
        for pool in pools.drain(..) {
            // SAFETY: no handle of the pool and no mbuf out of it is left.
            unsafe { ffi::rte_mempool_free(pool.0.as_ptr()) };
        }
        // SAFETY: nothing of DPDK's is left that anybody could use. The EAL
        // cannot be started again: `STARTED` stays set.
        let ret = unsafe { ffi::rte_eal_cleanup() };
        if ret != 0 {
            tracing::warn!("rte_eal_cleanup failed with {ret}");
        }
    }
}

/// Removes the directory that `rte_eal_init` makes for files of `--file-prefix`, and leaves even if it fails. There are
/// no files: see [`arguments`]. It goes at once, since a killed process could not remove it. A directory
/// that is not empty stays: another process put its files there.
fn remove_runtime_dir() {
    // SAFETY: the string is a static buffer of DPDK's, empty before `rte_eal_init`.
    let directory = unsafe { CStr::from_ptr(ffi::rte_eal_get_runtime_dir()) };
    let _ = fs::remove_dir(OsStr::from_bytes(directory.to_bytes()));
}

fn check(config: &EalConfig) -> Result<(), Error> {
    if config.memory_mib < MIN_MEMORY_MIB {
        return Err(Error::Setting {
            setting: "memory_mib",
            value: config.memory_mib.to_string(),
            rule: format!("DPDK needs at least {MIN_MEMORY_MIB} MiB"),
        });
    }
    let allowed = cpus::allowed_cpus();
    if let Some(cpu) = config.cores.iter().find(|c| !allowed.contains(c)) {
        return Err(Error::Setting {
            setting: "cores",
            value: format!("{:?}", config.cores),
            rule: format!(
                "this process may not run on CPU {cpu}, only on {}",
                cpus::ranges(&allowed)
            ),
        });
    }
    Ok(())
}

/// Whether to use hugepages.
fn choose_memory(config: &EalConfig) -> Result<bool, Error> {
    let sizes = hugepages::sizes();
    let free_mib = hugepages::free_mib(&sizes);
    let enough = free_mib >= u64::from(config.memory_mib);
    match config.huge {
        Huge::Never => Ok(false),
        Huge::Auto if enough => Ok(true),
        Huge::Auto => {
            tracing::info!(
                "running without hugepages, which is slower: {} MiB are needed and {free_mib} MiB are free; {}",
                config.memory_mib,
                hugepages::how_to_reserve(&sizes, config.memory_mib)
            );
            Ok(false)
        }
        Huge::Require if enough => Ok(true),
        Huge::Require => Err(Error::Hugepages {
            needed_mib: config.memory_mib,
            free_mib,
            hint: hugepages::how_to_reserve(&sizes, config.memory_mib),
        }),
    }
}

/// Memory that programs can still have in ordinary pages, MiB; `None` if the kernel does not say.
fn available_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? / 1024)
}

/// The kernel promises ordinary pages that it does not have, and kills a process later.
fn check_memory(needed_mib: u32, available_mib: Option<u64>) -> Result<(), Error> {
    match available_mib {
        Some(available_mib) if available_mib < u64::from(needed_mib) => {
            Err(Error::Memory { needed_mib, available_mib })
        }
        _ => Ok(()),
    }
}

fn arguments(config: &EalConfig, hugepages: bool) -> Result<Vec<CString>, Error> {
    let cpus = if config.cores.is_empty() { cpus::allowed_cpus() } else { config.cores.clone() };
    let mut args = vec![config.program.clone()];
    let mut add = |items: &[&str]| args.extend(items.iter().map(|&s| s.to_owned()));
    // One EAL thread, the calling one, floating over the CPUs: workers are
    // threads of the program's own.
    add(&["--lcores", &format!("0@({})", cpus::ranges(&cpus))]);
    add(&["-m", &config.memory_mib.to_string()]);
    add(&["--file-prefix", &config.file_prefix]);
    // No files that would outlive a killed process. `--in-memory` says the
    // same and more, but excludes `--no-huge` on 22.11.
    add(if hugepages { &["--in-memory"] } else { &["--no-huge", "--no-shconf"] });
    // The gateway has metrics of its own.
    add(&["--no-telemetry", "--log-level", "warning"]);
    if config.pci_allow.is_empty() {
        add(&["--no-pci"]);
    }
    for device in &config.pci_allow {
        add(&["--allow", device]);
    }
    for device in &config.vdevs {
        add(&["--vdev", device]);
    }
    args.extend(config.extra.iter().cloned());
    args.into_iter()
        .map(|arg| {
            CString::new(arg).map_err(|e| Error::Setting {
                setting: "an EAL argument",
                value: format!("{:?}", String::from_utf8_lossy(&e.into_vec())),
                rule: "must not contain a zero byte".into(),
            })
        })
        .collect()
}

fn start(args: Vec<CString>) -> c_int {
    // The EAL keeps and permutes the vector and keeps the strings: both live
    // as long as the process.
    let argc = args.len() as c_int;
    let argv: Vec<*mut c_char> =
        args.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect();
    // SAFETY: argv has argc writable strings and a null after them, all leaked.
    unsafe { ffi::rte_eal_init(argc, argv.leak().as_mut_ptr()) }
}

/// Adds a remedy for common failures.
fn with_hint(reason: String) -> String {
    let says = |part: &str| reason.to_ascii_lowercase().contains(part);
    let hint = if says("permission denied") || says("operation not permitted") {
        "run as root, or grant access to the device and raise the memlock limit"
    } else if says("memory") || says("hugepage") {
        "reserve more hugepages, ask for less memory, or run without hugepages"
    } else {
        return reason;
    };
    format!("{reason} ({hint})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(config: &EalConfig, hugepages: bool) -> String {
        let args = arguments(config, hugepages).unwrap();
        args.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_follow_the_choice_of_memory() {
        let config = EalConfig { cores: vec![0], file_prefix: "x".into(), ..Default::default() };
        let without = line(&config, false);
        assert!(without.contains("--no-huge --no-shconf"), "{without}");
        assert!(!without.contains("--in-memory"), "{without}");
        let with = line(&config, true);
        assert!(with.contains("--in-memory") && !with.contains("--no-huge"), "{with}");
    }

    #[test]
    fn only_named_pci_devices_are_touched() {
        let mut config = EalConfig::default();
        assert!(line(&config, false).contains("--no-pci"));
        config.pci_allow = vec!["0000:3b:00.0".into()];
        let some = line(&config, false);
        assert!(some.contains("--allow 0000:3b:00.0") && !some.contains("--no-pci"), "{some}");
    }

    #[test]
    fn memory_that_the_machine_does_not_have_is_refused() {
        assert!(check_memory(512, Some(512)).is_ok());
        assert!(check_memory(512, None).is_ok());
        let text = check_memory(512, Some(511)).unwrap_err().to_string();
        assert!(text.contains("512 MiB") && text.contains("511 MiB"), "{text}");
        assert!(available_mib().is_some_and(|mib| mib > 0));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_before_dpdk_starts() {
        let zero = EalConfig { program: "a\0b".into(), ..Default::default() };
        assert!(arguments(&zero, false).unwrap_err().to_string().contains("zero byte"));
        let small = EalConfig { memory_mib: 4, ..Default::default() };
        assert_eq!(
            check(&small).unwrap_err().to_string(),
            "memory_mib = 4: DPDK needs at least 16 MiB"
        );
        let cpu = EalConfig { cores: vec![1023], ..Default::default() };
        assert!(check(&cpu).unwrap_err().to_string().contains("may not run on CPU 1023"));
    }
}
