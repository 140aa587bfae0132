//! What was decided for a packet, as the API shows it: for `/trace`.

use std::time::Duration;

use common::recorder::{Packet, packet};
use tunnel::encapsulation::{Marks, Place};
use tunnel::shim::{Content, Shim};

use crate::port::PortId;
use crate::worker::capture::Record;
use crate::worker::trace::{Change, read};

/// Bytes of the two addresses at the start of a frame.
const MACS_LEN: usize = 12;

/// A traced frame that arrived at `time`. `None` if the record is none of a trace.
pub fn shown(record: &Record, time: Duration, marks: &Marks) -> Option<api::Traced> {
    let (changes, head) = read(&record.bytes)?;
    let shim = marks.shim(head).and_then(|place| match Shim::read(head.get(place.at..)?) {
        Ok(Content::Frame(shim)) => Some((place, shim)),
        Ok(Content::Repair(_) | Content::Control) | Err(_) => None,
    });
    let inner = match &shim {
        Some((Place { at, addresses_before }, shim)) => {
            at + shim.wire_len() + if *addresses_before { 0 } else { MACS_LEN }
        }
        None => MACS_LEN,
    };
    let inside = head.get(inner..).and_then(packet);
    let port = PortId::all(u8::MAX).nth(record.port.into());
    let stream = inside.map(|packet| packet.stream);
    Some(api::Traced {
        time: time.as_secs_f64(),
        port: port.map_or("", PortId::name).into(),
        bytes: record.len,
        source: stream.map(|it| it.source.to_ip().to_string()),
        destination: stream.map(|it| it.destination.to_ip().to_string()),
        destination_qpn: stream.map(|it| it.qpn.get()),
        opcode: inside.map(|Packet { opcode, .. }| opcode.to_string()),
        psn: inside.map(|Packet { psn, .. }| psn.get()),
        lane: shim.map(|(_, shim)| shim.lane.get()),
        number: shim.map(|(_, shim)| shim.number.0),
        decisions: changes.iter().map(decision).collect(),
    })
}

fn decision((counter, count): &Change) -> api::Decision {
    let desc = counter.desc();
    api::Decision { what: desc.short_name(), count: *count, meaning: desc.help.into() }
}
