//! When a lane asks for a REPORT, and how long it waits for one. R-TUN-12

use common::time::{Span, Time};

use super::{Health, Outgoing};
use crate::message::Probe;
use crate::number::Lane;
use crate::sender::waits::{LATER, Waits, report_interval};

/// First waits in a round trip: a second PROBE leaves one round trip after the first,
const ROUND_TRIP: u64 = 8;
/// and others after 2^1 round trips at most. So a lane that carries frames again is found within these, and a peer that is gone
/// costs a short frame in each.
const BACKOFF_MAX: u32 = 1;
/// For so many REPORTs in a row that are news, and tell of no frame that arrived, a PROBE waits half a round trip longer after the one before,
const IN_VAIN: u32 = 2;
/// up to so many halves longer.
const PATIENCE_MAX: u64 = 15;
/// How often the wait for a REPORT is longer while the round trip is a guess.
const UNMEASURED: u64 = 8;

impl<K> Outgoing<K> {
    #[inline]
    pub fn waits(&self) -> Waits {
        let rtt = self.rtt.mean();
        let report = self.rtt.with_margin() + report_interval(rtt) * LATER;
        Waits {
            probe: (rtt / 8).max(Span::from_micros(100)),
            // A guess that is too short would have lanes suspected before they can be measured, and their
            // frames moved from one to the other for ever.
            report: if self.rtt.is_measured() { report } else { report * UNMEASURED },
        }
    }

    /// A REPORT is overdue when it could have come on the next PROBE.
    pub(super) fn await_report(&mut self, now: Time) {
        self.report_due = self.asked_by(now) + self.waits().report;
        self.is_prolonged = false;
    }

    /// When a REPORT is asked for, at the latest: now, but for frames whose PROBE waits.
    pub(super) fn asked_by(&self, now: Time) -> Time {
        let idle = self.idle_due().since(Time::ZERO).as_nanos();
        now.max(Time::from_nanos(idle.saturating_sub(self.waits().probe.as_nanos())))
    }

    /// When a PROBE is due on a lane that sends nothing.
    fn idle_due(&self) -> Time {
        let wait = self.waits().probe;
        match self.probes.checked_sub(1) {
            // At most two in a round trip, however frames come.
            None => {
                (self.sent_at + wait).max(self.probed_at + self.rtt.mean() / 2 * self.patience())
            }
            Some(more) => self.sent_at + wait * (ROUND_TRIP << more.min(BACKOFF_MAX)),
        }
    }

    /// When a PROBE is due; [`Time::NEVER`] on a good lane if all is reported and the receiver knows of all numbers, also those whose
    /// frames have moved. R-TUN-12
    #[inline]
    pub fn probe_due(&self) -> Time {
        let is_quiet = match self.health {
            Health::Good => self.is_idle() && self.covered == self.next(),
            Health::Suspect { .. } => false,
            Health::Down => true,
        };
        if is_quiet {
            return Time::NEVER;
        }
        self.idle_due().min(self.report_due)
    }

    /// When something is due here: a PROBE, or to see whether the lane is silent.
    #[inline]
    pub fn due(&self) -> Time {
        let probe_due = self.probe_due();
        let is_watched = self.health == Health::Good && !self.is_idle();
        if is_watched { probe_due.min(self.silence.look_at()) } else { probe_due }
    }

    /// Halves of a round trip from one PROBE to the next: more, where nothing arrives although PROBEs are answered.
    fn patience(&self) -> u64 {
        1 + u64::from(self.in_vain / IN_VAIN).min(PATIENCE_MAX)
    }

    /// The PROBE that is due.
    pub fn probe(&mut self, lane: Lane, now: Time) -> Probe {
        let is_first = self.probes == 0 && self.report_due > now && self.rtt.is_measured();
        (self.sent_at, self.probed_at, self.probes) = (now, now, self.probes + 1);
        if self.report_due <= now {
            self.report_due = now + self.waits().report * 2;
        }
        if is_first {
            // If the frames before it arrived, the REPORT about them is on its way.
            return Probe { lane, next: self.next().wire(), sent_at: None };
        }
        // The REPORT that comes now says nothing about the time that it took.
        self.timed = None;
        self.measure(lane, now)
    }

    /// A PROBE whose echo says how long the lane takes.
    pub fn measure(&mut self, lane: Lane, now: Time) -> Probe {
        let next = self.next().wire();
        self.delivery.on_probe(now, next.0);
        Probe { lane, next, sent_at: Some(now) }
    }
}
