//! The API of the real program, through its socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::Signal;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::Value;

use crate::cables::{Host, cable, in_a_namespace, packet_socket};
use crate::support::{Folder, Running, SMALL, config, free_address, send, send_to, write_pcap};

const RECEIVED: &str = "lr2_port_received_frames_total{port=\"lan\"}";

/// The status of an answer, and its body.
pub fn ask(socket: &Path, request: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let headers = format!("Host: localhost\r\nContent-Length: {}", body.len());
    write!(stream, "{request} HTTP/1.1\r\n{headers}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}")))
}

/// Runs `lr2ctl`: its exit status, output and errors.
pub fn lr2ctl(socket: &Path, args: &[&str]) -> (u8, String, String) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let first = ["lr2ctl", "--socket", socket.to_str().unwrap()];
    let args = first.iter().chain(args).map(Into::into);
    let code = ctl::run(args, &mut out, &mut errors);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
}

fn lr2ctl_says_the_same(socket: &Path, gateway: &Running) {
    for (command, part) in [
        (&["status"][..], ": ok\n"),
        (&["peers"], "no box at the other end is heard"),
        (&["lanes"], "there is no tunnel"),
        (&["path"], "there is no tunnel"),
        (&["recovery"], "packets resent to the WAN"),
        (&["top", "--once"], "net_null1,no-rx=1"),
        (&["flows", "--sort", "held", "--limit", "5"], "no such flow\n0 of 0 flows match\n"),
        (&["ports"], "net_null1,no-rx=1"),
        (&["pools"], "resend_cache"),
        (&["events", "--last", "5"], " port wan is up\n"),
        (&["build"], "DPDK "),
        (&["config"], "\nlab_unkeyed = true\n"),
        (&["parameters"], "576 to 9600 bytes"),
        (&["log-level", "warn"], "the log level is warn\n"),
    ] {
        let (code, out, errors) = lr2ctl(socket, command);
        assert_eq!((code, &*errors), (0, ""), "{command:?}");
        assert!(out.contains(part), "{command:?}: {out}");
    }
    let (_, json, _) = lr2ctl(socket, &["--json", "ports"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), ask(socket, "GET /ports", "").1);
    let (code, out, errors) = lr2ctl(socket, &["set", "lan.mtu", "1500"]);
    assert_eq!((code, &*out, errors.lines().count()), (2, "", 1), "{errors}");
    assert!(errors.starts_with("lr2ctl: lan.mtu: it can't be set"), "{errors}");
    let (code, _, errors) = lr2ctl(socket, &["flows", "--qpn", "red"]);
    assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    let (code, _, errors) = lr2ctl(socket, &["set", "lan/..", "x"]);
    assert!(code == 2 && errors.contains("no parameter lan/.."), "{errors}");
    let address = gateway.listen.to_string();
    let (code, _, errors) = lr2ctl(socket, &["--address", &address, "drain"]);
    assert!(code == 2 && errors.contains("control.socket only"), "{errors}");
    let (code, out, _) = lr2ctl(socket, &["--address", &address, "status"]);
    assert!(code == 0 && out.contains("log level warn"), "{out}");
}

#[test]
fn a_gateway_is_asked_reloaded_and_drained_through_its_socket() {
    let folder = Folder::new("api");
    let (listen, socket) = (free_address(), folder.path("control.sock"));
    let text = |more: &str| {
        let control = format!("socket = \"{}\"\n{more}{SMALL}", socket.display());
        config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, &control)
    };
    let path = folder.config(&text(""));
    let mut gateway = Running::start(&path, listen);
    let get = |path: &str| {
        let (status, body) = ask(&socket, &format!("GET {path}"), "");
        assert_eq!(status, 200, "{body}");
        body
    };
    let status = get("/status");
    assert_eq!((&status["health"], &status["tunnel"]), (&"ok".into(), &"off".into()), "{status}");
    assert!(status["boot"].is_u64() && status["workers"][0]["stalled"] == false, "{status}");
    let ports = get("/ports");
    assert_eq!(ports["ports"][1]["device"], "net_null1,no-rx=1");
    assert_eq!((&ports["ports"][0]["up"], &ports["ports"][0]["mtu"]), (&true.into(), &1500.into()));
    let mbufs = &get("/pools")["pools"][0];
    assert!(mbufs["limit"].as_u64() > mbufs["frames"].as_u64(), "{mbufs}");
    assert!(get("/build")["dpdk"].as_str().unwrap().starts_with("DPDK "));
    assert_eq!(get("/config")["config"]["peer"]["lab_unkeyed"], true);
    assert_eq!(get("/lanes")["lanes"], Value::Array(Vec::new()));
    let events = get("/events?last=10");
    assert_eq!(events["events"][0]["text"], "port lan is up", "{events}");

    lr2ctl_says_the_same(&socket, &gateway);

    assert_eq!(ask(&socket, "PUT /log-level", "debug").1["log_level"], "debug");
    assert_eq!(get("/status")["log_level"], "debug");
    assert_eq!(ask(&socket, "POST /reload", "").1["applied"], Value::Array(Vec::new()));
    folder.config(&text("[shutdown]\ndrain_timeout = \"3s\"\n"));
    let (status, refused) = ask(&socket, "POST /reload", "");
    let error = "not reloaded, nothing is changed: a restart is needed for shutdown.drain_timeout";
    assert_eq!((status, &refused["error"]), (422, &error.into()));
    folder.config(&text("[peer]\nnode = \"red\"\n"));
    assert_eq!(ask(&socket, "POST /reload", "").0, 422);

    assert_eq!(ask(&socket, "POST /drain", "").0, 202);
    let mut ended = None;
    let mut stderr = String::new();
    gateway.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    while ended.is_none() {
        ended = gateway.child.try_wait().unwrap();
    }
    assert_eq!(ended.unwrap().code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("asked to drain") && stderr.trim_end().ends_with("stopped"),
        "{stderr}"
    );
    assert!(!socket.exists());
}

