//! Reads pcap and pcapng files, record by record.
//!
//! Records that can't be used are counted, and refuse no file.

mod bytes;
mod interfaces;
mod pcap;
mod pcapng;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use common::time::Time;

use self::bytes::Bytes;
use self::interfaces::{COOKED_2, Chosen, Interfaces, Left, Stamp};
use crate::analysis::{Analysis, Record};

/// Why a capture can't be read. It says what to do.
#[derive(Debug)]
pub enum Fault {
    /// The file can't be read.
    Io(io::Error),
    /// Neither pcap nor pcapng.
    Format,
    /// The file ends within a record.
    Truncated {
        /// Records before.
        records: u64,
    },
    /// The file's structure is broken behind some records.
    Damaged {
        /// Records before.
        records: u64,
        /// The error, for the user.
        what: String,
    },
    /// The records are of a kind of link that is not known here.
    Link(u16),
    /// The file has no such interface.
    Interface {
        /// The one asked for.
        asked: String,
        /// Those that it has.
        has: Vec<String>,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "can't be read: {error}"),
            Self::Format => f.write_str(
                "is neither a pcap nor a pcapng file (is it compressed? unpack it first)",
            ),
            Self::Truncated { records } => write!(
                f,
                "ends within a record, after {records} whole ones; --partial looks at these"
            ),
            Self::Damaged { records, what } => {
                write!(f, "is damaged behind {records} records ({what}); --partial looks at these")
            }
            Self::Link(link) => write!(
                f,
                "has link type {link}; allowed: Ethernet (1), raw IP (101, 12, 14, 228, 229), Linux cooked (113, {COOKED_2}); capture on the Ethernet port"
            ),
            Self::Interface { asked, has } => {
                write!(f, "has no interface {asked:?}; it has: {}", has.join(", "))
            }
        }
    }
}

impl std::error::Error for Fault {}

/// Contents of a file besides the records that were analysed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The interfaces with records, as the file names them; of a "Linux cooked" capture of version 2 the kernel's indices. None
    /// for any other pcap file.
    pub interfaces: Vec<String>,
    /// The file could not be read to its end, for this reason.
    pub ends_early: Option<String>,
    /// Records without a time (Simple Packet Blocks). Each counts at the time of the record before it.
    pub untimed: u64,
    /// Of these, records before the first time, which were left out.
    pub before_times: u64,
    /// Records that contradict their file, which were left out.
    pub odd: u64,
    /// Options of interfaces that can't be read.
    pub odd_options: u64,
    /// Records of link types that can't be read, which were left out, by link type.
    pub other_links: BTreeMap<u16, u64>,
}

/// Which parts of a file are read.
#[derive(Clone, Default, Debug)]
pub struct Choice {
    /// Only the interfaces of these names or numbers; empty: all.
    pub interfaces: Vec<String>,
    /// Take what there is of a truncated or damaged file.
    pub is_partial: bool,
}

/// Where the records of a file go.
struct Sink<'a> {
    choice: &'a Choice,
    analysis: &'a mut Analysis,
    interfaces: Interfaces,
    contents: Contents,
    /// Records so far, whether they were used or not.
    records: u64,
    /// Time of the newest record that has one.
    last: Option<Time>,
}

impl Sink<'_> {
    /// A record of an interface, of `len` bytes on the wire.
    fn take(&mut self, interface: usize, stamp: Stamp, bytes: &[u8], len: usize) {
        self.records += 1;
        let chosen = match self.interfaces.choose(interface, stamp, bytes, self.choice) {
            Ok(chosen) => chosen,
            Err(Left::Unknown) => return self.contents.odd += 1,
            Err(Left::NotChosen) => return,
            Err(Left::Link(link)) => {
                return *self.contents.other_links.entry(link).or_default() += 1;
            }
        };
        let Chosen { link, nanos, fcs } = chosen;
        self.contents.untimed += u64::from(nanos.is_none());
        let Some(at) = nanos.map(Time::from_nanos).or(self.last) else {
            return self.contents.before_times += 1;
        };
        self.last = Some(at);
        let len = bytes.len().max(len).saturating_sub(fcs);
        let bytes = &bytes[..bytes.len().min(len)];
        self.analysis.take(&Record { at, link, bytes, len });
    }

    /// A record that can't be read.
    fn leave_out(&mut self) {
        self.records += 1;
        self.contents.odd += 1;
    }
}

/// Has `analysis` look at the records of a file.
///
/// # Errors
/// [`Fault`]
pub fn read<R: Read>(
    mut file: R,
    choice: &Choice,
    analysis: &mut Analysis,
) -> Result<Contents, Fault> {
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start).map_err(Fault::Io)?;
    let bytes = Bytes::new(file);
    let mut sink = Sink {
        choice,
        analysis,
        interfaces: Interfaces::default(),
        contents: Contents::default(),
        records: 0,
        last: None,
    };
    let ended = match start[..] {
        [0x0a, 0x0d, 0x0d, 0x0a] => pcapng::read(bytes, &mut sink),
        [a @ 0xa1, b @ 0xb2, c @ (0xc3 | 0x3c), d @ (0xd4 | 0x4d)]
        | [a @ (0xd4 | 0x4d), b @ (0xc3 | 0x3c), c @ 0xb2, d @ 0xa1] => {
            pcap::read([a, b, c, d], bytes, &mut sink)
        }
        _ => return Err(Fault::Format),
    };
    let Sink { interfaces, mut contents, records, .. } = sink;
    contents.ends_early = match ended {
        Ok(()) => None,
        Err(fault @ (Fault::Truncated { .. } | Fault::Damaged { .. })) if choice.is_partial => {
            Some(fault.to_string())
        }
        Err(fault) => return Err(fault),
    };
    interfaces.check(choice)?;
    // Nothing else was there.
    if let Some(link) = contents.other_links.keys().next()
        && contents.other_links.values().sum::<u64>() == records
    {
        return Err(Fault::Link(*link));
    }
    contents.interfaces = interfaces.used();
    contents.odd_options = interfaces.odd_options();
    Ok(contents)
}
