//! Closed forms against simulation: one long flow, limited by its NIC, over a
//! grid of round trips and losses.
//!
//! All cells have the same round trip in time; the rate follows from how many
//! packets fill it. So the gateways' shortest timers, which are there for
//! networks and not for arithmetic, are as short in each as they should be.

use common::time::{Span, Time};

use crate::path::{self, packet_wire_bytes};
use crate::plan::forms::{Nic, Path};
use crate::results::{FlowResult, RunResult};
use crate::run::run_flows;
use crate::scenario::Scenario;
use crate::scheme::Scheme;
use crate::schemes;
use crate::traffic::FlowSpec;

/// W: round trips in packets.
pub const WINDOWS: [u32; 4] = [50, 200, 1_000, 5_000];
/// p: shares of packets lost, each by itself, towards the receiver.
pub const LOSSES: [f64; 5] = [1e-5, 1e-4, 1e-3, 1e-2, 3e-2];
/// Agreement asked for: simulation and form differ by no more than this.
pub const TOLERANCE: f64 = 0.1;
/// Whom the grid is about.
pub const SCHEMES: [Scheme; 6] =
    [Scheme::GBN, Scheme::GBN_RENAK, Scheme::LR2, Scheme::IRN, Scheme::CACHED, Scheme::TUNNEL];

/// Payload of a packet: the smallest there is, since it counts packets.
const PMTU: u32 = 256;
/// The round trip of every cell.
const RTT: Span = Span::from_millis(10);
/// T: the retransmission timeout in round trips.
const TIMEOUT: u32 = 10;
/// Packets in flight, in round trips.
const WINDOW: u32 = 3;
/// Each packet asks for an ACK, so that a rewind begins at the loss.
const ACK_EVERY: u32 = 1;
/// Packets from one NAK to the next where they are repeated: 4 µs at
/// 100 Gbit/s and a PMTU of 4096.
const RE_NAK: u32 = 12;
/// IRN's own timeout in round trips, see `peers::irn`.
const IRN_TIMEOUT: f64 = 4.0;
/// Length of the message, in round trips, from which gateways learn the queue pair:
/// until then they do not protect it.
const WARM_UP: u32 = 8;
/// One standard deviation of the simulation, as a share of its result, that is good
/// enough.
const ERROR: f64 = 0.02;
/// Seed of all runs.
const SEED: u64 = 1;

/// A cell of the grid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cell {
    /// Who repairs; one of [`SCHEMES`].
    pub scheme: Scheme,
    /// W, at least 10.
    pub window: u32,
    /// p, 0 to less than 1.
    pub loss: f64,
}

/// Result of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// The simulated cell.
    pub cell: Cell,
    /// Length of the flow in packets.
    pub packets: u64,
    /// Share of the NIC's rate that was delivered.
    pub simulated: f64,
    /// The value of the closed form.
    pub form: f64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl Outcome {
    /// Simulation by form.
    pub fn ratio(&self) -> f64 {
        self.simulated / self.form
    }
}

/// The grid, scheme by scheme.
pub fn cells() -> impl Iterator<Item = Cell> {
    SCHEMES.into_iter().flat_map(|scheme| {
        WINDOWS.into_iter().flat_map(move |window| {
            LOSSES.into_iter().map(move |loss| Cell { scheme, window, loss })
        })
    })
}

impl Cell {
    /// One pair of hosts, NICs as fast as the link, no congestion control; ACKs
    /// and NAKs are not lost.
    ///
    /// # Panics
    /// If it is none that a scenario file may have: a mistake here.
    pub fn scenario(&self) -> Scenario {
        // RTT holds W packets, and a bit for store-and-forward.
        let bits = u64::from(self.window) * packet_wire_bytes(PMTU.into()) * 8;
        let rate = bits * 1_000_000_000 / RTT.as_nanos();
        let Self { window, loss, .. } = self;
        let text = format!(
            "name = \"forms\"\nabout = \"one long flow that is limited by its NIC\"\n\
             [long_haul]\nrate = \"{rate}bps\"\nrtt = \"1us\"\nloss = {loss:?}\nloss_back = 0\n\
             [site]\ndelay = \"0\"\nbuffer = \"1TiB\"\n\
             [nic]\npmtu = {PMTU}\nwindow = {cap}\nirn_cap = {cap}\nack_req_every = {ACK_EVERY}\n\
             timeout = \"{}us\"\nre_nak = \"{}ns\"\ndcqcn = false\ncontent = false\n\
             connections = \"known\"\n\
             [gateway]\nbudget = \"1TiB\"\nqueue = \"1TiB\"\n",
            (RTT * TIMEOUT.into()).as_micros(),
            RTT.scale(RE_NAK.into(), (*window).into()).as_nanos(),
            cap = WINDOW * window,
        );
        let mut scenario = Scenario {
            schemes: vec![self.scheme],
            seeds: vec![SEED],
            limit: Span::from_millis(1 << 40),
            sample_every: Span::from_millis(1 << 40),
            traffic: Vec::new(),
            ..super::read(&text).expect("a scenario")
        };
        scenario.long_haul.delay = Span::ZERO;
        let hops = path::Path::longest(&scenario, true).rtt(PMTU);
        scenario.long_haul.delay = (RTT - hops).scale(1, 2);
        scenario
    }

