//! Prints a configuration as the TOML that it is the effect of.

use std::fmt::{self, Write};

use common::time::Span;
use common::verdict::Tolerance;

use settings::units::{show_duration, show_rate, show_size};

use super::{
    Config, HUGE_PAGES, IDLES, Keying, LANS, LINK_FORWARDS, NOTIFIES, Port, QueuePair, RECOVERIES,
    ROLES, RecoverySettings, SPRAYS, SPREADS, TOLERANCES, TUNNELS, TunnelMode, Wan, word,
};

fn wan(
    f: &mut fmt::Formatter<'_>,
    at: &str,
    c: &Config,
    (wan, is_first): (&Wan, bool),
) -> fmt::Result {
    port(f, &if c.wan.len() > 1 { format!("[{at}wan]") } else { format!("{at}wan") }, &wan.port)?;
    if let Some(rate) = wan.link_rate {
        writeln!(f, "link_rate = {}", quoted(&show_rate(rate)))?;
    }
    if is_first {
        writeln!(f, "tunnel = {}", quoted(word(TUNNELS, &c.tunnel.mode)))?;
        writeln!(f, "tunnel_ethertype = {:#06x}", c.tunnel.ethertype)?;
        writeln!(f, "tunnel_port = {}", c.tunnel.port)?;
        writeln!(f, "tunnels = {}", c.tunnel.tunnels)?;
        writeln!(f, "lanes = {}", c.tunnel.lanes)?;
        writeln!(f, "spray = {}", quoted(word(SPRAYS, &c.tunnel.spray)))?;
        writeln!(f, "resend_copies = {}", c.tunnel.resend_copies)?;
    }
    if let Some(udp) = &wan.udp {
        writeln!(f, "address = {}", quoted(&udp.address.to_string()))?;
        if let Some(gateway) = udp.gateway {
            writeln!(f, "gateway = {}", quoted(&gateway.to_string()))?;
        }
        writeln!(f, "peer = {}", quoted(&udp.peer.to_string()))?;
        if let Some(dscp) = udp.dscp {
            writeln!(f, "dscp = {dscp}")?;
        }
        if let Some(vlan) = udp.vlan {
            writeln!(f, "vlan = {vlan}")?;
        }
    }
    Ok(())
}

/// A pair of ports as if it were alone.
pub(super) fn write(c: &Config, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "role = {}", quoted(word(ROLES, &c.role)))?;
    ports(f, "", c)?;
    eal(f, c)?;
    writeln!(f, "cores = {:?}", c.eal.cores)?;
    worker(f, "", c)?;
    peer(f, c)?;
    repair(f, "", c)?;
    queue_pairs(f, c)?;
    pool(f, "", c)?;
    process(f, c)
}

/// Several pairs: what all have in common, then each.
pub(super) fn write_pairs(all: &[Config], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(c) = all.first() else { return Ok(()) };
    writeln!(f, "role = {}", quoted(word(ROLES, &c.role)))?;
    eal(f, c)?;
    peer(f, c)?;
    queue_pairs(f, c)?;
    process(f, c)?;
    for c in all {
        writeln!(f, "\n[[pair]]")?;
        writeln!(f, "name = {}", quoted(&c.pair.name))?;
        writeln!(f, "cores = {:?}", c.eal.cores)?;
        let at = "pair.";
        ports(f, at, c)?;
        worker(f, at, c)?;
        repair(f, at, c)?;
        pool(f, at, c)?;
    }
    Ok(())
}

fn ports(f: &mut fmt::Formatter<'_>, at: &str, c: &Config) -> fmt::Result {
    port(f, &format!("{at}lan"), &c.lan)?;
    c.wan.iter().enumerate().try_for_each(|(n, wan)| self::wan(f, at, c, (wan, n == 0)))
}

fn eal(f: &mut fmt::Formatter<'_>, c: &Config) -> fmt::Result {
    writeln!(f, "\n[eal]")?;
    writeln!(f, "huge_pages = {}", quoted(word(HUGE_PAGES, &c.eal.huge_pages)))?;
    writeln!(f, "memory = {}", quoted(&show_size(c.eal.memory)))?;
    writeln!(f, "file_prefix = {}", quoted(&c.eal.file_prefix))?;
    let extra: Vec<_> = c.eal.extra.iter().map(|a| quoted(a)).collect();
    writeln!(f, "extra = [{}]", extra.join(", "))
}

fn worker(f: &mut fmt::Formatter<'_>, at: &str, c: &Config) -> fmt::Result {
    writeln!(f, "\n[{at}worker]")?;
    writeln!(f, "count = {}", c.worker.count)?;
    writeln!(f, "spread = {}", quoted(word(SPREADS, &c.worker.spread)))?;
    writeln!(f, "idle = {}", quoted(word(IDLES, &c.worker.idle)))?;
    writeln!(f, "burst = {}", c.worker.burst)?;
    writeln!(f, "max_flows = {}", c.worker.max_flows)
}

fn peer(f: &mut fmt::Formatter<'_>, c: &Config) -> fmt::Result {
    writeln!(f, "\n[peer]")?;
    match &c.peer.keying {
        Keying::Shared { file, previous, .. } => {
            writeln!(f, "key_file = {}", quoted(&file.to_string_lossy()))?;
            if let Some((file, _)) = previous {
                writeln!(f, "previous_key_file = {}", quoted(&file.to_string_lossy()))?;
            }
        }
        Keying::LabUnkeyed => writeln!(f, "lab_unkeyed = true")?,
    }
    writeln!(f, "control_opcode = {:#04x}", c.peer.control_opcode)?;
    writeln!(f, "boot_file = {}", quoted(&c.peer.boot_file.to_string_lossy()))?;
    writeln!(f, "node = {}", c.peer.node)?;
    let prefixes: Vec<_> =
        c.peer.remote_prefixes.iter().map(|net| quoted(&net.to_string())).collect();
    writeln!(f, "remote_prefixes = [{}]", prefixes.join(", "))
}

