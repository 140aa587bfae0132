//! The two pipelines as a flow's entry sees them, and the resources that all of them share.

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::Epoch;
use common::frame::{Frame, Side};
use common::psn::Psn;
use common::time::{Span, Time};

use crate::capacity::Pools;
use crate::config::{Config, Recovery, Settings, Tuning};
use crate::flow::entry::{Announced, FlowState, Stage};
use crate::flow::psn_range::WINDOW_MAX;

/// After so long, a queue pair without an entry was silent since the first packet.
const FAMILIAR: Span = Span::from_millis(1_000);

/// A pipeline for one flow: of a Sentry or of a Depot.
pub(crate) trait Pipeline<F: Frame>: Sized {
    /// The side that the flow's requests leave on; their responses leave on the other.
    const ONWARD: Side;

    /// The stage of a flow that has this pipeline.
    fn stage(state: &mut FlowState<F>) -> Option<&mut Stage<Self>>;

    /// The flow's next deadline, after an event that did not take a fast path.
    fn next_deadline(&mut self, resources: &Resources, now: Time) -> Time;

    /// The same, after a packet on the fast path.
    fn fast_deadline(&mut self, resources: &Resources, now: Time) -> Time;
}

impl<F: Frame> Pipeline<F> for sentry::Flow<F> {
    const ONWARD: Side = Side::Wan;

    #[inline]
    fn stage(state: &mut FlowState<F>) -> Option<&mut Stage<Self>> {
        if let FlowState::Sentry(stage) = state { Some(stage) } else { None }
    }

    #[inline]
    fn next_deadline(&mut self, resources: &Resources, now: Time) -> Time {
        let may_be_early = resources.allowance.may_be_early(now);
        sentry::Flow::next_deadline(self, &resources.sentry, now, may_be_early)
    }

    #[inline]
    fn fast_deadline(&mut self, resources: &Resources, now: Time) -> Time {
        let may_be_early = resources.allowance.may_be_early(now);
        sentry::Flow::fast_deadline(self, &resources.sentry, now, may_be_early)
    }
}

impl<F: Frame> Pipeline<F> for depot::Flow<F> {
    const ONWARD: Side = Side::Lan;

    #[inline]
    fn stage(state: &mut FlowState<F>) -> Option<&mut Stage<Self>> {
        if let FlowState::Depot(stage) = state { Some(stage) } else { None }
    }

    #[inline]
    fn next_deadline(&mut self, resources: &Resources, _: Time) -> Time {
        depot::Flow::next_deadline(self, &resources.depot)
    }

    #[inline]
    fn fast_deadline(&mut self, resources: &Resources, _: Time) -> Time {
        depot::Flow::fast_deadline(self, &resources.depot)
    }
}

/// Configuration and budgets that the pipelines of a worker share.
pub(crate) struct Resources {
    pub sentry: sentry::Config,
    pub depot: depot::Config,
    pub cache: Budget,
    pub reorder: Budget,
    pub backup: Budget,
    /// What these three are to have.
    pools: Pools,
    /// Congestion windows of the hosts on the LAN.
    pub lan: depot::Lan,
    /// Budget of messages that are not needed for correctness.
    pub allowance: Allowance,
    /// The newest epoch of a flow.
    epochs: Epoch,
    /// When the first frame came.
    started: Option<Time>,
}

impl Resources {
    /// All budgets are unused.
    pub fn new(config: &Config) -> Self {
        let Config { tuning, cnp_interval, .. } = config;
        let sentry = sentry::Config {
            recovery: sentry_recovery(config.recovery),
            rtt_guess: tuning.rtt_guess,
            tail_timeout: None,
            status_interval: None,
            peer_timeout: None,
            pause: None,
            window_max: WINDOW_MAX,
            fast_path: true,
        };
        let depot = depot::Config {
            rtt_guess: tuning.rtt_guess,
            status_interval: None,
            give_up: None,
            t_out: None,
            t_out_min: tuning.t_out_min,
            local_retries: config.local_retries,
            keeps_responses: keeps_responses(config.recovery),
            window_max: WINDOW_MAX,
            pacing: config.pacing,
            cnp_interval: *cnp_interval,
            tolerance: tuning.tolerance,
            fast_path: true,
        };
        Self {
            sentry: sentry_timers(sentry, tuning),
            depot: depot_timers(depot, tuning),
            cache: Budget::new(config.resend_cache_frames),
            reorder: Budget::new(config.reorder_pool_frames),
            backup: Budget::new(config.backup_pool_frames),
            pools: config.settings().pools,
            lan: depot::Lan::default(),
            allowance: Allowance::new(tuning.early_per_second),
            epochs: Epoch::default(),
            started: None,
        }
    }

