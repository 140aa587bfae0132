//! Transparent hugepages for what the program allocates: the flow table above all.
//!
//! With thousands of flows a packet finds little of its flow in the caches, and on pages
//! of 4 KiB the translation of its addresses is not there either. glibc asks the kernel
//! for hugepages, where that leaves it to programs (`madvise`), if it is told to by the
//! environment that the program starts with: but for the memory that threads allocate in
//! arenas of their own. Workers allocate seldom, and share one arena just as well. So the
//! program starts itself once more, in its own place.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Environment variable of glibc's tunables.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Tunable that has malloc use transparent hugepages; set unless the operator set it.
const TUNABLE: &str = "glibc.malloc.hugetlb";
/// Tunable that limits malloc's arenas; set together with the first.
const ARENAS: &str = "glibc.malloc.arena_max";
/// Marks a process that was started with the tunables. glibc hides them from a program with
/// file capabilities, which would otherwise restart itself without end.
const DONE: &str = "LR2_GATEWAY_PAGES";
/// The kernel's policy for transparent hugepages.
const POLICY: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Starts the program anew, if that brings its memory onto hugepages; returns if not, or
/// if it was done. Only for before anything else is begun. Where it fails, all works
/// as well, and more slowly with many flows.
pub fn ask_for_huge_ones() {
    let policy = fs::read_to_string(POLICY).unwrap_or_default();
    let tunables = env::var_os(TUNABLES);
    if env::var_os(DONE).is_some() || !is_asked(&policy) {
        return;
    }
    let (Some(tunables), Ok(program)) = (with_pages(tunables.as_deref()), env::current_exe())
    else {
        return;
    };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| program.clone().into());
    let mut again = Command::new(&program);
    again.arg0(name).args(arguments).env(TUNABLES, tunables).env(DONE, "asked for");
    // It comes back only with an error.
    let error = again.exec();
    eprintln!(
        "lr2-gateway: no transparent hugepages: {} did not start: {error}",
        program.display()
    );
}

/// Whether the kernel gives hugepages to whom asks, and to nobody else.
fn is_asked(policy: &str) -> bool {
    policy.contains("[madvise]")
}

/// The tunables with ours; `None` if the operator has decided.
fn with_pages(tunables: Option<&OsStr>) -> Option<OsString> {
    let theirs = tunables.unwrap_or_default();
    let says = |name| theirs.to_string_lossy().contains(name);
    if says(TUNABLE) {
        return None;
    }
    let mut all = theirs.to_owned();
    for name in [TUNABLE, ARENAS].into_iter().filter(|name| !says(name)) {
        if !all.is_empty() {
            all.push(":");
        }
        all.push(name);
        all.push("=1");
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_says_stays() {
        let made = |tunables: &str| with_pages(Some(OsStr::new(tunables)));
        let ours = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1";
        assert_eq!(with_pages(None).unwrap(), ours);
        assert_eq!(made("").unwrap(), ours);
        assert_eq!(made("glibc.a.b=2").unwrap(), *format!("glibc.a.b=2:{ours}"));
        let some = "glibc.malloc.arena_max=4";
        assert_eq!(made(some).unwrap(), *format!("{some}:glibc.malloc.hugetlb=1"));
        assert_eq!(made("glibc.malloc.hugetlb=0"), None);
    }

    #[test]
    fn a_kernel_that_gives_them_to_all_or_to_nobody_is_not_asked() {
        assert!(is_asked("always [madvise] never\n"));
        assert!(!is_asked("[always] madvise never\n") && !is_asked("always madvise [never]\n"));
        assert!(!is_asked(""));
    }
}
