//! The queue pairs of the traffic, and which packet belongs to which.

use common::time::{Span, Time};
use common::wire::{Addr, PacketKind, Position, Qpn, Roce};
use foldhash::fast::FixedState;

use super::end::End;
use super::flow::{Flow, Need, Reply, Request};

/// Most flows that are followed at a time; packets of others pass.
const MOST: usize = 256;
/// A flow of which nothing was seen for so long makes room.
const OLD: Span = Span::from_millis(10_000);

/// By a key that hosts choose; there are few of them.
type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;

/// A queue pair as packets address it.
type Key = (Addr, Addr, Qpn);

/// A flow of [`Flows`]; another one after the queue pair's number was used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowId(u64);

/// A packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// From its requester.
    Request(Request),
    /// To its requester.
    Reply(Reply),
}

/// All flows.
#[derive(Default)]
pub struct Flows {
    flows: Map<u64, Flow>,
    by_request: Map<Key, u64>,
    by_response: Map<Key, u64>,
    newest: u64,
    /// The flow whose packet came last.
    last: Option<FlowId>,
}

impl Flows {
    /// A RoCEv2 packet has come from `from`. Its flow and meaning, if it has one that is known.
    pub fn on_packet(
        &mut self,
        from: End,
        roce: &Roce,
        frame: &[u8],
        now: Time,
    ) -> Option<(FlowId, Seen)> {
        let key = (roce.src, roce.dst, roce.dest_qpn);
        let seen = if roce.kind().is_request() {
            let id = self.flow_of_request(from, key, roce, frame, now)?;
            let flow = self.flows.get_mut(&id)?;
            (FlowId(id), Seen::Request(flow.on_request(roce, frame, now)))
        } else if roce.kind().is_response() {
            let id = self.by_response.get(&key).copied().or_else(|| self.pair(from, key, roce))?;
            let flow = self.flows.get_mut(&id)?;
            (FlowId(id), Seen::Reply(flow.on_response(roce, frame, now)?))
        } else {
            return None;
        };
        self.last = Some(seen.0);
        Some(seen)
    }

    /// A flow, if it is still there.
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id.0)
    }

    /// The same, to note what was delivered.
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(&id.0)
    }

    /// The flow whose packet came last, if it offers what a check needs; else any that does.
    pub fn find(&self, need: Need, now: Time) -> Option<FlowId> {
        let offers = |id: &FlowId| self.get(*id).is_some_and(|flow| flow.offers(need, now));
        let all = self.flows.keys().map(|id| FlowId(*id)).filter(offers);
        self.last.filter(offers).or_else(|| all.max_by_key(|id| id.0))
    }

    fn flow_of_request(
        &mut self,
        from: End,
        key: Key,
        roce: &Roce,
        frame: &[u8],
        now: Time,
    ) -> Option<u64> {
        if let Some(&id) = self.by_request.get(&key) {
            match self.flows.get(&id) {
                Some(flow) if !flow.is_another_use(roce.psn, now) => return Some(id),
                _ => self.remove(id),
            }
        }
        if self.flows.len() >= MOST {
            self.make_room(now);
        }
        if self.flows.len() >= MOST {
            return None;
        }
        self.newest += 1;
        self.flows.insert(self.newest, Flow::new(from, roce, frame, now));
        self.by_request.insert(key, self.newest);
        Some(self.newest)
    }

    /// The flow that a response of an unknown queue pair answers, once that is beyond doubt.
    fn pair(&mut self, from: End, (src, dst, qpn): Key, roce: &Roce) -> Option<u64> {
        let pmtu = match roce.kind() {
            PacketKind::ReadResponse(Position::First | Position::Middle) => roce.path_mtu(),
            _ => None,
        };
        let fits = |flow: &Flow| {
            let are_its_hosts = flow.requester != from && (flow.src, flow.dst) == (dst, src);
            are_its_hosts && flow.may_have_asked(roce.psn)
        };
        let mut fitting = self.flows.iter_mut().filter(|(_, flow)| fits(flow));
        let (&id, flow) = fitting.next()?;
        // Where several queue pairs are at the same PSNs, nothing tells which of them it answers.
        if fitting.next().is_some() || !flow.vote(qpn, pmtu) {
            return None;
        }
        self.by_response.insert((src, dst, qpn), id);
        Some(id)
    }

    fn remove(&mut self, id: u64) {
        self.flows.remove(&id);
        self.by_request.retain(|_, of| *of != id);
        self.by_response.retain(|_, of| *of != id);
    }

    fn make_room(&mut self, now: Time) {
        let old = |flow: &Flow| now.since(flow.last_seen) > OLD;
        let gone: Vec<u64> =
            self.flows.iter().filter(|(_, flow)| old(flow)).map(|(id, _)| *id).collect();
        for id in gone {
            self.remove(id);
        }
    }
}
