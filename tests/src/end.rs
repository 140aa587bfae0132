//! One end of the link.

use common::heap::HeapFrame;
use common::psn::Psn;
use rnic::{Nic, NicConfig, QpConfig, QpId, lab_ip};
use switch::Switch;

use crate::link::Link;
use crate::scenario::Scenario;
use crate::world::START;

/// One end: a NIC and, if there is one, its switch.
pub(crate) struct End {
    pub nic: Nic,
    pub switch: Option<Switch<HeapFrame>>,
    /// Which life of the switch it is.
    pub boot: u64,
    /// Towards the switch, towards the NIC, out on the long-haul link.
    pub links: [Link; 3],
    pub qps: Vec<QpId>,
    /// Messages received per QP, and whether all were as they should be.
    pub received: Vec<u64>,
    pub completed: u64,
    pub failed: u64,
}

impl End {
    pub fn new(me: usize, scenario: &Scenario, psns: &[(Psn, Psn)]) -> Self {
        let mac = |who: usize| [2, 0, 0, 0, 0, who as u8];
        let mut config = NicConfig::new(mac(me), lab_ip(me as u8 + 1));
        config.rate = Some(scenario.rate);
        let mut nic = Nic::new(config);
        let qps = (0..scenario.qps)
            .map(|q| {
                // Both ends may have the same QPN.
                let (mine, theirs) = (0x11 + q, 0x11 + q * 3);
                let (mine, theirs) = if me == 0 { (mine, theirs) } else { (theirs, mine) };
                let (first, second) = psns[q as usize];
                let (send, recv) = if me == 0 { (first, second) } else { (second, first) };
                let peer = 1 - me;
                let base = QpConfig::new(mine, theirs, mac(peer), lab_ip(peer as u8 + 1));
                nic.add_qp(QpConfig {
                    send_psn: send,
                    recv_psn: recv,
                    pmtu: scenario.pmtu,
                    window: scenario.window,
                    ack_req_every: scenario.ack_req_every,
                    timeout: scenario.timeout,
                    retry: scenario.retry,
                    second_nak: scenario.second_nak,
                    receive_queue: scenario.receive_queue,
                    adaptive_retransmission: scenario.adaptive_retransmission,
                    implied_nak: scenario.implied_nak,
                    partial_read: scenario.partial_read,
                    content_seed: scenario.seed,
                    ..base
                })
                .expect("the scenario is in range")
            })
            .collect();
        let switch = scenario.switch(me, 1);
        let lan = if me == 0 { scenario.lan0 } else { [scenario.lan1[1], scenario.lan1[0]] };
        let link = |delay, impairment| {
            let mut link = Link::new(delay);
            link.impairment = impairment;
            link.until = START + scenario.adverse_for;
            link
        };
        Self {
            nic,
            switch,
            boot: 1,
            links: [
                link(scenario.lan_delay, lan[0]),
                link(scenario.lan_delay, lan[1]),
                link(scenario.wan_delay, scenario.wan[me]),
            ],
            qps,
            received: vec![0; scenario.qps as usize],
            completed: 0,
            failed: 0,
        }
    }
}
