//! The part that each worker, or each tunnel, has of the configured limits.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use common::control::{BootId, Keys, NodeId};
use common::ids::WorkerId;
use common::time::Span;
use common::wire::{MacAddr, Opcode};
use datapath::{Owners, Settings, Which};
use tunnel::encapsulation::{Encapsulation, Udp, UdpConfig, source_ports};
use tunnel::session::SessionConfig;
use tunnel::{Division, LansRepaired, Part, ReceiverConfig, SenderConfig, Tuning, report_interval};

use crate::boot::{self, Boot};
use crate::config::{Config, Keying, LanMode, TunnelMode, Wan};

/// The boot id of this start, which is kept on disk, and why it may not be, if so.
///
/// # Errors
/// If the system clock can't be right.
pub fn boot(config: &Config) -> anyhow::Result<Boot> {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the system clock is before 1970; peers take this box for a stale one")?;
    Ok(boot::next(&config.peer.boot_file, u64::try_from(since_epoch.as_nanos())?))
}

/// The switch that repairs the LANs beside a tunnel, and for which packets; `None` if it is off.
pub fn lan_repair(config: &Config, boot: BootId, part: Part) -> Option<(switch::Config, Which)> {
    let which = match config.recovery.lan {
        LanMode::Off => return None,
        LanMode::On => Which::All,
        LanMode::Auto => Which::AfterNak,
    };
    let switch = switch_config(config, boot, WorkerId(part.index().into()));
    let reorder_pool_frames = lan_reorder_frames(config);
    Some((switch::Config { reorder_pool_frames, ..switch }, which))
}

/// The repair of the LANs has a quarter of the reordering pool: it holds packets where a LAN is congested, the
/// tunnel where the long haul loses.
fn lan_reorder_frames(config: &Config) -> u64 {
    match config.recovery.lan {
        LanMode::Off => 0,
        LanMode::On | LanMode::Auto => config.pool_frames_of_part().reorder_pool / 4,
    }
}

/// The configuration of the switch of worker or tunnel `n`. All have the same boot id.
pub fn switch_config(config: &Config, boot: BootId, n: WorkerId) -> switch::Config {
    let recovery = &config.recovery;
    let frames = config.pool_frames_of_part();
    let max_flows = config.worker.max_flows.div_ceil(config.parts().into());
    switch::Config {
        role: config.role,
        recovery: recovery.mode,
        node: node(config.peer.node, n),
        boot,
        keys: keys(config),
        control_opcode: Opcode(config.peer.control_opcode),
        hash_seed: random(),
        max_flows: max_flows as usize,
        // An eighth is for others.
        max_flows_of_hosts: (max_flows - max_flows / 8) as usize,
        reorder_pool_frames: frames.reorder_pool,
        resend_cache_frames: frames.resend_cache,
        backup_pool_frames: frames.backup_pool,
        local_retries: recovery.local_retries,
        pacing: recovery.pacing,
        cnp_interval: cnp_interval(config),
        remote_prefixes: config.peer.remote_prefixes.clone(),
        queue_pairs: config.queue_pairs.clone(),
        flow_idle: FLOW_IDLE,
        records: config.records as usize,
        tuning: recovery.tuning,
    }
}

fn cnp_interval(config: &Config) -> Option<Span> {
    config.congestion.cnp.then_some(config.congestion.cnp_interval)
}

/// What can be changed of each worker's switch, or of each tunnel and of the repair of the LANs beside it, while it works.
pub fn settings(config: &Config) -> Settings {
    let mut pools = config.pool_frames_of_part();
    if config.tunnel.mode != TunnelMode::Off {
        pools.reorder_pool = lan_reorder_frames(config);
    }
    let switch = switch::Settings {
        recovery: config.recovery.mode,
        tuning: config.recovery.tuning,
        pools,
        cnp_interval: cnp_interval(config),
    };
    Settings { switch, tunnel: tuning(config) }
}

