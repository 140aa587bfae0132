//! A snapshot holds the gateway's answers at one time. Rates are the differences of two snapshots.

use api::{Events, Flows, Lanes, Order, Peers, Pools, Ports, Recovery, Status};

use crate::Failure;
use crate::client::Client;

/// Flows and events that are asked for: more than fit into a terminal.
const ROWS: usize = 100;

/// The gateway's answers of one time.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Snapshot {
    /// `/status`.
    pub status: Status,
    /// `/peers`.
    pub peers: Peers,
    /// `/lanes`.
    pub lanes: Lanes,
    /// `/recovery`.
    pub recovery: Recovery,
    /// `/ports`.
    pub ports: Ports,
    /// `/pools`.
    pub pools: Pools,
    /// `/flows`, the first page.
    pub flows: Flows,
    /// `/events`, the newest.
    pub events: Events,
}

impl Snapshot {
    /// Asks the gateway.
    ///
    /// # Errors
    /// The gateway can't be asked.
    pub fn take(client: &Client, order: Order) -> Result<Self, Failure> {
        Ok(Self {
            status: client.get("/status")?,
            peers: client.get("/peers")?,
            lanes: client.get("/lanes")?,
            recovery: client.get("/recovery")?,
            ports: client.get("/ports")?,
            pools: client.get("/pools")?,
            flows: client.get(&format!("/flows?sort={order}&limit={ROWS}"))?,
            events: client.get(&format!("/events?last={ROWS}"))?,
        })
    }
}

/// The newest snapshot and the one before.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The newest.
    pub now: &'a Snapshot,
    before: Option<&'a Snapshot>,
}

impl<'a> Pair<'a> {
    /// `before` is ignored if it is of another run of the gateway: its counters began anew.
    pub fn new(now: &'a Snapshot, before: Option<&'a Snapshot>) -> Self {
        let run = |it: &Snapshot| (it.status.boot, it.status.pid, it.status.node);
        let is_earlier = |it: &&Snapshot| it.status.uptime < now.status.uptime;
        Self { now, before: before.filter(|it| run(it) == run(now)).filter(is_earlier) }
    }

    /// Growth of a counter in a second, if there is a snapshot to compare with, which has it.
    pub fn rate(&self, counter: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        let before = self.before?;
        let growth = counter(self.now)?.saturating_sub(counter(before)?);
        Some(growth as f64 / (self.now.status.uptime - before.status.uptime))
    }

    /// The share that one counter's growth has in another's; `None` if nothing grew.
    pub fn share(
        &self,
        part: impl Fn(&Snapshot) -> Option<u64>,
        whole: impl Fn(&Snapshot) -> Option<u64>,
    ) -> Option<f64> {
        let (part, whole) = (self.rate(part)?, self.rate(whole)?);
        (whole > 0.0).then_some(part / whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(boot: u64, uptime: f64, resent: u64) -> Snapshot {
        let status = Status { boot: Some(boot), uptime, ..Status::default() };
        let recovery = Recovery { resent, gaps: 2 * resent, ..Recovery::default() };
        Snapshot { status, recovery, ..Snapshot::default() }
    }

    #[test]
    fn rates_are_differences_of_one_run() {
        let resent = |it: &Snapshot| Some(it.recovery.resent);
        let gaps = |it: &Snapshot| Some(it.recovery.gaps);
        let before = snapshot(7, 10.0, 100);
        let now = snapshot(7, 12.0, 150);
        let pair = Pair::new(&now, Some(&before));
        assert_eq!((pair.rate(resent), pair.share(resent, gaps)), (Some(25.0), Some(0.5)));
        assert_eq!(pair.rate(|_| None), None);
        // Without a snapshot before, after a restart, and with one of the same time.
        let restarted = snapshot(8, 1.0, 5);
        for (now, before) in [(&now, None), (&restarted, Some(&now)), (&now, Some(&now))] {
            let pair = Pair::new(now, before);
            assert_eq!((pair.rate(resent), pair.share(resent, gaps)), (None, None));
        }
        let idle = snapshot(7, 13.0, 150);
        let pair = Pair::new(&idle, Some(&now));
        assert_eq!((pair.rate(resent), pair.share(resent, gaps)), (Some(0.0), None));
    }
}
