//! The checks: what each relies on, and what it means if RNICs differ.

mod acks;
mod alive;
mod baseline;
mod cnp;
mod differences;
mod fetch;
mod gap;
mod held;
mod nak;
mod quiet;
mod strange;
mod timeout;

use clap::ValueEnum;
use serde::Serialize;

use self::quiet::Stimulus;
use self::strange::Stranger;
use super::check::Check;
use super::flow::Need;

/// A check, in the order of the run: those of messages, the slow one last, then READs and atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// The traffic as it is.
    Baseline,
    /// A lost packet, left to the RNICs.
    Gap,
    /// Our NAK in place of the responder's.
    Nak,
    /// The same NAK a second time, before an ACK.
    SecondNak,
    /// Our ACKs in place of the responder's.
    Ack,
    /// A late packet, with those behind it held and delivered in order.
    Held,
    /// A packet delivered twice.
    Duplicate,
    /// AckReq set on a packet that had none.
    AckRequest,
    /// Some ACKs swallowed, and a newer one that passes.
    SwallowedAcks,
    /// An ACK once more behind newer ones.
    OldAck,
    /// SYNC and STATUS messages among packets of messages.
    Control,
    /// Frames of the tunnel that reach the hosts.
    Tunnel,
    /// Congestion notifications to the source.
    Cnp,
    /// All responses swallowed, until the requester has timed out twice.
    Timeout,
    /// SYNC and STATUS messages between the packets of READ responses.
    ControlAmongReads,
    /// A packet of a READ response lost.
    ReadResponse,
    /// The response to an atomic lost.
    AtomicResponse,
    /// Whether the queue pair still works.
    Alive,
}

/// What there is to say of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// What is done.
    pub does: &'static str,
    /// What LR2 relies on, and where.
    pub relies: &'static str,
    /// What it means for an operator if the RNICs differ.
    pub otherwise: &'static str,
}

