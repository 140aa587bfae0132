//! A pair of ports that can't be opened is tried again, first after a second, then after twice as long each time, up to 30 s.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dpdk_sys_wrapper::Eal;

use super::opening::{Fault, Opening};
use super::pair::{Pair, Queues};
use super::{named, span};
use crate::config::{Config, Machine};
use crate::control::State;

/// Time between the first two tries.
const FIRST: Duration = Duration::from_secs(1);
/// The most between two.
const MOST: Duration = Duration::from_secs(30);

/// When the next try is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Backoff {
    wait: Duration,
    at: Instant,
}

impl Backoff {
    /// The first try failed now.
    fn new(now: Instant) -> Self {
        Self { wait: FIRST, at: now + FIRST }
    }

    /// Another one failed now.
    fn failed(self, now: Instant) -> Self {
        let wait = (self.wait * 2).min(MOST);
        Self { wait, at: now + wait }
    }
}

/// A pair of ports that could not be opened.
pub(super) struct Unopened<'a> {
    config: &'a Config,
    state: &'a State,
    opening: Opening,
    /// The newest reason.
    text: String,
    /// `None`: not in this process.
    next: Option<Backoff>,
}

impl<'a> Unopened<'a> {
    /// The first try has failed for that reason.
    pub(super) fn new(
        (config, state): (&'a Config, &'a State),
        opening: Opening,
        Fault { text, is_final }: Fault,
    ) -> Self {
        let next = (!is_final).then(|| Backoff::new(Instant::now()));
        Self { config, state, opening, text, next }
    }

    /// The configuration and the state of the pair.
    pub(super) fn of(&self) -> (&'a Config, &'a State) {
        (self.config, self.state)
    }

    /// The reason, with the name of the pair.
    pub(super) fn named(&self) -> String {
        named(self.config, &self.text)
    }

    /// Says that other pairs forward, and this one does not.
    pub(super) fn tell(&self) {
        let then = if self.next.is_some() {
            format!(
                "this pair is tried again, after {} s, then less often, at least every {} s",
                FIRST.as_secs(),
                MOST.as_secs()
            )
        } else {
            "mend it, and restart the gateway: DPDK does not open a PCI port twice in a process"
                .into()
        };
        tracing::error!("{}; the other pairs of ports forward; {then}", self.named());
        self.state.fail_until(self.text.clone(), self.next.map(|next| next.at));
    }

    /// Tries again, if it is time. `place` is where the pair will stay.
    ///
    /// The main thread waits meanwhile, which a virtual device needs milliseconds for, and a NIC some seconds at most, with its
    /// reset; the workers of the other pairs don't.
    pub(super) fn poll(
        &mut self,
        eal: &Eal,
        place: &'a OnceLock<Pair>,
    ) -> Option<(&'a Pair, Vec<Queues>)> {
        let next = self.next.filter(|next| Instant::now() >= next.at)?;
        let _span = span(self.config).entered();
        match self.opening.attempt(eal, self.config, &Machine::read()) {
            Ok((pair, queues)) => {
                self.next = None;
                self.state.mended();
                Some((place.get_or_init(|| pair), queues))
            }
            Err(Fault { text, is_final }) => {
                if text != self.text {
                    tracing::error!("still not open, for another reason: {text}");
                    self.text = text;
                }
                self.next = (!is_final).then(|| next.failed(Instant::now()));
                self.state.fail_until(self.text.clone(), self.next.map(|next| next.at));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_become_rare_and_do_not_cease() {
        let start = Instant::now();
        let mut backoff = Backoff::new(start);
        let mut waits = vec![backoff.at - start];
        for _ in 0..7 {
            let now = backoff.at;
            backoff = backoff.failed(now);
            waits.push(backoff.at - now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30].map(Duration::from_secs));
    }
}
