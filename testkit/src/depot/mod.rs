//! A Depot's flow with its surroundings as in a switch.

mod record;

use common::allowance::Allowance;
use common::budget::Budget;
use common::frame::Frame;
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Time;
use common::wire::{Response, parse};
use depot::{Actions, Config, Context, Flow, Known, Lan};

pub use crate::books::PLENTY;
use crate::books::{Account, Ledger};
use crate::harness::harness;
pub use crate::timers::Timers;
pub use record::*;

/// A flow under test; `out` takes its actions.
pub struct Harness<F: Frame, A> {
    /// The flow.
    pub flow: Flow<F>,
    /// Its configuration.
    pub config: Config,
    /// The budget of reordering pools.
    pub pool: Budget,
    /// The budget of backup pools.
    pub backup: Budget,
    /// The budget of READ responses.
    pub cache: Budget,
    /// The hosts of the LAN.
    pub lan: Lan,
    /// The budget of early messages.
    pub allowance: Allowance,
    /// The present.
    pub now: Time,
    /// Receives the effects.
    pub out: A,
}

impl<F: Frame, A: Actions<F> + Ledger> Harness<F, A> {
    /// A flow whose first packet has PSN `first`, and memory that never runs out.
    pub fn new(config: Config, now: Time, first: Psn, out: A) -> Self {
        Self {
            flow: Flow::new(&config, now, first),
            config,
            pool: Budget::new(PLENTY),
            backup: Budget::new(PLENTY),
            cache: Budget::new(PLENTY),
            lan: Lan::default(),
            allowance: Allowance::new(Allowance::AMPLE),
            now,
            out,
        }
    }
}

harness!(lends: pool, backup, cache, lan, allowance; budgets: pool, backup, cache);

impl<F: Frame, A: Actions<F> + Ledger> Timers for Harness<F, A> {
    fn now(&mut self) -> &mut Time {
        &mut self.now
    }

    fn deadline(&mut self) -> Time {
        self.flow.deadline(&self.config)
    }

    fn timer(&mut self) {
        self.with(|flow, cx| flow.on_timer(cx));
    }
}

impl<A: Actions<HeapFrame> + Account> Harness<HeapFrame, A> {
    /// The destination sends a response.
    pub fn response(&mut self, bytes: Vec<u8>) -> Known {
        let roce = parse(&bytes).expect("a RoCEv2 frame");
        let response = Response::of(&roce, &bytes).expect("a response");
        self.out.books_mut().entered += 1;
        self.with(|flow, cx| flow.on_response(cx, HeapFrame::from(bytes), response))
    }
}
