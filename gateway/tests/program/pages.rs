//! The program's memory is on transparent hugepages, where the kernel gives them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::support::{Folder, Running, SMALL, config, free_address, lr2_gateway};

#[test]
fn with_the_tunables_the_heap_asks_for_hugepages() {
    let policy = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let is_asked = policy.unwrap_or_default().contains("[madvise]");
    let folder = Folder::new("pages");
    let listen = free_address();
    // A flow table that is larger than a hugepage.
    let more = format!("[worker]\nmax_flows = 65536\n{}", SMALL.replace("64MiB", "128MiB"));
    let path = folder.config(&config("net_null0", "net_null1", listen, &more));
    let mut command = lr2_gateway(&path);
    command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1");
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let gateway = Running { child, listen }.until_well();
    if is_asked {
        let maps = fs::read_to_string(format!("/proc/{}/smaps", gateway.child.id())).unwrap();
        // "hg": the kernel was asked for hugepages there.
        let asked = maps.lines().filter(|l| l.starts_with("VmFlags:") && l.contains(" hg"));
        assert!(asked.count() > 0, "{maps}");
    }
    gateway.end(Signal::SIGTERM);
}

#[test]
fn a_configuration_may_come_from_a_pipe() {
    let listen = free_address();
    let text = config("net_null0", "net_null1", listen, SMALL);
    let mut child = lr2_gateway(Path::new("/dev/stdin"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    Running { child, listen }.until_well().end(Signal::SIGTERM);
}
