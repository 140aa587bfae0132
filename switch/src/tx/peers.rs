//! The boxes at the other ends: control messages to them, and the state that theirs tell.

use core::hash::BuildHasher;

use common::control::{
    self, BootId, Epoch, Header, Keys, Message, NodeId, Reason, Reject, Replay, Stale,
};
use common::frame::{Class, Frame, Packet, Side};
use common::metrics::{Counters, Metric};
use common::time::{Span, Time};
use common::wire::{Addr, Headers, Opcode, Qpn, Roce};
use hashbrown::HashMap;

use crate::config::Config;
use crate::io::{Io, transmit};
use crate::peer::{PeerState, RefusedMessage};

/// Most boxes that are remembered. A message of a further one is dropped; all
/// of them hold the key, so this is a limit on mistakes.
const MAX: usize = 1024;
/// Most destinations whose box is remembered.
const ROUTES: usize = 1024;

/// Shortest time between two answers to messages with another key.
const ANSWER: Span = Span::from_millis(200);

/// A box that was heard.
struct Known {
    replay: Replay,
    state: PeerState,
}

/// Keys of the control messages, and the messages seen of each box.
pub(crate) struct Peers {
    keys: Keys,
    opcode: Opcode,
    node: NodeId,
    boot: BootId,
    sent: u64,
    boxes: HashMap<NodeId, Known, foldhash::quality::FixedState>,
    refused: Option<RefusedMessage>,
    /// When a message with another key was last answered.
    answered: Option<Time>,
    /// The box that was last heard for a flow to a destination. Two destinations may have the
    /// same place: then the newer one is remembered.
    routes: Box<[Option<(Addr, NodeId)>]>,
}

/// Why an authentic message isn't accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Our own message came back, or there are too many boxes.
    Stranger,
    /// Seen before, or too old to tell.
    Replayed,
}

/// The destination of a control message, and the flow that it is about.
pub(crate) struct Address<'a> {
    /// Headers of the message.
    pub headers: &'a Headers,
    /// Destination QPN of the message.
    pub qpn: Qpn,
    /// The box that it is for, if it is known.
    pub node: Option<NodeId>,
    /// Destination QPN of the flow.
    pub dest_qpn: Qpn,
    /// Epoch of the flow.
    pub epoch: Epoch,
}

impl Peers {
    /// No box is known yet.
    pub fn new(config: &Config) -> Self {
        let state = foldhash::quality::FixedState::with_seed(config.hash_seed);
        Self {
            keys: config.keys.clone(),
            opcode: config.control_opcode,
            node: config.node,
            boot: config.boot,
            sent: 0,
            boxes: HashMap::with_hasher(state),
            refused: None,
            answered: None,
            routes: vec![None; ROUTES].into_boxed_slice(),
        }
    }

    /// Replaces the keys.
    pub fn set_keys(&mut self, keys: &Keys) {
        self.keys = keys.clone();
    }

    /// The BTH opcode of control messages.
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Whether a packet with that opcode is a control message, rather than another use of it.
    pub fn is_message(&self, bytes: &[u8], roce: &Roce) -> bool {
        control::is_ours(bytes, roce, self.opcode)
    }

    /// Decodes a control message and authenticates it.
    pub fn decode(&self, bytes: &[u8], roce: &Roce) -> Option<Result<(Header, Message), Reject>> {
        control::decode(bytes, roce, self.opcode, &self.keys)
    }

    /// Makes a control message and transmits it.
    pub fn send<I: Io>(
        &mut self,
        counters: &mut Counters,
        io: &mut I,
        to: &Address<'_>,
        message: &Message,
        class: Class,
    ) {
        let (created, failed) = match message {
            Message::Sync(_) => (Metric::CreatedSync, Metric::AllocSync),
            Message::Fetch(_) => (Metric::CreatedFetch, Metric::AllocFetch),
            Message::Status(_) => (Metric::CreatedStatus, Metric::AllocStatus),
            Message::Absent(_) => (Metric::CreatedAbsent, Metric::AllocAbsent),
        };
        if let Message::Sync(sync) = message {
            counters.inc(match sync.reason {
                Reason::Open => Metric::SyncOpen,
                Reason::Tail => Metric::SyncTail,
                Reason::Resent => Metric::SyncResent,
                Reason::Keepalive => Metric::SyncKeepalive,
                Reason::Release => Metric::SyncRelease,
                Reason::Lost => Metric::SyncLost,
            });
        }
        let &Address { headers, qpn, node, dest_qpn, epoch } = to;
        let Some(mut frame) = io.alloc(headers.frame_len(control::body_len(message))) else {
            return counters.inc(failed);
        };
        let header = self.header(node, dest_qpn, epoch);
        let bytes = frame.bytes_mut();
        control::encode(headers, self.opcode, qpn, &header, message, &self.keys, bytes);
        counters.inc(created);
        transmit(counters, io, Side::Wan, class, Packet::Owned(frame));
    }

