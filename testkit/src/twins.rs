//! A switch beside one without fast paths: whatever comes, both do the same.

use arrayvec::ArrayVec;
use common::frame::{Class, Pool, Side};
use common::heap::HeapFrame;
use common::metrics::{Counters, Metric};
use common::time::Time;
use common::wire::{Addr, Qpn, parse};
use switch::{Config, HeldBytes, Switch};

use crate::wires::{Sent, Wires};

/// Timers of one call.
const TIMERS: usize = 1 << 12;

/// Memory of a flow depends on its past, not only on what it holds.
const NOT_COMPARED: [Metric; 1] = [Metric::FlowStateBytes];

/// Two switches with the same configuration, to which the same happens.
pub struct Twins {
    fast: Switch<HeapFrame>,
    general: Switch<HeapFrame>,
}

impl Twins {
    /// Two that know no flow yet.
    pub fn new(config: &Config) -> Self {
        let [fast, mut general] = [(); 2].map(|()| Switch::new(config.clone()));
        general.avoid_fast_paths();
        Self { fast, general }
    }

    /// See [`Switch::burst`]. Returns the frames that left.
    ///
    /// # Panics
    /// If the two do different things. So it is with all calls.
    pub fn burst<const N: usize>(
        &mut self,
        side: Side,
        frames: &[Vec<u8>],
        now: Time,
        pool: &mut impl Pool<Frame = HeapFrame>,
    ) -> Vec<Sent> {
        self.both(false, |switch, wires| {
            let mut burst: ArrayVec<_, N> = frames.iter().cloned().map(HeapFrame::from).collect();
            switch.burst(side, &mut burst, now, pool, wires);
            assert!(burst.is_empty());
        })
    }

    /// When either of the two is due.
    pub fn next_deadline(&self) -> Time {
        self.fast.next_deadline().min(self.general.next_deadline())
    }

    /// See [`Switch::timers`].
    pub fn timers(&mut self, now: Time, pool: &mut impl Pool<Frame = HeapFrame>) -> Vec<Sent> {
        // Flows that are due at once have no order.
        self.both(true, |switch, wires| switch.timers(now, TIMERS, pool, wires))
    }

    /// See [`Switch::housekeeping`].
    pub fn housekeeping(
        &mut self,
        now: Time,
        pool: &mut impl Pool<Frame = HeapFrame>,
    ) -> Vec<Sent> {
        self.both(false, |switch, wires| switch.housekeeping(now, pool, wires))
    }

    /// See [`Switch::drain`].
    pub fn drain(&mut self, now: Time, pool: &mut impl Pool<Frame = HeapFrame>) -> Vec<Sent> {
        self.both(false, |switch, wires| switch.drain(now, pool, wires))
    }

    /// A counter.
    pub fn count(&self, metric: Metric) -> u64 {
        self.fast.counters().get(metric)
    }

    /// Frames held in pools.
    pub fn held(&self) -> u64 {
        self.fast.held()
    }

    /// Lets both do something, and compares the frames that leave, the counters and the pools.
    fn both(
        &mut self,
        any_order: bool,
        mut what: impl FnMut(&mut Switch<HeapFrame>, &mut Wires),
    ) -> Vec<Sent> {
        let [sent, other] = [&mut self.fast, &mut self.general].map(|switch| {
            let mut wires = Wires::default();
            what(switch, &mut wires);
            let counters = switch.counters();
            assert_eq!(
                counters.entered(),
                counters.left() + switch.held(),
                "the books don't balance"
            );
            wires.0
        });
        let [by_fast, by_general] = [&sent, &other].map(|sent| {
            let mut seen: Vec<_> = sent.iter().map(Seen::of).collect();
            if any_order {
                seen.sort_by_key(|seen| seen.stream);
            }
            seen
        });
        assert_eq!(by_fast, by_general, "frames with fast paths, and without");
        assert_eq!(pools(&self.fast), pools(&self.general), "pools with fast paths, and without");
        let [fast, general] = [&self.fast, &self.general].map(Switch::counters);
        for metric in Metric::ALL.iter().filter(|metric| !NOT_COMPARED.contains(metric)) {
            let values = [fast, general].map(|counters: &Counters| counters.get(*metric));
            assert_eq!(values[0], values[1], "{metric:?} with fast paths, and without");
        }
        sent
    }
}

fn pools(switch: &Switch<HeapFrame>) -> (u64, HeldBytes) {
    (switch.held(), switch.held_bytes())
}

/// A stream of frames that keep their order.
type Stream = (usize, bool, Addr, Addr, Qpn);

/// A frame as it is compared.
#[derive(PartialEq, Eq, Debug)]
struct Seen {
    stream: Option<Stream>,
    /// A control message without its number, which counts those of all flows; or all of the frame.
    content: Content,
}

#[derive(PartialEq, Eq, Debug)]
enum Content {
    Message(String),
    Frame(Sent),
}

impl Seen {
    fn of(sent: &Sent) -> Self {
        let roce = parse(&sent.bytes).ok();
        let stream = |qpn| {
            let roce = roce.as_ref()?;
            Some((sent.side.index(), sent.class == Class::High, roce.src, roce.dst, qpn))
        };
        match sent.control() {
            Some((mut header, message)) => {
                header.seq = 0;
                let content = Content::Message(format!("{header:?} {message:?}"));
                Self { stream: stream(header.dest_qpn), content }
            }
            None => {
                let stream = stream(roce.map_or(Qpn::default(), |roce| roce.dest_qpn));
                Self { stream, content: Content::Frame(sent.clone()) }
            }
        }
    }
}
