//! The boxes at the other end: for `/peers`, `/capabilities` and the metrics.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::{Peer, Refused};
use common::time::{Span, Time};
use parking_lot::Mutex;

use crate::event::What;
use crate::peer::{News, Report, Seen, Via};

/// Boxes that are remembered.
const PEERS_MAX: usize = 256;
/// Silence after which a box of which no session tells counts as silent.
const SILENT: Duration = Duration::from_secs(30);
/// Silence after which it is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(3_600);

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
            // The box stays listed, with the time at which it was last heard.
            News::Nobody => {
                for (_, (peer, told)) in inner.peers.iter_mut().filter(|((of, _), _)| *of == tunnel)
                {
                    (peer.state, *told) = ("silent".into(), None);
                }
            }
            News::Refused { reason, from, at } => {
                let time = ago(Some(at));
                // Several workers tell of one each, again and again.
                if inner.refused.get(&tunnel).is_none_or(|old| old.time < time) {
                    let from = from.map(|it| it.to_string());
                    let refused = Refused { tunnel, reason: reason.into(), from, time };
                    inner.refused.insert(tunnel, refused);
                }
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
                        Via::Port(name) => name.into(),
                        Via::Host(address) => address.to_string().into(),
                    },
                    state: standing.word().into(),
                    message_version: version,
                    round_trip: round_trip.map(|span: Span| span.as_nanos() as f64 / 1e9),
                    last_heard: ago(Some(heard)),
                    last_report: reported.map(|at| ago(Some(at))),
                };
                if tunnel.is_some() {
                    // A tunnel has one peer.
                    inner.peers.retain(|(other, _), _| *other != tunnel);
                }
                let now = seconds(wall).as_secs_f64();
                inner.peers.retain(|_, (old, _)| !is_silent(old, now, FORGOTTEN));
                let key = (tunnel, node.0);
                // Several workers may know it, without a tunnel.
                let is_older = tunnel.is_none()
                    && inner
                        .peers
                        .get(&key)
                        .is_some_and(|(old, _)| old.last_heard > peer.last_heard);
                let is_of_interest = !is_older && !is_silent(&peer, now, FORGOTTEN);
                if is_of_interest
                    && (inner.peers.len() < PEERS_MAX || inner.peers.contains_key(&key))
                {
                    inner.peers.insert(key, (peer, told));
                }
            }
        }
    }

    /// All boxes, of which some may be silent by now.
    pub fn all(&self, wall: SystemTime) -> Vec<Peer> {
        let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let inner = self.inner();
        let known = inner.peers.values().map(|(peer, _)| peer);
        let known = known.filter(|peer| !is_silent(peer, now, FORGOTTEN)).cloned();
        known
            .map(|peer| {
                let is_silent = is_silent(&peer, now, SILENT);
                if is_silent { Peer { state: "silent".into(), ..peer } } else { peer }
            })
            .collect()
    }

    /// What the peer of a tunnel told when the session began, if there is one.
    pub fn session(&self) -> Option<What> {
        self.inner().peers.values().find_map(|(_, told)| *told)
    }

    /// All boxes, and the newest message that was refused.
    pub fn report(&self, wall: SystemTime) -> api::Peers {
        let peers = self.all(wall);
        api::Peers { peers, last_refused: self.inner().refused.values().cloned().collect() }
    }

    fn inner(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

/// Whether a box has been silent for longer than that.
fn is_silent(peer: &Peer, now: f64, than: Duration) -> bool {
    now - peer.last_heard > than.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use common::ids::{BootId, NodeId};

    use super::*;
    use crate::peer::Standing;

    fn seen(node: u32, heard: u64) -> Seen {
        Seen {
            node: NodeId(node),
            boot: BootId(5),
            via: Via::Host([10, 2, 0, 1].into()),
            standing: Standing::Knows,
            version: 3,
            heard: Time::from_nanos(heard * 1_000_000_000),
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
        let refused = News::Refused { reason: "another key", from: None, at: now };
        peers.note(Report { tunnel: None, news: refused }, now, at(1_000));
        let all = peers.all(at(1_001));
        let states: Vec<_> = all.iter().map(|it| (it.node, &*it.state, it.last_heard)).collect();
        assert_eq!(states, [(2, "answers", 990.0), (3, "silent", 960.0)]);
        let report = peers.report(at(1_001));
        assert_eq!((&*report.peers[0].via, report.peers[0].round_trip), ("10.2.0.1", Some(0.01)));
        assert_eq!(report.last_refused[0].reason, "another key");
        assert_eq!(peers.all(at(960 + 3_600)).len(), 2);
        assert_eq!(peers.all(at(961 + 3_600)).len(), 1, "forgotten after an hour");
        // Workers go on to tell of it.
        let news = News::Seen(seen(3, 0));
        peers.note(Report { tunnel: None, news }, Time::from_nanos(9_000_000_000_000), at(9_000));
        assert_eq!(peers.all(at(9_000)), []);
    }

    #[test]
    fn the_newest_refusal_of_all_workers_is_told() {
        let (peers, now) = (Peers::default(), Time::from_nanos(100_000_000_000));
        let refused = |reason, seconds: u64| {
            let at = Time::from_nanos(seconds * 1_000_000_000);
            let news = News::Refused { reason, from: None, at };
            peers.note(Report { tunnel: None, news }, now, UNIX_EPOCH + Duration::from_secs(100));
        };
        // In turn, as two workers report again and again.
        for _ in 0..3 {
            refused("another key", 50);
            refused("another version", 60);
            refused("another key", 50);
            let told = peers.report(UNIX_EPOCH).last_refused;
            assert_eq!((&*told[0].reason, told[0].time, told.len()), ("another version", 60.0, 1));
        }
    }

    #[test]
    fn a_tunnel_has_one_peer_which_stays_listed_when_it_is_gone() {
        let (peers, now) = (Peers::default(), Time::from_nanos(10_000_000_000));
        let wall = UNIX_EPOCH + Duration::from_secs(1_000);
        let note = |tunnel, news| peers.note(Report { tunnel, news }, now, wall);
        let of = |node| News::Seen(Seen { standing: Standing::Session, ..seen(node, 8) });
        note(Some(0), of(2));
        note(Some(1), of(2));
        note(Some(1), of(3));
        let all = || -> Vec<_> {
            let all = peers.all(wall).into_iter();
            all.map(|it| (it.node, it.state.into_owned(), it.last_heard)).collect()
        };
        let session = "session".to_owned();
        assert_eq!(all(), [(2, session.clone(), 998.0), (3, session.clone(), 998.0)]);
        note(Some(0), News::Nobody);
        assert_eq!(all(), [(2, "silent".to_owned(), 998.0), (3, session, 998.0)]);
        assert_eq!(peers.all(wall + FORGOTTEN), [], "forgotten after an hour");
    }
}
