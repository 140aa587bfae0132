//! Traces packets. A packet that matches the filter is processed as a burst of its own; the counters that grow meanwhile are its trace.
//! Without a trace this costs one test per burst.

use arrayvec::ArrayVec;
use common::frame::{Headroom, Pool};
use common::metrics::{Counters, Desc, Metric, MetricKind};
use common::time::Time;

use super::egress::Egress;
use super::io::Transmit;
use super::plane::Plane;
use crate::port::PortId;
use crate::telemetry::{TunnelCounters, TunnelIo};

/// Bytes of a frame that are kept: all headers, also of a tunnel.
pub const HEAD_MAX: usize = 192;
/// Counters that change with a packet are fewer.
const CHANGES_MAX: usize = 32;
/// Bytes of a change.
const CHANGE: usize = 4;

/// A counter of a switch or of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Of a switch.
    Switch(Metric),
    /// Of a tunnel.
    Tunnel(TunnelIo),
}

impl Counter {
    /// Its name, labels and help.
    pub fn desc(self) -> Desc {
        match self {
            Self::Switch(metric) => metric.desc(),
            Self::Tunnel(metric) => TunnelIo::TABLE[metric as usize].1,
        }
    }

    /// By its number in [`Change`].
    fn of([kind, index]: [u8; 2]) -> Option<Self> {
        let index = usize::from(index);
        match kind {
            0 => Metric::ALL.get(index).copied().map(Self::Switch),
            _ => TunnelIo::TABLE.get(index).map(|(metric, _)| Self::Tunnel(*metric)),
        }
    }

    const fn number(self) -> [u8; 2] {
        match self {
            Self::Switch(metric) => [0, metric as u8],
            Self::Tunnel(metric) => [1, metric as u8],
        }
    }
}

const _: () = assert!(Metric::COUNT <= 256 && TunnelIo::TABLE.len() <= 256);

/// A counter, and by how much it has grown.
pub type Change = (Counter, u16);

/// What was decided for a packet.
pub type Changes = ArrayVec<Change, CHANGES_MAX>;

/// The counters of a worker at one time.
pub struct Counts {
    switches: Counters,
    tunnels: Option<TunnelCounters>,
}

impl Counts {
    /// Those of a worker's switches and tunnels.
    pub fn of<F: Headroom>(plane: &Plane<F>) -> Self {
        let mut switches = Counters::default();
        plane.switches().for_each(|switch| switches.join(switch.counters()));
        let all = plane.tunnelled().map(|path| TunnelCounters::of(path, Time::NEVER, 0));
        let tunnels = all.reduce(|mut sum, other| {
            sum.join(&other);
            sum
        });
        Self { switches, tunnels }
    }

    /// The counters that have grown until `later`. Gauges are left out.
    fn changes(&self, later: &Self) -> Changes {
        let of_switch = |metric: &Metric| {
            let grown = later.switches.get(*metric).saturating_sub(self.switches.get(*metric));
            (Counter::Switch(*metric), grown)
        };
        let tunnels = self.tunnels.as_ref().zip(later.tunnels.as_ref());
        let of_tunnel = tunnels.into_iter().flat_map(|(before, after)| {
            TunnelIo::TABLE.iter().map(move |(metric, _)| {
                let grown = after.get(*metric).saturating_sub(before.get(*metric));
                (Counter::Tunnel(*metric), grown)
            })
        });
        let all = Metric::ALL.iter().map(of_switch).chain(of_tunnel);
        all.filter(|(counter, grown)| *grown > 0 && counter.desc().kind == MetricKind::Counter)
            .map(|(counter, grown)| (counter, u16::try_from(grown).unwrap_or(u16::MAX)))
            .take(CHANGES_MAX)
            .collect()
    }
}

/// Changes as a record has them: how many, and each in four bytes.
pub fn write(changes: &Changes) -> ArrayVec<u8, { 1 + CHANGES_MAX * CHANGE }> {
    let mut bytes = ArrayVec::from_iter([changes.len() as u8]);
    for (counter, grown) in changes {
        let ([kind, index], [high, low]) = (counter.number(), grown.to_be_bytes());
        bytes.extend([kind, index, high, low]);
    }
    bytes
}

/// Reads what [`write()`] has written, and returns what follows it.
pub fn read(bytes: &[u8]) -> Option<(Changes, &[u8])> {
    let (count, rest) = bytes.split_first()?;
    let (changes, rest) = rest.split_at_checked(usize::from(*count) * CHANGE)?;
    let change = |it: &[u8]| {
        let &[kind, index, high, low] = it else { return None };
        Some((Counter::of([kind, index])?, u16::from_be_bytes([high, low])))
    };
    Some((changes.chunks(CHANGE).filter_map(change).take(CHANGES_MAX).collect(), rest))
}

/// Takes the frames that arrived at a port while somebody traces.
#[cold]
pub fn burst<const N: usize, F, T, P>(
    plane: &mut Plane<F>,
    port: PortId,
    frames: &mut ArrayVec<F, N>,
    now: Time,
    pool: &mut P,
    egress: &mut Egress<T>,
) where
    F: Headroom,
    T: Transmit<Frame = F>,
    P: Pool<Frame = F>,
{
    for frame in core::mem::take(frames) {
        let is_wanted = egress.tap().traces(port, frame.bytes());
        let len = frame.bytes().len();
        let head: ArrayVec<u8, HEAD_MAX> = frame.bytes().iter().take(HEAD_MAX).copied().collect();
        frames.push(frame);
        if !is_wanted {
            plane.burst(port, frames, now, pool, egress);
            continue;
        }
        let before = Counts::of(plane);
        plane.burst(port, frames, now, pool, egress);
        let changes = before.changes(&Counts::of(plane));
        egress.tap().decided(port, len, &write(&changes), &head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut changes = Changes::new();
        assert_eq!(read(&write(&changes)), Some((changes.clone(), &[][..])));
        changes.push((Counter::Switch(Metric::SentryNew), 1));
        let (last, _) = TunnelIo::TABLE[TunnelIo::TABLE.len() - 1];
        changes.push((Counter::Tunnel(last), 513));
        let mut bytes = write(&changes).to_vec();
        bytes.extend([7, 8, 9]);
        assert_eq!(read(&bytes), Some((changes, &[7, 8, 9][..])));
        assert_eq!(read(&bytes[..8]), None);
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[1, 0, 255, 0, 1]).map(|(changes, _)| changes.len()), Some(0));
    }

    #[test]
    fn only_counters_that_have_grown_are_told() {
        let none = || Counts { switches: Counters::default(), tunnels: None };
        let (before, mut after) = (none(), none());
        after.switches.add(Metric::DepotHeld, 2);
        after.switches.set(Metric::HeldReorder, 7);
        let changes = before.changes(&after);
        assert_eq!(changes[..], [(Counter::Switch(Metric::DepotHeld), 2)]);
    }
}