    /// The path, in the parameters of the closed forms.
    pub fn path(&self) -> Path {
        let window = f64::from(self.window);
        Path { window, loss: self.loss, burst: 1.0, timeout: f64::from(TIMEOUT) * window }
    }

    /// The closed form for a flow without end.
    pub fn form(&self) -> f64 {
        let model = schemes::model(self.scheme);
        model.form().map_or(f64::NAN, |form| (form.goodput)(&self.path(), &self.nic()))
    }

    /// The NICs, and the tunnel's overhead.
    pub fn nic(&self) -> Nic {
        let [tunnelled, messages] = schemes::tunnel_overhead(RTT, PMTU);
        Nic {
            window: WINDOW.into(),
            ack_every: ACK_EVERY.into(),
            // Each packet asks for an ACK.
            rewind: 0.0,
            re_nak: RE_NAK.into(),
            irn_cap: WINDOW.into(),
            irn_timeout: IRN_TIMEOUT,
            tunnelled,
            messages,
        }
    }

    /// How many round trips `budget` packets sent are good for.
    pub fn round_trips(&self, budget: u64) -> f64 {
        budget as f64 * self.form() / f64::from(self.window)
    }

    /// Length of the flow in packets: at least 200 W, and as many losses as it
    /// takes to know the efficiency to [`ERROR`]; but no more than some `budget`
    /// of packets sent, if that is good for 10 W.
    fn packets(&self, budget: u64) -> u64 {
        let form = self.form();
        let losses = ((1.0 - form) / ERROR).powi(2);
        let wanted = (losses / self.loss).max(200.0 * f64::from(self.window));
        let bound = (budget as f64 * form).max(10.0 * f64::from(self.window));
        wanted.min(bound) as u64
    }

    /// Simulates it: the second of two messages, so that the gateways know the
    /// queue pair. The round trip in which its last packet is acknowledged is no
    /// part of it.
    ///
    /// # Panics
    /// If a queue pair can't be set up or fails: the scenario is fixed.
    pub fn simulate(&self, budget: u64) -> Outcome {
        let packets = self.packets(budget);
        let warm_up = u64::from(WARM_UP * self.window);
        let result = self.run(&[warm_up, packets]);
        let flow = result.flows[1];
        let took = flow.completed.expect("it ends").since(flow.posted);
        let packet = RTT.as_secs_f64() / f64::from(self.window);
        Outcome {
            cell: *self,
            packets,
            simulated: packets as f64 * packet / (took - RTT).as_secs_f64(),
            form: self.form(),
            timeouts: result.hosts.timeouts,
        }
    }

    /// Messages of so many packets, one after the other.
    fn run(&self, packets: &[u64]) -> RunResult {
        let message = |(round, packets): (usize, &u64)| FlowSpec {
            start: Time::ZERO,
            src: 0,
            dst: 1,
            bytes: packets * u64::from(PMTU),
            round: round as u32,
            traffic: 0,
        };
        let flows: Vec<_> = packets.iter().enumerate().map(message).collect();
        let sent = packets.iter().sum::<u64>() as f64 / self.form();
        let round_trips = 4.0 * sent / f64::from(self.window) + 100.0 * packets.len() as f64;
        let scenario = Scenario { limit: RTT * round_trips as u64, ..self.scenario() };
        let result = run_flows(&scenario, self.scheme, SEED, &flows).expect("it can be set up");
        let open = result.flows.iter().filter(|flow| flow.completed.is_none()).count();
        assert_eq!(open, 0, "{self:?} takes four times as long as it should: {packets:?} packets");
        result
    }
}

/// Slowdowns of a message of `packets` by the seed formula of the LR2 paper and
/// by simulation: the mean over `messages`, one after the other, of the time of each
/// divided by its time without loss.
///
/// # Panics
/// As [`Cell::simulate`].
pub fn slowdown(cell: Cell, packets: u64, messages: u32) -> (f64, f64) {
    let mut lengths = vec![u64::from(WARM_UP * cell.window)];
    lengths.extend(std::iter::repeat_n(packets, messages as usize));
    let flows = cell.run(&lengths).flows;
    let slowdown = |flow: &FlowResult| {
        let took = flow.completed.expect("it ends").since(flow.posted);
        took.as_secs_f64() / flow.ideal.as_secs_f64()
    };
    let mean = flows[1..].iter().map(slowdown).sum::<f64>() / f64::from(messages);
    (cell.path().paper_slowdown(packets as f64), mean)
}
