//! Losses that are chosen, not drawn: which frame is lost where, and how long
//! it takes until its content arrives all the same.

use common::control::{self, Keys, Message};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Response, Verdict, parse};

/// A segment of the path. The source is nic 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Between nic 0 and switch 0.
    SourceLan,
    /// Between the switches.
    LongHaul,
    /// Between switch 1 and nic 1.
    DestinationLan,
}

/// A frame of the first queue pair: sent by nic 0, or a response to
/// nic 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// The request packet with this PSN.
    Request(Psn),
    /// The READ response with this PSN.
    Response(Psn),
    /// The ACK with this PSN.
    Ack(Psn),
    /// A NAK, PSN sequence error, whoever made it.
    Nak,
    /// A STATUS that lists something as missing.
    DepotNack,
}

impl Victim {
    fn is(self, bytes: &[u8]) -> bool {
        let Ok(roce) = parse(bytes) else { return false };
        let verdict = || Response::of(&roce, bytes).map(|response| response.verdict);
        match self {
            Self::Request(psn) => roce.kind().is_request() && roce.psn == psn,
            Self::Response(psn) => {
                matches!(verdict(), Some(Verdict::Response(_))) && roce.psn == psn
            }
            Self::Ack(psn) => verdict() == Some(Verdict::Acknowledged) && roce.psn == psn,
            Self::Nak => verdict() == Some(Verdict::Missing),
            Self::DepotNack => {
                let keys = Keys::unkeyed_lab();
                let message = control::decode(bytes, &roce, control::DEFAULT_OPCODE, &keys);
                matches!(message, Some(Ok((_, Message::Status(s)))) if !s.missing.is_empty())
            }
        }
    }

    /// Whether a frame that arrives at its NIC makes up for the loss of this
    /// one.
    fn is_replaced_by(self, bytes: &[u8]) -> bool {
        let Ok(roce) = parse(bytes) else { return false };
        match self {
            Self::Ack(psn) => Response::of(&roce, bytes).is_some_and(|response| {
                let last = match response.verdict {
                    Verdict::Acknowledged => response.psn,
                    _ => response.psn.prev(),
                };
                last.distance(psn) >= 0
            }),
            _ => self.is(bytes),
        }
    }
}

/// A frame that is to be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Where.
    pub on: Segment,
    /// Which.
    pub what: Victim,
}

/// The losses of a run, and the outcome of the first one. An entry takes the
/// first frame that fits it and that no entry before it takes, so two equal
/// entries take the original and its resend.
#[derive(Clone, Debug, Default)]
pub struct Script {
    losses: Vec<Loss>,
    /// Entry by entry, whether it took its frame.
    taken: Vec<bool>,
    /// When the first frame that was lost would have arrived at its NIC.
    due: Option<Time>,
    /// When something arrived in its place.
    recovered: Option<Time>,
}

impl Script {
    /// Loses `losses`, the first of them first.
    pub fn new(losses: Vec<Loss>) -> Self {
        let taken = vec![false; losses.len()];
        Self { losses, taken, due: None, recovered: None }
    }

    /// Whether everything that was to be lost is.
    pub fn is_over(&self) -> bool {
        self.taken.iter().all(|taken| *taken)
    }

    /// From when the frame of the first entry would have arrived at its NIC to
    /// when a copy of it did; for an ACK, any response that says as much.
    pub fn recovery(&self) -> Option<Span> {
        Some(self.recovered?.since(self.due?))
    }

    /// Whether a frame that enters segment `on`, and would arrive at its NIC at
    /// `due`, is to be lost.
    pub(crate) fn takes(&mut self, on: Segment, bytes: &[u8], due: Time) -> bool {
        let fits = |(loss, taken): (&Loss, &bool)| !taken && loss.on == on && loss.what.is(bytes);
        let Some(at) = self.losses.iter().zip(&self.taken).position(fits) else { return false };
        self.taken[at] = true;
        if at == 0 {
            self.due = Some(due);
        }
        true
    }

    /// A frame arrives at a NIC.
    pub(crate) fn arrived(&mut self, bytes: &[u8], now: Time) {
        if self.due.is_some()
            && self.recovered.is_none()
            && self.losses.first().is_some_and(|first| first.what.is_replaced_by(bytes))
        {
            self.recovered = Some(now);
        }
    }
}
