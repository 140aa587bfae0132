//! Queue pairs that are used again, programs that are killed, boxes that start
//! again.

use common::control::Keys;
use common::psn::Psn;
use common::time::Time;
use rand::RngExt;

use crate::scenario::NextPsns;
use crate::world::{QpFate, World};

impl World {
    /// The last incarnation goes on to its end.
    pub(crate) fn set_abort(&mut self) {
        let after = self.scenario.abort_after.filter(|_| self.lives_left > 0);
        self.abort_at = after.map_or(Time::NEVER, |after| self.now + after);
    }

    /// The next incarnation begins after a pause, and once the network without gateways is empty.
    pub(crate) fn end_incarnation(&mut self) {
        self.abort_at = Time::NEVER;
        self.next_incarnation = (self.now + self.scenario.pause).max(self.arrived_by);
    }

    /// The programs at both ends are killed. They start again after a pause.
    pub(crate) fn abort(&mut self) {
        self.aborted = true;
        self.end_incarnation();
        for end in &mut self.ends {
            for qp in &end.qps {
                end.nic.reset_qp(*qp, Psn::new(0), Psn::new(0), self.now);
            }
        }
    }

    /// Everything is done: both ends use their queue pairs again, as a program
    /// that is started again might.
    pub(crate) fn begin_incarnation(&mut self) {
        self.lives_left -= 1;
        if self.trace {
            println!("{:?} next incarnation", self.now);
        }
        self.next_incarnation = Time::NEVER;
        self.aborted = false;
        self.incarnation = self.now;
        self.set_abort();
        let qps = self.scenario.qps as usize;
        let incarnation = self.fates.len() / qps;
        self.fates.resize(self.fates.len() + qps, QpFate::default());
        for link in self.ends.iter_mut().flat_map(|end| &mut end.links) {
            link.misbehave(incarnation as u64, self.now, self.scenario.adverse_for);
        }
        for (q, psns) in self.psns.clone().into_iter().enumerate() {
            let next = self.scenario.next_psns;
            let mut near = |psn: Psn| match (next, self.rng.random_range(0..3)) {
                (NextPsns::Behind(count), _) => psn.offset(Psn::MODULUS - count),
                (NextPsns::Same, _) | (NextPsns::Various, 0) => psn,
                (NextPsns::Various, 1) => {
                    psn.offset(self.rng.random_range(0..400)).offset(Psn::MODULUS - 200)
                }
                _ => Psn::new(self.rng.random()),
            };
            let (first, second) = (near(psns.0), near(psns.1));
            self.psns[q] = (first, second);
            let [a, b] = &mut self.ends;
            a.begin_incarnation(q, first, second, self.now);
            b.begin_incarnation(q, second, first, self.now);
        }
        self.post();
    }

    /// A switch is killed and started again: its frames and its state are gone.
    pub(crate) fn restart(&mut self, me: usize) {
        let boot = self.ends[me].boot.next();
        if self.trace {
            println!("{:?} switch {me} starts again", self.now);
        }
        self.start(me, boot, Keys::unkeyed_lab());
    }
}
