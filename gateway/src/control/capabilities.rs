//! What the box can do, and what the peer told of itself in HELLOs: for `/capabilities`.

use serde::Serialize;

use crate::config::{Config, LANS, SPRAYS, TUNNELS, TunnelMode, word};
use crate::event::What;

/// What this box can do, and how it is configured.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Capabilities {
    release: &'static str,
    /// Node id.
    node: u32,
    /// Versions of the tunnel's shim and messages.
    tunnel_versions: [u8; 1],
    encapsulations: Vec<&'static str>,
    policies: Vec<&'static str>,
    /// The one in use, or `off`.
    encapsulation: &'static str,
    wan_ports: usize,
    tunnels: u8,
    lanes: u8,
    /// Bytes of the longest frame of the WAN ports, from the destination MAC address on.
    frame_max: u16,
    lan_repair: &'static str,
}

/// Bytes of an Ethernet header.
const ETHER_LEN: u16 = 14;

impl Capabilities {
    /// Those of a box with that configuration.
    pub fn of(config: &Config) -> Self {
        let modes = TUNNELS.iter().filter(|(_, mode)| *mode != TunnelMode::Off);
        Self {
            release: env!("CARGO_PKG_VERSION"),
            node: config.peer.node.0,
            tunnel_versions: [tunnel::shim::VERSION],
            encapsulations: modes.map(|(word, _)| *word).collect(),
            policies: SPRAYS.iter().map(|(word, _)| *word).collect(),
            encapsulation: word(TUNNELS, &config.tunnel.mode),
            wan_ports: config.wan.len(),
            tunnels: config.tunnel.tunnels,
            lanes: config.lanes(),
            frame_max: config.wan_mtu() + ETHER_LEN,
            lan_repair: word(LANS, &config.recovery.lan),
        }
    }

    /// These capabilities and the peer's, which it sent when the session began, if there is a session.
    pub fn with_peer(&self, session: Option<What>) -> Both<'_> {
        let mut differs = Vec::new();
        if let Some(What::SessionUp { frame_max, wan_ports, lan_repair, .. }) = session {
            let has_other = |ports: u8| usize::from(ports) != self.wan_ports;
            differs.extend((frame_max != self.frame_max).then_some("frame_max"));
            differs.extend(wan_ports.is_some_and(has_other).then_some("wan_ports"));
            let other = lan_repair.is_some_and(|lans| lans != self.lan_repair);
            differs.extend(other.then_some("lan_repair"));
        }
        Both { this: self, peer: session, differs }
    }
}

/// The body of `/capabilities`.
#[derive(Serialize)]
pub struct Both<'a> {
    this: &'a Capabilities,
    peer: Option<What>,
    /// What the two say differently, though each works.
    differs: Vec<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{good, lab};

    // R-TUN-55
    #[test]
    fn what_this_box_can_do_stands_beside_what_the_peer_told() {
        let config = good(&lab("").replace("[wan]\n", "[wan]\ntunnel = \"ethernet\"\nlanes = 1\n"));
        let this = Capabilities::of(&config);
        let json = |peer| serde_json::to_value(this.with_peer(peer)).unwrap();
        let alone = json(None);
        assert_eq!(alone["peer"], serde_json::Value::Null);
        assert_eq!(alone["this"]["tunnel_versions"], serde_json::json!([2]));
        assert_eq!(alone["this"]["encapsulations"], serde_json::json!(["ethernet", "udp"]));
        assert_eq!(alone["this"]["lan_repair"], "auto");
        let told = What::SessionUp {
            peer: 9,
            lanes: 1,
            frame_max: 9014,
            wan_ports: Some(2),
            lan_repair: Some("off"),
        };
        let both = json(Some(told));
        assert_eq!(both["peer"]["peer"], 9);
        assert_eq!(both["differs"], serde_json::json!(["wan_ports", "lan_repair"]));
        let silent = What::SessionUp {
            peer: 9,
            lanes: 1,
            frame_max: 1514,
            wan_ports: None,
            lan_repair: None,
        };
        assert_eq!(
            json(Some(silent))["differs"],
            serde_json::json!(["frame_max"]),
            "an older release"
        );
    }
}
