//! The protocol between two switches: the number of a packet, behind its last
//! byte, and messages in frames of their own.

use common::frame::Frame;

use crate::frame::SimFrame;

/// IEEE's number for experiments.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const ETHER: usize = 14;
const SHORTEST: usize = 60;
/// Bytes of a flow's number, and of a packet's.
const NUMBER: usize = 4;
/// Gaps in a message: further ones are reported once these are filled.
pub(super) const MOST_GAPS: usize = 128;

/// Missing packets: from, and one past the last.
pub(super) type Gap = (u32, u32);

/// The state of a flow near its receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Status {
    pub(super) flow: u32,
    /// All before this have come.
    pub(super) expected: u32,
    /// These are asked for.
    pub(super) gaps: Vec<Gap>,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// From the receiver's side.
    Status(Status),
    /// From the sender's side: these packets are not kept.
    Gone { flow: u32, gaps: Vec<Gap> },
}

impl Message {
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        if frame.get(ETHER - 2..ETHER)? != ETHERTYPE {
            return None;
        }
        let number = |n: usize| {
            let at = ETHER + n * NUMBER;
            Some(u32::from_be_bytes(frame.get(at..at + NUMBER)?.try_into().ok()?))
        };
        let gap = |n: usize| Some((number(4 + 2 * n)?, number(5 + 2 * n)?));
        let gaps = (0..number(3)? as usize).map(gap).collect::<Option<Vec<_>>>()?;
        let flow = number(1)?;
        Some(match number(0)? {
            0 => Self::Status(Status { flow, expected: number(2)?, gaps }),
            _ => Self::Gone { flow, gaps },
        })
    }

    pub(super) fn frame(&self) -> SimFrame {
        let (head, gaps) = match self {
            Self::Status(Status { flow, expected, gaps }) => ([0, *flow, *expected], gaps),
            Self::Gone { flow, gaps } => ([1, *flow, 0], gaps),
        };
        let mut bytes = vec![0; ETHER];
        bytes[ETHER - 2..].copy_from_slice(&ETHERTYPE);
        let numbers = head.into_iter().chain([gaps.len() as u32]);
        for number in numbers.chain(gaps.iter().flat_map(|(from, to)| [*from, *to])) {
            bytes.extend(number.to_be_bytes());
        }
        bytes.resize(bytes.len().max(SHORTEST), 0);
        bytes.into()
    }
}

/// `frame` as it crosses the link.
pub(super) fn numbered(frame: &SimFrame, flow: u32, number: u32) -> SimFrame {
    let tail = [flow, number].map(u32::to_be_bytes);
    [frame.bytes(), tail.as_flattened()].concat().into()
}

/// Such a frame as it was before: its flow and number.
pub(super) fn plain(frame: &SimFrame) -> Option<(u32, u32, SimFrame)> {
    let (rest, number) = frame.bytes().split_last_chunk()?;
    let (rest, flow) = rest.split_last_chunk()?;
    Some((u32::from_be_bytes(*flow), u32::from_be_bytes(*number), rest.to_vec().into()))
}
