//! One end of the link.

use std::collections::HashSet;

use common::control::{BootId, Keys};
use common::psn::Psn;
use common::time::Time;
use common::wire::{Qpn, Response, Verdict, parse};
use rnic::{ImpliedNak, Nic, NicConfig, QpConfig, QpId, lab_ip};

use crate::host::Ring;
use crate::link::Link;
use crate::scenario::Scenario;
use crate::workers::Workers;
use crate::world::START;

/// When each box booted first, by its clock.
pub(crate) const FIRST_BOOT: BootId = BootId(1_000);

/// One end: a NIC and, if there is one, its switch.
pub(crate) struct End {
    pub nic: Nic,
    pub switch: Option<Workers>,
    /// Where packets wait for the host, if it is slow.
    pub ring: Option<Ring>,
    /// Which incarnation of the switch it is.
    pub boot: BootId,
    /// Towards the switch, towards the NIC, out on the long-haul link and on a second path.
    pub links: Vec<Link>,
    pub qps: Vec<QpId>,
    /// Messages received per QP, and whether all were as they should be.
    pub received: Vec<u64>,
    pub completed: u64,
    pub failed: u64,
    /// QPN here and at the other end.
    qpns: Vec<(Qpn, Qpn)>,
    /// One past the newest request sent, per QP.
    next: Vec<Psn>,
    /// First PSN of a QP's present incarnation, if the incarnation before would have gone on
    /// with the very same.
    seamless: Vec<Option<Psn>>,
    /// Queue pair and PSN of each ACK that the NIC has sent.
    acks: HashSet<(Qpn, Psn)>,
    /// ACKs and NAKs that came with a wrong MSN.
    pub wrong_msn: u64,
}

impl End {
    pub fn new(me: usize, scenario: &Scenario, psns: &[(Psn, Psn)]) -> Self {
        let mac = |who: usize| [2, 0, 0, 0, 0, who as u8];
        let mut config = NicConfig::new(mac(me), lab_ip(me as u8 + 1));
        config.rate = Some(scenario.rate);
        let mut nic = Nic::new(config);
        let qpns: Vec<(Qpn, Qpn)> = (0..scenario.qps)
            .map(|q| {
                // Both ends may have the same QPN.
                let (mine, theirs) = (Qpn::new(0x11 + q), Qpn::new(0x11 + q * 3));
                if me == 0 { (mine, theirs) } else { (theirs, mine) }
            })
            .collect();
        let psns = psns.iter().map(|psns| if me == 0 { *psns } else { (psns.1, psns.0) });
        let next = psns.clone().map(|(send, _)| send).collect();
        let qps = qpns
            .iter()
            .zip(psns)
            .zip((0..scenario.hosts).cycle())
            .map(|((&(mine, theirs), (send, recv)), host)| {
                let peer = 1 - me;
                let address = |who: usize| lab_ip(2 * host + who as u8 + 1);
                let base = QpConfig::new(mine, theirs, mac(peer), address(peer));
                nic.add_qp(QpConfig {
                    local_ip: Some(address(me)),
                    send_psn: send,
                    recv_psn: recv,
                    pmtu: scenario.pmtu,
                    window: scenario.window,
                    ack_req_every: scenario.ack_req_every,
                    timeout: scenario.timeout,
                    retry: scenario.retry,
                    rnr_retry: scenario.rnr_retry,
                    second_nak: scenario.second_nak,
                    receive_queue: scenario.receive_queue,
                    adaptive_retransmission: scenario.adaptive_retransmission,
                    implied_nak: scenario.implied_nak,
                    // All are rxe's.
                    ack_completes_fetch: scenario.implied_nak == ImpliedNak::LaterRequest,
                    old_ack_ends_read: scenario.implied_nak == ImpliedNak::LaterRequest,
                    partial_read: scenario.partial_read,
                    content_seed: scenario.seed,
                    ..base
                })
                .expect("the scenario is in range")
            })
            .collect();
        let switch = scenario.switch(me, FIRST_BOOT, Keys::unkeyed_lab());
        let lan = if me == 0 { scenario.lan0 } else { [scenario.lan1[1], scenario.lan1[0]] };
        let link = |number, delay, impairment| {
            let mut link = Link::new(delay, [scenario.seed, number], scenario.slot());
            link.impairment = impairment;
            link.misbehave(0, START, scenario.adverse_for);
            link
        };
        let number = me as u64;
        let second = scenario.underlay.second.iter();
        let second = second.map(|path| link(6 + number, path.delay, path.impairments[me]));
        let links = [
            link(3 * number, scenario.lan_delay, lan[0]),
            link(3 * number + 1, scenario.lan_delay, lan[1]),
            link(3 * number + 2, scenario.wan_delay, scenario.wan[me]),
        ];
        Self {
            nic,
            switch,
            ring: scenario.host.map(Ring::new),
            boot: FIRST_BOOT,
            links: links.into_iter().chain(second).collect(),
            qps,
            received: vec![0; scenario.qps as usize],
            completed: 0,
            failed: 0,
            qpns,
            next,
            seamless: vec![None; scenario.qps as usize],
            acks: HashSet::new(),
            wrong_msn: 0,
        }
    }

