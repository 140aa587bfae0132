//! `wireshark/lr2.lua` in tshark: messages and shims that our own encoders wrote are shown as they are.
//!
//! Needs tshark, so it runs with the feature `tshark` only: `cargo test -p analysis --features tshark --test dissector`.

use std::borrow::Cow;
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::control::{
    BootId, DEFAULT_OPCODE, Epoch, Fetch, Header, Keys, LastAck, Message, NodeId, PsnRange, Reason,
    Status, SyncMessage, body_len, encode,
};
use common::frame::Frame;
use common::heap::HeapFrame;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Bth, Headers, Opcode, Qpn, Vlans};
use pcap_file::pcap::{PcapPacket, PcapWriter};
use tunnel::encapsulation::{Encapsulation, Udp, UdpConfig};
use tunnel::message::{self, Echo, Hello, PathEcho, PathProbe, Probe, Report, Reports, Skip};
use tunnel::shim::{RepairShim, Shim};
use tunnel::{Lane, Plan, Session, WireNumber};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wireshark/lr2.lua");

/// The fields of each frame, as tshark prints them: several of a name with commas between.
fn shown(frames: &[Vec<u8>], fields: &[&str]) -> Vec<Vec<String>> {
    let frames: Vec<_> = frames.iter().map(|frame| (frame.clone(), frame.len())).collect();
    shown_of_cut(&frames, fields)
}

/// The fields of each frame, of which only a number of bytes was captured.
fn shown_of_cut(frames: &[(Vec<u8>, usize)], fields: &[&str]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let mut writer = PcapWriter::new(File::create(&file).expect("made")).expect("written");
    for (frame, captured) in frames {
        let data = Cow::Borrowed(&frame[..*captured]);
        let packet = PcapPacket { timestamp: Duration::ZERO, orig_len: frame.len() as u32, data };
        writer.write_packet(&packet).expect("written");
    }
    drop(writer);
    let wanted = fields.iter().flat_map(|field| ["-e", field]);
    let text = tshark(&file, &[&["-T", "fields"], &wanted.collect::<Vec<_>>()[..]].concat());
    let rows: Vec<Vec<String>> =
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), frames.len());
    // No errors of the script, no warnings of it about the frame.
    let whole = tshark(&file, &["-V"]);
    for bad in ["Lua Error", "Expert Info (Error/Malformed)", "Malformed Packet"] {
        assert!(!whole.contains(bad), "{bad}: {whole}");
    }
    rows
}

