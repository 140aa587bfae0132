//! The polling loop of `lr2-wan`.

use anyhow::{Result, anyhow};
use arrayvec::ArrayVec;
use common::frame::{Packet, Pool};
use common::time::{Span, Time};
use dpdk_sys_wrapper::{Clock, Mbuf, PoolHandle, RxQueue, TxQueue};

use super::options::{Options, frames_on_their_way};
use super::report::{Punctuality, Report, Snapshot};
use crate::dpdk::BURST;
use crate::idle::Idle;
use crate::live::Live;
use crate::wan::{Direction, DirectionConfig, Receipt};
use crate::{report, signals};

/// Frames taken from a port before anything else gets its turn. They are
/// thought to have arrived evenly since the last poll, so it is as many as can
/// arrive while the program is without a CPU for some milliseconds.
const INTAKE: usize = 256;

/// How long a port at the far end may refuse frames. Less than the time for
/// which rings of either program take frames, more than a scheduler's slice.
const PATIENCE: Span = Span::from_millis(20);

/// mbufs that no copy may take, so that reception never starves.
const RESERVE: u32 = 512;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from running, in one line.
pub fn run(options: &Options) -> Result<()> {
    let [ab, ba] = options.directions().map_err(|e| anyhow!("{e}"))?;
    let stop = signals::stop_flag()?;
    let dpdk = &options.dpdk;
    let mbufs = options.mbufs(&[&ab, &ba]);
    let eal = dpdk.start("lr2-wan", &[&options.a, &options.b], mbufs)?;
    let pool = dpdk.pool(&eal, "frames", mbufs)?;
    let (_port_a, rx_a, tx_a) = dpdk.open(&eal, &options.a, &pool)?;
    let (_port_b, rx_b, tx_b) = dpdk.open(&eal, &options.b, &pool)?;

    let clock = Clock::tsc(&eal);
    let start = clock.now();
    let direction = |config: DirectionConfig, number| {
        let frames = usize::try_from(frames_on_their_way(&config)).unwrap_or(0);
        Direction::new(config, options.seed, number, start, frames).map_err(|e| anyhow!("{e:?}"))
    };
    let mut ways = [
        Way::new(rx_a, tx_b, direction(ab, 0)?, start),
        Way::new(rx_b, tx_a, direction(ba, 1)?, start),
    ];
    let mut copies = PoolHandle::new(&pool, RESERVE);
    let mut punctuality = Punctuality::default();
    let mut live = Live::new(options.live, start);
    let idle = Idle::new(options.idle);
    signals::ready("lr2-wan");

    while !stop.is_raised() {
        let now = clock.now();
        let mut worked = false;
        for way in &mut ways {
            worked |= way.take_in(&clock, &mut copies, &mut punctuality);
            worked |= way.hand_on(&clock, &mut punctuality);
        }
        if live.is_due(now) {
            live.send(now, snapshot(&ways, now.since(start)));
        }
        if !worked {
            idle.wait(now, ways.iter().map(Way::next_due).min().unwrap_or(Time::NEVER));
        }
    }

    if let Some(file) = &options.json {
        report::write(
            file,
            &Report {
                program: "lr2-wan",
                seed: options.seed,
                snapshot: snapshot(&ways, clock.now().since(start)),
                lateness_us: punctuality.lateness.summary(),
                poll_gap_us: punctuality.poll_gap.summary(),
            },
        )?;
    }
    Ok(())
}

fn snapshot(ways: &[Way; 2], elapsed: Span) -> Snapshot {
    Snapshot {
        elapsed_s: elapsed.as_secs_f64(),
        a_to_b: *ways[0].direction.counters(),
        b_to_a: *ways[1].direction.counters(),
    }
}

/// One direction: from a port through the engine to the other port.
struct Way {
    rx: RxQueue,
    tx: TxQueue,
    direction: Direction<Mbuf>,
    intake: ArrayVec<Mbuf, INTAKE>,
    last_poll: Time,
    /// Due and not yet taken by the port, and what is owed for them.
    outgoing: ArrayVec<Packet<Mbuf>, BURST>,
    receipts: ArrayVec<Receipt, BURST>,
    /// Since when the port has not taken anything offered to it.
    refusing_since: Option<Time>,
}

impl Way {
    fn new(rx: RxQueue, tx: TxQueue, direction: Direction<Mbuf>, now: Time) -> Self {
        Self {
            rx,
            tx,
            direction,
            intake: ArrayVec::new(),
            last_poll: now,
            outgoing: ArrayVec::new(),
            receipts: ArrayVec::new(),
            refusing_since: None,
        }
    }

    /// Takes all that has arrived since the last poll. Returns whether there
    /// was anything.
    ///
    /// A port doesn't tell when a frame arrived. With all stamped `now`, a
    /// line would seem to have been idle while this program was not looking,
    /// and carry less than its rate; evenly spread stamps are wrong by no more
    /// than the gap, and right on average.
    fn take_in<P: Pool<Frame = Mbuf>>(
        &mut self,
        clock: &Clock,
        copies: &mut P,
        punctuality: &mut Punctuality,
    ) -> bool {
        while self.intake.remaining_capacity() >= BURST {
            let mut burst = ArrayVec::<Mbuf, BURST>::new();
            let received = self.rx.burst(&mut burst);
            self.intake.extend(burst);
            if received < BURST {
                break;
            }
        }
        // Not before: the program may have lost its CPU since it last looked.
        let now = clock.now();
        let gap = now.since(self.last_poll);
        let frames = self.intake.len() as u64;
        if frames > 0 {
            punctuality.poll_gap.record(gap.as_nanos(), frames);
        }
        for (n, frame) in self.intake.drain(..).enumerate() {
            let arrived = self.last_poll + gap.scale(n as u64 + 1, frames);
            self.direction.offer(frame, arrived, now, copies);
        }
        self.last_poll = now;
        frames > 0
    }

    /// Sends what is due. Returns whether there was anything.
    fn hand_on(&mut self, clock: &Clock, punctuality: &mut Punctuality) -> bool {
        let now = clock.now();
        let mut worked = false;
        loop {
            while !self.outgoing.is_full()
                && let Some((frame, receipt)) = self.direction.pop_due(now)
            {
                self.outgoing.push(Packet::Owned(frame));
                self.receipts.push(receipt);
            }
            if self.outgoing.is_empty() {
                return worked;
            }
            let sent = self.tx.burst(&mut self.outgoing);
            let done = clock.now();
            for receipt in self.receipts.drain(..sent) {
                punctuality.lateness.record(done.since(receipt.due).as_nanos(), 1);
                self.direction.delivered(receipt);
            }
            if !self.outgoing.is_empty() {
                self.refused(sent, now);
                return worked || sent > 0;
            }
            self.refusing_since = None;
            worked = true;
        }
    }

    /// The port took `sent` frames and left some. They are offered again until
    /// it has taken none for too long: then they are lost, like all that
    /// follow until it takes one.
    fn refused(&mut self, sent: usize, now: Time) {
        let since = *self.refusing_since.get_or_insert(now);
        if sent > 0 {
            self.refusing_since = Some(now);
        } else if now.since(since) >= PATIENCE {
            self.outgoing.clear();
            for receipt in self.receipts.drain(..) {
                self.direction.refused(receipt);
            }
        }
    }

    fn next_due(&self) -> Time {
        // Offering again what was refused has no time; the longest nap will do.
        if self.outgoing.is_empty() { self.direction.next_due() } else { Time::NEVER }
    }
}
