//! A store-and-forward switch: output queues, ECN marking, PFC.

use common::frame::Frame;
use common::time::Time;
use common::wire::{Addr, Roce, mark_congestion, parse};
use link::wire_bytes;

use super::cable::Pause;
use super::marking::Marking;
use super::outbox::Outbox;
use super::port::{Departure, Port, Priority};
use super::spread::spread;
use crate::frame::SimFrame;
use crate::scenario::{Ecn, Pfc};

/// DSCP of the high class: class selector 6, where CNPs usually are.
pub(crate) const HIGH_DSCP: u8 = 48;
/// ECN field of frames that are not ECN-capable.
const NOT_ECT: u8 = 0;

/// Settings that all switches of a site share.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Bytes in all.
    pub buffer: u64,
    /// Whether a port may use all that is left, or its own part only.
    pub shared: bool,
    /// Marking of data queues.
    pub ecn: Option<Ecn>,
    /// Flow control towards who sends to us.
    pub pfc: Option<Pfc>,
}

/// Which ports lead to a host.
pub type Route = Box<dyn Fn(Addr) -> std::ops::Range<usize>>;

/// Bytes that a port has received and not yet sent on.
#[derive(Clone, Copy, Default)]
struct Ingress {
    bytes: u64,
    told_to_stop: bool,
}

/// A switch.
pub struct Switch {
    config: SwitchConfig,
    ports: Vec<Port>,
    /// When each of them can send.
    due: Vec<Time>,
    ingress: Vec<Ingress>,
    buffered: u64,
    route: Route,
    marking: Marking,
    /// Frames that found no room.
    pub drops: u64,
}

impl Switch {
    /// A switch with a port for each of `rates`, in bit/s. Of the ports that
    /// `route` gives for a host one is chosen by addresses and UDP port, the
    /// same in both directions.
    pub fn new(config: SwitchConfig, rates: &[u64], route: Route, seed: u64, number: u64) -> Self {
        // The streams below are the cables'.
        let marking = Marking::new(config.ecn, seed, (1 << 32) + number);
        Self {
            ports: rates.iter().map(|rate| Port::new(*rate)).collect(),
            due: vec![Time::NEVER; rates.len()],
            ingress: vec![Ingress::default(); rates.len()],
            buffered: 0,
            route,
            marking,
            drops: 0,
            config,
        }
    }

    /// A frame has arrived at port `from`.
    pub fn receive(&mut self, from: usize, mut frame: SimFrame, now: Time, out: &mut Outbox) {
        let Ok(roce) = parse(frame.bytes()) else {
            self.drops += 1;
            return;
        };
        let ports = (self.route)(roce.dst);
        let to = ports.start + spread(&roce) % ports.len().max(1);
        let bytes = wire_bytes(frame.bytes().len());
        if self.room(to) < bytes {
            self.drops += 1;
            return;
        }
        let priority = priority_of(&frame, &roce);
        if priority == Priority::Data && roce.ecn != NOT_ECT && self.marks(to) {
            mark_congestion(frame.bytes_mut(), &roce);
        }
        self.buffered += bytes;
        self.ports[to].push(frame, priority, from);
        if priority == Priority::Data {
            self.ingress[from].bytes += bytes;
            self.flow_control(from, out);
        }
        self.serve_port(to, now, out);
    }

    /// The far end of `port` pauses or resumes it.
    pub fn pause(&mut self, port: usize, pause: Pause) {
        self.ports[port].set_stopped(pause.priority, pause.stop);
        self.due[port] = self.ports[port].next();
    }

    /// Sends frames that may leave.
    pub fn serve(&mut self, now: Time, out: &mut Outbox) {
        for port in 0..self.due.len() {
            if self.due[port] <= now {
                self.serve_port(port, now, out);
            }
        }
    }

    fn serve_port(&mut self, port: usize, now: Time, out: &mut Outbox) {
        while let Some((frame, from, priority, sent)) = self.ports[port].pop(now) {
            let bytes = wire_bytes(frame.bytes().len());
            self.buffered -= bytes;
            if priority == Priority::Data {
                self.ingress[from].bytes -= bytes;
                self.flow_control(from, out);
            }
            out.frames.push(Departure { port, frame, sent });
        }
        self.due[port] = self.ports[port].next();
    }

    /// When a frame can leave.
    pub fn next(&self) -> Time {
        self.due.iter().copied().min().unwrap_or(Time::NEVER)
    }

    /// Frames in its buffer.
    pub fn held(&self) -> u64 {
        self.ports.iter().map(Port::frames).sum()
    }

    fn room(&self, port: usize) -> u64 {
        if self.config.shared {
            return self.config.buffer - self.buffered;
        }
        let part = self.config.buffer / self.ports.len() as u64;
        let port = &self.ports[port];
        part.saturating_sub(port.queued(Priority::Data) + port.queued(Priority::High))
    }

    /// Whether a frame that joins the data queue of `port` is marked.
    fn marks(&mut self, port: usize) -> bool {
        self.marking.marks(self.ports[port].queued(Priority::Data))
    }

    /// Pauses or resumes the sender at `port`.
    fn flow_control(&mut self, port: usize, out: &mut Outbox) {
        let Some(pfc) = self.config.pfc else { return };
        let ingress = &mut self.ingress[port];
        let stop = match ingress.told_to_stop {
            false if ingress.bytes >= pfc.xoff => true,
            true if ingress.bytes <= pfc.xon => false,
            _ => return,
        };
        ingress.told_to_stop = stop;
        out.pauses.push((port, Pause { priority: Priority::Data, stop }));
    }
}

/// By DSCP, as switches are configured.
fn priority_of(frame: &SimFrame, roce: &Roce) -> Priority {
    let l3 = usize::from(roce.l3);
    let (first, second) = (frame.bytes()[l3], frame.bytes()[l3 + 1]);
    let tos = if first >> 4 == 4 { second } else { first << 4 | second >> 4 };
    if tos >> 2 == HIGH_DSCP { Priority::High } else { Priority::Data }
}
