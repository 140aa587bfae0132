//! `--check` opens what a start opens, and closes it again.

use dpdk_sys_wrapper::{Eal, Port};

use super::opening::Opening;
use super::pair::{Pair, Queues};
use super::ports::eal_config;
use super::{named, span};
use crate::config::{Config, Machine, Pairs};
use crate::control::{server, socket};
use crate::cores::{self, Verdict, judge};
use crate::instance::{Instance, Purpose};
use crate::port::PortId;

/// What no trial can find out.
const UNKNOWN: &str = "Not known before frames flow: whether the path carries frames of wan.mtu, whether NICs spread frames \
                       over their queues, and whether the peer is there, with the same key and version: /healthz says so.";

/// Where a port has no link yet.
const UNKNOWN_RATE: &str = "Not known whether the workers are enough: a WAN port has no link yet, and wan.link_rate does not say its rate.";

/// What a trial has found, a line each.
#[derive(Debug, Default)]
pub struct Found {
    /// What was opened.
    pub opened: Vec<String>,
    /// What a start goes without.
    pub warnings: Vec<String>,
}

impl Found {
    /// Notes whether the workers of a pair are enough.
    fn judged(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Enough(line) => self.opened.push(line),
            Verdict::TooFew(line) => self.warnings.push(line),
        }
    }
}

/// Starts DPDK, opens the ports and the address of the API, and closes all again. If a gateway with this configuration
/// runs, nothing is opened.
///
/// # Errors
/// As [`run`](super::run), with every port that can't be opened.
pub fn open(pairs: &Pairs) -> anyhow::Result<Found> {
    let (mut found, config) = (Found::default(), pairs.first());
    let prefix = &config.eal.file_prefix;
    let Some(_instance) = Instance::claim(prefix, Purpose::ForAMoment)? else {
        cores::by_file(pairs).into_iter().for_each(|verdict| found.judged(verdict));
        found.warnings.push(format!(
            "a gateway with eal.file_prefix = \"{prefix}\" runs, so nothing was opened: devices, listeners and free memory were \
             not tried"
        ));
        return Ok(found);
    };
    if let Err(error) = server::bind(config.listen) {
        found.warnings.push(format!("{error:#}; frames would be forwarded all the same"));
    }
    let mut faults = Vec::new();
    // A path that is too long is said by the caller, also while a gateway runs.
    if let Some(path) = config.socket.as_deref().filter(|path| socket::too_long(path).is_none())
        && let Err(error) = socket::try_bind(path, config.group.as_deref())
    {
        faults.push(format!("{error:#}"));
    }
    let eal = Eal::init(&eal_config(pairs))?;
    let machine = Machine::read();
    found.opened.push("Opened, and closed again:".to_owned());
    for config in pairs.iter() {
        let _span = span(config).entered();
        match Opening::default().attempt(&eal, config, &machine) {
            Ok((pair, queues)) => {
                found.opened.extend(opened(&eal, config, &pair, &queues));
                match cores::link_rate(config, &cores::speeds(&pair.ports)) {
                    Some(rate) => {
                        let hz = Some(eal.clock().hertz());
                        found.judged(judge(config, rate, hz).of(config));
                    }
                    None if config.wan.iter().any(|wan| wan.port.is_pci()) => {
                        found.opened.push(named(config, UNKNOWN_RATE));
                    }
                    None => {}
                }
            }
            Err(fault) => faults.push(named(config, &fault.text)),
        }
    }
    if !faults.is_empty() {
        anyhow::bail!("{}", faults.join("; "));
    }
    found.opened.push(UNKNOWN.to_owned());
    Ok(found)
}

/// The ports and the pool of a pair, a line each.
fn opened(eal: &Eal, config: &Config, pair: &Pair, queues: &[Queues]) -> Vec<String> {
    let port = |(id, port): (PortId, &Port)| {
        let has = |queues: &&Queues| queues.rx.get(id.index()).is_some_and(Option::is_some);
        let rx = queues.iter().filter(has).count();
        named(config, &format!("{}, {rx} receive queue(s)", describe(id, port)))
    };
    let memory = if eal.uses_hugepages() { "hugepages" } else { "ordinary pages" };
    let ports = PortId::all(u8::MAX).zip(&pair.ports).map(port);
    ports.chain([named(config, &format!("{} mbufs in {memory}", config.pool.mbufs))]).collect()
}

fn describe(id: PortId, port: &Port) -> String {
    let link = port.link();
    let speed = link.speed_mbps.map(|speed| format!(" at {speed} Mbit/s")).unwrap_or_default();
    let state = if link.up { "up" } else { "not up yet" };
    let mac = port.mac().map(|byte| format!("{byte:02x}")).join(":");
    format!(
        "port {}: {} ({}), MAC {mac}, link {state}{speed}",
        id.name(),
        port.name(),
        port.driver()
    )
}
