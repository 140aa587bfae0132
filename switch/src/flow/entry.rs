//! The entry of one flow.

use core::mem::offset_of;
use core::num::NonZero;

use common::allowance::HostPair;
use common::control::NodeId;
use common::frame::Frame;
use common::heap::HeapFrame;
use common::ids::FlowId;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Headers, Look, Qpn, Roce, icrc_ok};

use crate::flow::coarse_time::{CoarseDeadline, CoarseTime};
use crate::flow::key::FlowKey;
use crate::flow::matching::Matching;
use crate::flow::psn_range::PsnRange;

/// Everything about one flow, in the order of use: what it is found by, times and all that a packet needs besides, the rest.
/// A timer that fires in vain looks at no more than a few of these bytes, and not at the pipeline.
#[repr(C)]
pub(crate) struct Entry<F: Frame> {
    pub key: FlowKey,
    /// The flow of the opposite direction of the same queue pair ...
    peer: Option<NonZero<u32>>,
    pub state: FlowState<F>,
    /// When a timer of this entry is due; [`Time::NEVER`] if none is set.
    pub armed: Time,
    /// When the pipeline has something to do. If that is known, a timer of the entry is set.
    pub due: CoarseDeadline,
    /// Tells apart the entries that use one index after each other.
    pub generation: u32,
    /// Its newest packet.
    pub seen: CoarseTime,
    /// ... and its destination QP, which is this flow's source QP.
    src_qpn: Option<NonZero<u32>>,
    /// There is none: see [`Entries`](crate::flow::entries::Entries).
    pub is_vacant: bool,
    /// The operator configured its peer: it is not looked for, and stays over incarnations.
    pub named: bool,
    /// The newest packet that passed in its direction while its peer was unknown was a response, and the last of its message.
    pub ends_message: bool,
    /// The hosts, whose data pays for control messages.
    pub pair: HostPair,
    /// The generation in which the flow's present incarnation began.
    pub born: u32,
    /// Candidates for the peer flow, while it is unknown.
    pub matching: Option<Box<Matching>>,
}

impl<F: Frame> Entry<F> {
    /// One that begins.
    pub fn new(key: FlowKey, now: Time, generation: u32) -> Self {
        Self {
            key,
            peer: None,
            src_qpn: None,
            named: false,
            ends_message: false,
            pair: key.hosts.pair(),
            matching: None,
            state: FlowState::Responses,
            armed: Time::NEVER,
            due: CoarseDeadline::NEVER,
            seen: CoarseTime::at(now),
            generation,
            born: generation,
            is_vacant: false,
        }
    }

    /// None, in the place of one.
    pub fn vacant() -> Self {
        Self { is_vacant: true, ..Self::new(FlowKey::NONE, Time::ZERO, 0) }
    }

    /// `peer` is the flow of the opposite direction, and leads to `src_qpn`.
    pub fn join(&mut self, peer: FlowId, src_qpn: Option<Qpn>) {
        self.peer = NonZero::new(peer.0 + 1);
        self.src_qpn = src_qpn.and_then(|qpn| NonZero::new(qpn.get() + 1));
        self.matching = None;
    }

    /// Its peer is unknown again.
    pub fn unpair(&mut self) {
        (self.peer, self.src_qpn) = (None, None);
        // Packets may have passed meanwhile that this entry has not seen.
        self.ends_message = false;
        if let FlowState::Depot(stage) = &mut self.state {
            stage.state.lose_requester();
        }
    }

    /// The flow of the opposite direction of the same queue pair, if it is known.
    #[inline]
    pub fn peer(&self) -> Option<FlowId> {
        self.peer.map(|id| FlowId(id.get() - 1))
    }

    /// The source QPN, if it is known.
    #[inline]
    pub fn src_qpn(&self) -> Option<Qpn> {
        self.src_qpn.map(|qpn| Qpn::new(qpn.get() - 1))
    }

    /// Until when copies of the responses to its requests may arrive because of a FETCH of an incarnation that has ended.
    pub fn strays_until(&self) -> Time {
        match &self.state {
            FlowState::Sentry(stage) => stage.state.strays_until(),
            _ => Time::ZERO,
        }
    }