    /// Works by other timers and pools from now on.
    pub fn retune(&mut self, settings: &Settings) {
        let Settings { tuning, pools, cnp_interval, .. } = settings;
        self.sentry = sentry_timers(self.sentry.clone(), tuning);
        let depot = depot::Config { cnp_interval: *cnp_interval, ..self.depot.clone() };
        self.depot = depot_timers(depot, tuning);
        self.pools = *pools;
        self.size_pools();
    }

    /// Gives the pools their sizes. None grows while another has yet to shrink: the memory is there once. Returns
    /// whether all have them.
    pub fn size_pools(&mut self) -> bool {
        let Self { cache, reorder, backup, pools, .. } = self;
        let Pools { resend_cache, reorder_pool, backup_pool } = *pools;
        let mut all = [(cache, resend_cache), (reorder, reorder_pool), (backup, backup_pool)];
        let may_grow = all.iter().all(|(pool, frames)| pool.frames() <= *frames);
        for (pool, frames) in &mut all {
            if may_grow || *frames < pool.max_frames() {
                pool.limit(*frames);
            }
        }
        may_grow
    }

    /// Repairs flows in another way, that begin from now on. They may have begun unseen.
    pub fn set_recovery(&mut self, recovery: Recovery) {
        self.sentry.recovery = sentry_recovery(recovery);
        self.depot.keeps_responses = keeps_responses(recovery);
        self.started = None;
    }

    /// Notes the time of the first frame, and returns it.
    #[inline]
    pub fn started(&mut self, now: Time) -> Time {
        *self.started.get_or_insert(now)
    }

    /// A Sentry pipeline that begins at `first`, which is the flow's first packet unless it `is_midway`.
    pub fn new_sentry<F: Frame>(
        &mut self,
        announced: Option<Announced>,
        first: Psn,
        is_midway: bool,
        now: Time,
    ) -> sentry::Flow<F> {
        self.epochs = self.epochs.next();
        let mut flow = sentry::Flow::new(&self.sentry, now, self.epochs, first);
        if let Some(announced) = announced {
            flow.announce(announced.pmtu(), announced.msn, announced.rtt());
        } else if !is_midway && now >= self.started(now) + FAMILIAR {
            flow.begin();
        }
        flow
    }

    /// A Depot pipeline that begins at `first`.
    pub fn new_depot<F: Frame>(
        &self,
        announced: Option<Announced>,
        first: Psn,
        now: Time,
    ) -> depot::Flow<F> {
        let mut flow = depot::Flow::new(&self.depot, now, first);
        if let Some(announced) = announced {
            flow.announce(announced.pmtu());
        }
        flow
    }

    #[inline]
    pub fn sentry<'a, A>(&'a mut self, now: Time, out: &'a mut A) -> sentry::Context<'a, A> {
        let Self { sentry: config, cache, reorder: pool, allowance, epochs, .. } = self;
        sentry::Context { now, config, cache, pool, allowance, epochs, out }
    }

    #[inline]
    pub fn depot<'a, A>(&'a mut self, now: Time, out: &'a mut A) -> depot::Context<'a, A> {
        let Self { depot: config, cache, reorder: pool, backup, lan, allowance, .. } = self;
        depot::Context { now, config, pool, backup, cache, lan, allowance, out }
    }
}

fn sentry_timers(config: sentry::Config, tuning: &Tuning) -> sentry::Config {
    sentry::Config {
        rtt_guess: tuning.rtt_guess,
        tail_timeout: tuning.tail_timeout,
        status_interval: tuning.status_interval,
        peer_timeout: tuning.peer_timeout,
        pause: tuning.give_up.map(|give_up| give_up * 4),
        ..config
    }
}

fn depot_timers(config: depot::Config, tuning: &Tuning) -> depot::Config {
    depot::Config {
        rtt_guess: tuning.rtt_guess,
        status_interval: tuning.status_interval,
        give_up: tuning.give_up,
        t_out: tuning.t_out,
        t_out_min: tuning.t_out_min,
        tolerance: tuning.tolerance,
        ..config
    }
}

/// READ responses are kept where packets are.
const fn keeps_responses(recovery: Recovery) -> bool {
    sentry_recovery(recovery).caches()
}

const fn sentry_recovery(recovery: Recovery) -> sentry::Recovery {
    match recovery {
        // Off never gets to a pipeline.
        Recovery::Lr2 | Recovery::Off => sentry::Recovery::Lr2,
        Recovery::Cached => sentry::Recovery::Cached,
        Recovery::Auto => sentry::Recovery::Auto,
    }
}
