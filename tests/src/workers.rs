//! The inside of one box: workers, each with its part of the flows. A worker has a switch, or its tunnels with or
//! without repair of the LANs, as in the gateway.

use arrayvec::ArrayVec;
use common::control::NodeId;
use common::frame::{Frame, Side};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Counters;
use common::recorder::Recorder;
use common::time::Time;
use common::wire::Spread;
use datapath::{Datapath, Owners, Tunnelled};
use switch::{Config, FlowName, FlowSummary, Recovery, Settings, Switch};
use tunnel::encapsulation::Encapsulation;
use tunnel::session::Refusal;
use tunnel::{Division, Part, Port, Tuning, report_interval};

use crate::out::Out;
use crate::trace::check_books;

/// Timers run per step and worker.
const TIMER_BUDGET: usize = 64;

/// A box.
pub(crate) struct Workers {
    owners: Owners,
    /// Each worker has one switch, or its tunnels in ascending order.
    workers: Vec<Vec<Datapath<HeapFrame>>>,
    /// The worker that receives the next frame: a NIC that spreads badly gives each frame to another one.
    next: usize,
}

/// The node id of a switch of worker or tunnel `n`: each is a node of its own.
pub(crate) const fn node_of_worker(config: &Config, n: u32) -> NodeId {
    NodeId(config.node.0 + 100 * n)
}

impl Workers {
    /// A box with so many workers, at least one, each with a switch.
    pub fn switches(count: u32, config: &Config) -> Self {
        let config = |n| Config { node: node_of_worker(config, n), ..config.clone() };
        let workers = (0..count).map(|n| vec![Datapath::switch(config(n))]).collect();
        Self { owners: Owners::Pairs(Spread::Mixed), workers, next: 0 }
    }

    /// A box with so many workers, at least one, that share the tunnels of `division`, on WAN ports with the encapsulations `wan`.
    pub fn tunnels(
        count: u32,
        (division, wan): (Division, Vec<Encapsulation>),
        end: impl Fn(Part) -> Datapath<HeapFrame>,
    ) -> Self {
        let count = count as usize;
        let of_worker = |n| division.parts().skip(n).step_by(count).map(&end).collect();
        let workers = (0..count).map(of_worker).collect();
        Self { owners: Owners::Tunnels(division, wan), workers, next: 0 }
    }