    /// Whether no more than one packet of it was seen, and nothing else is known of it.
    pub fn is_of_one_packet(&mut self) -> bool {
        let is_unrelated = self.peer.is_none() && !self.named;
        is_unrelated
            && match &self.state {
                FlowState::Responses => true,
                FlowState::Resting(_) | FlowState::Left(_) => false,
                FlowState::Sentry(stage) => stage.track.arrived.is_of_one(),
                FlowState::Depot(stage) => stage.track.arrived.is_of_one(),
            }
    }

    /// Gives up the pipeline if it has nothing to do. The next packet makes another, of a new
    /// epoch, which begins where this one ended.
    pub fn rest(&mut self, config: &sentry::Config, now: Time) {
        self.state = match &self.state {
            FlowState::Sentry(stage) => {
                let Some(rest) = stage.state.rest(config, now) else { return };
                let sentry::Rest { psn, msn, pmtu, rtt } = rest;
                FlowState::Resting(Announced::new(By::Past, psn, msn, pmtu, rtt))
            }
            FlowState::Depot(stage) if stage.state.is_at_rest() => FlowState::Responses,
            _ => return,
        };
    }
}

/// How often the headers that a flow's own frames are made from are renewed.
pub(crate) const HEADERS_AGE: Span = Span::from_millis(100);

/// The beginning of a flow before its first packet, or before its next after a long rest:
/// all before it was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announced {
    /// Who says so.
    pub by: By,
    /// The PSN of its next request.
    pub first_psn: Psn,
    /// Messages that are complete before it, as the destination counts.
    pub msn: u32,
    /// Path MTU as a power of two; 0: unknown.
    pmtu: u8,
    /// The long-haul round trip in units of [`RTT_UNIT`]; 0: unknown.
    rtt: u16,
}

/// So that 16 bits hold a second.
const RTT_UNIT: Span = Span::from_micros(16);

impl Announced {
    /// `pmtu` is in bytes, or 0 if it is unknown.
    pub fn new(by: By, first_psn: Psn, msn: u32, pmtu: u16, rtt: Option<Span>) -> Self {
        let units = rtt.map_or(0, |rtt| (rtt.as_nanos() / RTT_UNIT.as_nanos()).max(1));
        Self {
            by,
            first_psn,
            msn,
            pmtu: pmtu.checked_ilog2().unwrap_or(0) as u8,
            rtt: u16::try_from(units).unwrap_or(u16::MAX),
        }
    }

    /// Path MTU in bytes; 0: unknown.
    pub fn pmtu(&self) -> u16 {
        if self.pmtu == 0 { 0 } else { 1 << self.pmtu }
    }

    /// The long-haul round trip, if it was measured.
    pub fn rtt(&self) -> Option<Span> {
        (self.rtt != 0).then(|| RTT_UNIT * u64::from(self.rtt))
    }
}

/// Who knows how a flow begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// The hosts agreed on it.
    Hosts,
    /// It had a pipeline, which had nothing to do for long.
    Past,
}

/// How far a flow's requests have come.
pub(crate) enum FlowState<F: Frame> {
    /// No request was seen; responses may travel in its direction.
    Responses,
    /// It has no pipeline, and it is known how its next request begins.
    Resting(Announced),
    /// Its requests leave for the long-haul link.
    Sentry(Box<Stage<sentry::Flow<F>>>),
    /// Its requests arrive from the long-haul link.
    Depot(Box<Stage<depot::Flow<F>>>),
    /// The operator has left it to the RNICs.
    Left(Box<Left>),
}

/// A flow that the operator has left to the RNICs: its requests are noted, and pass.
pub(crate) struct Left {
    /// Responses are still matched with its requests: else another flow might be taken for theirs. `None` until
    /// one has come.
    pub track: Option<Track>,
    /// The operator has it protected again: its next request makes a pipeline, and is not its first.
    pub is_over: bool,
}

impl<F: Frame> FlowState<F> {
    /// Whether the flow's requests are noted: it has a pipeline, or the operator has taken that away.
    pub const fn is_noted(&self) -> bool {
        matches!(self, Self::Sentry(_) | Self::Depot(_) | Self::Left(_))
    }

    /// Prefetches what a packet on the fast path, or an ACK, needs of its flow.
    #[inline]
    pub fn prefetch(&self) {
        match self {
            Self::Sentry(stage) => stage.state.prefetch(),
            Self::Depot(stage) => stage.state.prefetch(),
            Self::Responses | Self::Resting(_) | Self::Left(_) => {}
        }
    }

