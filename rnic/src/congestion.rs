//! Congestion control of a queue pair: both ends of it, and the pace that
//! follows.

use common::frame::{Frame, Pool};
use common::time::{Span, Time};
use common::wire::{CNP_LEN, Headers, Qpn};

use crate::dcqcn::{Dcqcn, NotificationPoint, ReactionPoint};
use crate::pacer::Pacer;

/// ToS or traffic class of CNPs: DSCP 48, not ECN-capable, as RNICs have it.
const CNP_TOS: u8 = 48 << 2;
/// The ECN bits of ToS or traffic class.
const ECN: u8 = 3;
/// ECN-capable, not marked: ECT(0).
const ECT_0: u8 = 2;

/// Additional state of a queue pair with [`Dcqcn`].
#[derive(Debug)]
pub struct Congestion {
    reaction: ReactionPoint,
    notification: NotificationPoint,
    pacer: Pacer,
    slack: Span,
    /// Time of the newest packet at its rate.
    interval: Span,
    cnp_due: bool,
}

impl Congestion {
    /// On a port of `rate` bit/s; `slack` as in
    /// [`NicConfig::pacing_slack`](crate::NicConfig::pacing_slack).
    pub fn new(config: Dcqcn, rate: u64, slack: Span) -> Self {
        Self {
            reaction: ReactionPoint::new(config, rate),
            notification: NotificationPoint::new(config.cnp_interval),
            pacer: Pacer::new(Some(rate), slack),
            slack,
            interval: Span::ZERO,
            cnp_due: false,
        }
    }

    /// From when on the next data packet may leave.
    pub fn free_at(&self) -> Time {
        self.pacer.free_at()
    }

    /// A data packet of `len` bytes starts to leave. The rate of this moment
    /// decides when the next may. One that had to wait for the port, up to the
    /// interval between two packets, does not delay those behind it: the rate
    /// stays exact beside other queue pairs. So after a silence one packet may
    /// leave early.
    pub fn sent(&mut self, len: usize, now: Time) {
        self.pacer.set_rate(self.reaction.rate(now));
        let slack = self.slack.max(self.interval);
        let start = self.pacer.free_at().max(now - slack);
        self.pacer.sent_within(len, now, slack);
        self.interval = self.pacer.free_at().since(start);
        self.reaction.sent(len, now);
    }

    /// A CNP has arrived.
    pub fn on_cnp(&mut self, now: Time) {
        self.reaction.on_cnp(now);
    }

    /// A data packet with a congestion mark has arrived. Whether there is a
    /// CNP to be sent that was not due before.
    pub fn on_mark(&mut self, now: Time) -> bool {
        let news = self.notification.on_mark(now) && !self.cnp_due;
        self.cnp_due |= news;
        news
    }

    /// Whether there is a CNP to be sent.
    pub fn cnp_due(&self) -> bool {
        self.cnp_due
    }

    /// The CNP that is due, to `dest_qpn` with `headers` and a ToS of its own,
    /// if `pool` has a frame.
    pub fn emit_cnp<P: Pool>(
        &mut self,
        headers: &mut Headers,
        dest_qpn: Qpn,
        pool: &mut P,
    ) -> Option<P::Frame> {
        let mut frame = pool.alloc(headers.frame_len(CNP_LEN))?;
        let tos = headers.tos();
        headers.set_tos(CNP_TOS);
        headers.emit_cnp(dest_qpn, frame.bytes_mut());
        headers.set_tos(tos);
        self.cnp_due = false;
        Some(frame)
    }

    /// The ToS or traffic class of data packets of a queue pair with this one.
    pub const fn data_tos(tos: u8) -> u8 {
        tos & !ECN | ECT_0
    }

    /// The rate in bit/s.
    pub fn rate(&mut self, now: Time) -> u64 {
        self.reaction.rate(now)
    }
}
