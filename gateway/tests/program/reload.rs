//! The program as a service manager sees it: readiness, signs that it works, and a changed file on SIGHUP.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Folder, Running, SMALL, config, free_address, lr2_gateway};

#[test]
fn a_changed_file_is_applied_as_a_whole_or_not_at_all() {
    let folder = Folder::new("reload");
    let listen = free_address();
    let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, SMALL);
    let log = folder.path("log");
    let path = folder.config(&text);
    let child = lr2_gateway(&path).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut gateway = Running { child, listen };
    let logged = || std::fs::read_to_string(&log).unwrap();
    gateway.wait_quietly("forwarding", || logged().contains("forwarding: role"));
    let pid = Pid::from_raw(gateway.child.id().try_into().unwrap());
    let mut reload = |text: &str, expected: &[&str]| {
        folder.config(text);
        kill(pid, Signal::SIGHUP).unwrap();
        gateway.wait_quietly(expected[0], || expected.iter().all(|part| logged().contains(part)));
        gateway.get("/parameters")
    };

    let prefixes = "lab_unkeyed = true\nremote_prefixes = [\"10.2.0.0/16\"]\n";
    let changed = text.replace("lab_unkeyed = true\n", prefixes);
    let parameters = reload(&changed, &["INFO reloaded: peer.remote_prefixes applied"]);
    let prefix = "\"name\":\"peer.remote_prefixes\",\"value\":[\"10.2.0.0/16\"]";
    assert!(parameters.contains(prefix), "{parameters}");

    let mistake = changed.replace("10.2.0.0/16", "10.2.0.0/99");
    let parameters = reload(&mistake, &["ERROR not reloaded", "peer.remote_prefixes"]);
    assert!(parameters.contains(prefix), "{parameters}");

    let both =
        changed.replace("10.2.0.0/16", "10.3.0.0/16").replace("rx_desc = 256", "rx_desc = 512");
    let restart = "nothing is changed: a restart is needed for lan.rx_desc, wan.rx_desc";
    let parameters = reload(&both, &[restart]);
    assert!(parameters.contains(prefix), "{parameters}");

    reload(&changed, &["reloaded: nothing is different"]);
    gateway.wait_quietly("health", || true);
    assert!(gateway.get("/healthz").ends_with("\r\n\r\nok\n"));
}

#[test]
fn the_service_manager_hears_of_it() {
    let folder = Folder::new("notify");
    let socket = folder.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let listen = free_address();
    let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, SMALL);
    let mut command = lr2_gateway(&folder.config(&text));
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "5000000");
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let gateway = Running { child, listen };
    let next = || {
        let mut line = [0; 64];
        let len = manager.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..len]).into_owned()
    };
    let first: Vec<_> = std::iter::from_fn(|| Some(next())).take(4).collect();
    assert_eq!(first.iter().filter(|line| *line == "READY=1").count(), 1, "{first:?}");
    assert_eq!(first.iter().filter(|line| *line == "WATCHDOG=1").count(), 3, "{first:?}");
    gateway.end(Signal::SIGTERM);
    assert!(std::iter::from_fn(|| Some(next())).take(20).any(|line| line == "STOPPING=1"));
}
