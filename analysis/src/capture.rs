//! Reads pcap and pcapng files, record by record.

use std::fmt;
use std::io::{self, Read};

use common::time::Time;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::analysis::{Analysis, Record};
use crate::peel::Link;

/// "Linux cooked" version 2.
const COOKED_2: u32 = 276;
const NANOS: u64 = 1_000_000_000;

/// Why a capture can't be read. It says what to do.
#[derive(Debug)]
pub enum Fault {
    /// The file can't be read.
    Io(io::Error),
    /// Neither pcap nor pcapng.
    Format,
    /// It ends within a record.
    Truncated {
        /// Records before.
        records: u64,
    },
    /// A record contradicts itself.
    Damaged {
        /// Records before.
        records: u64,
        /// The error, for the user.
        what: String,
    },
    /// The records are of a kind of link that is not known here.
    Link(u32),
    /// It has no such interface.
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

/// The interfaces of a file, and whether it was read to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The interfaces with records, as the file names them; one without a name for pcap.
    pub interfaces: Vec<String>,
    /// The file could not be read to its end, for this reason.
    pub ends_early: Option<String>,
}

/// Which parts of a file are read.
#[derive(Clone, Default, Debug)]
pub struct Choice {
    /// Only the interfaces of these names or numbers; empty: all.
    pub interfaces: Vec<String>,
    /// Take what there is of a truncated or damaged file.
    pub is_partial: bool,
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
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic).map_err(Fault::Io)?;
    let whole = io::Cursor::new(magic.clone()).chain(file);
    let mut records = 0;
    let mut interfaces = Interfaces::default();
    let ended = match magic[..] {
        [0x0a, 0x0d, 0x0d, 0x0a] => {
            read_pcapng(whole, choice, &mut interfaces, &mut records, analysis)
        }
        [0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d] | [0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1] => {
            read_pcap(whole, choice, &mut records, analysis)
        }
        _ => return Err(Fault::Format),
    };
    let ends_early = match ended {
        Ok(()) => None,
        Err(fault @ (Fault::Truncated { .. } | Fault::Damaged { .. })) if choice.is_partial => {
            Some(fault.to_string())
        }
        Err(fault) => return Err(fault),
    };
    interfaces.check(choice)?;
    Ok(Contents { interfaces: interfaces.used(), ends_early })
}

fn fault(error: PcapError, records: u64) -> Fault {
    match error {
        PcapError::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::Truncated { records }
        }
        PcapError::IoError(error) => Fault::Io(error),
        PcapError::IncompleteBuffer => Fault::Truncated { records },
        other => Fault::Damaged { records, what: other.to_string() },
    }
}

fn link(link: DataLink) -> Result<Link, Fault> {
    match u32::from(link) {
        1 => Ok(Link::Ethernet),
        12 | 14 | 101 | 228 | 229 => Ok(Link::Ip),
        113 => Ok(Link::Cooked),
        COOKED_2 => Ok(Link::Cooked2),
        other => Err(Fault::Link(other)),
    }
}

fn read_pcap<R: Read>(
    file: R,
    choice: &Choice,
    records: &mut u64,
    analysis: &mut Analysis,
) -> Result<(), Fault> {
    if let Some(asked) = choice.interfaces.first() {
        let has = vec!["only one, without a name".to_owned()];
        return Err(Fault::Interface { asked: asked.clone(), has });
    }
    let mut reader = PcapReader::new(file).map_err(|error| fault(error, 0))?;
    let header = reader.header();
    let link = link(header.datalink)?;
    let fraction = if header.ts_resolution == TsResolution::NanoSecond { 1 } else { 1000 };
    // Not checked by the reader: files of tcpdump -s have records longer than their snap length on the wire.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.map_err(|error| fault(error, *records))?;
        let at = u64::from(packet.ts_sec) * NANOS + u64::from(packet.ts_frac) * fraction;
        let len = packet.data.len().max(packet.orig_len as usize);
        let at = Time::from_nanos(at);
        analysis.take(&Record { at, link, bytes: &packet.data, len });
        *records += 1;
    }
    Ok(())
}

