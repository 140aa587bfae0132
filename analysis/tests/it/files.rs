//! The program on files: formats, tunnels, cut frames, several interfaces, and what is wrong with a file.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use common::frame::Frame;
use common::heap::HeapFrame;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use tunnel::encapsulation::{Encapsulation, Udp, UdpConfig};
use tunnel::shim::Shim;
use tunnel::{Lane, Session, WireNumber};

use crate::support::{analyze, error, json, path, records, write};

#[test]
fn text_json_and_page_say_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let output = analyze(&path("loss_write.pcap"), &["--html", page.to_str().expect("UTF-8")]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let sentence = "2 go-back-N after a NAK: 58 packets, 59.4 kB; wasted 56 packets, 57.3 kB";
    assert!(text.contains(sentence), "{text}");
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains(sentence) && page.contains("<svg") && page.contains("class=\"nak\""));
    // Nothing from elsewhere.
    assert!(!page.contains("http") && !page.contains("<script") && !page.contains("src="));
    let report = json(&path("loss_write.pcap"), &[]);
    assert_eq!(report["flows"][0]["requests"]["after_nak"]["wasted_packets"], 56);
}

#[test]
fn frames_in_a_tunnel_are_as_plain_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = json(&path("loss_write.pcap"), &[]);
    let ethernet = Encapsulation::Ethernet { ethertype: 0x88b5, mac: [2; 6] };
    let udp = |addresses: [&str; 2]| {
        let [address, peer] = addresses.map(|text| text.parse().expect("an address"));
        let mut udp = Encapsulation::Udp(Udp::new(&UdpConfig {
            mac: [2; 6],
            address,
            peer,
            port: 49791,
            source_ports: vec![49152],
            dscp: None,
            vlan: None,
        }));
        udp.set_next_hop(Some([4; 6]));
        udp
    };
    for (name, outer) in [
        ("ethernet", ethernet),
        ("v4", udp(["192.0.2.1", "192.0.2.2"])),
        ("v6", udp(["2001:db8::1", "2001:db8::2"])),
    ] {
        let lane = Lane::new(0).expect("a lane");
        let mut wrapped = records("loss_write.pcap");
        for (n, (_, bytes)) in wrapped.iter_mut().enumerate() {
            let shim = Shim {
                lane,
                number: WireNumber(n as u32),
                session: Session::new(7),
                predecessor: None,
                original: None,
                is_kept: true,
                clear: 0,
            };
            let mut frame = HeapFrame::from(bytes.clone());
            outer.reserve(&mut frame, 9000).expect("there is room");
            outer.wrap(frame.bytes_mut(), &shim, 0);
            *bytes = frame.bytes().to_vec();
            // Every other one as the tunnel resends it.
            if n % 2 == 1 {
                let mut resend = vec![0; outer.resent_len(bytes.len())];
                let shim = Shim { original: Some((lane, WireNumber(n as u32))), ..shim };
                outer.rewrap(bytes, &shim, &mut resend);
                *bytes = resend;
            }
        }
        let file = folder.path().join(name);
        write(&file, DataLink::ETHERNET, usize::MAX, &wrapped);
        let inside = json(&file, &[]);
        assert_eq!(inside["flows"], plain["flows"], "{name}");
        assert_eq!(
            (&inside["totals"]["tunnelled"], &inside["totals"]["tunnel_resends"]),
            (&125.into(), &62.into())
        );
    }
}

#[test]
fn the_first_128_bytes_of_a_frame_are_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cut.pcap");
    write(&file, DataLink::ETHERNET, 128, &records("loss_write.pcap"));
    assert_eq!(json(&file, &[])["flows"], json(&path("loss_write.pcap"), &[])["flows"]);
}

#[test]
fn vlan_tags_and_cooked_captures() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let plain = json(&path("loss_write.pcap"), &[]);
    let mut tagged = records("loss_write.pcap");
    for (_, frame) in &mut tagged {
        frame.splice(12..12, [0x81, 0, 0, 42]);
    }
    write(&file, DataLink::ETHERNET, usize::MAX, &tagged);
    let report = json(&file, &[]);
    assert_eq!(report["flows"][0]["vlans"], serde_json::json!([42]));
    assert_eq!(report["flows"][0]["requests"], plain["flows"][0]["requests"]);
    let mut cooked = records("loss_write.pcap");
    for (_, frame) in &mut cooked {
        frame.splice(..14, [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0]);
    }
    write(&file, DataLink::LINUX_SLL, usize::MAX, &cooked);
    assert_eq!(json(&file, &[])["flows"], plain["flows"]);
}

/// Two interfaces, in nanoseconds and in microseconds: the packets of one flow pass both.
#[test]
fn interfaces_of_pcapng() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("two.pcapng");
    let mut writer = PcapNgWriter::new(File::create(&file).expect("made")).expect("written");
    for (name, resolution) in [("lan", 9), ("wan", 6)] {
        let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(name));
        let options = vec![name, InterfaceDescriptionOption::IfTsResol(resolution)];
        let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        writer.write_pcapng_block(block).expect("written");
    }
    for (at, frame) in records("loss_write.pcap") {
        for interface_id in 0..2 {
            // The writer takes whatever is here for units of the interface.
            let unit = if interface_id == 0 { 1 } else { 1000 };
            let timestamp = Duration::from_nanos((at.as_nanos() / unit) as u64);
            let original_len = frame.len() as u32;
            let data = Cow::Borrowed(&frame[..]);
            let block = EnhancedPacketBlock {
                interface_id,
                timestamp,
                original_len,
                data,
                options: vec![],
            };
            writer.write_pcapng_block(block).expect("written");
        }
    }
    drop(writer);
    let plain = json(&path("loss_write.pcap"), &[]);
    for interface in ["lan", "wan", "0"] {
        assert_eq!(
            json(&file, &["--interface", interface])["flows"],
            plain["flows"],
            "{interface}"
        );
    }
    let both = analyze(&file, &[]);
    let said = String::from_utf8(both.stderr).expect("UTF-8");
    assert!(said.contains("2 interfaces (lan, wan)") && said.contains("--interface"), "{said}");
    let said = error(&file, &["--interface", "eth9"]);
    assert!(said.contains("no interface \"eth9\"; it has: \"lan\", \"wan\""), "{said}");
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.pcap");
    let frames = records("loss_write.pcap");
    let says = |file: &Path, what: &str| {
        let said = error(file, &[]);
        assert!(said.contains(what), "{said}");
    };
    says(Path::new("/nowhere/x.pcap"), "No such file");
    std::fs::write(&file, "not a capture").expect("written");
    says(&file, "neither a pcap nor a pcapng file");
    std::fs::write(&file, "").expect("written");
    says(&file, "neither a pcap nor a pcapng file");
    write(&file, DataLink::ETHERNET, usize::MAX, &[]);
    says(&file, "has no records");
    write(&file, DataLink::ETHERNET, 40, &frames);
    says(&file, "capture at least 128 bytes");
    write(&file, DataLink::IEEE802_11, usize::MAX, &frames);
    says(&file, "has link type 105; allowed: Ethernet (1)");
    write(&file, DataLink::ETHERNET, usize::MAX, &[(Duration::ZERO, vec![0xff; 60])]);
    says(&file, "none is RoCEv2");

    let whole = std::fs::read(path("loss_write.pcap")).expect("read");
    std::fs::write(&file, &whole[..whole.len() - 7]).expect("written");
    says(&file, "ends within a record, after 124 whole ones; --partial");
    assert_eq!(json(&file, &["--partial"])["totals"]["records"], 124);
}
