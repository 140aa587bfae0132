//! Two switches, hosts that send anything in any order, and a link between the
//! switches that loses, reorders, repeats and damages frames as the input says. Each switch has
//! a [twin](Twins) without fast paths.

use std::collections::{BTreeSet, VecDeque};

use common::control::{self, BootId, DEFAULT_OPCODE, Epoch, Header, Keys, Message, NodeId};
use common::frame::{Class, Pool, Side};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Addr, Headers, NotRoce, Qpn, Transport, Vlans, icrc_ok, parse};
use switch::{Config, End, QueuePair, Recovery, Role};

use super::input::Input;
use super::{messages, packets};
use crate::twins::Twins;
use crate::wires::Sent;

const START: Time = Time::from_nanos(1_000_000_000);
/// QPs of host 0 and of host 1, by pair. The second number is the same at both.
const QPNS: [[Qpn; 2]; 3] = [
    [Qpn::new(0x11), Qpn::new(0x21)],
    [Qpn::new(0x12), Qpn::new(0x12)],
    [Qpn::new(0x13), Qpn::new(0x11)],
];
/// Most frames of a burst.
const BURST: usize = 32;
/// Most timers until switches that nobody speaks to any more are silent.
const UNTIL_SILENT: u32 = 20_000;
const RECOVERIES: [Recovery; 5] =
    [Recovery::Auto, Recovery::Auto, Recovery::Cached, Recovery::Lr2, Recovery::Off];

/// A pool that may be at its reserve.
struct MayBeDry(bool);

impl Pool for MayBeDry {
    type Frame = HeapFrame;

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        if self.0 { None } else { HeapPool.alloc(len) }
    }
}

struct World {
    switches: [Twins; 2],
    configs: [Config; 2],
    /// On the link, towards each of them.
    link: [VecDeque<Vec<u8>>; 2],
    pool: MayBeDry,
    now: Time,
    /// One past the newest PSN, by pair and sender.
    next: [[Psn; 2]; QPNS.len()],
    /// Payloads that were sent, damaged ones too.
    sent: BTreeSet<Vec<u8>>,
    vlans: Vlans,
    is_v6: bool,
}

/// `data` is a sequence of operations.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    let how = input.byte();
    let is_prompt = how % 8 < 7;
    if how >= 0x40 {
        world.open();
    }
    while !input.is_empty() {
        world.play(&mut input);
        if is_prompt {
            world.timers();
        }
    }
    world.end();
}

/// Host 0 loses a packet on its LAN and goes back as it is asked to, twice. Between, its packets come in order for so long that they
/// take the fast path again before the destination acknowledges anything.
///
/// # Panics
/// If a twin does something else, or the source is not asked each time.
pub fn rewinds_between_fast_paths(recovery: Recovery) {
    let queue_pairs = vec![first_queue_pair()];
    let config = |me| Config { queue_pairs: queue_pairs.clone(), ..Config::lab(recovery, me, 100) };
    let mut world = World::with([config(1), config(2)], Psn::new(0), Vlans::NONE, false);
    world.open();
    let message = || Input::new(&[3]);
    for round in 1..=2 {
        let lost = world.next[0][0];
        world.next[0][0] = lost.offset(1);
        world.requests(&mut message(), 0, 0);
        let asked = world.switches[0].count(Metric::NakSourceLan);
        assert_eq!(asked, round, "{recovery:?}: NAKs for packets lost before the Sentry");
        world.next[0][0] = lost;
        world.requests(&mut Input::new(&[4]), 0, 0);
        // Longer than the source's LAN counts as lossy.
        for _ in 0..20 {
            world.run(Span::from_micros(500));
        }
        for _ in 0..2 {
            world.requests(&mut message(), 0, 0);
            world.run(Span::from_micros(100));
        }
        world.acknowledge(1, 0);
        world.run(Span::from_micros(100));
    }
    world.end();
}

fn first_queue_pair() -> QueuePair {
    let end =
        |host: usize| End { addr: Addr::from_v4([10, 0, 0, host as u8 + 1]), qpn: QPNS[0][host] };
    QueuePair { vlans: Vlans::NONE, ends: [end(0), end(1)] }
}

