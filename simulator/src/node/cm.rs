//! Connection management at a host: who asks for connections and who accepts
//! them, in datagrams of QP 1 that are lost and sent again like any other.
//!
//! The host that asks sends a REQ until it has the REP, and answers each REP with
//! an RTU; the one that accepts answers each REQ with its REP, and repeats that
//! until it has the RTU. Both without end.

use std::collections::VecDeque;
use std::net::IpAddr;

use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::cm::{self, CommId, Ids, Message, Rep, Req};
use common::wire::{Addr, Headers, MacAddr, Qpn, Roce, Vlans, parse};
use hashbrown::HashMap;

use crate::frame::SimFrame;

/// Length of every message's frame: Ethernet, IPv4, UDP, BTH, DETH, MAD, ICRC.
const FRAME_LEN: usize = 14 + 20 + 8 + 12 + 8 + 256 + 4;

/// One end of a connection, as it describes itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// MAC address of its host.
    pub mac: MacAddr,
    /// IP address of its host.
    pub ip: IpAddr,
    /// The id of the connection, unique on its host.
    pub comm: CommId,
    /// Its QP.
    pub qpn: Qpn,
    /// The PSN that it waits for first.
    pub recv_psn: Psn,
}

/// A connection that is being made.
#[derive(Clone, Copy, Debug)]
struct Open {
    here: End,
    there: End,
    pmtu: u16,
    /// When the newest message of ours counts as lost; [`Time::NEVER`]: nothing is
    /// waited for.
    due: Time,
}

/// The responder at a host's QP 1.
pub struct Agent {
    /// How long an answer is waited for.
    timeout: Span,
    /// Those that this host asks for, and, once asked, those it accepts; by the
    /// name it has given them.
    opening: HashMap<CommId, Open, foldhash::fast::FixedState>,
    /// Those that it will accept; by who asks, and the name there.
    expected: HashMap<(Addr, CommId), Open, foldhash::fast::FixedState>,
    /// When each of those asked for or accepted is due, the soonest first: all
    /// wait equally long.
    due: VecDeque<(Time, CommId)>,
    waiting: VecDeque<SimFrame>,
    made: VecDeque<CommId>,
    psn: Psn,
    /// Messages received and sent.
    frames: (u64, u64),
}

impl Agent {
    /// One that waits for answers for so long.
    pub fn new(timeout: Span) -> Self {
        Self {
            timeout,
            opening: HashMap::default(),
            expected: HashMap::default(),
            due: VecDeque::new(),
            waiting: VecDeque::new(),
            made: VecDeque::new(),
            psn: Psn::default(),
            frames: (0, 0),
        }
    }

    /// This host, `here`, asks `there` for a connection with that path MTU.
    pub fn ask(&mut self, here: End, there: End, pmtu: u16, now: Time) {
        let open = Open { here, there, pmtu, due: Time::NEVER };
        self.opening.insert(here.comm, open);
        self.send_first(here.comm, now);
    }

    /// This host, `here`, will accept the connection that `there` requests.
    pub fn expect(&mut self, here: End, there: End, pmtu: u16) {
        let open = Open { here, there, pmtu, due: Time::NEVER };
        self.expected.insert((there.ip.into(), there.comm), open);
    }

    /// The next connection of those that this host asked for that may be used, by
    /// its name here.
    pub fn made(&mut self) -> Option<CommId> {
        self.made.pop_front()
    }

    /// The headers of a frame that is for the agent and not for the RNIC.
    pub fn is_for(frame: &[u8]) -> Option<Roce> {
        if frame.len() != FRAME_LEN {
            return None;
        }
        let roce = parse(frame).ok()?;
        cm::is_candidate(&roce).then_some(roce)
    }

    /// Such a frame has arrived.
    pub fn receive(&mut self, frame: &[u8], roce: &Roce, now: Time) {
        self.frames.0 += 1;
        match cm::read(frame, roce) {
            Some(Message::Req(req)) => self.on_req(&req, now),
            Some(Message::Rep(rep)) => self.on_rep(rep.ids),
            Some(Message::Rtu(ids)) => {
                if let Some(open) = self.opening.get_mut(&ids.remote) {
                    open.due = Time::NEVER;
                }
            }
            _ => {}
        }
    }

    fn on_req(&mut self, req: &Req, now: Time) {
        let name = (req.local_gid, req.local);
        if let Some(open) = self.expected.get(&name).copied() {
            if self.opening.insert(open.here.comm, open).is_none() {
                self.send_first(open.here.comm, now);
            } else {
                // Ours was lost, or has crossed with this.
                self.send(&open);
            }
        }
    }

    fn on_rep(&mut self, ids: Ids) {
        let Some(open) = self.opening.get_mut(&ids.remote) else { return };
        if open.due != Time::NEVER {
            open.due = Time::NEVER;
            self.made.push_back(open.here.comm);
        }
        let open = *open;
        let rtu = Message::Rtu(Ids { local: open.here.comm, remote: open.there.comm });
        self.emit(&open, rtu);
    }

    /// Sends the first message of an exchange, and repeats it until it is answered.
    fn send_first(&mut self, comm: CommId, now: Time) {
        let due = now + self.timeout;
        let Some(open) = self.opening.get_mut(&comm) else { return };
        open.due = due;
        let open = *open;
        self.due.push_back((due, comm));
        self.send(&open);
    }

    /// The REQ of one that this host asks for, the REP of another.
    fn send(&mut self, open: &Open) {
        let Open { here, there, pmtu, .. } = *open;
        let message = if self.expected.contains_key(&(there.ip.into(), there.comm)) {
            let ids = Ids { local: here.comm, remote: there.comm };
            Message::Rep(Rep { ids, qpn: here.qpn, starting_psn: here.recv_psn })
        } else {
            Message::Req(Req {
                local: here.comm,
                qpn: here.qpn,
                starting_psn: here.recv_psn,
                pmtu,
                is_rc: true,
                local_gid: here.ip.into(),
                remote_gid: there.ip.into(),
            })
        };
        self.emit(open, message);
    }

    fn emit(&mut self, open: &Open, message: Message) {
        let Open { here, there, .. } = open;
        let headers = Headers::new(
            here.mac,
            there.mac,
            Vlans::NONE,
            here.ip,
            there.ip,
            // Of the range that RoCEv2 has for it, as Linux takes it for QP 1.
            0xc000 | Qpn::GSI.get() as u16,
            0,
            64,
        );
        let mut frame = vec![0; FRAME_LEN];
        cm::emit(&headers, self.psn, here.comm.into(), &message, &mut frame);
        self.psn = self.psn.offset(1);
        self.waiting.push_back(frame.into());
    }

    /// When [`on_timers`](Self::on_timers) has something to do;
    /// [`Time::NEVER`]: not by itself.
    pub fn next(&self) -> Time {
        self.due.front().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Repeats messages that were not answered in time.
    pub fn on_timers(&mut self, now: Time) {
        while let Some((at, comm)) = self.due.pop_front_if(|(at, _)| *at <= now) {
            if self.opening.get(&comm).is_some_and(|open| open.due == at) {
                self.send_first(comm, now);
            }
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<SimFrame> {
        let frame = self.waiting.pop_front()?;
        self.frames.1 += 1;
        Some(frame)
    }

    /// Messages received and sent.
    pub fn frames(&self) -> (u64, u64) {
        self.frames
    }
}
