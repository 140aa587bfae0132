//! The inside of one box: switches, one per worker, each with its part of the flows; or a tunnel, with or
//! without repair of the LANs.

use arrayvec::ArrayVec;
use common::control::NodeId;
use common::frame::{Frame, Side};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Counters;
use common::recorder::Recorder;
use common::time::Time;
use common::wire::Spread;
use datapath::{Datapath, Tunnelled};
use switch::{Config, FlowName, FlowSummary, Recovery, Settings, Switch};
use tunnel::{Port, Tuning, report_interval};

use crate::out::Out;
use crate::trace::check_books;

/// Timers run per step and worker.
const TIMER_BUDGET: usize = 64;

/// A box.
pub(crate) enum Workers {
    Switches(Vec<Switch<HeapFrame>>),
    Tunnel(Datapath<HeapFrame>),
}

impl Workers {
    /// A box with so many workers, at least one. Each is a node of its own.
    pub fn new(count: u32, config: &Config) -> Self {
        let node = |n| NodeId(config.node.0 + 100 * n);
        let switch = |n| Switch::new(Config { node: node(n), ..config.clone() });
        Self::Switches((0..count).map(switch).collect())
    }

    fn switches(&self) -> &[Switch<HeapFrame>] {
        match self {
            Self::Switches(all) => all,
            Self::Tunnel(_) => &[],
        }
    }

    /// A frame that arrives.
    pub fn receive(
        &mut self,
        (side, port): (Side, Port),
        frame: HeapFrame,
        now: Time,
        out: &mut Out,
    ) {
        match self {
            Self::Switches(all) => {
                let worker = Spread::Mixed.bucket(frame.bytes()) % all.len();
                let mut burst = ArrayVec::<HeapFrame, 1>::from([frame]);
                all[worker].burst(side, &mut burst, now, &mut HeapPool, out);
            }
            Self::Tunnel(tunnel) => {
                let mut burst = ArrayVec::<HeapFrame, 1>::from([frame]);
                tunnel.burst((side, port), &mut burst, now, &mut HeapPool, out);
            }
        }
    }

    /// The flows that it knows.
    pub fn flows(&self, now: Time) -> Vec<FlowName> {
        let path = match self {
            Self::Switches(_) => None,
            Self::Tunnel(path) => path.as_switch(),
        };
        let each = |switch: &Switch<HeapFrame>| {
            let flows = (0..switch.flows_end()).filter_map(|n| switch.flow(n, now));
            flows.map(|flow: FlowSummary| flow.name()).collect::<Vec<_>>()
        };
        self.switches().iter().chain(path).flat_map(each).collect()
    }

    /// Protects a flow, or leaves it to the RNICs.
    pub fn set_protection(&mut self, flow: &FlowName, is_on: bool, now: Time, out: &mut Out) {
        match self {
            Self::Switches(all) => {
                for switch in all {
                    if is_on {
                        switch.protect(flow);
                    } else {
                        switch.unprotect(flow, now, &mut HeapPool, out);
                    }
                }
            }
            Self::Tunnel(tunnel) => {
                tunnel.set_protection(flow, is_on, now, &mut HeapPool, out);
            }
        }
    }

    /// Works by other settings.
    pub fn set_settings(&mut self, now: Time, change: impl Fn(&mut Settings)) {
        match self {
            Self::Switches(all) => {
                for switch in all {
                    let mut settings = switch.settings();
                    change(&mut settings);
                    switch.set_settings(&settings);
                }
            }
            Self::Tunnel(path) => {
                if let Some(tunnel) = path.as_tunnel() {
                    let settings = changed(tunnel, change);
                    path.set_settings(&settings, now);
                }
            }
        }
    }

    /// Tasks of every few milliseconds. Returns whether it is still taking over other settings.
    pub fn housekeeping(&mut self, now: Time, out: &mut Out) -> bool {
        match self {
            Self::Switches(all) => {
                for switch in &mut *all {
                    switch.housekeeping(now, &mut HeapPool, out);
                }
                all.iter().any(Switch::is_retuning)
            }
            Self::Tunnel(path) => {
                path.housekeeping(now, &mut HeapPool, out);
                path.as_tunnel().is_some_and(Tunnelled::is_retuning)
            }
        }
    }

    /// All workers drain.
    pub fn drain(&mut self, now: Time, out: &mut Out) {
        match self {
            Self::Switches(all) => {
                for switch in all {
                    switch.drain(now, &mut HeapPool, out);
                }
            }
            Self::Tunnel(tunnel) => tunnel.drain(now, &mut HeapPool, out),
        }
    }

    /// Runs the timers that are due.
    pub fn timers(&mut self, now: Time, out: &mut Out) {
        match self {
            Self::Switches(all) => {
                for switch in all {
                    switch.timers(now, TIMER_BUDGET, &mut HeapPool, out);
                }
            }
            Self::Tunnel(tunnel) => {
                tunnel.timers(now, TIMER_BUDGET, &mut HeapPool, out);
            }
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        match self {
            Self::Switches(all) => {
                all.iter().map(Switch::next_deadline).min().unwrap_or(Time::NEVER)
            }
            Self::Tunnel(tunnel) => tunnel.next_deadline(),
        }
    }

    /// Frames held.
    pub fn held(&self) -> u64 {
        match self {
            Self::Switches(all) => all.iter().map(Switch::held).sum(),
            Self::Tunnel(tunnel) => tunnel.held(),
        }
    }

    /// Counters of each switch.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        let path = match self {
            Self::Switches(_) => None,
            Self::Tunnel(path) => path.as_switch(),
        };
        self.switches().iter().chain(path).map(Switch::counters)
    }

    /// The flight recorders.
    pub fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        let path = match self {
            Self::Switches(_) => None,
            Self::Tunnel(path) => Some(path),
        };
        let of_path = path.into_iter().flat_map(Datapath::recorders);
        self.switches().iter().map(Switch::recorder).chain(of_path)
    }

    /// Checks each worker's books.
    pub fn check_books(&self) {
        match self {
            Self::Switches(all) => all.iter().for_each(check_books),
            Self::Tunnel(path) => {
                path.as_switch().into_iter().for_each(check_books);
                let tunnel = path.as_tunnel().expect("it is one");
                assert!(tunnel.is_balanced(), "a tunnel's books: {:?}", tunnel.tunnel().counts());
            }
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
