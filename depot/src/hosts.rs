//! How long the hosts of the Depot's LAN take to respond, and how many questions they are asked.
//!
//! A *question* is a resend after a timeout. A slow host is slow for all of its queue pairs, and
//! loses nothing: so all flows to a host share one measured round trip, and one allowance of
//! questions. A host that answers none is asked one, at growing distance (R-LAN-7).

use std::hash::{DefaultHasher, Hash, Hasher};

use common::rtt::Rtt;
use common::time::{Span, Time};

use crate::Config;
use crate::lan::Host;

/// Round trip to a host until one is measured.
const GUESS: Span = Span::from_millis(1);
/// The distance of questions to a silent host is doubled so often at most.
const MOST_SILENT: u8 = 7;
/// Questions that an answer allows without waiting, and how many are saved up at most.
const EARNED: u8 = 2;
const MOST_CREDIT: u8 = 16;

/// Response times of one host, over all of its flows.
pub(crate) struct HostClock {
    rtt: Rtt,
    /// When `rtt` took its newest sample.
    sampled: Time,
    /// When the newest packet was sent that the host has answered.
    newest: Time,
    /// Time of the newest question.
    asked: Time,
    /// Questions since the host last answered.
    silent: u8,
    /// Questions that may be asked at once.
    credit: u8,
}

impl HostClock {
    const NEW: Self = Self {
        rtt: Rtt::guess(GUESS),
        sampled: Time::ZERO,
        newest: Time::ZERO,
        asked: Time::ZERO,
        silent: 0,
        credit: 0,
    };

    /// The host answered a packet that was sent once, at `sent`. Of the answers within a round
    /// trip, only the first and late ones count: many queue pairs are answered together, and
    /// their equal times would hide the spread (RFC 7323, appendix G).
    #[inline]
    pub fn sample(&mut self, sent: Time, now: Time) {
        let rtt = now.since(sent);
        self.newest = self.newest.max(sent);
        self.silent = 0;
        if now >= self.sampled + self.rtt.mean() || rtt > self.rtt.timeout() {
            self.rtt.sample(rtt);
            self.sampled = now;
        }
    }

    /// A flow that had asked was answered, `after` its question. An answer that comes sooner than
    /// half of a round trip is to the packet itself, which was late and not lost. Without a measured
    /// round trip the two can't be told apart.
    pub fn answered(&mut self, after: Span) {
        if self.rtt.is_measured() && after >= self.rtt.mean() / 2 {
            self.silent = 0;
            self.credit = (self.credit + EARNED).min(MOST_CREDIT);
        }
    }

    /// Mean time of a response.
    pub fn mean(&self) -> Span {
        self.rtt.mean()
    }

    /// Time within which the host responds to a packet that requests an ACK.
    #[inline]
    pub fn t_out(&self, config: &Config) -> Span {
        config.t_out.unwrap_or_else(|| self.rtt.timeout().max(config.t_out_min))
    }

    /// When a flow may ask that has been silent since `since`: at once if the host has answered a
    /// packet that was sent later (RFC 8985), or a question shortly before.
    pub fn next_question(&self, since: Time, config: &Config) -> Time {
        if self.credit > 0 || self.newest > since + self.rtt.deviation() {
            return Time::ZERO;
        }
        self.asked + self.t_out(config) * (1 << self.silent)
    }

    /// A question is asked; `again` if the flow's last one was not answered.
    pub fn ask(&mut self, now: Time, again: bool) {
        if again || self.credit == 0 {
            self.credit = 0;
            self.silent = (self.silent + 1).min(MOST_SILENT);
        } else {
            self.credit -= 1;
        }
        self.asked = now;
    }
}

/// The clocks of all hosts: one for each value of a hash. Hosts that share one take turns in asking
/// and are slow together, which costs time and nothing else.
pub(crate) struct Clocks(Box<[HostClock; 256]>);

impl Default for Clocks {
    fn default() -> Self {
        Self(Box::new([HostClock::NEW; 256]))
    }
}

/// Place of a host's clock; [`NONE`](Self::NONE) before it was looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockId(u8);

impl ClockId {
    /// A clock of no host.
    pub const NONE: Self = Self(0);

    /// The clock of `host`.
    pub fn of(host: &Host) -> Self {
        // Without a random key: a run is repeatable.
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        Self((hasher.finish() % 255) as u8 + 1)
    }
}

impl Clocks {
    /// The clock at `id`.
    #[inline]
    pub fn get(&self, id: ClockId) -> &HostClock {
        &self.0[usize::from(id.0)]
    }

    /// The clock at `id`.
    #[inline]
    pub fn get_mut(&mut self, id: ClockId) -> &mut HostClock {
        &mut self.0[usize::from(id.0)]
    }
}
