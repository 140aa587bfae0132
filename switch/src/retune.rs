//! Settings that change while the switch works.

use common::frame::Frame;
use common::ids::FlowId;

use crate::config::{Recovery, Settings};
use crate::context::Context;
use crate::io::Io;
use crate::switch::Switch;

/// Flows whose timers one call of housekeeping sets anew.
const TIMERS_SET: u32 = 1024;

/// What is still to be done.
#[derive(Default)]
pub(crate) struct Retuning {
    /// The mode, once no flow of the mode before is left.
    recovery: Option<Recovery>,
    /// The next flow whose timers are set by what has changed.
    timers: Option<u32>,
    /// A pool has yet to shrink, or to grow.
    pools: bool,
}

impl<F: Frame> Switch<F> {
    /// The settings that it works by, or will once all is done.
    pub fn settings(&self) -> Settings {
        let settings = self.config().settings();
        let recovery = self.retuning().recovery.unwrap_or(settings.recovery);
        Settings { recovery, ..settings }
    }

    /// Whether other settings are still being taken over.
    pub fn is_retuning(&self) -> bool {
        let Retuning { recovery, timers, pools } = self.retuning();
        recovery.is_some() || timers.is_some() || *pools
    }

    /// R-SET-1, R-SET-2, R-SET-3. Works by other settings: timers and pools at once, where they have to do with packets to come. With another
    /// mode the flows are left first, some at each [`housekeeping`](Self::housekeeping): held packets are delivered in
    /// order, the Depots are told, and new flows pass. Then they begin anew.
    pub fn set_settings(&mut self, settings: &Settings) {
        let (config, flows, pairing, tx, retuning) = self.rooms();
        let early_per_second = config.tuning.early_per_second;
        config.tuning = crate::Tuning { early_per_second, ..settings.tuning };
        config.cnp_interval = settings.cnp_interval;
        config.resend_cache_frames = settings.pools.resend_cache;
        config.reorder_pool_frames = settings.pools.reorder_pool;
        config.backup_pool_frames = settings.pools.backup_pool;
        flows.resources.retune(settings);
        pairing.set_longest_trip(&config.tuning);
        tx.releases.set_rtt_guess(config.tuning.rtt_guess);
        (retuning.timers, retuning.pools) = (Some(0), true);
        let is_other = config.recovery != settings.recovery;
        if is_other || retuning.recovery.is_some() {
            retuning.recovery = Some(settings.recovery);
        }
        if is_other && config.recovery != Recovery::Off {
            self.forget(|_, _| true);
        }
    }

    /// Goes on with what is not done. To be called by housekeeping, after flows were left.
    pub(crate) fn go_on_retuning(&mut self) {
        let is_leaving = self.is_forgetting();
        let (config, flows, _, _, retuning) = self.rooms();
        if core::mem::take(&mut retuning.pools) {
            retuning.pools = !flows.resources.size_pools();
        }
        if !is_leaving && let Some(recovery) = retuning.recovery.take() {
            config.recovery = recovery;
            flows.resources.set_recovery(recovery);
        }
    }
}

impl Retuning {
    /// Sets the timers of some flows by what has changed: they may be due earlier.
    pub fn set_timers<F: Frame, I: Io<Frame = F>>(&mut self, cx: &mut Context<'_, I>) {
        let Some(first) = self.timers else { return };
        let (end, next) = (cx.flows.table.end(), first.saturating_add(TIMERS_SET));
        for id in (first..next.min(end)).map(FlowId) {
            // Each event of a flow sets its timer.
            cx.sentry(id, |_, _| ());
            cx.depot(id, |_, _| ());
        }
        self.timers = (next < end).then_some(next);
    }
}
