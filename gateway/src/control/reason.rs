//! The reasons for which `/healthz` is not `ok`.
//!
//! A watcher of the main thread makes a [`Reason`] each half second for as long as the reason holds, and hands all of them to
//! [`State::set_reasons`](super::State::set_reasons). [`Ages`] adds the time since a reason began: a watcher needs no clock of its own for that.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::port::PortId;

/// The first word of `/healthz`, the better one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Word {
    /// Every frame is forwarded and protected as configured.
    #[default]
    Ok,
    /// Every frame is forwarded; some are not protected.
    Degraded,
    /// Frames are dropped, or none pass.
    Down,
}

impl Word {
    /// The word in `/healthz`, in the API and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Subject of a reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The keys of the boxes differ.
    Key,
    /// The messages of the boxes have different versions.
    Version,
    /// No peer answers.
    NoPeer,
    /// LAN and WAN look swapped.
    Swapped,
    /// Frames are longer than a port's MTU.
    Mtu,
    /// A pool is exhausted.
    Pool,
    /// Packets are late by more than the tolerance.
    Tolerance,
    /// The operator has left many flows to the RNICs.
    Operator,
    /// Most flows send too little to pay for their protection.
    Deferred,
    /// The tunnel does not protect every frame.
    Tunnel,
    /// A port takes no frames.
    Stalled,
    /// A worker does not keep up with a port.
    Overload,
    /// The process, a worker or the link of a port. Other metrics have these states.
    Box,
}

impl Kind {
    /// The kinds of `lr2_degraded`, with their names in its label.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Key, "key"),
        (Self::Version, "version"),
        (Self::NoPeer, "no_peer"),
        (Self::Swapped, "swapped_ports"),
        (Self::Mtu, "mtu"),
        (Self::Pool, "pool"),
        (Self::Tolerance, "tolerance"),
        (Self::Operator, "operator"),
        (Self::Deferred, "deferred"),
        (Self::Tunnel, "tunnel"),
        (Self::Stalled, "port_stalled"),
        (Self::Overload, "overload"),
    ];
}

/// A reason that holds now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// The subject.
    pub kind: Kind,
    /// The effect on frames.
    pub word: Word,
    /// The port, if the reason belongs to one.
    pub port: Option<PortId>,
    /// The peer's address, if it has one.
    pub peer: Option<IpAddr>,
    /// The sentence: the cause, and the setting to change.
    pub text: Cow<'static, str>,
    /// The next command to run.
    pub next: Cow<'static, str>,
}

impl Reason {
    /// Frames are forwarded, and some are not protected.
    pub fn degraded(
        kind: Kind,
        text: impl Into<Cow<'static, str>>,
        next: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (text, next) = (text.into(), next.into());
        Self { kind, word: Word::Degraded, port: None, peer: None, text, next }
    }

    /// Frames are dropped, or none pass.
    pub fn down(
        kind: Kind,
        text: impl Into<Cow<'static, str>>,
        next: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { word: Word::Down, ..Self::degraded(kind, text, next) }
    }

    /// Adds the port.
    pub fn at(self, port: PortId) -> Self {
        Self { port: Some(port), ..self }
    }

    /// Adds the peer's address.
    pub fn of(self, peer: Option<IpAddr>) -> Self {
        Self { peer, ..self }
    }

    /// Whether two reasons have the same subject, however worded.
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.port) == (other.kind, other.port)
    }
}

/// Port, peer's address, sentence and next command.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, peer, text, next, .. } = self;
        match (port.map(PortId::name), peer) {
            (Some(port), Some(peer)) => write!(f, "port {port}, peer {peer}: ")?,
            (Some(port), None) => write!(f, "port {port}: ")?,
            (None, Some(peer)) => write!(f, "peer {peer}: ")?,
            (None, None) => {}
        }
        write!(f, "{text}; next: {next}")
    }
}

