//! Flows of the real program that the operator leaves to the RNICs, and has protected again.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::api::{ask, lr2ctl};
use crate::support::{Folder, Running, SMALL, config, free_address, send, write_pcap};

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The LAN port repeats the packets 0 to 3 of a queue pair without end.
#[test]
fn a_flow_is_left_to_the_rnics_and_protected_again() {
    let folder = Folder::new("protection");
    let (listen, socket) = (free_address(), folder.path("control.sock"));
    let arrive = folder.path("arrive.pcap");
    write_pcap(&arrive, &(0..4).map(send).collect::<Vec<_>>());
    let control = format!("socket = \"{}\"\n{SMALL}", socket.display());
    let lan = format!("net_pcap0,rx_pcap={},infinite_rx=1", arrive.display());
    let path = folder.config(&config(&lan, "net_null0,no-rx=1", listen, &control));
    let gateway = Running::start(&path, listen);
    let flow = || {
        let (status, page) = ask(&socket, "GET /flows?qpn=0x11", "");
        assert_eq!((status, &page["matched"]), (200, &1.into()), "{page}");
        page["flows"][0].clone()
    };
    let passed = || {
        let metrics = gateway.get("/metrics");
        let name = "lr2_passed_frames_total{reason=\"operator\"";
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    wait("a flow", || ask(&socket, "GET /flows?qpn=0x11", "").1["matched"] == 1);
    assert_eq!((flow()["role"].as_str(), passed()), (Some("sentry"), 0.0));

    let (code, out, errors) = lr2ctl(&socket, &["unprotect", "10.2.0.1", "0x11"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(out.contains("unprotected") && out.contains("operator: until"), "{out}");
    assert!(out.contains("1 of 1 flows match"), "{out}");
    let why = flow()["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("operator"), "{why}");
    wait("packets pass", || passed() > 0.0);
    let (_, out, _) = lr2ctl(&socket, &["flows", "--state", "unprotected"]);
    assert!(out.contains("operator"), "{out}");
    let (code, _, errors) =
        lr2ctl(&socket, &["unprotect", "10.2.0.1", "17", "--source", "10.1.0.1"]);
    assert_eq!((code, &*errors), (0, ""), "it may be said twice");

    let (code, out, errors) = lr2ctl(&socket, &["protect", "10.2.0.1", "17"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(!out.contains("operator: until"), "{out}");
    wait("it is protected", || !flow()["why"].as_str().unwrap().starts_with("operator"));

    for (args, part) in [
        (&["unprotect", "10.2.0.1", "0x12"][..], "there is no flow to queue pair 0x12 of 10.2.0.1"),
        (&["protect", "10.1.0.1", "0x11"], "lr2ctl flows --host 10.1.0.1"),
        (&["protect", "10.2.0.1", "17", "--source", "10.9.0.1"], "from 10.9.0.1"),
        (&["unprotect", "10.2.0.1", "red"], "'red' for '<QPN>'"),
    ] {
        let (code, out, errors) = lr2ctl(&socket, args);
        assert_eq!((code, &*out, errors.lines().count()), (2, "", 1), "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(ask(&socket, "POST /unprotect?qpn=17", "").0, 400);
    let (status, answer) = ask(&socket, "POST /unprotect?destination=10.2.0.1&qpn=red", "");
    let part = "qpn: found red; allowed: the number";
    assert!(status == 400 && answer.to_string().contains(part), "{answer}");
    let address = gateway.listen.to_string();
    let (code, _, errors) =
        lr2ctl(&socket, &["--address", &address, "unprotect", "10.2.0.1", "17"]);
    assert!(code == 2 && errors.contains("control.socket only"), "{errors}");
    // No poll empties the receive queue of such a port.
    wait("the overload", || {
        let health = gateway.get("/healthz");
        health.contains(": port lan: worker 0 does not keep up with the frames: new flows are not")
    });
    assert_eq!(gateway.metric("lr2_degraded{reason=\"overload\"}"), 1.0);
    gateway.end(Signal::SIGTERM);
}
