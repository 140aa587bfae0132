//! Frames of the peer that arrive, and that this box refuses: a path or a peer is to be mended, and the box knows why.

use std::time::{Duration, Instant};

use super::reason::{Kind, Reason, Word};
use super::{Sample, State};
use crate::port::PortId;
use crate::telemetry::TunnelIo;

/// Time for which refusals go on before they are a reason. A single damaged datagram is none.
const LEAST: Duration = Duration::from_secs(2);
/// Time without a refusal after which they are over. A box without a session sends a HELLO every half second, and every second
/// one with a session does so through each port.
const PAUSE: Duration = Duration::from_secs(2);

/// A kind of refusals: counter, effect, cause, and next command.
type Row = (TunnelIo, Word, &'static str, &'static str);

const CAPTURE: &str = "lr2ctl capture --out wan.pcapng --port wan --direction in";
const PEERS: &str = "lr2ctl peers";

/// All kinds. Messages that are refused while there is a session are of another box or of an attacker; without a session
/// the tunnel's own reason names the cause.
const ROWS: [Row; 9] = [
    (
        TunnelIo::DropMark,
        Word::Down,
        "mark: a device of the path writes a congestion mark (ECN 3) on datagrams whose frames allow none; let it leave the TOS byte, or set it to a value that ends in two zero bits",
        CAPTURE,
    ),
    (
        TunnelIo::DropChecksum,
        Word::Down,
        "checksum: their IPv4 or UDP checksum is wrong, so a device of the path changes them without mending it",
        CAPTURE,
    ),
    (
        TunnelIo::DropLength,
        Word::Down,
        "length: their lengths contradict each other, so a device of the path adds or cuts bytes, or adds IP options",
        CAPTURE,
    ),
    (
        TunnelIo::DropFragment,
        Word::Down,
        "fragment: a router of the path cuts them, so a link has a smaller MTU than wan.mtu",
        "lr2ctl parameters",
    ),
    (
        TunnelIo::DropVersion,
        Word::Down,
        "version: the peer has another version, install one release on both boxes",
        "lr2ctl build (on both boxes)",
    ),
    (
        TunnelIo::DropShim,
        Word::Down,
        "shim: their header has fields without a meaning, so a device of the path changes them",
        CAPTURE,
    ),
    (
        TunnelIo::DropInner,
        Word::Down,
        "inner: no Ethernet header is within, so a device of the path cuts them",
        CAPTURE,
    ),
    (
        TunnelIo::RefusedTag,
        Word::Degraded,
        "tag: messages have a wrong tag, so another box with another key, or an attacker, sends them",
        PEERS,
    ),
    (
        TunnelIo::RefusedVersion,
        Word::Degraded,
        "message version: another box of another version sends messages",
        PEERS,
    ),
];

/// A counter that goes on to grow.
#[derive(Clone, Copy, Default, Debug)]
struct Growth {
    count: u64,
    /// When it began to grow, and when it last grew.
    during: Option<(Instant, Instant)>,
}

impl Growth {
    /// Whether it has grown for [`LEAST`] without a [`PAUSE`].
    fn look(&mut self, count: u64, now: Instant) -> bool {
        self.during.take_if(|(_, last)| now.duration_since(*last) > PAUSE);
        if count > std::mem::replace(&mut self.count, count) {
            let began = self.during.map_or(now, |(began, _)| began);
            self.during = Some((began, now));
        }
        self.during.is_some_and(|(began, last)| last.duration_since(began) > LEAST)
    }
}

/// Watches all kinds of refusals.
#[derive(Default, Debug)]
pub struct Refusals([Growth; ROWS.len()]);

impl Refusals {
    /// The reasons of now. To be called with each sample.
    pub fn look(&mut self, state: &State, sample: &Sample, now: Instant) -> Vec<Reason> {
        let is_up = state.is_tunnel_up();
        let port = PortId::all(state.wans).nth(1).filter(|_| state.wans == 1);
        let peer = sample.ways.first().map(|way| way.peer);
        let mut found = Vec::new();
        for ((what, word, cause, next), growth) in ROWS.into_iter().zip(&mut self.0) {
            let count = state.tunnels().map(|tunnel| tunnel.get(what)).sum();
            let holds = growth.look(count, now);
            // Without a session messages are judged by the tunnel.
            if holds && (is_up || word == Word::Down) {
                let text = format!("tunnel: frames of the peer arrive and are refused, {cause}");
                let reason = Reason { word, ..Reason::down(Kind::Tunnel, text, next) };
                found.push(Reason { port, ..reason }.of(peer));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_go_on_for_two_seconds_are_a_reason_until_they_pause() {
        let start = Instant::now();
        // Two refusals in a second until the 6th, as of HELLOs; and one each four seconds, as of noise.
        let (mut hellos, mut noise) = (Growth::default(), Growth::default());
        let (mut of_hellos, mut of_noise) = (Vec::new(), Vec::new());
        for half in 0..32_u32 {
            let now = start + Duration::from_millis(500) * half;
            if hellos.look(half.min(12).into(), now) {
                of_hellos.push(half);
            }
            if noise.look((half / 8).into(), now) {
                of_noise.push(half);
            }
        }
        // From more than two seconds after the first one to two seconds after the last one.
        assert_eq!(of_hellos, (6..=16).collect::<Vec<_>>(), "in half seconds");
        assert_eq!(of_noise, [0; 0]);
    }
}