fn config(input: &mut Input<'_>, me: u32) -> Config {
    let budget = |input: &mut Input<'_>| match input.below(6) {
        0 => u64::from(input.byte()) / 16,
        1 => u64::from(input.below(6)),
        _ => 1 << 20,
    };
    let mut config = Config::lab(input.choose(&RECOVERIES), me + 1, 100);
    config.role = input.choose(&[Role::Both, Role::Both, Role::Both, Role::Sentry, Role::Depot]);
    config.resend_cache_frames = budget(input);
    config.reorder_pool_frames = budget(input);
    config.backup_pool_frames = budget(input);
    config.max_flows = input.choose(&[64, 64, 64, 3]);
    config.local_retries = input.below(4);
    // A message that is withheld may come earlier or later without fast paths.
    config.tuning.early_per_second = 1_000_000_000;
    config.flow_idle = Span::from_millis(1_000);
    if !input.one_in(4) {
        config.queue_pairs = vec![first_queue_pair()];
    }
    config
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let configs = [config(input, 0), config(input, 1)];
        let first = input.choose(&[Psn::new(0), Psn::new(0xff_fff0)]);
        Self::with(configs, first, input.choose(&[Vlans::NONE, Vlans::new(7, 0)]), input.one_in(8))
    }

    fn with(configs: [Config; 2], first: Psn, vlans: Vlans, is_v6: bool) -> Self {
        Self {
            switches: [0, 1].map(|me: usize| Twins::new(&configs[me])),
            configs,
            link: Default::default(),
            pool: MayBeDry(false),
            now: START,
            next: [[first; 2]; QPNS.len()],
            sent: BTreeSet::new(),
            vlans,
            is_v6,
        }
    }

    /// All that is on the link arrives, and time passes.
    fn run(&mut self, span: Span) {
        for me in [1, 0] {
            self.deliver(me, BURST);
        }
        self.pass_time(span);
        self.timers();
    }

    /// Host 0 sends two messages, and every answer comes.
    fn open(&mut self) {
        for _ in 0..2 {
            self.requests(&mut Input::new(&[3]), 0, 0);
            for me in [1, 0, 1, 0] {
                self.deliver(me, BURST);
                self.pass_time(Span::from_micros(100));
            }
            self.acknowledge(1, 0);
            self.deliver(0, BURST);
            self.timers();
        }
    }

    fn play(&mut self, input: &mut Input<'_>) {
        let operation = input.byte();
        // Most operations have a side and a queue pair.
        let (me, pair) =
            (usize::from(operation >> 7), usize::from(operation >> 5 & 3) % QPNS.len());
        match operation & 0x1f {
            0..=1 => self.requests(input, me, pair),
            2..=4 => self.request(input, me, pair, self.next[pair][me]),
            5..=6 => {
                let psn = messages::near(input, self.next[pair][me], -20, 12);
                self.request(input, me, pair, psn);
            }
            7..=10 => {
                let psn = messages::near(input, self.next[pair][1 - me], -20, 3);
                let frame = packets::respond(input, &self.headers(me), QPNS[pair][1 - me], psn);
                self.host_sends(me, frame);
            }
            11 => self.acknowledge(me, pair),
            12 => {
                let name = u32::from(input.below(4));
                let qpn = QPNS[usize::from(input.below(3))][me];
                let psn = self.next[pair][1 - me];
                let frame = packets::cm(input, &self.headers(me), name, qpn, psn);
                self.host_sends(me, frame);
            }
            13..=16 => self.deliver(me, 1),
            17..=20 => self.deliver(me, 1 + usize::from(input.below(BURST as u8))),
            21 => drop(self.link[me].pop_front()),
            22 => self.disturb(input, me),
            23..=25 => self.pass_time(Span::from_micros(u64::from(input.word()))),
            26 => self.pass_time(Span::from_micros(u64::from(input.byte()) * 20)),
            27 => self.timers(),
            28..=29 => self.forge(input, me, pair),
            30 => self.pass_time(Span::from_millis(u64::from(input.byte()) * 8)),
            _ => self.rarely(input, me),
        }
    }

    /// Host `me` has got all that the other one has sent.
    fn acknowledge(&mut self, me: usize, pair: usize) {
        let psn = self.next[pair][1 - me].offset(Psn::MODULUS - 1);
        let (headers, qpn) = (self.headers(me), QPNS[pair][1 - me]);
        let frame = packets::respond(&mut Input::new(&[]), &headers, qpn, psn);
        self.host_sends(me, frame);
    }

    fn rarely(&mut self, input: &mut Input<'_>, me: usize) {
        match input.below(8) {
            0..=1 => self.housekeeping(),
            2 => self.pool.0 = !self.pool.0,
            3 => {
                // The operator restarts the box with another mode.
                self.configs[me].recovery = input.choose(&RECOVERIES);
                self.restart(me);
            }
            4 => self.restart(me),
            5 => self.drain(me),
            6 => {
                // Anything, from either side.
                let len = usize::from(input.byte());
                let frame = input.bytes(len).to_vec();
                let side = input.choose(&[Side::Lan, Side::Wan]);
                self.note(&frame);
                self.arrive(me, side, vec![frame]);
            }
            _ => {
                self.vlans = if self.vlans == Vlans::NONE { Vlans::new(7, 0) } else { Vlans::NONE }
            }
        }
    }

    /// Headers of packets from host `me` to the other one.
    fn headers(&self, me: usize) -> Headers {
        let (from, to) = (me as u8 + 1, 2 - me as u8);
        let headers = if self.is_v6 { packets::headers_v6 } else { packets::headers };
        headers(from, to, self.vlans)
    }

    /// The packets of a message in one burst.
    fn requests(&mut self, input: &mut Input<'_>, me: usize, pair: usize) {
        let (headers, qpn) = (self.headers(me), QPNS[pair][1 - me]);
        let count = 1 + input.below(BURST as u8);
        let burst = (1..=count).map(|n| {
            let (opcode, flags) = if n < count { (0, 0) } else { (2, 1) };
            let psn = self.next[pair][me];
            self.next[pair][me] = psn.offset(1);
            packets::request(&mut Input::new(&[opcode, flags]), &headers, qpn, psn).0
        });
        let burst: Vec<_> = burst.collect();
        for frame in &burst {
            self.note(frame);
        }
        self.arrive(me, Side::Lan, burst);
    }

    fn request(&mut self, input: &mut Input<'_>, me: usize, pair: usize, psn: Psn) {
        let qpn = QPNS[pair][1 - me];
        let (frame, count) = packets::request(input, &self.headers(me), qpn, psn);
        let (next, end) = (&mut self.next[pair][me], psn.offset(count));
        if end.distance(*next) > 0 {
            *next = end;
        }
        self.host_sends(me, frame);
    }

    fn host_sends(&mut self, me: usize, frame: Vec<u8>) {
        self.note(&frame);
        self.arrive(me, Side::Lan, vec![frame]);
    }

    /// A frame was sent, if it is RoCEv2.
    fn note(&mut self, frame: &[u8]) {
        if let Ok(roce) = parse(frame) {
            self.sent.insert(roce.payload(frame).to_vec());
        }
    }

    /// Somebody on the link, or a host, who has the key.
    fn forge(&mut self, input: &mut Input<'_>, me: usize, pair: usize) {
        // About a flow towards the other side, or towards this one.
        let (sender, flags) = (usize::from(input.below(2)), input.byte());
        let next = self.next[pair][sender];
        let message = match flags & 3 {
            0..=1 => Message::Status(messages::status(input, next, self.now)),
            2 => Message::Sync(messages::sync(input, next, self.now)),
            _ => Message::Fetch(messages::fetch(input, next)),
        };
        let header = Header {
            node: NodeId(if flags & 0xc0 == 0xc0 { 9 } else { 2 - me as u32 }),
            boot: BootId(self.configs[1 - me].boot.0 + u64::from(flags & 0x38 == 0x38)),
            seq: u64::from(input.word()),
            seen_boot: self.configs[me].boot,
            dest_qpn: QPNS[pair][1 - sender],
            epoch: Epoch(1 + u32::from(flags >> 2 & 1)),
        };
        let headers = match message {
            Message::Status(_) => self.headers(sender).reversed(),
            _ => self.headers(sender),
        };
        let keys = Keys::unkeyed_lab();
        let frame = crate::control::frame(&headers, Qpn::GSI, &header, &message, &keys);
        let side = if flags & 0x07 == 0x07 { Side::Lan } else { Side::Wan };
        self.arrive(me, side, vec![frame]);
    }

    /// Up to `count` frames reach switch `to` over the link, in one burst.
    fn deliver(&mut self, to: usize, count: usize) {
        let count = count.min(self.link[to].len());
        let burst = self.link[to].drain(..count).collect();
        self.arrive(to, Side::Wan, burst);
    }

    /// The link towards `to` impairs a frame.
    fn disturb(&mut self, input: &mut Input<'_>, to: usize) {
        let link = &mut self.link[to];
        let Some(at) = link.len().checked_sub(1).map(|last| last.min(input.below(16).into()))
        else {
            return;
        };
        match input.below(4) {
            0 => drop(link.remove(at)),
            1 => link.swap(0, at),
            2 => link.push_back(link[at].clone()),
            _ if parse(&link[at]).is_err() => {}
            _ => {
                let frame = packets::damaged(link[at].clone());
                link[at] = frame.clone();
                self.note(&frame);
            }
        }
    }

    fn arrive(&mut self, me: usize, side: Side, frames: Vec<Vec<u8>>) {
        let sent = self.switches[me].burst::<BURST>(side, &frames, self.now, &mut self.pool);
        if let [bytes] = &frames[..]
            && let Err(error) = parse(bytes)
        {
            let through = Sent { side: side.other(), class: Class::Data, bytes: bytes.clone() };
            // A MAC control frame is for the port itself (R-PASS-5).
            let expected = if error == NotRoce::MacControl { vec![] } else { vec![through] };
            assert_eq!(sent, expected, "not a wire to what it doesn't know");
        }
        self.emit(me, sent);
    }

    /// Checks frames that switch `me` transmitted, and puts them on the link or gives them to
    /// the host, who takes it silently.
    fn emit(&mut self, me: usize, sent: Vec<Sent>) {
        for Sent { side, bytes, .. } in sent {
            let Ok(roce) = parse(&bytes) else {
                if side == Side::Wan {
                    self.link[1 - me].push_back(bytes);
                }
                continue;
            };
            if control::is_ours(&bytes, &roce, DEFAULT_OPCODE) {
                assert_eq!(side, Side::Wan, "a host hears the gateways: {roce:?}");
                assert!(icrc_ok(&bytes, &roce));
            } else if roce.opcode.transport() == Transport::Rc && roce.payload_len() > 0 {
                assert!(self.sent.contains(roce.payload(&bytes)), "nobody sent {roce:?}");
            }
            if side == Side::Wan {
                self.link[1 - me].push_back(bytes);
            }
        }
    }

    fn restart(&mut self, me: usize) {
        self.configs[me].boot.0 += 1;
        self.switches[me] = Twins::new(&self.configs[me]);
    }

    fn drain(&mut self, me: usize) {
        let sent = self.switches[me].drain(self.now, &mut self.pool);
        self.emit(me, sent);
        assert_eq!(self.switches[me].held(), 0, "held after it drained");
    }

    fn housekeeping(&mut self) {
        for me in 0..2 {
            let sent = self.switches[me].housekeeping(self.now, &mut self.pool);
            self.emit(me, sent);
        }
    }

    fn pass_time(&mut self, span: Span) {
        self.now += span;
    }

    /// Runs the timers that are due.
    fn timers(&mut self) {
        for me in 0..2 {
            if self.switches[me].next_deadline() <= self.now {
                let sent = self.switches[me].timers(self.now, &mut self.pool);
                self.emit(me, sent);
            }
            let next = self.switches[me].next_deadline();
            assert!(next > self.now, "a timer stays due: {next:?} at {:?}", self.now);
        }
    }

    /// Nothing comes any more: both fall silent, and release everything.
    fn end(&mut self) {
        self.link = Default::default();
        self.timers();
        for fired in 0.. {
            let next = self.switches.iter().map(Twins::next_deadline).min();
            let Some(next) = next.filter(|next| *next != Time::NEVER) else { break };
            assert!(fired < UNTIL_SILENT, "no end of timers");
            self.now = self.now.max(next);
            self.timers();
        }
        for me in 0..2 {
            self.drain(me);
        }
        self.pass_time(Span::from_millis(10_000));
        self.housekeeping();
        self.timers();
        assert!(self.switches.iter().all(|switch| switch.held() == 0));
    }
}