/// A reason, and its age.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The reason.
    pub reason: Reason,
    /// Time since it began.
    pub age: Duration,
}

/// A line of `/healthz`.
impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = humantime::format_duration(Duration::from_secs(self.age.as_secs()));
        write!(f, "{} for {age}: {}", self.reason.word, self.reason)
    }
}

/// When each reason began.
#[derive(Debug, Default)]
pub struct Ages(Mutex<Vec<(Reason, Instant)>>);

impl Ages {
    /// The ages of the reasons that hold now; all others are over. A reason that is worded otherwise, as a number in it
    /// is another, keeps its age.
    pub fn stamp(&self, reasons: Vec<Reason>, now: Instant) -> Vec<Standing> {
        let mut known = self.0.lock();
        let since = |reason: &Reason| {
            let is_same =
                |old: &&(Reason, Instant)| old.0.is_like(reason) && old.0.text == reason.text;
            let is_over =
                |old: &Reason| !reasons.iter().any(|it| it.is_like(old) && it.text == old.text);
            let is_reworded = |old: &&(Reason, Instant)| old.0.is_like(reason) && is_over(&old.0);
            let old = known.iter().find(is_same).or_else(|| known.iter().find(is_reworded));
            old.map_or(now, |(_, since)| *since)
        };
        let all: Vec<_> = reasons.iter().map(|reason| (reason.clone(), since(reason))).collect();
        known.clone_from(&all);
        let standing =
            |(reason, since)| Standing { reason, age: now.saturating_duration_since(since) };
        all.into_iter().map(standing).collect()
    }
}

/// The word of a box with these reasons.
pub fn word(standing: &[Standing]) -> Word {
    standing.iter().map(|it| it.reason.word).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_age_the_port_the_peer_and_the_next_command() {
        let reason = Reason::down(Kind::Tunnel, "datagrams are refused", "lr2ctl lanes");
        let all = reason.at(PortId::all(2).last().unwrap()).of(Some([192, 0, 2, 7].into()));
        let line = Standing { reason: all, age: Duration::from_millis(83_900) }.to_string();
        assert_eq!(
            line,
            "down for 1m 23s: port wan1, peer 192.0.2.7: datagrams are refused; next: lr2ctl lanes"
        );
        let reason = Reason::degraded(Kind::Pool, "the pool is full", "lr2ctl pools");
        let line = Standing { reason, age: Duration::ZERO }.to_string();
        assert_eq!(line, "degraded for 0s: the pool is full; next: lr2ctl pools");
    }

    #[test]
    fn an_age_lasts_as_long_as_its_reason() {
        let (ages, start) = (Ages::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        let pool = |text: &'static str| Reason::degraded(Kind::Pool, text, "lr2ctl pools");
        let ages_of = |reasons, second| {
            let standing = ages.stamp(reasons, at(second));
            standing.iter().map(|it| it.age.as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(ages_of(vec![pool("a is full")], 0), [0]);
        assert_eq!(ages_of(vec![pool("b is full"), pool("a is full")], 4), [0, 4]);
        // Two frames have become three.
        assert_eq!(ages_of(vec![pool("b is full"), pool("a is fuller")], 5), [1, 5]);
        assert_eq!(ages_of(vec![pool("a is full").at(PortId::LAN)], 6), [0]);
        assert_eq!(ages_of(vec![], 7), [0; 0]);
        assert_eq!(ages_of(vec![pool("b is full")], 8), [0]);
    }

    #[test]
    fn the_worst_reason_gives_the_word() {
        let standing = |reason| Standing { reason, age: Duration::ZERO };
        let degraded = standing(Reason::degraded(Kind::Pool, "", ""));
        let down = standing(Reason::down(Kind::Box, "", ""));
        assert_eq!(word(&[]).name(), "ok");
        assert_eq!(word(std::slice::from_ref(&degraded)).name(), "degraded");
        assert_eq!(word(&[down, degraded]).name(), "down");
    }
}