    fn paths(&self) -> impl Iterator<Item = &Datapath<HeapFrame>> {
        self.workers.iter().flatten()
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut Datapath<HeapFrame>> {
        self.workers.iter_mut().flatten()
    }

    /// The end of the tunnel `n`.
    pub fn tunnel(&self, n: usize) -> &Tunnelled<HeapFrame> {
        let count = self.workers.len();
        self.workers[n % count][n / count].as_tunnel().expect("the box has tunnels")
    }

    /// A frame that arrives.
    pub fn receive(&mut self, at: (Side, Port), frame: HeapFrame, now: Time, out: &mut Out) {
        let count = self.workers.len();
        let receiver = self.next;
        self.next = (receiver + 1) % count;
        // The worker that receives it hands it on.
        let part = self.owners.part(at, frame.bytes());
        let worker = part.map_or(receiver, |part| part % count);
        let place = match self.owners {
            Owners::Pairs(_) => 0,
            Owners::Tunnels(..) => part.map_or(0, |part| part / count),
        };
        let mut burst = ArrayVec::<HeapFrame, 1>::from([frame]);
        self.workers[worker][place].burst(at, &mut burst, now, &mut HeapPool, out);
    }

    /// The flows that it knows.
    pub fn flows(&self, now: Time) -> Vec<FlowName> {
        let each = |switch: &Switch<HeapFrame>| {
            let flows = (0..switch.flows_end()).filter_map(|n| switch.flow(n, now));
            flows.map(|flow: FlowSummary| flow.name()).collect::<Vec<_>>()
        };
        self.paths().filter_map(Datapath::as_switch).flat_map(each).collect()
    }

    /// Protects a flow, or leaves it to the RNICs.
    pub fn set_protection(&mut self, flow: &FlowName, is_on: bool, now: Time, out: &mut Out) {
        for path in self.paths_mut() {
            path.set_protection(flow, is_on, now, &mut HeapPool, out);
        }
    }

    /// Works by other settings.
    pub fn set_settings(&mut self, now: Time, change: impl Fn(&mut Settings)) {
        for path in self.paths_mut() {
            match path {
                Datapath::Switch(switch) => {
                    let mut settings = switch.settings();
                    change(&mut settings);
                    switch.set_settings(&settings);
                }
                Datapath::Tunnel(tunnel) => {
                    let settings = changed(tunnel, &change);
                    path.set_settings(&settings, now);
                }
            }
        }
    }

    /// Whether the workers keep up with their frames no longer.
    pub fn set_overloaded(&mut self, is_overloaded: bool) {
        self.paths_mut().for_each(|path| path.set_overloaded(is_overloaded));
    }

    /// Tasks of every few milliseconds. Returns whether it is still taking over other settings.
    pub fn housekeeping(&mut self, now: Time, out: &mut Out) -> bool {
        for path in self.paths_mut() {
            path.housekeeping(now, &mut HeapPool, out);
        }
        self.paths().any(|path| match path {
            Datapath::Switch(switch) => switch.is_retuning(),
            Datapath::Tunnel(tunnel) => tunnel.is_retuning(),
        })
    }

    /// All workers drain.
    pub fn drain(&mut self, now: Time, out: &mut Out) {
        for path in self.paths_mut() {
            path.drain(now, &mut HeapPool, out);
        }
    }

    /// Runs the timers that are due.
    pub fn timers(&mut self, now: Time, out: &mut Out) {
        for path in self.paths_mut() {
            path.timers(now, TIMER_BUDGET, &mut HeapPool, out);
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        self.paths().map(Datapath::next_deadline).min().unwrap_or(Time::NEVER)
    }

    /// Frames held.
    pub fn held(&self) -> u64 {
        self.paths().map(Datapath::held).sum()
    }

    /// Counters of each switch.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.paths().filter_map(Datapath::as_switch).map(Switch::counters)
    }

    /// The flight recorders.
    pub fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        self.paths().flat_map(Datapath::recorders)
    }

    /// Checks each worker's frame counts, and that no control message was given to a tunnel that it does not name.
    pub fn check_books(&self) {
        self.paths().filter_map(Datapath::as_switch).for_each(check_books);
        for path in self.paths().filter_map(Datapath::as_tunnel) {
            let counts = path.tunnel().counts();
            assert!(path.is_balanced(), "a tunnel's books: {counts:?}");
            assert_eq!(
                counts.refused(Refusal::Tunnels),
                0,
                "a control message was given to another tunnel"
            );
        }
    }
}

/// Frames that the pools of a tunnel hold at least. With less it delivers frames out of order, and queue pairs fare as they may.
const LEAST: u64 = 1 << 12;

/// Settings of a tunnel and of the repair of the LANs beside it, after a change. The tunnel has the timers and pools of the same name.
fn changed(path: &Tunnelled<HeapFrame>, change: impl Fn(&mut Settings)) -> datapath::Settings {
    let config = path.tunnel().config();
    let mut tunnel = Tuning::of(&config.sender, &config.receiver);
    let lan = path.lan().map(|lan| lan.switch().settings());
    let mut switch = lan.unwrap_or_else(|| Config::lab(Recovery::Off, 1, 1).settings());
    switch.tuning.rtt_guess = tunnel.rtt;
    switch.pools.resend_cache = tunnel.cache_max as u64;
    let reorder_pool = switch.pools.reorder_pool;
    change(&mut switch);
    tunnel.rtt = switch.tuning.rtt_guess;
    tunnel.report_interval = report_interval(tunnel.rtt);
    tunnel.give_up = switch.tuning.give_up.unwrap_or(tunnel.give_up);
    tunnel.tolerance = switch.tuning.tolerance;
    tunnel.cache_max = switch.pools.resend_cache.max(LEAST) as usize;
    if switch.pools.reorder_pool != reorder_pool {
        tunnel.waiting_max = switch.pools.reorder_pool.max(LEAST) as usize;
    }
    datapath::Settings { switch, tunnel }
}
