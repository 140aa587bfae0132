//! The real `lr2-check-rnic` between two of `lr2-host`, on `net_memif`.

#[expect(dead_code, reason = "the tests of other programs need more of it")]
mod support;

use nix::sys::signal::Signal;
use support::{Folder, HOST, Running, fails_with, memif, number, output, text};

const CHECK_RNIC: &str = env!("CARGO_BIN_EXE_lr2-check-rnic");
/// Small, the same with and without hugepages, and beside other programs on its CPU.
const SMALL: &str = "--huge never --mtu 4200 --idle adaptive";

#[test]
fn models_of_rnics_are_as_expected_and_intact() {
    let folder = Folder::new("rnic");
    let path = |name: &str| folder.path(name);
    let checks = ["baseline", "gap", "nak", "held", "control", "tunnel"];
    let line = format!(
        "{SMALL} --a {} --b {} --only {} --hold 150ms --wait 15s --json {} --markdown {}",
        memif(0, "server", &path("a")),
        memif(1, "server", &path("b")),
        checks.join(","),
        text(&path("report.json")),
        text(&path("report.md")),
    );
    let host = |role: &str, site: &str, ip: &str, peer: &str| {
        format!(
            "{SMALL} --device {} --role {role} --ip {ip} --peer-ip {peer} --message 64KiB \
             --rate 100Mbps --rtt 2ms --window 4bdp --timeout 18 --seconds 15 --json {}",
            memif(0, "client", &path(site)),
            text(&path(&format!("{role}.json"))),
        )
    };
    let mut wire = Running::start(CHECK_RNIC, &line);
    let mut responder = Running::start(HOST, &host("responder", "b", "10.0.0.2", "10.0.0.1"));
    let mut requester = Running::start(HOST, &host("requester", "a", "10.0.0.1", "10.0.0.2"));
    let status = wire.wait();
    let report = folder.json("report.json");
    assert_eq!(status.code(), Some(0), "{report:#}\n{}", wire.stderr());
    // Nothing joins them any more.
    requester.signal(Signal::SIGTERM);
    requester.wait();
    responder.stop(Signal::SIGTERM);

    let results = report["checks"].as_array().expect("a list");
    let names: Vec<_> = results.iter().filter_map(|check| check["name"].as_str()).collect();
    assert_eq!(names, checks);
    for check in results {
        assert_eq!(check["verdict"], "as expected", "{check:#}");
    }
    for port in 0..2 {
        let count = |what: &str| number(&report, &format!("/ports/{port}/frames/{what}"));
        assert_eq!(count("received"), count("forwarded") + count("dropped"), "{report:#}");
        assert_eq!((count("held"), count("not_injected")), (0, 0));
        assert_eq!(report["ports"][port]["driver"], "net_memif");
    }
    assert_eq!(number(&folder.json("responder.json"), "/responder/corrupt_bytes"), 0);
    let markdown = std::fs::read_to_string(path("report.md")).expect("written");
    assert!(markdown.contains("**6 as expected, 0 differ, 0 not tried**"), "{markdown}");
}

#[test]
fn a_run_that_is_stopped_writes_what_it_has() {
    let folder = Folder::new("rnic-stop");
    let file = folder.path("report.json");
    let line = format!(
        "{SMALL} --a net_null0,no-rx=1 --b net_null1,no-rx=1 --only gap --json {}",
        text(&file)
    );
    let mut wire = Running::start(CHECK_RNIC, &line);
    wire.stop(Signal::SIGINT);
    let report = folder.json("report.json");
    assert_eq!(report["checks"][0]["verdict"], "not tried", "{report:#}");
    assert_eq!(report["checks"][0]["observed"], "the run was stopped before");
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let ports = "--a net_null0 --b net_null1";
    for (line, part) in [
        ("--a net_null0".into(), "--b <DEVICE>"),
        ("--a net_null0 --b net_null0".into(), "--a and --b are the same port"),
        (format!("{ports} --hold 2s"), "--hold must be 1ms to 1s"),
        (format!("{ports} --only gaps"), "gaps"),
        (format!("{ports} --only gap --skip gap"), "leave no check"),
    ] {
        let output = output(CHECK_RNIC, &line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(part), "{line}: {stderr}");
    }
    let line = format!("{SMALL} --a net_frobnicate0 --b net_null0");
    fails_with(&output(CHECK_RNIC, &line), "lr2-check-rnic", &["net_frobnicate0"]);
}