    /// The NIC sends a frame.
    pub fn sends(&mut self, bytes: &[u8]) {
        let Ok(roce) = parse(bytes) else { return };
        self.acks.extend(acked(bytes));
        let q = self.qpns.iter().position(|(_, theirs)| *theirs == roce.dest_qpn);
        if let Some(next) = q.and_then(|q| self.next.get_mut(q))
            && roce.kind().is_request()
            && roce.psn.distance(*next) >= 0
        {
            *next = roce.psn.offset(1);
        }
    }

    /// One past the newest request that was sent on the first queue pair.
    pub fn next_psn(&self) -> Psn {
        self.next.first().copied().unwrap_or_default()
    }

    /// Queue pair `q` is used again, from these PSNs on.
    pub fn begin_incarnation(&mut self, q: usize, send: Psn, recv: Psn, now: Time) {
        self.seamless[q] = (self.next[q] == send).then_some(send);
        self.next[q] = send;
        self.received[q] = 0;
        self.nic.reset_qp(self.qps[q], send, recv, now);
    }

    /// Whether the NIC has sent an ACK with the PSN of this one.
    pub fn has_acked(&self, bytes: &[u8]) -> bool {
        acked(bytes).is_some_and(|acked| self.acks.contains(&acked))
    }

    /// A frame reaches the NIC. Returns a description if it is odd.
    ///
    /// # Panics
    /// If a READ or atomic is completed without its data by an ACK that is none of the other [NIC's](Self::has_acked): rxe
    /// itself repeats ACKs with such a PSN.
    pub fn receives(&mut self, bytes: &[u8], now: Time, is_of_nic: bool) -> Option<&'static str> {
        // A frame changes nothing but the queue pair that it is for.
        let qp = parse(bytes).ok().and_then(|roce| self.place_of(roce.dest_qpn));
        let qp = qp.map(|q| self.qps[q]);
        let counts = |nic: &Nic| qp.map(|qp| nic.stats(qp).requester).unwrap_or_default();
        let before = counts(&self.nic);
        self.nic.receive(bytes, now);
        let after = counts(&self.nic);
        let is_complete = is_of_nic || after.without_data == before.without_data;
        assert!(is_complete, "an ACK of a gateway ended a READ or atomic without its data");
        if after.wrong_msn > before.wrong_msn && !self.is_of_seamless_incarnation(bytes) {
            self.wrong_msn += 1;
            return Some("an ACK or NAK with a wrong MSN");
        }
        (after.beyond_sent > before.beyond_sent).then_some("an ACK of what was never sent")
    }

    /// Whether it is a NAK for the first packet of an incarnation that can't be told
    /// from the one before: a gateway that makes it still counts that one's
    /// messages. RNICs don't look at the count, and a NAK for the first packet
    /// acknowledges nothing.
    fn is_of_seamless_incarnation(&self, bytes: &[u8]) -> bool {
        let Ok(roce) = parse(bytes) else { return false };
        let is_nak = Response::of(&roce, bytes).is_some_and(|a| a.verdict == Verdict::Missing);
        let q = self.place_of(roce.dest_qpn);
        is_nak && q.is_some_and(|q| self.seamless[q] == Some(roce.psn))
    }

    /// Which queue pair of this end has that number.
    fn place_of(&self, qpn: Qpn) -> Option<usize> {
        self.qpns.iter().position(|(mine, _)| *mine == qpn)
    }
}

/// Queue pair and PSN of an ACK.
fn acked(bytes: &[u8]) -> Option<(Qpn, Psn)> {
    let roce = parse(bytes).ok()?;
    let response = Response::of(&roce, bytes)?;
    (response.verdict == Verdict::Acknowledged).then_some((roce.dest_qpn, roce.psn))
}