/// Requests share listings: one listing after the other would take too long.
#[test]
fn many_ask_for_a_large_table_at_once() {
    const FLOWS: u32 = 50_000;
    // Three bursts: too few for an overload, which would keep new flows out of the table.
    const UNREAD: usize = 3 * 64;
    if !in_a_namespace() {
        return;
    }
    let folder = Folder::new("api-flows");
    let (listen, socket) = (free_address(), folder.path("control.sock"));
    cable("host", "lan");
    // For mbufs as large as a slot of the packet socket.
    let memory = SMALL.replace("64MiB", "96MiB");
    let control = format!("socket = \"{}\"\n[worker]\nburst = 64\n{memory}", socket.display());
    let lan = packet_socket(0, "lan");
    let path = folder.config(&config(&lan, "net_null0,no-rx=1", listen, &control));
    let mut gateway = Running::start(&path, listen);
    let host = Host::new("host");
    let frames: Vec<_> = (2..FLOWS + 2).map(|qpn| send_to(qpn, 0)).collect();
    let mut sent = gateway.metric(RECEIVED);
    for frames in frames.chunks(UNREAD) {
        frames.iter().for_each(|frame| host.send(frame));
        sent += frames.len() as f64;
        gateway.wait("the frames", |gateway| gateway.metric(RECEIVED) >= sent);
    }
    let flows = || ask(&socket, "GET /flows?limit=1", "").1["total"].as_u64();
    gateway.wait("the flows", |_| flows() == Some(u64::from(FLOWS)));

    std::thread::scope(|scope| {
        let one = || ask(&socket, "GET /flows?sort=resent&limit=10", "");
        let all: Vec<_> = (0..24).map(|_| scope.spawn(one)).collect();
        // What needs no listing waits for none.
        assert_eq!(ask(&socket, "GET /status", "").0, 200);
        for answer in all {
            let (status, page) = answer.join().unwrap();
            assert_eq!((status, &page["total"]), (200, &FLOWS.into()), "{page}");
            assert_eq!(page["flows"].as_array().unwrap().len(), 10);
        }
    });
    gateway.end(Signal::SIGTERM);
}

/// The LAN port repeats the frames of a file without end.
#[test]
fn frames_are_captured_while_they_pass() {
    let folder = Folder::new("capture");
    let (listen, socket) = (free_address(), folder.path("control.sock"));
    let (arrive, file) = (folder.path("arrive.pcap"), folder.path("out.pcapng"));
    write_pcap(&arrive, &(0..4).map(|n| vec![n; 100]).collect::<Vec<_>>());
    let control = format!("socket = \"{}\"\n{SMALL}", socket.display());
    let lan = format!("net_pcap0,rx_pcap={},infinite_rx=1", arrive.display());
    let path = folder.config(&config(&lan, "net_null0,no-rx=1", listen, &control));
    let gateway = Running::start(&path, listen);
    let out = file.to_str().unwrap();
    let (code, said, errors) = lr2ctl(
        &socket,
        &[
            "capture",
            "--port",
            "wan",
            "--direction",
            "out",
            "--snaplen",
            "60",
            "--frames",
            "6",
            "--out",
            out,
        ],
    );
    assert_eq!((code, &*errors), (0, ""));
    assert!(said.starts_with(&format!("6 frames in {out}")), "{said}");
    let mut reader = PcapNgReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let mut captured = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            assert_eq!((packet.interface_id, packet.original_len), (1, 100));
            captured.push(packet.data.into_owned());
        }
    }
    assert_eq!(captured.len(), 6);
    let next = |n: u8| (n + 1) % 4;
    assert!(captured.windows(2).all(|two| two[1] == [next(two[0][0]); 60]), "{captured:?}");
    // Nothing of this flow passes: the time ends it.
    let (code, said, errors) =
        lr2ctl(&socket, &["capture", "--qpn", "17", "--seconds", "1", "--out", out]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(said.starts_with("0 frames in "), "{said}");
    for (args, part) in [
        (&["--port", "wan7", "--out", out][..], "port: found wan7; allowed: lan, wan"),
        (&["--qpn", "red", "--out", out], "'red' for '--qpn <NUMBER>'"),
        (&["--out", "/nowhere/x"], "can't write to /nowhere/x"),
    ] {
        let (code, _, errors) = lr2ctl(&socket, &[&["capture"], args].concat());
        assert!(code == 2 && errors.lines().count() == 1 && errors.contains(part), "{errors}");
    }
    let address = gateway.listen.to_string();
    let (code, _, errors) = lr2ctl(&socket, &["--address", &address, "capture", "--out", out]);
    assert!(code == 2 && errors.contains("control.socket only"), "{errors}");
    gateway.end(Signal::SIGTERM);
}

