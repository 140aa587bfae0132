//! Whether a worker keeps up with its receive queues.
//!
//! A queue that a poll empties, or leaves with fewer frames than a burst, is kept up with. If no poll does so for
//! four housekeepings, frames arrive at least as fast as the worker takes them, and the next ones overflow the queue. The worker then takes on no
//! further work: new flows pass unprotected, and early messages are not sent (R-PASS-7, R-MSG-11).

use common::time::{Span, Time};

use crate::port::PortId;

/// Time without a short poll from which on a worker counts as overloaded, in housekeepings.
const LAG: u32 = 4;
/// Time for which a worker counts as overloaded after a queue last lagged.
const HOLD: Span = Span::from_millis(1_000);

/// A receive queue of a port, or a ring from another worker.
#[derive(Clone, Copy, Default, Debug)]
struct Queue {
    /// A poll has found fewer frames than a burst since the last housekeeping.
    was_short: bool,
    /// Housekeepings in a row without such a poll.
    behind: u32,
}

/// The queues of a worker.
#[derive(Debug)]
pub struct Load {
    /// Queues of the LAN port, then queues of each WAN port.
    queues: Vec<Queue>,
    per_port: usize,
    /// When a queue last lagged.
    lagged: Option<Time>,
}

impl Load {
    /// Load of a worker with so many ports, and so many queues for each port.
    pub fn new(ports: usize, per_port: usize) -> Self {
        Self { queues: vec![Queue::default(); ports * per_port], per_port, lagged: None }
    }

    /// A poll of a port's queue has found a full burst, or fewer frames.
    #[inline]
    pub fn polled(&mut self, port: PortId, queue: usize, is_full: bool) {
        if let Some(queue) = self.queues.get_mut(port.index() * self.per_port + queue) {
            queue.was_short |= !is_full;
        }
    }

    /// Ends an interval between two housekeepings. Calls `each` with every port of which a queue lags.
    pub fn look(&mut self, now: Time, mut each: impl FnMut(PortId)) {
        for (port, queues) in PortId::all(u8::MAX).zip(self.queues.chunks_mut(self.per_port)) {
            let mut lags = false;
            for queue in queues {
                let was_short = core::mem::take(&mut queue.was_short);
                queue.behind = if was_short { 0 } else { queue.behind.saturating_add(1) };
                lags |= queue.behind >= LAG;
            }
            if lags {
                self.lagged = Some(now);
                each(port);
            }
        }
    }

    /// Whether the worker has not kept up lately.
    pub fn is_overloaded(&self, now: Time) -> bool {
        self.lagged.is_some_and(|at| now < at + HOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::HOUSEKEEPING;

    /// Whether the LAN port lags after each interval, of polls of its second queue. The other queues are empty.
    fn run(polls: &[&[bool]]) -> (Load, Vec<bool>, Time) {
        let (mut load, mut now) = (Load::new(2, 2), Time::ZERO);
        let [lan, wan] = [PortId::LAN, PortId::wan(Default::default())];
        let each = |polls: &&[bool]| {
            now += HOUSEKEEPING;
            for (port, queue) in [(lan, 0), (wan, 0), (wan, 1)] {
                load.polled(port, queue, false);
            }
            polls.iter().for_each(|is_full| load.polled(lan, 1, *is_full));
            let mut lagging = Vec::new();
            load.look(now, |port| lagging.push(port));
            assert!(lagging.iter().all(|port| *port == lan));
            !lagging.is_empty()
        };
        let lagging = polls.iter().map(each).collect();
        (load, lagging, now)
    }

    #[test]
    fn a_queue_that_no_poll_empties_for_four_housekeepings_lags() {
        let (load, lagging, now) = run(&[&[true, true][..]; 5]);
        assert_eq!(lagging, [false, false, false, true, true]);
        assert!(load.is_overloaded(now));
        // One second after it last did.
        assert!(load.is_overloaded(now + HOLD - Span::from_nanos(1)));
        assert!(!load.is_overloaded(now + HOLD));
    }

    #[test]
    fn one_short_poll_shows_that_it_is_kept_up_with() {
        let full: &[bool] = &[true, true];
        let (load, lagging, now) = run(&[full, full, full, &[true, false, true], full, full, full]);
        assert!(!lagging.contains(&true) && !load.is_overloaded(now));
    }
}