    fn route(&mut self, to: &Addr) -> &mut Option<(Addr, NodeId)> {
        let hash = self.boxes.hasher().hash_one(to);
        &mut self.routes[hash as usize % ROUTES]
    }

    /// `node` was heard for a flow to `to`.
    pub fn learn_route(&mut self, to: Addr, node: NodeId) {
        *self.route(&to) = Some((to, node));
    }

    /// Nothing is heard for flows to `to` any more.
    pub fn forget_route(&mut self, to: &Addr) {
        self.route(to).take_if(|(known, _)| known == to);
    }

    /// The box of flows to `to`, if it is known (R-PEER-11).
    pub fn towards(&mut self, to: &Addr) -> Option<NodeId> {
        self.route(to).filter(|(known, _)| known == to).map(|(_, node)| node)
    }

    /// When this box started.
    pub fn boot(&self) -> BootId {
        self.boot
    }

    /// Accepts each message of each peer once (R-CTL-3).
    pub fn accept(&mut self, header: &Header, from: Addr, now: Time) -> Result<(), Refused> {
        let known = self.boxes.contains_key(&header.node);
        // R-CTL-2
        if header.node == self.node || (!known && self.boxes.len() >= MAX) {
            return Err(Refused::Stranger);
        }
        let known = self.boxes.entry(header.node).or_insert_with(|| Known {
            replay: Replay::default(),
            state: PeerState {
                node: header.node,
                boot: header.boot,
                address: from,
                heard: now,
                named_us: None,
                reported: None,
                round_trip: None,
            },
        });
        match known.replay.accept(header.boot, header.seq) {
            Ok(_) => {
                let state = &mut known.state;
                if state.boot != header.boot {
                    state.named_us = None;
                }
                (state.boot, state.address, state.heard) = (header.boot, from, now);
                if header.seen_boot == self.boot {
                    state.named_us = Some(now);
                }
                Ok(())
            }
            Err(Stale::OldBoot | Stale::Replayed | Stale::TooOld) => Err(Refused::Replayed),
        }
    }

    /// A STATUS of `node` was understood, by a flow with that round trip.
    pub fn reported(&mut self, node: NodeId, now: Time, round_trip: Option<Span>) {
        if let Some(Known { state, .. }) = self.boxes.get_mut(&node) {
            state.reported = Some(now);
            state.round_trip = round_trip.or(state.round_trip);
        }
    }

    /// A message was refused. Returns whether it is time to answer one.
    pub fn refused(&mut self, refused: RefusedMessage) -> bool {
        self.refused = Some(refused);
        let is_due = self.answered.is_none_or(|at| refused.at.since(at) >= ANSWER);
        if is_due && refused.reason == Reject::BadTag {
            self.answered = Some(refused.at);
        }
        is_due
    }

    /// The boxes that were heard.
    pub fn states(&self) -> impl Iterator<Item = PeerState> {
        self.boxes.values().map(|known| known.state)
    }

    /// The newest message that was refused.
    pub fn last_refusal(&self) -> Option<RefusedMessage> {
        self.refused
    }

    /// The header of the next message about a flow, to `peer` if it is known.
    fn header(&mut self, peer: Option<NodeId>, dest_qpn: Qpn, epoch: Epoch) -> Header {
        self.sent += 1;
        let seen = peer.and_then(|node| self.boxes.get(&node));
        Header {
            node: self.node,
            boot: self.boot,
            seq: self.sent,
            seen_boot: seen.map_or(BootId::NONE, |known| known.replay.boot()),
            dest_qpn,
            epoch,
        }
    }
}
