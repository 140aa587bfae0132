//! `--check` opens what a start opens, and closes it again.

use dpdk_sys_wrapper::Port;

use super::Machine;
use crate::config::Config;
use crate::control::server;
use crate::instance::Instance;
use crate::port::PortId;

/// What no trial can find out.
const UNKNOWN: &str = "Not known before frames flow: whether the path carries frames of wan.mtu, whether NICs spread frames \
                       over their queues, and whether the peer is there, with the same key and version: /healthz says so.";

/// What a trial has found, a line each.
#[derive(Debug, Default)]
pub struct Found {
    /// What was opened.
    pub opened: Vec<String>,
    /// What a start goes without.
    pub warnings: Vec<String>,
}

/// Starts DPDK, opens the ports and the address of the API, and closes all again. If a gateway with this configuration
/// runs, nothing is opened.
///
/// # Errors
/// As [`run`](super::run), with every port that can't be opened.
pub fn open(config: &Config) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let prefix = &config.eal.file_prefix;
    let Some(_instance) = Instance::claim(prefix)? else {
        found.warnings.push(format!(
            "a gateway with eal.file_prefix = \"{prefix}\" runs, so nothing was opened: devices, listeners and free memory were \
             not tried"
        ));
        return Ok(found);
    };
    if let Err(error) = server::bind(config.listen) {
        found.warnings.push(format!("{error:#}; frames would be forwarded all the same"));
    }
    let (machine, queues) = Machine::open(config)?;
    found.opened.push("Opened, and closed again:".to_owned());
    for (id, port) in PortId::all(u8::MAX).zip(&machine.ports) {
        let has = |queues: &&super::Queues| queues.rx.get(id.index()).is_some_and(Option::is_some);
        let rx = queues.iter().filter(has).count();
        found.opened.push(format!("{}, {rx} receive queue(s)", describe(id, port)));
    }
    let memory = if machine.eal.uses_hugepages() { "hugepages" } else { "ordinary pages" };
    found.opened.push(format!("{} mbufs in {memory}", config.pool.mbufs));
    found.opened.push(UNKNOWN.to_owned());
    Ok(found)
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
