//! The program as a service manager sees it: readiness, signs that it works, and a changed file on SIGHUP.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::api::{ask, lr2ctl};
use crate::support::{Folder, Running, SMALL, config, free_address, lr2_gateway, send, write_pcap};

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

/// The LAN port repeats the packets 0 to 3 of a queue pair without end.
// R-SET-1, R-SET-2, R-SET-3
#[test]
fn modes_timers_and_pools_change_under_traffic() {
    let folder = Folder::new("retune");
    let (listen, socket) = (free_address(), folder.path("control.sock"));
    let arrive = folder.path("arrive.pcap");
    write_pcap(&arrive, &(0..4).map(send).collect::<Vec<_>>());
    let control = format!("socket = \"{}\"\n{SMALL}", socket.display());
    let lan = format!("net_pcap0,rx_pcap={},infinite_rx=1", arrive.display());
    let text = config(&lan, "net_null0,no-rx=1", listen, &control);
    let gateway = Running::start(&folder.config(&text), listen);
    let recovery = |more: &str| text.replace("[recovery]\n", &format!("[recovery]\n{more}\n"));
    let reload = |text: &str| {
        folder.config(text);
        lr2ctl(&socket, &["reload"])
    };
    let get = |path: &str| ask(&socket, &format!("GET {path}"), "").1;
    let limit = |n: usize| get("/pools")["pools"][n]["limit"].as_u64().unwrap();
    let before = [limit(0), limit(1), limit(2)];

    let (code, out, errors) =
        reload(&recovery("mode = \"lr2\"\nrtt_guess = \"3ms\"\ngive_up = \"90ms\""));
    assert_eq!((code, &*errors), (0, ""));
    let names = ["recovery.mode", "recovery.rtt_guess", "recovery.give_up"];
    assert!(names.iter().all(|name| out.contains(name)) && !out.contains("mbufs"), "{out}");
    assert_eq!(get("/status")["recovery"], "lr2");
    assert_eq!(get("/config")["config"]["recovery"]["mode"], "lr2");
    for mode in ["off", "cached", "off", "auto"] {
        let (code, _, errors) = reload(&recovery(&format!("mode = \"{mode}\"")));
        assert_eq!((code, &*errors), (0, ""), "{mode}");
        assert_eq!(get("/status")["recovery"], mode);
        let from = |reason: &str| {
            let metrics = gateway.get("/metrics");
            let name = format!("lr2_passed_frames_total{{reason=\"{reason}\"");
            let line = metrics.lines().find(|line| line.starts_with(&name)).unwrap().to_owned();
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        if mode == "off" {
            let (passed, flows) = (from("role_or_off"), || get("/flows")["total"].as_u64());
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            while from("role_or_off") == passed || flows() != Some(0) {
                assert!(std::time::Instant::now() < deadline, "frames pass");
            }
        }
    }

    let smaller = text.replace("resend_cache = \"1MiB\"", "resend_cache = \"512KiB\"");
    let (code, out, _) = reload(&smaller);
    assert!(code == 0 && out.contains("recovery.resend_cache"), "{out}");
    assert_eq!([limit(0), limit(1), limit(2)], [before[0], before[1], before[2] / 2]);
    let larger = smaller.replace("reorder_pool = \"1MiB\"", "reorder_pool = \"2MiB\"");
    let both = larger.replace("[recovery]\n", "[recovery]\nmode = \"lr2\"\n");
    let (code, out, errors) = reload(&both);
    assert_eq!((code, &*out, errors.lines().count()), (2, "", 1), "{errors}");
    for part in
        ["nothing is changed: a restart is needed for", "recovery.reorder_pool", "were reserved"]
    {
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(get("/status")["recovery"], "auto", "not one of them is taken");
    let (code, _, errors) = reload(&text);
    assert_eq!((code, &*errors), (0, ""));
    assert_eq!([limit(0), limit(1), limit(2)], before);
    gateway.end(Signal::SIGTERM);
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
    let rest: Vec<_> =
        std::iter::from_fn(|| Some(next())).take_while(|line| line != "WATCHDOG_USEC=0").collect();
    assert!(rest.iter().any(|line| line == "STOPPING=1"), "{rest:?}");
}