/// Timers and pools of each tunnel.
fn tuning(config: &Config) -> Tuning {
    let (frames, tuning) = (config.pool_frames_of_part(), &config.recovery.tuning);
    Tuning {
        rtt: tuning.rtt_guess,
        spray: config.tunnel.spray,
        resend_copies: config.tunnel.resend_copies,
        cache_max: frames.resend_cache as usize,
        waiting_max: (frames.reorder_pool - lan_reorder_frames(config)) as usize,
        give_up: tuning.give_up.unwrap_or(GIVE_UP),
        report_interval: report_interval(tuning.rtt_guess),
        tolerance: tuning.tolerance,
    }
}

/// How flows are divided into tunnels.
pub fn division(config: &Config) -> Division {
    // The configuration has been checked.
    Division::new(config.tunnel.tunnels, config.worker.spread).unwrap_or(Division::NONE)
}

/// Which worker a frame belongs to, of a box whose WAN ports have the addresses `macs`.
pub fn owners(config: &Config, macs: &[MacAddr]) -> Owners {
    match config.tunnel.mode {
        TunnelMode::Off => Owners::Pairs(config.worker.spread),
        TunnelMode::Ethernet | TunnelMode::Udp => {
            Owners::Tunnels(division(config), encapsulations(config, macs, Part::WHOLE))
        }
    }
}

/// How WAN ports with the addresses `macs` carry the frames of a tunnel.
fn encapsulations(config: &Config, macs: &[MacAddr], part: Part) -> Vec<Encapsulation> {
    let port = config.tunnel.port;
    let encapsulation = |(wan, mac): (&Wan, &MacAddr)| match wan.udp() {
        None => Encapsulation::Ethernet { ethertype: config.tunnel.ethertype, mac: *mac },
        Some(udp) => Encapsulation::Udp(Udp::new(&UdpConfig {
            mac: *mac,
            address: udp.address.addr(),
            peer: udp.peer,
            port,
            source_ports: source_ports(part, udp.address.addr(), udp.peer, port, config.lanes()),
            dscp: udp.dscp,
            vlan: udp.vlan,
        })),
    };
    config.wan.iter().zip(macs).map(encapsulation).collect()
}

/// The configuration of an end of a tunnel on WAN ports with the addresses `macs`.
pub fn tunnel_config(
    config: &Config,
    boot: BootId,
    macs: &[MacAddr],
    part: Part,
) -> tunnel::Config {
    let (tuning, lanes) = (tuning(config), config.lanes());
    let count = u8::try_from(config.wan.len()).unwrap_or(u8::MAX);
    let ports = encapsulations(config, macs, part);
    tunnel::Config {
        session: SessionConfig {
            node: config.peer.node,
            boot,
            random: random(),
            part,
            lanes,
            ports: count,
            // VLAN tags of the LAN lie behind the shim.
            frame_max: config.wan_mtu() + ETHER_LEN,
            overhead: ports.first().map_or(0, |port| port.shim_at() - port.tag_len()) as u16,
            lans: match config.recovery.lan {
                LanMode::Off => LansRepaired::Off,
                LanMode::On => LansRepaired::On,
                LanMode::Auto => LansRepaired::Auto,
            },
            hello_interval: HELLO_INTERVAL,
            peer_timeout: PEER_TIMEOUT,
        },
        ports,
        sender: SenderConfig {
            lanes,
            rtt: tuning.rtt,
            cache_max: tuning.cache_max,
            give_up: tuning.give_up,
            ports: count,
            spray: config.tunnel.spray,
            resend_copies: config.tunnel.resend_copies,
        },
        receiver: ReceiverConfig {
            lanes,
            window: WINDOW,
            waiting_max: tuning.waiting_max,
            // A reload may give the reordering pool the memory of all pools.
            waiting_room: (config.pool.holdable() / u32::from(config.parts())) as usize,
            give_up: tuning.give_up,
            report_interval: tuning.report_interval,
            tolerance: tuning.tolerance,
            report_at_once: REPORT_AT_ONCE,
            is_paced: true,
        },
        keys: keys(config),
        records: config.records as usize,
    }
}

/// Random bits. The standard library seeds its hash maps from the OS.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The keys of control messages.
pub fn keys(config: &Config) -> Keys {
    match &config.peer.keying {
        Keying::Shared { current, previous, .. } => {
            let keys = Keys::from_secret(current.bytes());
            match previous {
                Some(previous) => keys.also_accepting(previous.bytes()),
                None => keys,
            }
        }
        Keying::LabUnkeyed => Keys::unkeyed_lab(),
    }
}

