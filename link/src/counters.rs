//! Counters of one direction.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::kind::FrameKind;

/// A number of frames and of their bytes (as handed to the NIC, without
/// [overhead](crate::FRAME_OVERHEAD)).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Tally {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// One [`Tally`] per [`FrameKind`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ByKind([Tally; FrameKind::ALL.len()]);

impl ByKind {
    pub(crate) fn add(&mut self, kind: FrameKind, bytes: usize) {
        self.0[kind as usize].add(bytes);
    }

    /// Frames of one kind.
    pub fn get(&self, kind: FrameKind) -> Tally {
        self.0[kind as usize]
    }

    /// Frames of all kinds.
    pub fn total(&self) -> Tally {
        self.0.iter().fold(Tally::default(), |a, b| Tally {
            frames: a.frames + b.frames,
            bytes: a.bytes + b.bytes,
        })
    }
}

impl Serialize for ByKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let total = self.total();
        let mut map = serializer.serialize_map(Some(FrameKind::ALL.len() + 2))?;
        map.serialize_entry("frames", &total.frames)?;
        map.serialize_entry("bytes", &total.bytes)?;
        for kind in FrameKind::ALL {
            map.serialize_entry(kind.name(), &self.get(kind))?;
        }
        map.end()
    }
}

/// Why a frame was not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReason {
    /// By the random loss model.
    Random,
    /// Its number was listed.
    Listed,
    /// The link was dead.
    Outage,
    /// The queue in front of the line was full.
    Queue,
    /// The port at the far end did not take it.
    Egress,
}

impl LossReason {
    /// Every reason.
    pub const ALL: [Self; 5] =
        [Self::Random, Self::Listed, Self::Outage, Self::Queue, Self::Egress];

    /// Label in the JSON counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Listed => "listed",
            Self::Outage => "outage",
            Self::Queue => "queue",
            Self::Egress => "egress",
        }
    }
}

/// Frames lost, by reason and kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Lost([[u64; FrameKind::ALL.len()]; LossReason::ALL.len()]);

impl Lost {
    pub(crate) fn add(&mut self, reason: LossReason, kind: FrameKind) {
        self.0[reason as usize][kind as usize] += 1;
    }

    /// Frames lost for one reason.
    pub fn by(&self, reason: LossReason) -> u64 {
        self.0[reason as usize].iter().sum()
    }

    /// Frames of one kind lost.
    pub fn of(&self, kind: FrameKind) -> u64 {
        self.0.iter().map(|kinds| kinds[kind as usize]).sum()
    }

    /// Frames lost.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }
}

impl Serialize for Lost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("frames", &self.total())?;
        for kind in FrameKind::ALL {
            map.serialize_entry(kind.name(), &self.of(kind))?;
        }
        for reason in LossReason::ALL {
            map.serialize_entry(reason.name(), &self.by(reason))?;
        }
        map.end()
    }
}

/// Counters of one direction. `offered.frames + duplicated = delivered.frames
/// + lost.frames + held` at every instant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counters {
    /// Frames that arrived at the link, before any loss.
    pub offered: ByKind,
    /// Frames that the far end took.
    pub delivered: ByKind,
    /// Frames lost.
    pub lost: Lost,
    /// Copies made.
    pub duplicated: u64,
    /// Copies not made because there was no memory for them.
    pub not_duplicated: u64,
    /// Frames with flipped bits.
    pub corrupted: u64,
    /// Frames delivered behind a later one (RFC 4737: their number is below
    /// the highest delivered).
    pub reordered: u64,
    /// Most wire bytes that ever waited for the line.
    pub queue_high_water_bytes: u64,
    /// Frames on their way now.
    pub held: u64,
    /// Most frames that were ever on their way.
    pub held_high_water: u64,
}
