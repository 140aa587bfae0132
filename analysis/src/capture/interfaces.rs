//! The interfaces of a capture, and which of them are chosen.

use std::collections::BTreeSet;

use super::bytes::Order;
use super::{Choice, Fault};
use crate::peel::Link;

const NANOS: u128 = 1_000_000_000;
/// "Linux cooked" version 2.
pub(super) const COOKED_2: u16 = 276;
/// Indices of a "Linux cooked" capture that are kept, for the list of interfaces.
const MOST_INDICES: usize = 256;
/// Codes of an interface's options.
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FCS_LEN: u16 = 13;
const OFFSET: u16 = 14;

/// The time of a record, as its file has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stamp {
    /// The file has no times.
    None,
    /// In nanoseconds.
    Nanos(u64),
    /// In units of the interface.
    Units(u64),
}

/// An interface of a file.
#[derive(Debug)]
pub(super) struct Interface {
    /// `None`: a pcap file, which names no interface.
    name: Option<String>,
    number: usize,
    link: Result<Link, u16>,
    /// Units in a second.
    units: u128,
    /// Seconds to add to each time.
    offset: i64,
    /// Bytes that are captured of a frame at most.
    snaplen: usize,
    /// Bytes of the FCS at the end of each frame.
    fcs: usize,
    /// Options that could not be read.
    odd_options: u64,
    has_records: bool,
    /// Indices of the kernel's interfaces, of a "Linux cooked" capture of version 2.
    indices: BTreeSet<u32>,
}

impl Interface {
    fn new(name: Option<String>, link_type: u16) -> Self {
        Self {
            name,
            number: 0,
            link: link(link_type).ok_or(link_type),
            units: 1_000_000,
            offset: 0,
            snaplen: usize::MAX,
            fcs: 0,
            odd_options: 0,
            has_records: false,
            indices: BTreeSet::new(),
        }
    }

    /// The interface of a pcap file.
    pub fn of_pcap(link_type: u16, fcs: usize) -> Self {
        Self { fcs, ..Self::new(None, link_type) }
    }

    /// The interface that a block of pcapng describes. Options that can't be read are counted.
    pub fn of_block(body: &[u8], order: Order) -> Self {
        let mut interface = Self::new(Some(String::new()), order.u16(body, 0));
        let snaplen = order.u32(body, 4) as usize;
        interface.snaplen = if snaplen == 0 { usize::MAX } else { snaplen };
        let mut options = body.get(8..).unwrap_or_default();
        while options.len() >= 4 {
            let (code, len) = (order.u16(options, 0), usize::from(order.u16(options, 2)));
            if code == 0 {
                break;
            }
            let Some(value) = options.get(4..4 + len) else {
                interface.odd_options += 1;
                break;
            };
            match (code, value) {
                (NAME, name) => interface.name = Some(String::from_utf8_lossy(name).into_owned()),
                (RESOLUTION, [resolution]) => interface.units = units(*resolution),
                (FCS_LEN, [len]) => interface.fcs = usize::from(*len),
                (OFFSET, [_, _, _, _, _, _, _, _]) => interface.offset = order.u64(value, 0) as i64,
                (RESOLUTION | FCS_LEN | OFFSET, _) => interface.odd_options += 1,
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        interface
    }

    /// Nanoseconds of a time since 1970; `None` if the record has none.
    pub fn nanos(&self, stamp: Stamp) -> Option<u64> {
        let nanos = match stamp {
            Stamp::None => return None,
            Stamp::Nanos(nanos) => i128::from(nanos),
            Stamp::Units(units) => (u128::from(units) * NANOS / self.units) as i128,
        };
        let nanos = nanos + i128::from(self.offset) * NANOS as i128;
        Some(nanos.clamp(0, i128::from(u64::MAX >> 1)) as u64)
    }

    fn is_named(&self, asked: &str) -> bool {
        (self.name.as_ref()).is_some_and(|name| name == asked || self.number.to_string() == asked)
    }

    /// The names by which it, or parts of it, can be chosen.
    fn names(&self) -> Vec<String> {
        match (&self.name, self.indices.is_empty()) {
            (_, false) => self.indices.iter().map(u32::to_string).collect(),
            (Some(name), true) if name.is_empty() => vec![self.number.to_string()],
            (Some(name), true) => vec![name.clone()],
            (None, true) => vec![],
        }
    }
}

fn units(resolution: u8) -> u128 {
    let (base, exponent): (u128, u32) = if resolution & 0x80 == 0 {
        (10, resolution.into())
    } else {
        (2, (resolution & 0x7f).into())
    };
    base.saturating_pow(exponent).min(u128::from(u64::MAX))
}

fn link(link_type: u16) -> Option<Link> {
    match link_type {
        1 => Some(Link::Ethernet),
        12 | 14 | 101 | 228 | 229 => Some(Link::Ip),
        113 => Some(Link::Cooked),
        COOKED_2 => Some(Link::Cooked2),
        _ => None,
    }
}

/// The interfaces of a file, in the order of its sections.
#[derive(Default, Debug)]
pub(super) struct Interfaces {
    all: Vec<Interface>,
    /// The first interface of this section.
    first: usize,
}

/// A chosen record.
pub(super) struct Chosen {
    pub link: Link,
    /// `None`: the record has no time.
    pub nanos: Option<u64>,
    /// Bytes of the FCS behind the frame.
    pub fcs: usize,
}

/// Why a record is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// Its interface is not described.
    Unknown,
    /// Its interface is not chosen.
    NotChosen,
    /// Its link type can't be read.
    Link(u16),
}

impl Interfaces {
    /// A section begins, whose interfaces are numbered from 0 on.
    pub fn begin(&mut self) {
        self.first = self.all.len();
    }