impl Name {
    /// All, in the order of the run.
    pub const ALL: &'static [Self] = &[
        Self::Baseline,
        Self::Gap,
        Self::Nak,
        Self::SecondNak,
        Self::Ack,
        Self::Held,
        Self::Duplicate,
        Self::AckRequest,
        Self::SwallowedAcks,
        Self::OldAck,
        Self::Control,
        Self::Tunnel,
        Self::Cnp,
        Self::Timeout,
        Self::ControlAmongReads,
        Self::ReadResponse,
        Self::AtomicResponse,
        Self::Alive,
    ];

    /// As on the command line and in the report.
    pub fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The traffic that it needs.
    pub const fn need(self) -> Need {
        match self {
            Self::ControlAmongReads | Self::ReadResponse => Need::Reads,
            Self::AtomicResponse => Need::Atomics,
            Self::Alive => Need::Any,
            _ => Need::Messages,
        }
    }

    /// Begins it.
    pub fn begin(self) -> Box<dyn Check> {
        match self {
            Self::Baseline => Box::<baseline::Baseline>::default(),
            Self::Gap => Box::<gap::Gap>::default(),
            Self::Nak => Box::new(nak::Nak::new(false)),
            Self::SecondNak => Box::new(nak::Nak::new(true)),
            Self::Ack => Box::<acks::Ours>::default(),
            Self::Held => Box::<held::Held>::default(),
            Self::Duplicate => Box::new(quiet::Quiet::new(Stimulus::Duplicate)),
            Self::AckRequest => Box::new(quiet::Quiet::new(Stimulus::AckRequest)),
            Self::SwallowedAcks => Box::<acks::Swallowed>::default(),
            Self::OldAck => Box::<acks::Old>::default(),
            Self::Control => Box::new(strange::Strange::new(Stranger::Control)),
            Self::Tunnel => Box::new(strange::Strange::new(Stranger::Tunnel)),
            Self::Cnp => Box::<cnp::Cnp>::default(),
            Self::Timeout => Box::<timeout::Timeout>::default(),
            Self::ControlAmongReads => Box::new(strange::Strange::new(Stranger::ControlAmongReads)),
            Self::ReadResponse => Box::<fetch::Read>::default(),
            Self::AtomicResponse => Box::<fetch::Atomic>::default(),
            Self::Alive => Box::<alive::Alive>::default(),
        }
    }

    /// What there is to say of it.
    pub const fn about(self) -> About {
        match self {
            Self::Baseline => About {
                does: "Packets and responses are counted; nothing is changed.",
                relies: "A gateway learns from ACKs what has arrived, in all recovery modes, and makes ICRCs itself: packets ask for an ACK at least every 512, and their ICRC is the one that LR2 computes.",
                otherwise: "With rare ACKs a rewind repeats more than it has to; with another ICRC use the tunnel, which edits nothing.",
            },
            Self::Gap => About {
                does: "One packet within a message is dropped.",
                relies: "The responder reports a gap by one NAK and discards what is behind it, and the requester goes back to the PSN of the NAK (go-back-N; R-NAK-1, R-GAP-5).",
                otherwise: "RNICs with selective repeat, or that repeat NAKs, were not tried with the recovery modes: turn selective repeat off, or use the tunnel.",
            },
            Self::Nak => About {
                does: "One packet is dropped, the responder's NAK as well, and a NAK as a Sentry makes it is sent in its place.",
                relies: "The requester goes back for a NAK that a Sentry made, as for one of the responder (R-NAK-3; modes lr2 and auto, and losses before the Sentry in all modes).",
                otherwise: "Use recovery.mode = \"cached\" with no losses on the LANs, or the tunnel without recovery.lan: they need no such NAK.",
            },
            Self::SecondNak => About {
                does: "The same NAK is sent a second time, when the requester has begun to go back and no ACK has come.",
                relies: "A second NAK before a positive ACK has no effect, so a Sentry sends few (R-NAK-5, R-NAK-11).",
                otherwise: "It costs repeats, and tries of retry_cnt: set that to 7.",
            },
            Self::Ack => About {
                does: "64 ACKs are swallowed, and ACKs as a gateway makes them are sent in their place.",
                relies: "The requester takes an ACK that a gateway made in the responder's name: one that was lost on the long haul, or that lets the source heed a further NAK (R-REPAIR-9, R-NAK-20, R-ACK-4).",
                otherwise: "A lost ACK then costs a timeout, and some NAKs are ignored: use the tunnel.",
            },
            Self::Held => About {
                does: "One packet is kept for the time of --hold, those behind it are held; then all are delivered in order.",
                relies: "Packets that a Depot held and delivers late, in order, go unnoticed by both RNICs (all recovery modes, and the tunnel).",
                otherwise: "The requester's timeout is shorter than the repair takes: adaptive retransmission of ConnectX is such a one; turn it off, or set a longer local ACK timeout.",
            },
            Self::Duplicate => About {
                does: "One packet that asked for no ACK is delivered a second time while those behind it are held.",
                relies: "The responder acknowledges a duplicate and discards it, and the requester takes that ACK (a resend that crosses its repeat; R-FILTER-11).",
                otherwise: "A repeat that passes the filter may not be answered: a lost ACK then costs a timeout.",
            },
            Self::AckRequest => About {
                does: "The AckReq bit of one packet is set, its ICRC is made anew, and those behind it are held.",
                relies: "A responder answers a packet whose AckReq bit a Sentry has set (R-GAP-7).",
                otherwise: "If it coalesces ACKs for longer than --hold, recovery on a lossy LAN starts later; if it drops the packet, use the tunnel.",
            },
            Self::SwallowedAcks => About {
                does: "Four ACKs are swallowed; a newer one passes.",
                relies: "One ACK stands for all before it, so that lost ACKs need no repair (R-ACK-1).",
                otherwise: "A lost ACK costs repeats: there is nothing that a gateway can do about ACKs lost on the LAN.",
            },
            Self::OldAck => About {
                does: "An ACK is delivered once more, behind three newer ones.",
                relies: "An ACK that comes late and says nothing new is ignored (links and lanes that reorder).",
                otherwise: "Reordered ACKs disturb these RNICs: avoid several WAN ports and jitter.",
            },
            Self::Control => About {
                does: "16 SYNCs are sent to the responder and up to 16 STATUSes to the requester, among their packets.",
                relies: "RNICs discard control messages, whose opcode is a manufacturer's: they reach an RNIC where no other box is in the way (docs/protocol.md, control messages).",
                otherwise: "Set peer.remote_prefixes to destinations behind the other box, choose another peer.control_opcode, or use the tunnel.",
            },
            Self::Tunnel => About {
                does: "16 frames of the tunnel are sent to the responder's host and up to 16 to the requester's, half of them with EtherType 0x88b5 and half in UDP to port 49791.",
                relies: "Frames of the tunnel that reach a host, where no other box is in the way, do no harm to its queue pairs. An ICMP answer of the host's kernel is none.",
                otherwise: "Choose another wan.tunnel_ethertype or wan.tunnel_port.",
            },
            Self::Cnp => About {
                does: "The rate is measured for 300 ms, and for 300 ms more with a CNP every 200 µs.",
                relies: "No more than that CNPs do no harm; a Depot sends them to the source of packets that wait for room (R-LAN-6), which only sources with DCQCN heed.",
                otherwise: "Set congestion.cnp = \"off\".",
            },
            Self::Timeout => About {
                does: "All responses are swallowed until the requester has sent its packets again twice.",
                relies: "The requester begins with the oldest packet that is not acknowledged, and goes on with the next response (R-FILTER-4). Its timeout has to be longer than the round trip of the long haul and a repair.",
                otherwise: "A requester that begins elsewhere is in no recovery that a gateway follows: use the tunnel.",
            },
            Self::ControlAmongReads => About {
                does: "16 SYNCs are sent to the responder, and up to 16 STATUSes to the requester, each right behind a packet in the middle of a READ response.",
                relies: "As for control: also between the packets of a READ response, where any ACK would end some queue pairs.",
                otherwise: "Use the tunnel for READs.",
            },
            Self::ReadResponse => About {
                does: "One packet in the middle of a READ response is dropped.",
                relies: "The requester asks again by a READ that begins at the lost packet or before it (R-READ rules; nothing can NAK a response).",
                otherwise: "READs then depend on the gateways' repair alone: use recovery.mode = \"cached\", or the tunnel.",
            },
            Self::AtomicResponse => About {
                does: "The response to one atomic is dropped.",
                relies: "The requester repeats the atomic, and the responder answers with the value that it saved.",
                otherwise: "Atomics are not safe on these RNICs wherever frames are lost, with LR2 or without.",
            },
            Self::Alive => About {
                does: "The newest queue pair is watched for half a second.",
                relies: "It works after all that was done to it.",
                otherwise: "See which check was the last one as expected; run with --only from there.",
            },
        }
    }
}
