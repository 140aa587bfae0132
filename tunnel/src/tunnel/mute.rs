//! A peer that answers nothing while frames wait for its REPORTs.

use common::frame::Headroom;
use common::time::{Span, Time};

use super::Tunnel;

/// A peer whose worker loses its core is silent for so long.
const LEAST: Span = Span::from_millis(50);

/// Since when the peer is silent, as far as it was looked at.
#[derive(Debug)]
pub(super) struct Mute {
    /// When it is to be looked at.
    pub look_at: Time,
    /// Frames that had arrived, and when it was seen that there were more.
    arrived: u64,
    since: Time,
}

impl Default for Mute {
    fn default() -> Self {
        Self { look_at: Time::NEVER, arrived: 0, since: Time::ZERO }
    }
}

impl<F: Headroom> Tunnel<F> {
    /// When the session is over as the peer answers nothing: [`Time::NEVER`] where no frame waits for it, or none could take another
    /// way. R-TUN-63
    pub(super) fn mute_at(&mut self, now: Time) -> Time {
        self.mute.look_at = Time::NEVER;
        let waiting = self.sender.waiting_since();
        let Some(waiting) = waiting.filter(|_| self.is_ethernet() && self.end.up().is_some())
        else {
            return Time::NEVER;
        };
        let arrived = self.receiver.total(|lane| lane.arrived);
        if core::mem::replace(&mut self.mute.arrived, arrived) != arrived {
            self.mute.since = now;
        }
        let since = waiting.max(self.end.heard_at()).max(self.mute.since);
        let mute_at = since + self.sender.age_max().max(LEAST);
        if now < mute_at {
            self.mute.look_at = mute_at;
        }
        mute_at
    }
}