fn tshark(file: &Path, options: &[&str]) -> String {
    let script = format!("lua_script:{SCRIPT}");
    let output =
        Command::new("tshark").args(["-X", &script, "-r"]).arg(file).args(options).output();
    let output = output.expect("tshark is not installed: apt install tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("Lua"), "{said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn headers(is_v6: bool, vlans: Vlans) -> Headers {
    let ip = |last| -> IpAddr {
        if is_v6 {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])
        } else {
            IpAddr::from([10, 0, 0, last as u8])
        }
    };
    Headers::new([2; 6], [4; 6], vlans, ip(1), ip(2), 50_000, 0, 64)
}

fn control(headers: &Headers, message: &Message) -> Vec<u8> {
    let header = Header {
        node: NodeId(0x99),
        boot: BootId(5),
        seq: 17,
        seen_boot: BootId(6),
        dest_qpn: Qpn::new(0x123456),
        epoch: Epoch(3),
    };
    let mut frame = vec![0; headers.frame_len(body_len(message))];
    let keys = Keys::from_secret(b"any");
    encode(headers, DEFAULT_OPCODE, Qpn::new(0x123456), &header, message, &keys, &mut frame);
    frame
}

fn write(headers: &Headers) -> Vec<u8> {
    let mut frame = vec![0; headers.frame_len(64)];
    headers.emit(
        &Bth::new(Opcode::WRITE_MIDDLE, Qpn::new(0x77), Psn::new(1234)),
        &mut frame,
        |_| {},
    );
    frame
}

/// A control message of each kind, and a packet of the hosts.
fn control_frames() -> [Vec<u8>; 5] {
    let sync = Message::Sync(SyncMessage {
        reason: Reason::Tail,
        next_psn: Some(Psn::new(1000)),
        pmtu: 4096,
        src_qpn: Some(Qpn::new(0x55)),
        sent_at: Time::from_nanos(77),
        rtt: Span::from_millis(10),
    });
    let range = |start, len| PsnRange { start: Psn::new(start), len };
    let status = Message::Status(Status {
        expected: Psn::new(500),
        ack: Some(LastAck { psn: Psn::new(499), syndrome: 0x1f, msn: 12 }),
        from: Psn::new(500),
        to: Psn::new(600),
        missing: [range(500, 2), range(520, 3)].into_iter().collect(),
        echo: Time::from_nanos(77),
        hold: Span::from_micros(4),
        src_qpn: None,
        keeps_responses: true,
        passive: false,
    });
    let fetch = Fetch { expected: Psn::new(7), missing: [range(8, 1)].into_iter().collect() };
    [
        control(&headers(false, Vlans::NONE), &sync),
        control(&headers(true, Vlans::NONE), &status),
        control(&headers(false, Vlans::new(9, 0)), &Message::Fetch(fetch.clone())),
        control(&headers(false, Vlans::NONE), &Message::Absent(fetch)),
        // Others' packets look as they would without the script.
        write(&headers(false, Vlans::NONE)),
    ]
}

#[test]
fn control_messages() {
    let frames = control_frames();
    let head = [
        "lr2.kind",
        "lr2.version",
        "lr2.node",
        "lr2.boot",
        "lr2.seq",
        "lr2.seen_boot",
        "lr2.dest_qpn",
        "lr2.epoch",
    ];
    let rows = shown(&frames, &head);
    for (row, kind) in rows[..4].iter().zip(["1", "2", "3", "4"]) {
        assert_eq!(row[..], [kind, "3", "0x00000099", "5", "17", "6", "0x00123456", "3"]);
    }
    assert!(rows[4].iter().all(String::is_empty));

    let of_sync = [
        "lr2.reason",
        "lr2.pmtu",
        "lr2.next_psn",
        "lr2.src_qpn",
        "lr2.sent_at",
        "lr2.rtt",
        "_ws.col.Info",
    ];
    let rows = shown(&frames, &of_sync);
    let info = "SYNC of QP 0x123456, epoch 3: tail, next PSN 1000";
    assert_eq!(rows[0][..], ["2", "4096", "1000", "0x00000055", "77", "10000000", info]);

    let of_status = [
        "lr2.expected",
        "lr2.from",
        "lr2.to",
        "lr2.ack.psn",
        "lr2.ack.syndrome",
        "lr2.ack.msn",
        "lr2.echo",
        "lr2.hold",
        "lr2.flags.keeps_responses",
        "lr2.ranges",
        "lr2.range.start",
        "lr2.range.count",
        "_ws.col.Info",
    ];
    let rows = shown(&frames, &of_status);
    let info = "STATUS of QP 0x123456, epoch 3: expects PSN 500, 5 missing";
    assert_eq!(
        rows[1][..],
        ["500", "500", "600", "499", "0x1f", "12", "77", "4000", "1", "2", "500,520", "2,3", info]
    );
    assert_eq!([&rows[2][0], &rows[2][10], &rows[2][11]], ["7", "8", "1"]);
    assert!(rows[3][12].starts_with("ABSENT"), "{:?}", rows[3]);

    let rows = shown(&frames, &["infiniband.bth.destqp", "infiniband.bth.psn", "lr2.tag"]);
    assert_eq!(rows[4][..2], ["0x000077", "1234"]);
    assert!(rows[..4].iter().all(|row| row[2].len() == 32));
}

fn encapsulations() -> [Encapsulation; 3] {
    let udp = |addresses: [&str; 2]| {
        let [address, peer] = addresses.map(|text| text.parse().expect("an address"));
        let source_ports = vec![49152];
        let config = UdpConfig {
            mac: [2; 6],
            address,
            peer,
            port: 49791,
            source_ports,
            dscp: None,
            vlan: None,
        };
        let mut udp = Encapsulation::Udp(Udp::new(&config));
        udp.set_next_hop(Some([4; 6]));
        udp
    };
    [
        Encapsulation::Ethernet { ethertype: 0x88b5, mac: [2; 6] },
        udp(["192.0.2.1", "192.0.2.2"]),
        udp(["2001:db8::1", "2001:db8::2"]),
    ]
}

/// A WRITE in a VLAN inside the tunnel, and the tunnel's resend of it.
fn wrapped(outer: &Encapsulation, shim: &Shim, again: &Shim) -> [Vec<u8>; 2] {
    let mut frame = HeapFrame::from(write(&headers(false, Vlans::new(42, 0))));
    outer.reserve(&mut frame, 9000).expect("there is room");
    outer.wrap(frame.bytes_mut(), shim, 0);
    let first = frame.bytes().to_vec();
    let mut resend = vec![0; outer.resent_len(first.len())];
    outer.rewrap(&first, again, &mut resend);
    [first, resend]
}

#[test]
fn shims_and_the_frames_behind_them() {
    let lane = |n| Lane::new(n).expect("a lane");
    for outer in encapsulations() {
        let shim = Shim {
            lane: lane(3),
            number: WireNumber(100),
            session: Session::new(0xabcd),
            predecessor: Some((lane(2), WireNumber(90))),
            original: None,
            is_kept: false,
            clear: 5,
        };
        let again = Shim {
            number: WireNumber(107),
            original: Some((lane(3), WireNumber(100))),
            is_kept: true,
            ..shim
        };
        let [first, resend] = wrapped(&outer, &shim, &again);
        let fields = [
            "lr2t.type",
            "lr2t.lane",
            "lr2t.number",
            "lr2t.session",
            "lr2t.predecessor.lane",
            "lr2t.predecessor.number",
            "lr2t.not_kept",
            "lr2t.clear",
            "lr2t.original.lane",
            "lr2t.original.number",
            "vlan.id",
            "infiniband.bth.destqp",
            "infiniband.bth.psn",
        ];
        let rows = shown(&[first, resend], &fields);
        let inner = ["42", "0x000077", "1234"];
        let expected = ["0", "3", "100", "0x0000abcd", "2", "90", "1", "5", "", ""];
        assert_eq!(rows[0][..], [&expected[..], &inner].concat(), "{outer:?}");
        let expected = ["1", "3", "107", "0x0000abcd", "2", "90", "0", "5", "3", "100"];
        assert_eq!(rows[1][..], [&expected[..], &inner].concat(), "{outer:?}");
    }
}

#[test]
fn repair_frames() {
    for outer in encapsulations() {
        let shim = RepairShim {
            lane: Lane::new(3).expect("a lane"),
            session: Session::new(0xabcd),
            plan: Plan::new(8, 64, 4).expect("a plan"),
            first: WireNumber(100),
            count: 256,
            seed: 77,
        };
        let mut frame = vec![7; outer.shim_at() + 36];
        let body = outer.wrap_message(shim.lane, None, &mut frame).expect("a next hop");
        shim.write(body);
        let fields = [
            "type",
            "lane",
            "session",
            "repair.windows",
            "repair.streams",
            "repair.every",
            "repair.first",
            "repair.count",
            "repair.seed",
            "repair.sum",
        ];
        let rows = shown(
            &[frame],
            &fields.map(|field| format!("lr2t.{field}")).each_ref().map(String::as_str),
        );
        let sum = "07".repeat(20);
        let expected = ["2", "3", "0x0000abcd", "3", "3", "64", "100", "256", "77", &sum];
        assert_eq!(rows[0][..], expected, "{outer:?}");
    }
}

/// A message of each kind.
fn tunnel_messages(outer: &Encapsulation) -> [Vec<u8>; 7] {
    let lane = Lane::new(1).expect("a lane");
    let ranges = || [(WireNumber(40), 2), (WireNumber(50), 1)].into_iter().collect();
    let echo = Echo { sent_at: Time::from_nanos(8), arrived_at: Time::from_nanos(9) };
    let of_lane = |lane, echo, missing| Report {
        lane,
        from: Some(WireNumber(30)),
        next: WireNumber(60),
        frames: 27,
        marked: 1,
        echo,
        missing,
    };
    let mut reports = Reports::from(of_lane(lane, Some(echo), ranges()));
    let other = Lane::new(7).expect("a lane");
    assert!(reports.push(&of_lane(other, None, Default::default())));
    let messages = [
        message::Message::Hello(Hello {
            session: Session::new(0x1234),
            lanes: 4,
            features: 1,
            frame_max: 9018,
            division: 0,
            heard: 600,
            padding: 100,
        }),
        message::Message::Reports(reports),
        message::Message::Probe(Probe {
            lane,
            next: WireNumber(60),
            sent_at: Some(Time::from_nanos(8)),
        }),
        message::Message::Skip(Skip { lane, ranges: ranges() }),
        message::Message::Bye,
        message::Message::PathProbe(PathProbe {
            lane,
            sent_at: Time::from_nanos(8),
            padding: 1_300,
        }),
        message::Message::PathEcho(PathEcho { lane, sent_at: Time::from_nanos(8), len: 1_378 }),
    ];
    let header = message::Header {
        node: NodeId(0x99),
        boot: BootId(5),
        seq: 17,
        seen_boot: BootId(6),
        session: Session::new(0xabcd),
        tunnel: 2,
    };
    messages.each_ref().map(|message| {
        let mut frame = vec![0; outer.shim_at() + message::wire_len(message)];
        let body = outer.wrap_message(lane, Some([4; 6]), &mut frame).expect("a next hop");
        message::write(&header, message, &Keys::from_secret(b"any"), body);
        frame
    })
}

#[test]
fn messages_of_the_tunnel() {
    for outer in encapsulations() {
        let frames = tunnel_messages(&outer);
        let fields = [
            "lr2t.kind",
            "lr2t.node",
            "lr2t.seq",
            "lr2t.session",
            "lr2t.tunnel",
            "lr2t.boot",
            "lr2t.seen_boot",
            "_ws.col.Info",
        ];
        let rows = shown(&frames, &fields);
        for (row, (kind, info)) in rows.iter().zip([
            ("1", "HELLO: session 0x1234, 4 lanes"),
            ("2", "REPORT of lane 1: to before 60, 3 missing; of lane 7: to before 60, 0 missing"),
            ("3", "PROBE of lane 1: to before 60"),
            ("4", "SKIP of lane 1: 3 numbers"),
            ("5", "BYE"),
            ("6", "PATH of lane 1: 1300 bytes of padding"),
            ("7", "PATH_ECHO of lane 1: 1378 bytes arrived"),
        ]) {
            assert_eq!(
                row[..],
                [kind, "0x00000099", "17", "0x0000abcd", "2", "5", "6", info],
                "{outer:?}"
            );
        }
        let fields = [
            "lr2t.offered",
            "lr2t.frame_max",
            "lr2t.heard",
            "lr2t.lanes",
            "lr2t.from",
            "lr2t.next",
            "lr2t.frames",
            "lr2t.marked",
            "lr2t.echo.sent",
            "lr2t.echo.arrived",
            "lr2t.range.start",
            "lr2t.range.count",
            "lr2t.sent",
            "lr2t.carried",
        ];
        let rows = shown(&frames, &fields);
        assert_eq!(rows[0][..4], ["0x00001234", "9018", "600", "4"]);
        assert_eq!(rows[1][4..12], ["30,30", "60,60", "27,27", "1,1", "8", "9", "40,50", "2,1"]);
        assert_eq!([&rows[2][5], &rows[2][12]], ["60", "8"]);
        assert_eq!([&rows[3][10], &rows[3][11]], ["40,50", "2,1"]);
        assert_eq!([&rows[5][12], &rows[6][12], &rows[6][13]], ["8", "8", "1378"]);
    }
}

/// Every frame of ours, cut to every length: no error of the script, nothing called malformed, and each cut is said.
#[test]
fn cut_frames_are_limited_and_not_malformed() {
    let lane = Lane::new(3).expect("a lane");
    let shim = Shim {
        lane,
        number: WireNumber(100),
        session: Session::new(0xabcd),
        predecessor: Some((lane, WireNumber(90))),
        original: None,
        is_kept: true,
        clear: 5,
    };
    let again = Shim { original: Some((lane, WireNumber(100))), ..shim };
    // The last bytes of a packet are its ICRC: no field of a message.
    const ICRC_LEN: usize = 4;
    let [messages @ .., write] = control_frames();
    let mut frames: Vec<_> = messages.map(|frame| (frame, ICRC_LEN)).into();
    for outer in encapsulations() {
        frames.extend(wrapped(&outer, &shim, &again).map(|frame| (frame, 0)));
        frames.extend(tunnel_messages(&outer).map(|frame| (frame, 0)));
    }
    let of = |(frame, rest): &(Vec<u8>, usize)| {
        let frame = frame.clone();
        (0..frame.len() - rest).map(move |captured| (frame.clone(), captured))
    };
    let cut: Vec<_> = frames.iter().flat_map(of).collect();
    let fields = ["_ws.short", "lr2.limited", "lr2t.limited", "lr2t.filled"];
    let rows = shown_of_cut(&cut, &[&fields[..], &["infiniband.bth.psn"]].concat());
    for ((frame, captured), row) in cut.iter().zip(&rows) {
        let is_said = row[..4].iter().any(|field| !field.is_empty());
        assert!(is_said, "{captured} of {} bytes: {row:?} {frame:x?}", frame.len());
        // Bytes that were not captured make no number.
        let psn = row.get(4).map_or("", String::as_str);
        assert!(
            ["", "17", "1234"].contains(&psn),
            "{captured} of {} bytes: PSN {psn}",
            frame.len()
        );
    }
    // 128 bytes are enough for the PSN in a tunnel over IPv4.
    let [ethernet, udp, _] = encapsulations();
    let frames = [ethernet, udp].map(|outer| wrapped(&outer, &shim, &again));
    let frames: Vec<_> = frames.into_iter().flatten().map(|frame| (frame, 128)).collect();
    for row in shown_of_cut(&frames, &["infiniband.bth.psn", "lr2t.filled"]) {
        assert_eq!(row[0], "1234", "{row:?}");
    }
    // Packets of the hosts look as without the script.
    let cut: Vec<_> = (0..write.len()).map(|captured| (write.clone(), captured)).collect();
    shown_of_cut(&cut, &["frame.number"]);
}
