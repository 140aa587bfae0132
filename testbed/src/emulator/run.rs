//! The polling loop of `lr2-wan`.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use common::time::Time;
use dpdk_sys_wrapper::{Clock, Eal, Mempool, PoolHandle, Port};

use super::link::{LinkOptions, frames_on_their_way};
use super::options::Options;
use super::report::{self, Named, Punctuality, Report, Snapshot};
use super::way::Way;
use crate::idle::Idle;
use crate::live::Live;
use crate::reconnect::Reconnect;
use crate::signals;
use link::{Direction, DirectionConfig};

/// mbufs that no copy may take, so that reception never starves.
const RESERVE: u32 = 512;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// In one line, why it can't run.
pub fn run(options: &Options) -> Result<()> {
    let configs = options.directions().map_err(|e| anyhow!("{e}"))?;
    let names: Arc<[String]> = options.links().map(|link| link.name.clone()).collect();
    let stop = signals::stop_flag()?;
    let mbufs = options.mbufs(&configs);
    let devices: Vec<&str> =
        options.links().flat_map(|link| [link.a.as_str(), link.b.as_str()]).collect();
    let eal = options.dpdk.start("lr2-wan", &devices, mbufs)?;
    let pool = options.dpdk.pool(&eal, "frames", mbufs)?;
    let clock = eal.clock();
    let start = clock.now();
    let mut links = Vec::new();
    for (given, config) in options.links().zip(configs) {
        let number = links.len() as u64;
        links.push(Link::open(given, config, number, options, &eal, &pool, start)?);
    }
    let snapshot = |links: &[Link], now: Time, at_end| Snapshot {
        elapsed_s: now.since(start).as_secs_f64(),
        links: Named {
            names: Arc::clone(&names),
            links: links.iter().map(|link| link.report(at_end)).collect(),
        },
    };

    let mut copies = PoolHandle::new(&pool, RESERVE);
    let mut live = Live::new(options.live, start);
    let idle = Idle::new(options.idle);
    signals::ready("lr2-wan");
    while !stop.is_raised() {
        let now = clock.now();
        let mut worked = false;
        for link in &mut links {
            worked |= link.poll(&clock, &mut copies);
        }
        if live.is_due(now) {
            live.send(now, snapshot(&links, now, false));
        }
        if !worked {
            idle.wait(now, links.iter().map(Link::next_due).min().unwrap_or(Time::NEVER));
        }
    }

    if let Some(file) = &options.json {
        let snapshot = snapshot(&links, clock.now(), true);
        crate::report::write(file, &Report { program: "lr2-wan", seed: options.seed, snapshot })?;
    }
    Ok(())
}

/// Two ports and both directions between them. Its queues go before its ports.
struct Link {
    ways: [Way; 2],
    punctuality: Punctuality,
    ports: [(Port, Reconnect); 2],
}

impl Link {
    /// Link number `number` of the program.
    fn open(
        given: &LinkOptions,
        [ab, ba]: [DirectionConfig; 2],
        number: u64,
        options: &Options,
        eal: &Eal,
        pool: &Mempool,
        start: Time,
    ) -> Result<Self> {
        let (port_a, rx_a, tx_a) = options.dpdk.open(eal, &given.a, pool)?;
        let (port_b, rx_b, tx_b) = options.dpdk.open(eal, &given.b, pool)?;
        let direction = |config: DirectionConfig, number| {
            let frames = usize::try_from(frames_on_their_way(&config)).unwrap_or(0);
            Direction::new(config, options.seed, number, start, frames)
                .map_err(|e| anyhow!("{e:?}"))
        };
        Ok(Self {
            ways: [
                Way::new(rx_a, tx_b, direction(ab, 2 * number)?, start, given.patience),
                Way::new(rx_b, tx_a, direction(ba, 2 * number + 1)?, start, given.patience),
            ],
            punctuality: Punctuality::default(),
            ports: [(port_a, &given.a), (port_b, &given.b)].map(|(port, device)| {
                let reconnect = Reconnect::new(&port, device);
                (port, reconnect)
            }),
        })
    }

    /// One turn for both directions. Returns whether there was anything to do.
    fn poll(&mut self, clock: &Clock, copies: &mut PoolHandle) -> bool {
        let now = clock.now();
        let [ab, ba] = &mut self.ways;
        let [(a, tend_a), (b, tend_b)] = &mut self.ports;
        let is_a = tend_a.tend(now, a, &mut ab.rx, &mut ba.tx);
        // A link with one end carries nothing.
        if !(tend_b.tend(now, b, &mut ba.rx, &mut ab.tx) && is_a) {
            return false;
        }
        let mut worked = false;
        for way in &mut self.ways {
            worked |= way.take_in(clock, copies, &mut self.punctuality);
            worked |= way.forward_due(clock, &mut self.punctuality);
        }
        worked
    }

    fn next_due(&self) -> Time {
        self.ways.iter().map(Way::next_due).min().unwrap_or(Time::NEVER)
    }

    fn report(&self, at_end: bool) -> report::Link {
        let [a_to_b, b_to_a] = self.ways.each_ref().map(|way| *way.counters());
        report::Link { a_to_b, b_to_a, kept: at_end.then(|| self.punctuality.summary()) }
    }
}
