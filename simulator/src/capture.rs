//! Every frame of a run in a file: pcapng for Wireshark, CSV for scripts.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Duration;

use common::time::Time;
use common::wire::parse;
use link::FrameKind;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

/// A frame that leaves a node.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'f> {
    /// When its last bit leaves, from the beginning of the run.
    pub at: Time,
    /// The number of the cable.
    pub cable: usize,
    /// Whether the cable loses it.
    pub is_lost: bool,
    /// The frame.
    pub frame: &'f [u8],
}

/// Sees every frame of a run.
pub trait Observer {
    /// The cables: for each, the names of the nodes at its ends.
    ///
    /// # Errors
    /// If they can't be noted; the run does not begin.
    fn cables(&mut self, names: &[(String, String)]) -> io::Result<()>;

    /// A frame leaves a node. Frames come in the order in which their nodes decide to
    /// send them.
    ///
    /// # Errors
    /// If it can't be noted; the run ends.
    fn sent(&mut self, sent: &Sent<'_>) -> io::Result<()>;
}

/// Writes pcapng: an interface per cable, and the comment "lost" at each frame that
/// its cable loses.
pub struct Pcap(PcapNgWriter<BufWriter<File>>);

impl Pcap {
    /// Writes to `file`.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn create(file: &Path) -> io::Result<Self> {
        PcapNgWriter::new(BufWriter::new(File::create(file)?)).map(Self).map_err(io_error)
    }
}

impl Observer for Pcap {
    fn cables(&mut self, names: &[(String, String)]) -> io::Result<()> {
        for (from, to) in names {
            let name = InterfaceDescriptionOption::IfName(Cow::Owned(format!("{from} to {to}")));
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                // Nanoseconds.
                options: vec![name, InterfaceDescriptionOption::IfTsResol(9)],
            };
            self.0.write_pcapng_block(block).map_err(io_error)?;
        }
        Ok(())
    }

    fn sent(&mut self, sent: &Sent<'_>) -> io::Result<()> {
        let lost = || EnhancedPacketOption::Comment(Cow::Borrowed("lost"));
        let block = EnhancedPacketBlock {
            interface_id: sent.cable as u32,
            timestamp: Duration::from_nanos(sent.at.as_nanos()),
            original_len: sent.frame.len() as u32,
            data: Cow::Borrowed(sent.frame),
            options: sent.is_lost.then(lost).into_iter().collect(),
        };
        self.0.write_pcapng_block(block).map(|_| ()).map_err(io_error)
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// Writes a line per frame: when it leaves, from where and to where, whether it is
/// lost, its length, its kind, and of a RoCE frame its hosts, opcode, queue pair and
/// PSN.
pub struct Trace {
    writer: csv::Writer<BufWriter<File>>,
    cables: Vec<(String, String)>,
}

impl Trace {
    /// Writes to `file`.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn create(file: &Path) -> io::Result<Self> {
        let writer = csv::Writer::from_writer(BufWriter::new(File::create(file)?));
        Ok(Self { writer, cables: Vec::new() })
    }
}

/// The heading of a [`Trace`].
const HEAD: [&str; 11] =
    ["time_ns", "from", "to", "lost", "bytes", "kind", "src", "dst", "opcode", "dest_qpn", "psn"];

impl Observer for Trace {
    fn cables(&mut self, names: &[(String, String)]) -> io::Result<()> {
        self.cables = names.to_vec();
        Ok(self.writer.write_record(HEAD)?)
    }

    fn sent(&mut self, sent: &Sent<'_>) -> io::Result<()> {
        let (from, to) = &self.cables[sent.cable];
        let kind = FrameKind::of(sent.frame).name();
        let mut row = vec![
            sent.at.as_nanos().to_string(),
            from.clone(),
            to.clone(),
            sent.is_lost.to_string(),
            sent.frame.len().to_string(),
            kind.to_owned(),
        ];
        match parse(sent.frame) {
            Ok(roce) => row.extend([
                roce.src.to_ip().to_string(),
                roce.dst.to_ip().to_string(),
                format!("{:?}", roce.opcode),
                roce.dest_qpn.get().to_string(),
                roce.psn.get().to_string(),
            ]),
            Err(_) => row.extend([const { String::new() }; 5]),
        }
        Ok(self.writer.write_record(row)?)
    }
}

/// Several observers of one run.
impl Observer for Vec<Box<dyn Observer>> {
    fn cables(&mut self, names: &[(String, String)]) -> io::Result<()> {
        self.iter_mut().try_for_each(|observer| observer.cables(names))
    }

    fn sent(&mut self, sent: &Sent<'_>) -> io::Result<()> {
        self.iter_mut().try_for_each(|observer| observer.sent(sent))
    }
}
