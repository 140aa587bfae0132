//! How a switch is set up, and what the control thread changes later.

use common::allowance::Allowance;
use common::budget::Budget;
use common::frame::{Frame, Pool, Sink};
use common::metrics::Counters;
use common::time::Time;

use crate::connections::Connections;
use crate::farewell::Farewell;
use crate::housekeeping::Sweep;
use crate::operator::Named;
use crate::output::{Released, TxContext};
use crate::peers::Peers;
use crate::switch::{Io, Pools, Switch, WINDOW_MAX};
use crate::table::Table;
use crate::timers::Timers;
use crate::{Command, Config, Recovery};

impl<F: Frame> Switch<F> {
    /// A switch that knows no flow yet.
    pub fn new(config: Config) -> Self {
        let tuning = &config.tuning;
        Self {
            sentry: sentry::Config {
                recovery: sentry_recovery(config.recovery),
                rtt_guess: tuning.rtt_guess,
                tail_timeout: tuning.tail_timeout,
                status_interval: tuning.status_interval,
                peer_timeout: tuning.peer_timeout,
                forget: tuning.give_up.map(|give_up| give_up * 4),
                window_max: WINDOW_MAX,
            },
            depot: depot::Config {
                rtt_guess: tuning.rtt_guess,
                status_interval: tuning.status_interval,
                give_up: tuning.give_up,
                t_out: tuning.t_out,
                t_out_min: tuning.t_out_min,
                local_retries: config.local_retries,
                keeps_responses: keeps_responses(config.recovery),
                window_max: WINDOW_MAX,
                pacing: config.pacing,
                cnp_interval: config.cnp_interval,
            },
            table: Table::new(config.max_flows, config.max_flows_of_hosts, config.hash_seed),
            connections: Connections::new(config.max_flows.div_ceil(2), config.hash_seed),
            named: Named::new(&config.queue_pairs, config.hash_seed),
            timers: Timers::default(),
            tx: TxContext {
                counters: Counters::default(),
                peers: Peers::new(config.node, config.boot, config.hash_seed),
                keys: config.keys.clone(),
                opcode: config.control_opcode,
            },
            pools: Pools {
                cache: Budget::new(config.resend_cache_bytes, config.resend_cache_frames),
                reorder: Budget::new(config.reorder_pool_bytes, config.reorder_pool_frames),
                backup: Budget::new(config.backup_pool_bytes, config.backup_pool_frames),
            },
            released: Released::new(),
            lan: depot::Lan::default(),
            allowance: Allowance::new(tuning.early_per_second),
            epochs: 0,
            started: None,
            draining: false,
            farewell: Farewell::new(config.hash_seed),
            sweep: Sweep::default(),
            config,
        }
    }

    /// Does what the control thread asks.
    pub fn command<P, S>(&mut self, command: Command, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        match command {
            Command::Drain => {
                self.draining = true;
                self.let_go(&mut io);
            }
            Command::SetRecovery(recovery) => {
                // Handles kept by one mode are of no use to another.
                self.let_go(&mut io);
                self.config.recovery = recovery;
                self.sentry.recovery = sentry_recovery(recovery);
                self.depot.keeps_responses = keeps_responses(recovery);
            }
        }
        self.released.flush();
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
