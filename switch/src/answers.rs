//! What destinations send back: ACKs, NAKs, READ responses.

use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Aeth, AethKind, Roce, icrc_ok};

use crate::pairing::Answer;
use crate::switch::{Io, Switch};
use crate::table::{FlowKey, Hosts, Id};

/// For how many round trips a pairing has to be confirmed.
const CONFIRMED_FOR: u64 = 2;

/// What an answer means to a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    /// Everything up to and including its PSN has arrived.
    Acknowledged,
    /// Everything before its PSN has arrived; the source is to come again
    /// later (RNR NAK).
    NotReady,
    /// Everything before its PSN has arrived; its PSN is missing (NAK).
    Missing,
    /// An error that no gateway can help with.
    Failed,
}

impl Meaning {
    fn of(aeth: Option<Aeth>) -> Self {
        // A middle READ response has no AETH, and proves as much as an ACK.
        match aeth.map(Aeth::kind) {
            None | Some(AethKind::Ack { .. }) => Self::Acknowledged,
            Some(AethKind::Rnr { .. }) => Self::NotReady,
            Some(AethKind::Nak { code: 0 }) => Self::Missing,
            Some(AethKind::Nak { .. } | AethKind::Reserved) => Self::Failed,
        }
    }
}

impl<F: Frame> Switch<F> {
    /// An answer passes; the flow that it is for learns from it.
    pub(crate) fn on_answer<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let aeth = roce.aeth(frame.bytes());
        let meaning = Meaning::of(aeth);
        match meaning {
            Meaning::NotReady => self.voice.counters.inc(Metric::NakRnr),
            Meaning::Missing => self.voice.counters.inc(Metric::NakDestination),
            Meaning::Acknowledged => {}
            Meaning::Failed => return self.forward(side, frame, io),
        }
        if !icrc_ok(frame.bytes(), roce) {
            // The RNIC will drop it; believing it could complete what was
            // never delivered.
            return self.pass(side, frame, Metric::PassedBadIcrc, io);
        }
        let psn = roce.psn;
        let is_nak = meaning != Meaning::Acknowledged;
        let answer = Answer { psn, is_nak, src_port: roce.src_port };
        let key = FlowKey { hosts: Hosts::of(side, roce), dest_qpn: roce.dest_qpn };
        let Some(flow) = self.flow_of_answer(key, &answer, io.now) else {
            return self.forward(side, frame, io);
        };
        let msn = aeth.map_or(0, |aeth| aeth.msn);
        self.with_sentry(flow, io, |flow, cx| match meaning {
            Meaning::Acknowledged => flow.on_ack(cx, psn, msn),
            _ => flow.on_nak(cx, psn, msn),
        });
        let verdict = self.with_depot(flow, io, |flow, cx| match meaning {
            Meaning::Missing => flow.on_nak(cx, psn, msn),
            Meaning::Acknowledged => flow.on_ack(cx, psn, msn),
            _ => flow.on_rnr(cx, psn, msn),
        });
        match verdict {
            Some(depot::Verdict::Absorb) => self.voice.counters.inc(Metric::DropNakAbsorbed),
            Some(depot::Verdict::NewLife) => {
                self.table.begin_life(flow);
                self.forward(side, frame, io);
            }
            Some(depot::Verdict::Forward) | None => self.forward(side, frame, io),
        }
    }

    /// The flow whose requests the answers of stream `key` are for, if that is
    /// sure.
    fn flow_of_answer(&mut self, key: FlowKey, answer: &Answer, now: Time) -> Option<Id> {
        let id = match self.table.find(&key) {
            Some(id) => id,
            // No request between these hosts was seen: nobody to learn from it.
            None if self.table.unpaired(&key.hosts.reversed()).is_empty() => return None,
            None => self.entry(key, now)?,
        };
        let entry = self.table.get_mut(id)?;
        entry.seen = now;
        if let Some(peer) = entry.peer {
            return Some(peer);
        }
        let spread = self.config.tuning.rtt_guess * CONFIRMED_FOR;
        let flow = self.table.match_answer(id, answer, now, spread)?;
        self.voice.counters.inc(Metric::FlowPaired);
        Some(flow)
    }
}