/// The interfaces of a pcapng file, in the order of its sections.
#[derive(Default)]
struct Interfaces(Vec<Interface>);

struct Interface {
    name: String,
    number: usize,
    link: Result<Link, u32>,
    /// Nanoseconds and units, in which a unit of its time is.
    unit: (u128, u128),
    is_chosen: bool,
    has_records: bool,
}

impl Interfaces {
    fn add(&mut self, number: usize, block: &InterfaceDescriptionBlock<'_>, choice: &Choice) {
        let mut name = None;
        let mut resolution = 6;
        for option in &block.options {
            match option {
                InterfaceDescriptionOption::IfName(text) => name = Some(text.to_string()),
                InterfaceDescriptionOption::IfTsResol(exponent) => resolution = *exponent,
                _ => {}
            }
        }
        let (base, exponent): (u128, u32) = if resolution & 0x80 == 0 {
            (10, resolution.into())
        } else {
            (2, (resolution & 0x7f).into())
        };
        let name = name.unwrap_or_else(|| number.to_string());
        let is_chosen = choice.interfaces.is_empty()
            || choice.interfaces.iter().any(|asked| *asked == name || *asked == number.to_string());
        self.0.push(Interface {
            name,
            number,
            link: link(block.linktype).map_err(|_| block.linktype.into()),
            unit: (NANOS.into(), base.saturating_pow(exponent)),
            is_chosen,
            has_records: false,
        });
    }

    fn check(&self, choice: &Choice) -> Result<(), Fault> {
        let has = |asked: &&String| {
            self.0.iter().any(|one| one.name == **asked || one.number.to_string() == **asked)
        };
        match choice.interfaces.iter().find(|asked| !has(asked)) {
            Some(asked) => {
                let has = self.0.iter().map(|one| format!("{:?}", one.name)).collect();
                Err(Fault::Interface { asked: asked.clone(), has })
            }
            None => Ok(()),
        }
    }

    fn used(&self) -> Vec<String> {
        self.0.iter().filter(|one| one.has_records).map(|one| one.name.clone()).collect()
    }
}

fn read_pcapng<R: Read>(
    file: R,
    choice: &Choice,
    interfaces: &mut Interfaces,
    records: &mut u64,
    analysis: &mut Analysis,
) -> Result<(), Fault> {
    let mut reader = PcapNgReader::new(file).map_err(|error| fault(error, 0))?;
    // Interfaces of this section begin here.
    let mut first = 0;
    while let Some(block) = reader.next_block() {
        let block = block.map_err(|error| fault(error, *records))?;
        let packet = match &block {
            Block::SectionHeader(_) => {
                first = interfaces.0.len();
                continue;
            }
            Block::InterfaceDescription(block) => {
                interfaces.add(interfaces.0.len() - first, block, choice);
                continue;
            }
            Block::EnhancedPacket(packet) => packet,
            // Without a time, or obsolete: nothing writes these today.
            _ => continue,
        };
        let Some(interface) = interfaces.0.get_mut(first + packet.interface_id as usize) else {
            let what =
                format!("a record of interface {}, which is not described", packet.interface_id);
            return Err(Fault::Damaged { records: *records, what });
        };
        *records += 1;
        if !interface.is_chosen {
            continue;
        }
        interface.has_records = true;
        let link = interface.link.map_err(Fault::Link)?;
        // The reader takes all units for nanoseconds.
        let (nanos, units) = interface.unit;
        let at = packet.timestamp.as_nanos() * nanos / units;
        let at = Time::from_nanos(u64::try_from(at).unwrap_or(0));
        let len = packet.data.len().max(packet.original_len as usize);
        analysis.take(&Record { at, link, bytes: &packet.data, len });
    }
    Ok(())
}