/// The name of the switch of worker or tunnel `n` towards its peers. Each has a sequence of control
/// messages of its own, so each is a box of its own to them; the first has the
/// name that the configuration says. The factor is odd: no two are the same,
/// and those of two boxes are far apart unless the boxes' are.
const fn node(of_box: NodeId, n: WorkerId) -> NodeId {
    NodeId(of_box.0.wrapping_add((n.0 as u32).wrapping_mul(0x9e37_79b9)))
}

/// Bytes of an Ethernet header.
const ETHER_LEN: u16 = 14;
/// Time between two HELLOs of the tunnel.
const HELLO_INTERVAL: Span = Span::from_millis(500);
/// Silence of the peer after which frames cross as they are.
const PEER_TIMEOUT: Span = Span::from_millis(2_000);
/// How far the numbers of a lane may jump.
const WINDOW: u64 = 1 << 20;
/// Time after which a missing frame is given up, unless configured.
const GIVE_UP: Span = Span::from_millis(400);
/// Least time between two REPORTs of missing frames.
const REPORT_AT_ONCE: Span = Span::from_micros(20);

/// Silence after which a flow's entry ages.
const FLOW_IDLE: Span = Span::from_millis(60_000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{good, lab};

    #[test]
    fn workers_share_evenly_and_have_names_of_their_own() {
        let more = "node = 7\n[eal]\nmemory = \"2GiB\"\n[worker]\ncount = 4\nmax_flows = 1000\n";
        let config = good(&lab(more));
        let all: Vec<_> = (0..4).map(|n| switch_config(&config, BootId(1), WorkerId(n))).collect();
        assert_eq!(all[0].node.0, 7);
        let nodes: std::collections::BTreeSet<_> = all.iter().map(|switch| switch.node).collect();
        assert_eq!(nodes.len(), 4);
        for switch in &all {
            assert_eq!(switch.max_flows, 250);
            assert_eq!(switch.resend_cache_frames, (16 << 20) / 4096);
        }
        let frames = |f: fn(&switch::Config) -> u64| all.iter().map(f).sum::<u64>();
        let held = frames(|c| c.resend_cache_frames + c.reorder_pool_frames + c.backup_pool_frames);
        assert!(held <= u64::from(config.pool.holdable()), "{held}");
    }

    /// R-TUN-44
    #[test]
    fn tunnels_share_evenly_and_repair_the_lans_under_names_of_their_own() {
        let more = "node = 7\n[eal]\nmemory = \"2GiB\"\n[worker]\ncount = 3\nmax_flows = 1000\n";
        let text = lab(more).replace("net_null1\"\n", "net_null1\"\ntunnel = \"ethernet\"\n");
        let config = good(&text);
        let (mut held, mut nodes, mut sessions) = (0, Vec::new(), Vec::new());
        for part in division(&config).parts() {
            let end = tunnel_config(&config, BootId(1), &[[2; 6]], part);
            assert_eq!((end.session.part, end.session.node.0), (part, 7));
            sessions.push(end.session.random);
            let (lan, _) = lan_repair(&config, BootId(1), part).expect("by default");
            assert_eq!(lan.max_flows, 250);
            nodes.push(lan.node.0);
            held += (end.sender.cache_max + end.receiver.waiting_max) as u64;
            held += lan.reorder_pool_frames + lan.backup_pool_frames;
        }
        assert!(held <= u64::from(config.pool.holdable()), "{held}");
        assert!(held > u64::from(config.pool.holdable()) * 9 / 10, "{held}");
        nodes.sort_unstable();
        nodes.dedup();
        sessions.sort_unstable();
        sessions.dedup();
        assert_eq!((nodes.len(), sessions.len()), (4, 4));
    }

    /// `--check` states the program's need.
    #[test]
    fn an_mbuf_is_a_handle_of_one_pointer() {
        use switch::Footprint;
        assert_eq!(Footprint::of::<dpdk_sys_wrapper::Mbuf>(), Footprint::of_handles());
    }
}