/// The LAN port repeats the packets 0 to 3 of a queue pair without end: three new ones behind one that was there before.
#[test]
fn what_was_done_to_packets_is_recorded_and_traced() {
    let folder = Folder::new("trace");
    let (listen, socket) = (free_address(), folder.path("control.sock"));
    let arrive = folder.path("arrive.pcap");
    write_pcap(&arrive, &(0..4).map(send).chain([vec![9; 100]]).collect::<Vec<_>>());
    let control = format!("socket = \"{}\"\n{SMALL}", socket.display());
    let lan = format!("net_pcap0,rx_pcap={},infinite_rx=1", arrive.display());
    let path = folder.config(&config(&lan, "net_null0,no-rx=1", listen, &control));
    let gateway = Running::start(&path, listen);
    let good = |args: &[&str]| {
        let (code, out, errors) = lr2ctl(&socket, args);
        assert_eq!((code, &*errors), (0, ""), "{args:?}");
        out
    };

    let out = good(&["trace", "--host", "10.2.0.1", "--qpn", "0x11", "--packets", "8"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((lines.len(), lines[8]), (9, "8 packets"), "{out}");
    for line in &lines[..8] {
        let parts = ["lan 10.1.0.1 to 10.2.0.1 QP 0x11 RC SEND", "transmitted_frames wan"];
        assert!(parts.iter().all(|part| line.contains(part)), "{out}");
    }
    let psn =
        |line: &str| line.split_once(" PSN ").unwrap().1.split_once(':').unwrap().0.to_owned();
    let psns: Vec<_> = lines[..8].iter().map(|line| psn(line)).collect();
    let next = |psn: &str| ((psn.parse::<u8>().unwrap() + 1) % 4).to_string();
    assert!(psns.windows(2).all(|two| two[1] == next(&two[0])), "{out}");
    let json = good(&["trace", "--qpn", "17", "--packets", "2", "--json"]);
    let traced: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((traced.len(), &traced[0]["port"]), (2, &"lan".into()), "{json}");
    assert!(traced[0]["decisions"][0]["meaning"].is_string(), "{json}");
    // What is not RoCEv2 as well.
    let out = good(&["trace", "--port", "lan", "--packets", "10"]);
    assert!(out.contains("lan 100 bytes, not RoCEv2: "), "{out}");
    assert!(out.contains("passed_frames not_roce"), "{out}");

    let repeated = "sentry_packets repeat_unprotected";
    let out = good(&["records", "--qpn", "0x11", "--psn", "2"]);
    assert!(out.contains("10.1.0.1 to 10.2.0.1 QP 0x11") && out.contains(repeated), "{out}");
    let out = good(&["records", "--psn", "77"]);
    assert!(out.starts_with("no record matches"), "{out}");
    let (_, all) = ask(&socket, "GET /records?last=5&address=10.1.0.1", "");
    let records = all["records"].as_array().unwrap();
    assert!(all["matched"].as_u64() > Some(5) && records.len() == 5, "{all}");
    assert!(records.iter().all(|it| it["until"].as_f64() >= it["time"].as_f64()), "{all}");

    for (args, part) in [
        (&["records", "--psn", "0x1000000"][..], "'0x1000000' for '--psn <NUMBER>'"),
        (&["trace", "--port", "wan7"], "port: found wan7; allowed: lan, wan"),
        (&["trace", "--lane", "0"], "lane: found 0; allowed: none: this box has no tunnel"),
        (&["capture", "--out", "-", "--lane", "3"], "lane: found 3; allowed: none"),
    ] {
        let (code, _, errors) = lr2ctl(&socket, args);
        assert!(code == 2 && errors.lines().count() == 1 && errors.contains(part), "{errors}");
    }
    for (request, part) in [
        ("GET /records?psn=0x1000000", "psn: found 0x1000000"),
        ("POST /trace?qpn=red", "qpn: found red"),
        ("POST /capture?qpn=red", "qpn: found red"),
    ] {
        let (status, answer) = ask(&socket, request, "");
        assert!(status == 400 && answer.to_string().contains(part), "{answer}");
    }
    let address = gateway.listen.to_string();
    for command in ["trace", "records"] {
        let (code, _, errors) = lr2ctl(&socket, &["--address", &address, command, "--qpn", "17"]);
        assert!(code == 2 && errors.contains("control.socket only"), "{errors}");
    }
    gateway.end(Signal::SIGTERM);
}