    pub fn add(&mut self, interface: Interface) {
        let number = self.all.len() - self.first;
        self.all.push(Interface { number, ..interface });
    }

    /// The link type of an interface of this section.
    pub fn link(&self, number: usize) -> Result<Link, u16> {
        self.all.get(self.first + number).map_or(Err(0), |interface| interface.link)
    }

    /// Bytes that are captured at most on an interface of this section.
    pub fn snaplen(&self, number: usize) -> usize {
        self.all.get(self.first + number).map_or(usize::MAX, |interface| interface.snaplen)
    }

    /// A record with these bytes of an interface of this section.
    pub fn choose(
        &mut self,
        number: usize,
        stamp: Stamp,
        bytes: &[u8],
        choice: &Choice,
    ) -> Result<Chosen, Left> {
        let interface = self.all.get_mut(self.first + number).ok_or(Left::Unknown)?;
        let index = match interface.link {
            Ok(Link::Cooked2) => bytes.get(4..8).map(|index| Order::Big.u32(index, 0)),
            _ => None,
        };
        if let Some(index) = index
            && interface.indices.len() < MOST_INDICES
        {
            interface.indices.insert(index);
        }
        let is_chosen = choice.interfaces.is_empty()
            || choice.interfaces.iter().any(|asked| {
                interface.is_named(asked)
                    || index.is_some_and(|index| asked.parse::<u32>() == Ok(index))
            });
        if !is_chosen {
            return Err(Left::NotChosen);
        }
        interface.has_records = true;
        let link = interface.link.map_err(Left::Link)?;
        Ok(Chosen { link, nanos: interface.nanos(stamp), fcs: interface.fcs })
    }

    /// Whether there is each interface that is asked for.
    pub fn check(&self, choice: &Choice) -> Result<(), Fault> {
        let names: Vec<String> = self.all.iter().flat_map(Interface::names).collect();
        let is_there = |asked: &&String| {
            names.contains(asked) || self.all.iter().any(|interface| interface.is_named(asked))
        };
        match choice.interfaces.iter().find(|asked| !is_there(asked)) {
            None => Ok(()),
            Some(asked) if names.is_empty() => {
                let has = vec!["only one, without a name".to_owned()];
                Err(Fault::Interface { asked: asked.clone(), has })
            }
            Some(asked) => {
                let has = names.iter().map(|name| format!("{name:?}")).collect();
                Err(Fault::Interface { asked: asked.clone(), has })
            }
        }
    }

    /// The names of interfaces with records that were chosen.
    pub fn used(&self) -> Vec<String> {
        self.all.iter().filter(|one| one.has_records).flat_map(Interface::names).collect()
    }

    /// Options that could not be read.
    pub fn odd_options(&self) -> u64 {
        self.all.iter().map(|interface| interface.odd_options).sum()
    }
}