    /// Packets seen of a flow whose requests are noted.
    #[inline]
    pub fn track(&self) -> Option<&Track> {
        match self {
            Self::Responses | Self::Resting(_) => None,
            Self::Sentry(stage) => Some(&stage.track),
            Self::Depot(stage) => Some(&stage.track),
            Self::Left(left) => left.track.as_ref(),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn track_mut(&mut self) -> Option<&mut Track> {
        match self {
            Self::Responses | Self::Resting(_) => None,
            Self::Sentry(stage) => Some(&mut stage.track),
            Self::Depot(stage) => Some(&mut stage.track),
            Self::Left(left) => left.track.as_mut(),
        }
    }
}

/// A pipeline's state with the headers of the flow's own frames. The fields that each packet
/// touches come first, and begin where a cache line does.
#[repr(C, align(64))]
pub(crate) struct Stage<S> {
    pub track: Track,
    pub state: S,
    /// The box that answers, or asks, for this flow.
    pub node: Option<NodeId>,
    pub headers: Headers,
}

impl<S> Stage<S> {
    /// Takes the headers of the flow's own frames from a packet, if they are old. Anybody who
    /// knows a flow's key may send packets of it: only the next one in order, which is most
    /// likely its source's, and with the headers that are known or a right ICRC, is believed.
    #[inline]
    pub fn renew_headers(
        &mut self,
        is_next: impl FnOnce(&S) -> bool,
        bytes: &[u8],
        roce: &Roce,
        now: Time,
    ) {
        let Self { track, state, headers, .. } = self;
        if !track.is_stale(now) || !is_next(state) {
            return;
        }
        let new = Headers::of(bytes, roce);
        if new == *headers || icrc_ok(bytes, roce) {
            *headers = new;
            (track.headers_at, track.src_port) = (CoarseTime::at(now), roce.src_port);
        }
    }
}

impl Track {
    /// Of a flow whose first request to be noted is this one; `arrived` are those that arrived before.
    pub fn new(arrived: PsnRange, roce: &Roce, now: Time) -> Self {
        Self { arrived, headers_at: CoarseTime::at(now), src_port: roce.src_port }
    }

    /// Whether the stage's headers are old.
    #[inline(always)]
    pub fn is_stale(&self, now: Time) -> bool {
        self.headers_at.since(now) >= HEADERS_AGE
    }

    /// Whether a packet is a SEND or WRITE and the next one, so that nothing has to be made ready for it. Then it is noted.
    #[inline(always)]
    pub fn follow(&mut self, look: &Look, now: Time) -> bool {
        look.opcode.is_plain() && !self.is_stale(now) && self.arrived.follow(look.psn)
    }
}

/// A flow's requests as they arrive, whether its pipeline forwards, holds or drops them.
pub(crate) struct Track {
    /// The PSNs that have arrived.
    pub arrived: PsnRange,
    /// When the stage's headers were last taken from a packet.
    pub headers_at: CoarseTime,
    /// UDP source port, as a hint for pairing.
    pub src_port: u16,
}

type Sentries = Stage<sentry::Flow<HeapFrame>>;
type Depots = Stage<depot::Flow<HeapFrame>>;

const _: () = {
    assert!(
        offset_of!(Sentries, state) + sentry::Flow::<HeapFrame>::FAST_PATH == 2 * LINE,
        "at a Sentry a packet on the fast path touches two cache lines, and its slot"
    );
    assert!(
        offset_of!(Sentries, state) + sentry::Flow::<HeapFrame>::CALM == 3 * LINE,
        "and one of a flow that sends one now and then, its ACK and its timer touch three"
    );
    assert!(
        offset_of!(Depots, state) + depot::Flow::<HeapFrame>::PASSED_OVER == LINE
            && offset_of!(Depots, state) + depot::Flow::<HeapFrame>::FAST_PATH == 3 * LINE
            && offset_of!(Depots, state) + depot::Flow::<HeapFrame>::CALM <= 5 * LINE,
        "at a Depot as well, with one between them that it does not touch"
    );
};

/// Bytes of a cache line.
const LINE: usize = 64;
