//! Control messages of the peer.

use common::control::{self, Fetch, Header, Message, Reason, Reject, Status, SyncMessage};
use common::frame::{Frame, Pool, Side, Sink};
use common::metrics::Metric;
use common::time::Time;
use common::wire::Roce;

use crate::Recovery;
use crate::flow::entry::{Id, Pipeline};
use crate::flow::key::{FlowKey, Hosts};
use crate::switch::{Io, Switch};
use crate::tx::peers::Refused;

impl<F: Frame> Switch<F> {
    /// A frame with the opcode of control messages. One that is ours ends here
    /// whatever comes of it.
    pub(crate) fn on_control<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let bytes = frame.bytes();
        if !control::is_ours(bytes, roce, self.tx.opcode) {
            // Somebody else's use of the opcode.
            return self.pass(side, frame, Metric::PassedTransport, io);
        }
        let booked = match side {
            // No host has anything to say to a gateway.
            Side::Lan => Metric::DropControlFromLan,
            Side::Wan => self.on_message(bytes, roce, io),
        };
        self.tx.counters.inc(booked);
    }

    /// What the peer says, or somebody in its name.
    fn on_message<P, S>(&mut self, bytes: &[u8], roce: &Roce, io: &mut Io<'_, P, S>) -> Metric
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let decoded = control::decode(bytes, roce, self.tx.opcode, &self.tx.keys);
        let (header, message) = match decoded {
            Some(Ok(message)) => message,
            Some(Err(reject)) => return rejected(reject),
            None => return Metric::DropControlInvalid,
        };
        match self.tx.peers.accept(&header) {
            Err(Refused::Stranger) => return Metric::DropControlInvalid,
            Err(Refused::Replayed) => return Metric::DropControlReplayed,
            Ok(()) => {}
        }
        // While requests pass unseen, whatever a STATUS said of them would be
        // wrong.
        let works = self.config.recovery != Recovery::Off;
        let is_depot = works && self.config.role.is_depot() && !self.draining;
        match message {
            Message::Sync(sync) if is_depot => self.on_sync(&header, &sync, bytes, roce, io),
            Message::Fetch(fetch) if is_depot => self.on_fetch(&header, &fetch, roce, io),
            Message::Status(status) if works && self.config.role.is_sentry() => {
                self.on_status(&header, &status, roce, io)
            }
            Message::Absent(absent) if works && self.config.role.is_sentry() => {
                self.on_absent(&header, &absent, roce, io)
            }
            _ => Metric::DropControlUnknownFlow,
        }
    }

    fn on_sync<P, S>(
        &mut self,
        header: &Header,
        sync: &SyncMessage,
        bytes: &[u8],
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) -> Metric
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let hosts = Hosts::of(Side::Wan, roce);
        let key = FlowKey { hosts, dest_qpn: header.dest_qpn };
        let id = match sync.next_psn {
            Some(next) => {
                let Some(id) = self.entry(key, io.now) else {
                    return Metric::DropControlUnknownFlow;
                };
                self.prepare(id, next, bytes, roce, io.now);
                id
            }
            // It vouches for resends only: a flow can't begin with it.
            None => match self.table.find(&key) {
                Some(id) => id,
                None => return Metric::DropControlUnknownFlow,
            },
        };
        let incarnation = incarnation_of(header);
        let Some(Pipeline::Depot(stage)) = self.table.get_mut(id).map(|entry| &mut entry.pipeline)
        else {
            return Metric::DropControlUnknownFlow;
        };
        if stage.state.is_replaced_by(incarnation) {
            // The requester of another incarnation may be another one, too.
            stage.node = Some(header.node);
            if let Some(next) = sync.next_psn {
                stage.track.arrived.begin_again(next);
            }
            self.table.begin_incarnation(id);
        } else if stage.state.is_synced() && !stage.state.is_of(incarnation) {
            // Of an older one, overtaken.
            return Metric::DropSyncConsumed;
        } else {
            stage.node = Some(header.node);
        }
        self.adopt_requester(id, sync.src_qpn, io.now);
        // Otherwise it shows nothing of the way back.
        let hears = header.seen_boot == self.tx.peers.boot();
        self.with_depot(id, io, |flow, cx| match sync.reason {
            Reason::Release => flow.on_sync(cx, incarnation, sync),
            _ if hears => flow.on_sync(cx, incarnation, sync),
            _ => flow.on_unheard(cx, incarnation, sync),
        });
        if sync.reason == Reason::Release
            && let Some(entry) = self.table.get_mut(id)
        {
            // Nothing is held any more. Whoever announces the flow next may speak of
            // another incarnation, of which what was acknowledged so far is not true.
            entry.pipeline = Pipeline::None;
        }
        Metric::DropSyncConsumed
    }

    fn on_fetch<P, S>(
        &mut self,
        header: &Header,
        fetch: &Fetch,
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) -> Metric
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let hosts = Hosts::of(Side::Wan, roce);
        let id = self.table.find(&FlowKey { hosts, dest_qpn: header.dest_qpn });
        match id.and_then(|id| Some((id, &self.table.get(id)?.pipeline))) {
            Some((id, Pipeline::Depot(stage))) if stage.state.is_of(incarnation_of(header)) => {
                self.with_depot(id, io, |flow, cx| flow.on_fetch(cx, fetch));
                Metric::DropFetchConsumed
            }
            _ => Metric::DropControlUnknownFlow,
        }
    }

    fn on_status<P, S>(
        &mut self,
        header: &Header,
        status: &Status,
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) -> Metric
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let hosts = Hosts::of(Side::Wan, roce).reversed();
        let key = FlowKey { hosts, dest_qpn: header.dest_qpn };
        // It must speak of this incarnation of the flow, and to this incarnation of ours.
        let current = header.seen_boot == self.tx.peers.boot();
        if current && status.passive {
            self.farewell.answered(&key, header.epoch);
        }
        let Some(id) = self.table.find(&key) else { return Metric::DropControlUnknownFlow };
        match self.table.get_mut(id).map(|entry| &mut entry.pipeline) {
            Some(Pipeline::Sentry(stage)) if current && stage.state.epoch() == header.epoch => {
                stage.node = Some(header.node);
                self.tx.peers.learn_route(roce.src, header.node);
            }
            _ => return Metric::DropControlUnknownFlow,
        }
        self.adopt_requester(id, status.src_qpn, io.now);
        let understood = self
            .with_sentry(id, io, |flow, cx| (flow.on_status(cx, header.boot, status), flow.rtt()));
        match understood {
            Some((true, rtt)) => {
                if let Some(rtt) = rtt {
                    self.tx.counters.set(Metric::PathRtt, rtt.as_nanos());
                }
                Metric::DropStatusConsumed
            }
            _ => Metric::DropControlInvalid,
        }
    }

    fn on_absent<P, S>(
        &mut self,
        header: &Header,
        absent: &Fetch,
        roce: &Roce,
        io: &mut Io<'_, P, S>,
    ) -> Metric
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let hosts = Hosts::of(Side::Wan, roce).reversed();
        let id = self.table.find(&FlowKey { hosts, dest_qpn: header.dest_qpn });
        let current = header.seen_boot == self.tx.peers.boot();
        match id.and_then(|id| Some((id, &self.table.get(id)?.pipeline))) {
            Some((id, Pipeline::Sentry(stage)))
                if current && stage.state.epoch() == header.epoch =>
            {
                self.with_sentry(id, io, |flow, cx| flow.on_absent(cx, absent));
                Metric::DropAbsentConsumed
            }
            _ => Metric::DropControlUnknownFlow,
        }
    }

    /// The peer knows the requester of flow `id`.
    fn adopt_requester(&mut self, id: Id, qpn: Option<u32>, now: Time) {
        let (Some(qpn), Some(entry)) = (qpn, self.table.get(id)) else { return };
        if entry.peer().is_some() {
            return;
        }
        let answers = FlowKey { hosts: entry.key.hosts.reversed(), dest_qpn: qpn };
        if let Some(other) = self.entry(answers, now)
            && self.table.get(other).is_some_and(|entry| entry.peer().is_none())
        {
            self.table.pair(id, other);
            self.tx.counters.inc(Metric::FlowPaired);
        }
    }
}

const fn incarnation_of(header: &Header) -> depot::Incarnation {
    depot::Incarnation { node: header.node, boot: header.boot, epoch: header.epoch }
}

const fn rejected(reject: Reject) -> Metric {
    match reject {
        Reject::BadIcrc => Metric::DropControlBadIcrc,
        Reject::Truncated => Metric::DropControlTruncated,
        Reject::Version => Metric::DropControlVersion,
        Reject::BadTag => Metric::DropControlBadTag,
        Reject::Invalid => Metric::DropControlInvalid,
    }
}
