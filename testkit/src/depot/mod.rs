//! A Depot's flow with its surroundings as in a switch.

mod record;

use common::allowance::Allowance;
use common::budget::Budget;
use common::frame::Frame;
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Time;
use common::wire::{Answer, parse};
use depot::{Actions, Config, Context, Flow, Known, Lan};

use crate::books::Account;
pub use crate::books::PLENTY;
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

impl<F: Frame, A: Actions<F>> Harness<F, A> {
    /// A flow whose first packet has PSN `first`, and memory that never runs out.
    pub fn new(config: Config, now: Time, first: Psn, out: A) -> Self {
        Self {
            flow: Flow::new(&config, now, first),
            config,
            pool: Budget::new(PLENTY),
            backup: Budget::new(PLENTY),
            cache: Budget::new(PLENTY),
            lan: Lan::default(),
            allowance: Allowance::default(),
            now,
            out,
        }
    }

    /// Calls the flow.
    #[inline]
    pub fn with<R>(&mut self, event: impl FnOnce(&mut Flow<F>, &mut Context<'_, A>) -> R) -> R {
        let mut cx = Context {
            now: self.now,
            config: &self.config,
            pool: &mut self.pool,
            backup: &mut self.backup,
            cache: &mut self.cache,
            lan: &mut self.lan,
            allowance: &mut self.allowance,
            out: &mut self.out,
        };
        event(&mut self.flow, &mut cx)
    }
}

impl<F: Frame, A: Actions<F>> Timers for Harness<F, A> {
    fn now(&mut self) -> &mut Time {
        &mut self.now
    }

    fn deadline(&self) -> Time {
        self.flow.deadline(&self.config)
    }

    fn timer(&mut self) {
        self.with(|flow, cx| flow.on_timer(cx));
    }
}

impl<A: Actions<HeapFrame> + Account> Harness<HeapFrame, A> {
    /// A request arrives.
    pub fn frame(&mut self, bytes: Vec<u8>) {
        let roce = parse(&bytes).expect("a RoCEv2 frame");
        self.out.books_mut().entered += 1;
        self.with(|flow, cx| flow.on_data(cx, HeapFrame::from(bytes), &roce));
    }

    /// The destination sends a response.
    pub fn response(&mut self, bytes: Vec<u8>) -> Known {
        let roce = parse(&bytes).expect("a RoCEv2 frame");
        let answer = Answer::of(&roce, &bytes).expect("a response");
        self.out.books_mut().entered += 1;
        self.with(|flow, cx| flow.on_answer(cx, HeapFrame::from(bytes), answer))
    }

    /// The value of a counter.
    pub fn count(&self, metric: Metric) -> u64 {
        self.out.books().counters.get(metric)
    }

    /// in + created = out + held.
    ///
    /// # Panics
    /// If a frame got lost.
    pub fn check_books(&self) {
        self.out.books().check([&self.pool, &self.backup, &self.cache]);
    }
}
