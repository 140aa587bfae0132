//! What destinations send back: ACKs, NAKs, READ responses.

use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Answer, Roce, Verdict, icrc_ok};

use crate::flow::coarse_time::CoarseTime;
use crate::flow::entry::{Id, Pipeline};
use crate::flow::key::FlowKey;
use crate::flow::psn_range::ResponseInfo;
use crate::switch::{Io, Switch};

/// For how many round trips a pairing has to be confirmed.
const CONFIRMED_FOR: u64 = 2;
/// The same, at most, where the destination is on the LAN.
const NEAR: Span = Span::from_millis(10);

impl<F: Frame> Switch<F> {
    /// An answer passes; the flow that it is for learns from it, and may hold
    /// it or answer it.
    pub(crate) fn on_answer<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        found: Option<Id>,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(answer) = Answer::of(roce, frame.bytes()) else {
            return self.forward(side, frame, io);
        };
        match answer.verdict {
            Verdict::NotReady => self.tx.counters.inc(Metric::NakRnr),
            Verdict::Missing => self.tx.counters.inc(Metric::NakDestination),
            _ => {}
        }
        if !icrc_ok(frame.bytes(), roce) {
            // The RNIC will drop it; believing it could complete what was
            // never delivered.
            return self.pass(side, frame, Metric::PassedBadIcrc, io);
        }
        let key = FlowKey::of(side, roce);
        let heard =
            ResponseInfo { psn: roce.psn, is_nak: answer.is_nak(), src_port: roce.src_port };
        let flow = self.flow_of_answer(key, found, &heard, io.now);
        match flow.and_then(|id| self.table.get(id)).map(|entry| &entry.pipeline) {
            Some(Pipeline::Sentry(_)) => {
                let id = flow.unwrap_or_default();
                self.with_sentry(id, io, |flow, cx| flow.on_answer(cx, frame, roce, answer));
            }
            Some(Pipeline::Depot(_)) => {
                let id = flow.unwrap_or_default();
                let known = self.with_depot(id, io, |flow, cx| flow.on_answer(cx, frame, answer));
                if known == Some(depot::Known::NewIncarnation) {
                    self.table.begin_incarnation(id);
                }
            }
            Some(Pipeline::None) | None => {
                if heard.is_nak && side == Side::Wan {
                    self.on_doubtful_nak(&key, &heard, io);
                }
                self.forward(side, frame, io);
            }
        }
    }

    /// A NAK passes, for one of several flows: none of them may filter what it
    /// makes a source send again.
    fn on_doubtful_nak<P, S>(&mut self, key: &FlowKey, heard: &ResponseInfo, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        for id in self.table.possible_flows(&key.hosts.reversed(), heard) {
            self.with_sentry(id, io, |flow, _| flow.on_doubtful_nak(heard.psn));
        }
    }

    /// The flow whose requests the answers of stream `key` are for, if that is
    /// sure.
    fn flow_of_answer(
        &mut self,
        key: FlowKey,
        found: Option<Id>,
        answer: &ResponseInfo,
        now: Time,
    ) -> Option<Id> {
        let id = match found.or_else(|| self.table.find(&key)) {
            Some(id) => id,
            // No request between these hosts was seen: nobody to learn from it.
            None if self.table.unpaired(&key.hosts.reversed()).is_empty() => return None,
            None => self.entry(key, now)?,
        };
        let entry = self.table.get_mut(id)?;
        entry.seen = CoarseTime::at(now);
        if let Some(peer) = entry.peer() {
            return Some(peer);
        }
        let spread = match key.hosts.side {
            Side::Wan => self.config.tuning.rtt_guess * CONFIRMED_FOR,
            // The destination is near.
            Side::Lan => (self.config.tuning.rtt_guess * CONFIRMED_FOR).min(NEAR),
        };
        let flow = self.table.match_answer(id, answer, now, spread)?;
        self.tx.counters.inc(Metric::FlowPaired);
        Some(flow)
    }
}
