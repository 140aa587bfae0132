//! A port whose counterpart has lost its link is taken down, in a network namespace of the test's own.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gateway::instance::{Instance, Purpose};
use nix::sys::signal::Signal;

use crate::cables::{cable, has_carrier, in_a_namespace, ip, packet_socket, until};
use crate::support::{Folder, Running, SMALL, config, fails_with, free_address};

/// As long as a failure may take to be passed on, with room for a machine that has something else to do: 100 ms are
/// promised, and 20 ms pass between two looks.
const SOON: Duration = Duration::from_millis(100);

/// Four interfaces: `host` and `lan`, `wan` and `far`, each two a cable.
fn cables() {
    cable("host", "lan");
    cable("wan", "far");
}

#[test]
fn a_lost_wan_takes_the_lan_down_and_the_other_way_round() {
    if !in_a_namespace() {
        return;
    }
    cables();
    let (folder, listen) = (Folder::new("link-loss"), free_address());
    let (lan, wan) = (packet_socket(0, "lan"), packet_socket(1, "wan"));
    // For mbufs as large as a slot of the packet sockets.
    let memory = SMALL.replace("64MiB", "96MiB");
    let more = format!("{memory}[link_loss]\nhold_down = \"300ms\"\n");
    let mut gateway = Running::start(&folder.config(&config(&lan, &wan, listen, &more)), listen);
    assert_eq!(gateway.metric("lr2_port_link_settable{port=\"lan\"}"), 1.0);

    // The best of three counts: another program may have had the CPU.
    let mut passed_on = Vec::new();
    for (cut, other) in [("far", "host"), ("host", "far"), ("far", "host")] {
        assert!(ip(&format!("link set {cut} down")));
        passed_on.push(until(other, false));
        let held = if other == "host" { "lan" } else { "wan" };
        let name = format!("lr2_port_held_down{{port=\"{held}\"}}");
        gateway.wait("the metric", |gateway| gateway.metric(&name) == 1.0);
        let sentence = format!("port {held} is taken down, as ");
        gateway.wait("the sentence", |gateway| gateway.get("/healthz").contains(&sentence));
        let before = Instant::now();
        assert!(ip(&format!("link set {cut} up")));
        until(other, true);
        let mended = before.elapsed();
        assert!(mended > Duration::from_millis(250), "{other} came back after {mended:?}");
        gateway.wait("a good /healthz", |r| r.get("/healthz").ends_with("\r\n\r\nok\n"));
    }
    println!("passed on after {passed_on:?}");
    assert!(passed_on.iter().min().is_some_and(|best| *best < SOON), "{passed_on:?}");
    assert!(gateway.get("/events").contains("\"event\":\"link_held\""));

    // Who ends takes no port down for good.
    assert!(ip("link set far down"));
    until("host", false);
    let log = gateway.end(Signal::SIGTERM);
    until("host", true);
    for line in [
        "port lan is taken down: no WAN port has a link (link_loss.forward)",
        "port wan is taken down: the LAN port has no link (link_loss.forward)",
        "port lan may come up again",
    ] {
        assert!(log.contains(line), "{log}");
    }
}

/// The command in `ExecStopPost=` of the units raises the interface that a killed gateway held down. The next start does the same.
#[test]
fn a_killed_gateway_leaves_no_interface_down_for_good() {
    if !in_a_namespace() {
        return;
    }
    cables();
    let (folder, listen) = (Folder::new("link-killed"), free_address());
    let memory = SMALL.replace("64MiB", "96MiB");
    let text = config(&packet_socket(0, "lan"), &packet_socket(1, "wan"), listen, &memory);
    let file = folder.config(&text);
    // Each unit's command, and a start.
    let units = [
        include_str!("../../../configs/lr2-gateway.service"),
        include_str!("../../../configs/lr2-gateway@.service"),
    ];
    for unit in units.map(Some).into_iter().chain([None]) {
        assert!(ip("link set far up"));
        let mut gateway = Running::start(&file, listen);
        assert!(ip("link set far down"));
        until("host", false);
        // While the gateway runs, the interface stays down.
        assert_eq!(stop_post(units[0], &folder), "");
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        assert!(!has_carrier("host"));
        if let Some(unit) = unit {
            assert_eq!(stop_post(unit, &folder), "lan is set up\n");
            assert!(until("host", true) < Duration::from_secs(1));
            assert_eq!(stop_post(unit, &folder), "");
            continue;
        }
        // Also one that forwards no link loss.
        assert!(ip("link set far up"));
        let text = format!("{text}[link_loss]\nforward = \"off\"\n");
        let log = Running::start(&folder.config(&text), listen).end(Signal::SIGTERM);
        assert!(log.contains("lan is set up: an earlier process was killed and left it down"));
        assert!(has_carrier("host"));
    }
}

