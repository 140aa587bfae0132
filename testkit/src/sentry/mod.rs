//! A Sentry's flow with its surroundings as in a switch.

mod record;

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::Epoch;
use common::frame::Frame;
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Time;
use common::wire::{Response, parse};
use sentry::{Actions, Config, Context, Flow};

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
    /// The budget of resend caches.
    pub cache: Budget,
    /// The budget of reordering pools.
    pub pool: Budget,
    /// The budget of early messages.
    pub allowance: Allowance,
    /// The newest epoch.
    pub epochs: Epoch,
    /// The present.
    pub now: Time,
    /// Whether deadlines assume that early messages are granted, so that a timer finds them
    /// refused. A switch doesn't.
    pub assumes_early: bool,
    /// Receives the effects.
    pub out: A,
}

impl<F: Frame, A: Actions<F> + Ledger> Harness<F, A> {
    /// A flow in epoch 1 whose first packet has PSN `first`, and memory that never runs out.
    pub fn new(config: Config, now: Time, first: Psn, out: A) -> Self {
        Self {
            flow: Flow::new(&config, now, Epoch(1), first),
            config,
            cache: Budget::new(PLENTY),
            pool: Budget::new(PLENTY),
            allowance: Allowance::new(Allowance::AMPLE),
            epochs: Epoch(1),
            now,
            assumes_early: false,
            out,
        }
    }
}

harness!(lends: cache, pool, allowance, epochs; budgets: cache, pool);

impl<F: Frame, A: Actions<F> + Ledger> Timers for Harness<F, A> {
    fn now(&mut self) -> &mut Time {
        &mut self.now
    }

    fn deadline(&mut self) -> Time {
        let may_be_early = self.assumes_early || self.allowance.may_be_early(self.now);
        self.flow.deadline(&self.config, self.now, may_be_early)
    }

    fn timer(&mut self) {
        self.with(|flow, cx| flow.on_timer(cx));
    }
}

impl<A: Actions<HeapFrame> + Account> Harness<HeapFrame, A> {
    /// The destination sends a response.
    pub fn respond(&mut self, bytes: Vec<u8>) {
        let roce = parse(&bytes).expect("a RoCEv2 frame");
        let response = Response::of(&roce, &bytes).expect("a response");
        self.out.books_mut().entered += 1;
        self.with(|flow, cx| flow.on_response(cx, HeapFrame::from(bytes), &roce, response));
    }
}
