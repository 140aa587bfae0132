//! Settings that may change while frames cross.

use common::time::Span;
use common::verdict::Tolerance;

use crate::receiver::ReceiverConfig;
use crate::sender::SenderConfig;
use crate::spray::Policy;

/// Settings of an end of a tunnel that change while it works: timers, pools and the choice of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// [`SenderConfig::rtt`]
    pub rtt: Span,
    /// [`SenderConfig::spray`]
    pub spray: Policy,
    /// [`SenderConfig::resend_copies`]
    pub resend_copies: u8,
    /// [`SenderConfig::cache_max`]
    pub cache_max: usize,
    /// [`ReceiverConfig::waiting_max`]; more than [`ReceiverConfig::waiting_room`] counts as that.
    pub waiting_max: usize,
    /// [`SenderConfig::give_up`], and the most of [`ReceiverConfig::give_up`]
    pub give_up: Span,
    /// [`ReceiverConfig::report_interval`]
    pub report_interval: Span,
    /// [`ReceiverConfig::tolerance`]
    pub tolerance: Tolerance,
}

impl Tuning {
    /// Those of an end with these configurations.
    pub const fn of(sender: &SenderConfig, receiver: &ReceiverConfig) -> Self {
        Self {
            rtt: sender.rtt,
            spray: sender.spray,
            resend_copies: sender.resend_copies,
            cache_max: sender.cache_max,
            waiting_max: receiver.waiting_max,
            give_up: sender.give_up,
            report_interval: receiver.report_interval,
            tolerance: receiver.tolerance,
        }
    }
}
