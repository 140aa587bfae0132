//! The boxes at the other end: for `/peers`, `/capabilities` and the metrics.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::time::{Span, Time};
use serde::Serialize;

use crate::event::What;
use crate::peer::{News, Report, Seen, Standing, Via};

/// Boxes that are remembered.
const PEERS_MAX: usize = 256;
/// Silence after which a box of which no session tells counts as silent.
const SILENT: Duration = Duration::from_secs(30);

/// A box.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Peer {
    /// Node id.
    pub node: u32,
    /// The tunnel to it, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<u8>,
    /// Boot id.
    pub boot: u64,
    /// A WAN port; without a tunnel, the address of a host behind it.
    pub via: Place,
    /// `session`, `answers`, `heard` or `silent`.
    pub state: &'static str,
    /// Version of its control messages.
    pub message_version: u8,
    /// Seconds; `null` until it is measured.
    pub round_trip: Option<f64>,
    /// When it was last heard, seconds since 1970.
    pub last_heard: f64,
    /// When it last reported what arrived there.
    pub last_report: Option<f64>,
}

/// Where a box is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// Behind a port.
    Port(&'static str),
    /// In front of a host.
    Host(IpAddr),
}

impl Peer {
    /// Whether it and this box hear each other.
    pub fn is_up(&self) -> bool {
        self.state == Standing::Session.word() || self.state == Standing::Knows.word()
    }
}

/// A message that was refused.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Refused {
    /// The tunnel, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<u8>,
    /// Why.
    pub reason: &'static str,
    /// The host in whose name it came, without a tunnel.
    pub from: Option<IpAddr>,
    /// When it was first or, without a tunnel, last refused, seconds since 1970.
    pub time: f64,
}

#[derive(Debug, Default)]
struct Inner {
    /// By tunnel and node.
    peers: BTreeMap<(Option<u8>, u32), (Peer, Option<What>)>,
    /// By tunnel: the newest.
    refused: BTreeMap<Option<u8>, Refused>,
}

/// All boxes that are known.
#[derive(Debug, Default)]
pub struct Peers(Mutex<Inner>);

/// The body of `/peers`.
#[derive(Serialize)]
struct Body<'a> {
    peers: &'a [Peer],
    last_refused: &'a [Refused],
}

impl Peers {
    /// Takes a report of a worker, whose clock says `now`; it is `wall`.
    pub fn note(&self, Report { tunnel, news }: Report, now: Time, wall: SystemTime) {
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = |at: Option<Time>| {
            let ago =
                at.map_or(Duration::ZERO, |at| Duration::from_nanos(now.since(at).as_nanos()));
            seconds(wall.checked_sub(ago).unwrap_or(wall)).as_secs_f64()
        };
        let mut inner = self.inner();
        match news {
            News::Nobody => inner.peers.retain(|(other, _), _| *other != tunnel),
            News::Refused { reason, from, at } => {
                let time = match (at, inner.refused.get(&tunnel)) {
                    (None, Some(old)) if old.reason == reason => old.time,
                    _ => ago(at),
                };
                inner.refused.insert(tunnel, Refused { tunnel, reason, from, time });
            }
            News::Seen(Seen {
                node,
                boot,
                via,
                standing,
                version,
                heard,
                reported,
                round_trip,
                told,
            }) => {
                let peer = Peer {
                    node: node.0,
                    tunnel,
                    boot: boot.0,
                    via: match via {
                        Via::Port(name) => Place::Port(name),
                        Via::Host(address) => Place::Host(address),
                    },
                    state: standing.word(),
                    message_version: version,
                    round_trip: round_trip.map(|span: Span| span.as_nanos() as f64 / 1e9),
                    last_heard: ago(heard),
                    last_report: reported.map(|at| ago(Some(at))),
                };
                if heard.is_none() {
                    // A tunnel has one peer.
                    inner.peers.retain(|(other, _), _| *other != tunnel);
                }
                let key = (tunnel, node.0);
                // Several workers may know it.
                let is_older =
                    inner.peers.get(&key).is_some_and(|(old, _)| old.last_heard > peer.last_heard);
                if !is_older && (inner.peers.len() < PEERS_MAX || inner.peers.contains_key(&key)) {
                    inner.peers.insert(key, (peer, told));
                }
            }
        }
    }

    /// All boxes, of which some may be silent by now.
    pub fn all(&self, wall: SystemTime) -> Vec<Peer> {
        let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let silent = |peer: &Peer| now - peer.last_heard > SILENT.as_secs_f64();
        let each = self.inner().peers.values().map(|(peer, _)| *peer).collect::<Vec<_>>();
        each.into_iter()
            .map(|peer| if silent(&peer) { Peer { state: "silent", ..peer } } else { peer })
            .collect()
    }

    /// What the peer of a tunnel told when the session began, if there is one.
    pub fn session(&self) -> Option<What> {
        self.inner().peers.values().find_map(|(_, told)| *told)
    }

    /// All as JSON.
    ///
    /// # Errors
    /// Never: everything in them has a form in JSON.
    pub fn json(&self, wall: SystemTime) -> serde_json::Result<String> {
        let peers = self.all(wall);
        let last_refused: Vec<_> = self.inner().refused.values().copied().collect();
        serde_json::to_string(&Body { peers: &peers, last_refused: &last_refused })
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use common::ids::{BootId, NodeId};

    use super::*;

    fn seen(node: u32, heard: u64) -> Seen {
        Seen {
            node: NodeId(node),
            boot: BootId(5),
            via: Via::Host([10, 2, 0, 1].into()),
            standing: Standing::Knows,
            version: 3,
            heard: Some(Time::from_nanos(heard * 1_000_000_000)),
            reported: None,
            round_trip: Some(Span::from_millis(10)),
            told: None,
        }
    }

    #[test]
    fn the_newest_word_of_a_box_counts_and_silence_shows() {
        let (peers, at) = (Peers::default(), |s| UNIX_EPOCH + Duration::from_secs(s));
        let now = Time::from_nanos(100_000_000_000);
        for (node, heard) in [(2, 90), (2, 80), (3, 60)] {
            let news = News::Seen(seen(node, heard));
            peers.note(Report { tunnel: None, news }, now, at(1_000));
        }
        let refused = News::Refused { reason: "another key", from: None, at: Some(now) };
        peers.note(Report { tunnel: None, news: refused }, now, at(1_000));
        let all = peers.all(at(1_001));
        let states: Vec<_> = all.iter().map(|it| (it.node, it.state, it.last_heard)).collect();
        assert_eq!(states, [(2, "answers", 990.0), (3, "silent", 960.0)]);
        let json: serde_json::Value =
            serde_json::from_str(&peers.json(at(1_001)).unwrap()).unwrap();
        assert_eq!(json["peers"][0]["via"], "10.2.0.1");
        assert_eq!(json["peers"][0]["round_trip"], 0.01);
        assert_eq!(json["last_refused"][0]["reason"], "another key");
    }

    #[test]
    fn a_tunnel_has_one_peer_or_none() {
        let (peers, now) = (Peers::default(), Time::from_nanos(1));
        let note = |tunnel, news| peers.note(Report { tunnel, news }, now, UNIX_EPOCH);
        let of = |node| News::Seen(Seen { heard: None, ..seen(node, 0) });
        note(Some(0), of(2));
        note(Some(1), of(2));
        note(Some(1), of(3));
        assert_eq!(peers.all(UNIX_EPOCH).iter().map(|it| it.node).collect::<Vec<_>>(), [2, 3]);
        note(Some(0), News::Nobody);
        assert_eq!(peers.all(UNIX_EPOCH).len(), 1);
    }
}