/// A start that comes while `--check` or `release-links` has the mark of its `eal.file_prefix` waits, and has the mark then:
/// `release-links` leaves the interfaces of this gateway down. A second gateway with the prefix does not start.
#[test]
fn a_gateway_that_runs_has_the_mark_of_its_prefix() {
    if !in_a_namespace() {
        return;
    }
    cables();
    let (folder, listen) = (Folder::new("link-mark"), free_address());
    let memory = SMALL.replace("64MiB", "96MiB");
    let memory = format!("{memory}file_prefix = \"mark\"\n");
    let text = config(&packet_socket(0, "lan"), &packet_socket(1, "wan"), listen, &memory);
    let file = folder.config(&text);
    let check = Instance::claim("mark", Purpose::ForAMoment).unwrap().unwrap();
    let mut child = crate::support::lr2_gateway(&file).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none() && TcpStream::connect(listen).is_err());
    drop(check);
    let gateway = Running { child, listen }.until_well();
    assert!(ip("link set far down"));
    until("host", false);
    let units = include_str!("../../../configs/lr2-gateway.service");
    assert_eq!(stop_post(units, &folder), "");
    let second = folder.run(&text, &[]);
    fails_with(&second, 1, &["eal.file_prefix = \"mark\" runs already"]);
    assert!(!has_carrier("host"));
    gateway.end(Signal::SIGTERM);
    until("host", true);
}

/// Runs the command in `ExecStopPost=` of a unit, and returns its output.
fn stop_post(unit: &str, folder: &Folder) -> String {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStopPost=")).unwrap();
    let words = line.strip_prefix("-/usr/bin/lr2-gateway ").unwrap().split(' ');
    let mut command = Command::new(env!("CARGO_BIN_EXE_lr2-gateway"));
    let output = command.args(words).env("RUNTIME_DIRECTORY", folder.path("")).output().unwrap();
    assert!(output.status.success(), "{}", crate::support::stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A tap's driver can be told as well; that of a memif can't.
#[test]
fn what_a_driver_can_do_is_said() {
    if !in_a_namespace() {
        return;
    }
    let (folder, listen) = (Folder::new("link-drivers"), free_address());
    let socket = folder.path("wan.sock");
    let wan = format!(
        "net_memif1,role=server,id=0,socket={},socket-abstract=no,bsize=2048",
        socket.display()
    );
    let text = config("net_tap0,iface=lan", &wan, listen, SMALL);
    let log = folder.path("log");
    let mut command = crate::support::lr2_gateway(&folder.config(&text));
    let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let mut gateway = Running { child, listen };
    let text = || std::fs::read_to_string(&log).unwrap();
    gateway.wait_quietly("word of the driver", || {
        text().contains("port wan: it stays up when the LAN has no link (link_loss.forward)")
    });
    assert!(!text().contains("port lan: it stays up"), "{}", text());
    gateway.wait("metrics of the links", |gateway| {
        let text = gateway.get("/metrics");
        let says = |line: &str| text.lines().any(|it| it == line);
        says("lr2_port_link_settable{port=\"lan\"} 1")
            && says("lr2_port_link_settable{port=\"wan\"} 0")
    });
    // Nobody is at the other end of the memif.
    assert!(until("lan", false) < Duration::from_secs(10));
    assert!(gateway.get("/healthz").contains("port lan is taken down, as no WAN port has a link"));
}
