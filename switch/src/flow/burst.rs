//! The frames of a burst as they were looked at, each with the entry of its flow.

use arrayvec::ArrayVec;
use common::cpu::prefetch;
use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::psn::Psn;
use common::time::Time;
use common::wire::{Ack, Look, Looked, NotRoce, Opcode, Roce, Transport, look, parse};

use crate::flow::key::{FlowKey, Ipv4Key};
use crate::flow::table::Table;

/// The frames of a burst.
pub(crate) struct Burst<const N: usize> {
    seen: ArrayVec<Seen, N>,
    /// Those that are no packets over IPv4 without VLAN tags and IP options.
    others: ArrayVec<Result<Roce, NotRoce>, N>,
}

/// A frame of a burst.
pub(crate) struct Seen {
    pub look: Look,
    /// The entry of its stream, if there is one.
    pub flow: Option<FlowId>,
    /// Its place among the others, or [`IPV4`], and then its `key` counts.
    other: u16,
    key: Ipv4Key,
    /// The hash of its stream's key.
    hash: u64,
}

/// It is none of the others.
const IPV4: u16 = u16::MAX;

/// Instead of a look at a frame that is no RoCEv2 packet: no opcode of RC, nor one that a message may have.
const NOTHING: Look =
    Look { psn: Psn::new(0), l3: 0, end: 0, payload: 0, opcode: Opcode(0xff), ack_req: false };

impl Seen {
    /// One that was parsed at once, and is put with the `others`.
    #[inline(never)]
    fn other<F: Frame, const N: usize>(
        others: &mut ArrayVec<Result<Roce, NotRoce>, N>,
        side: Side,
        parsed: Result<Roce, NotRoce>,
        table: &Table<F>,
    ) -> Self {
        let (look, hash) = match &parsed {
            Ok(roce) => {
                let hash = table.hash().of(&FlowKey::of(side, roce));
                (roce.into(), table.prefetch_bucket(hash))
            }
            Err(_) => (NOTHING, 0),
        };
        let other = others.len() as u16;
        others.push(parsed);
        Self { look, flow: None, other, key: Ipv4Key::NONE, hash }
    }
}

impl<const N: usize> Burst<N> {
    /// No frame yet. It is not made by [`look_at`](Self::look_at), which would copy all of it.
    #[inline(always)]
    pub const fn new() -> Self {
        Self { seen: ArrayVec::new_const(), others: ArrayVec::new_const() }
    }

    /// Looks at frames that arrived on `side`, and then looks them up: all of them are looked at
    /// first, so that their cache misses overlap. Each step ends where the next would have to wait for memory.
    #[inline(always)]
    pub fn look_at<F: Frame>(&mut self, side: Side, frames: &[F], table: &Table<F>, now: Time) {
        let Self { seen, others } = self;
        for frame in frames {
            match look(frame.bytes()) {
                Looked::Ipv4(flow, look) => {
                    // A Sentry notes the ICRC of each packet.
                    if side == Side::Lan
                        && let Some(icrc) = frame.bytes().get(usize::from(look.end) - 1)
                    {
                        prefetch(icrc);
                    }
                    let key = Ipv4Key::of(side, &flow);
                    let hash = table.prefetch_bucket(table.hash().of_ipv4(&key));
                    seen.push(Seen { look, flow: None, other: IPV4, key, hash });
                }
                Looked::Other(parsed) => seen.push(Seen::other(others, side, parsed, table)),
            }
        }
        for seen in seen.iter_mut().filter(|seen| seen.look.opcode.transport() == Transport::Rc) {
            seen.flow = table.guess(seen.hash);
        }
        for seen in seen.iter_mut() {
            let Some(guess) = seen.flow else { continue };
            seen.flow = match others.get(usize::from(seen.other)) {
                None => table.find_ipv4(guess, seen.hash, &seen.key),
                Some(Ok(roce)) => table.find_key(guess, seen.hash, &FlowKey::of(side, roce)),
                Some(Err(_)) => None,
            };
        }
        if table.is_large() {
            let mut acks = ArrayVec::<_, N>::new();
            for Seen { look, flow, .. } in seen.iter() {
                match flow {
                    Some(id) if look.opcode == Opcode::ACK => {
                        table.prefetch_peer(*id);
                        acks.push(*id);
                    }
                    Some(id) => table.prefetch_old_headers(*id, now),
                    None => {}
                }
            }
            acks.iter().for_each(|id| table.prefetch_oldest_of_peer(*id));
        }
    }

    /// The frames, in their order.
    pub fn frames(&self) -> &[Seen] {
        &self.seen
    }

    /// The positive ACK that a frame with these bytes and its opcode is, if it is intact.
    #[inline(always)]
    pub fn ack(&self, seen: &Seen, bytes: &[u8]) -> Option<Ack> {
        match self.others.get(usize::from(seen.other)) {
            None => Ack::of_ipv4(&seen.look, bytes),
            Some(Ok(roce)) => Ack::of(roce, bytes),
            Some(Err(_)) => None,
        }
    }

    /// All of the headers of a frame with these bytes.
    ///
    /// # Errors
    /// See [`parse`].
    #[inline]
    pub fn parsed(&self, seen: &Seen, bytes: &[u8]) -> Result<Roce, NotRoce> {
        self.others.get(usize::from(seen.other)).copied().unwrap_or_else(|| parse(bytes))
    }
}