/// Link-loss forwarding, recovery, congestion.
fn repair(f: &mut fmt::Formatter<'_>, at: &str, c: &Config) -> fmt::Result {
    writeln!(f, "\n[{at}link_loss]")?;
    writeln!(f, "forward = {}", quoted(word(LINK_FORWARDS, &c.link_loss.forward)))?;
    writeln!(f, "hold_down = {}", quoted(&show_duration(c.link_loss.hold_down)))?;
    recovery(f, at, &c.recovery, c.tunnel.mode != TunnelMode::Off)?;
    writeln!(f, "\n[{at}congestion]")?;
    writeln!(f, "cnp = {}", quoted(word(NOTIFIES, &c.congestion.cnp)))?;
    writeln!(f, "cnp_interval = {}", quoted(&show_duration(c.congestion.cnp_interval)))
}

fn queue_pairs(f: &mut fmt::Formatter<'_>, c: &Config) -> fmt::Result {
    for QueuePair { vlans, ends: [a, b] } in &c.queue_pairs {
        writeln!(f, "\n[[queue_pair]]")?;
        for (name, end) in [("a", a), ("b", b)] {
            writeln!(f, "{name} = {}", quoted(&end.addr.to_string()))?;
            writeln!(f, "{name}_qpn = {}", end.qpn)?;
        }
        writeln!(f, "vlans = {:?}", vlans)?;
    }
    Ok(())
}

fn pool(f: &mut fmt::Formatter<'_>, at: &str, c: &Config) -> fmt::Result {
    writeln!(f, "\n[{at}pool]")?;
    writeln!(f, "mbufs = {}", c.pool.mbufs)?;
    writeln!(f, "data_room = {}", c.pool.data_room)
}

/// The API, and the end.
fn process(f: &mut fmt::Formatter<'_>, c: &Config) -> fmt::Result {
    writeln!(f, "\n[control]")?;
    writeln!(f, "listen = {}", quoted(&c.listen.to_string()))?;
    if let Some(socket) = &c.socket {
        writeln!(f, "socket = {}", quoted(&socket.to_string_lossy()))?;
    }
    if let Some(group) = &c.group {
        writeln!(f, "group = {}", quoted(group))?;
    }
    writeln!(f, "records = {}", c.records)?;

    writeln!(f, "\n[shutdown]")?;
    writeln!(f, "drain_timeout = {}", quoted(&show_duration(c.drain_timeout)))
}

fn port(f: &mut fmt::Formatter<'_>, name: &str, port: &Port) -> fmt::Result {
    writeln!(f, "\n[{name}]")?;
    writeln!(f, "device = {}", quoted(&port.device))?;
    writeln!(f, "mtu = {}", port.mtu)?;
    writeln!(f, "rx_desc = {}", port.rx_desc)?;
    writeln!(f, "tx_desc = {}", port.tx_desc)?;
    writeln!(f, "promiscuous = {}", port.promiscuous)
}

fn recovery(
    f: &mut fmt::Formatter<'_>,
    at: &str,
    r: &RecoverySettings,
    has_tunnel: bool,
) -> fmt::Result {
    writeln!(f, "\n[{at}recovery]")?;
    writeln!(f, "mode = {}", quoted(word(RECOVERIES, &r.mode)))?;
    if has_tunnel {
        writeln!(f, "lan = {}", quoted(word(LANS, &r.lan)))?;
    }
    writeln!(f, "resend_cache = {}", quoted(&show_size(r.pools.resend_cache)))?;
    writeln!(f, "reorder_pool = {}", quoted(&show_size(r.pools.reorder_pool)))?;
    writeln!(f, "backup_pool = {}", quoted(&show_size(r.pools.backup_pool)))?;
    writeln!(f, "local_retries = {}", r.local_retries)?;
    writeln!(f, "pacing = {}", r.pacing)?;
    writeln!(f, "rtt_guess = {}", quoted(&show_duration(r.tuning.rtt_guess)))?;
    let mut timer = |name, value: Option<Span>| match value {
        Some(span) => writeln!(f, "{name} = {}", quoted(&show_duration(span))),
        None => writeln!(f, "# {name}: derived from the measured round trip"),
    };
    timer("tail_timeout", r.tuning.tail_timeout)?;
    timer("status_interval", r.tuning.status_interval)?;
    timer("peer_timeout", r.tuning.peer_timeout)?;
    timer("give_up", r.tuning.give_up)?;
    timer("t_out", r.tuning.t_out)?;
    writeln!(f, "t_out_min = {}", quoted(&show_duration(r.tuning.t_out_min)))?;
    let Tolerance { mode, limits } = r.tuning.tolerance;
    writeln!(f, "tolerance = {}", quoted(word(TOLERANCES, &mode)))?;
    writeln!(f, "tolerance_depth = {}", limits.depth)?;
    writeln!(f, "tolerance_wait = {}", quoted(&show_duration(limits.loss_wait)))?;
    writeln!(f, "tolerance_stall = {}", quoted(&show_duration(limits.stall)))
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
