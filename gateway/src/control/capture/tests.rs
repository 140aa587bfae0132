//! How a capture begins and ends, and its file.

use std::io::Cursor;
use std::time::UNIX_EPOCH;

use common::time::Time;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::*;
use crate::config::tests::{good, lab};

const WANTED: Wanted = Wanted {
    filter: Filter {
        port: None,
        direction: None,
        address: None,
        qpn: None,
        lane: None,
        marks: Marks { ethertype: 0, port: 0 },
    },
    of_each: OfEach::Bytes(40),
    frames: 3,
};

fn captures() -> (Captures, [Tap; 2]) {
    let captures = Captures::of(&good(&lab("")));
    let taps = [(); 2].map(|()| captures.add_worker());
    (captures, taps)
}

fn see(tap: &mut Tap, nanos: u64, direction: Direction) {
    tap.poll();
    tap.set_now(Time::from_nanos(nanos));
    tap.see(PortId::LAN, direction, std::iter::once(&[nanos as u8; 60][..]));
}

#[test]
fn the_parts_are_one_file_in_the_order_of_time_and_end_with_the_last_frame() {
    let (captures, [mut first, mut second]) = captures();
    let now = Instant::now();
    let wall = UNIX_EPOCH + Duration::from_secs(1_000);
    let clock = Wall::default();
    clock.set(Time::from_nanos(500), wall);
    let number = captures.begin(&WANTED, now).unwrap();
    assert!(matches!(captures.begin(&WANTED, now), Err(Refused::Busy(_))));
    let mut file = captures.next(number, now, &clock).unwrap().unwrap();
    assert_eq!(captures.next(number, now, &clock).unwrap(), Some(Vec::new()));
    see(&mut first, 200, Direction::In);
    see(&mut second, 100, Direction::Out);
    file.extend(captures.next(number, now, &clock).unwrap().unwrap());
    see(&mut first, 600, Direction::In);
    see(&mut first, 700, Direction::In);
    file.extend(captures.next(number, now, &clock).unwrap().unwrap());
    assert_eq!(captures.next(number, now, &clock).unwrap(), None, "it has all its frames");
    assert_eq!(captures.end(number), Ok(CaptureEnd { captured: 3, missed: 0 }));
    assert!(matches!(captures.end(number), Err(Refused::Unknown(_))));
    assert!(captures.tidy(now), "the workers have not seen the end");
    first.poll();
    second.poll();
    assert!(!captures.tidy(now) && !first.is_on());

    let (mut reader, mut found) = (PcapNgReader::new(Cursor::new(file)).unwrap(), Vec::new());
    let mut interfaces = 0;
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(_) => interfaces += 1,
            Block::EnhancedPacket(packet) => {
                assert_eq!((packet.original_len, packet.data.len()), (60, 40));
                let ago = packet.timestamp.as_nanos() as i64 - 1_000_000_000_000;
                let [EnhancedPacketOption::Flags(flags)] = packet.options[..] else { panic!() };
                found.push((ago, flags));
            }
            _ => {}
        }
    }
    assert_eq!(interfaces, 2);
    assert_eq!(found, [(-400, 2), (-300, 1), (100, 1)], "sent, received, received");
}

#[test]
fn a_capture_that_nobody_fetches_ends() {
    let (captures, mut taps) = captures();
    let start = Instant::now();
    let first = captures.begin(&WANTED, start).unwrap();
    taps.iter_mut().for_each(Tap::poll);
    assert!(captures.next(first, start + FORGOTTEN / 2, &Wall::default()).unwrap().is_some());
    assert!(captures.tidy(start + FORGOTTEN));
    assert!(taps[0].is_on());
    assert!(captures.tidy(start + FORGOTTEN * 2), "the workers have the order");
    taps.iter_mut().for_each(Tap::poll);
    assert!(!taps[0].is_on() && !captures.tidy(start + FORGOTTEN * 2));
    assert!(matches!(captures.next(first, start, &Wall::default()), Err(Refused::Unknown(_))));
    assert_eq!(captures.begin(&WANTED, start), Ok(first + 1));
}

/// A worker that stands still takes orders until its queue of them is full, and no capture can begin then.
#[test]
fn a_worker_that_stands_still_is_named() {
    let (captures, _taps) = captures();
    let now = Instant::now();
    let mut refused = None;
    for _ in 0..4 {
        match captures.begin(&WANTED, now) {
            Ok(number) => assert!(captures.end(number).is_ok()),
            Err(why) => refused = Some(why),
        }
    }
    assert!(
        matches!(&refused, Some(Refused::Silent(why)) if why.starts_with("worker 0 takes no")),
        "{refused:?}"
    );
}
