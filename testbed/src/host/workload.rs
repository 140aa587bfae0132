//! Keeping queue pairs busy.

use rnic::{ATOMIC_LEN, Nic, QpId, WorkKind, WorkRequest};

use common::time::Time;

/// READs or atomics kept waiting per QP: as many as a QP may have on their way
/// unless told otherwise.
const FETCH_BACKLOG: u64 = 16;

/// Posts messages so that each QP always has some packets to send, and not
/// many more: a message that waits for a busy port would count that as part
/// of its completion time.
pub(super) struct Workload {
    qps: Vec<Posted>,
    kind: WorkKind,
    message: u32,
    packets_per_message: u64,
    /// Packets to keep waiting per QP.
    backlog: u64,
}

struct Posted {
    qp: QpId,
    packets: u64,
}

impl Workload {
    /// Messages of `message` bytes on each of `qps`. `backlog` packets are
    /// kept waiting, at least a message; of READs and atomics, whose requests
    /// are a packet each, as many as may be on their way.
    pub fn new(qps: &[QpId], kind: WorkKind, message: u32, pmtu: u32, backlog: u64) -> Self {
        let (message, packets_per_message, backlog) = match kind {
            _ if kind.is_atomic() => (ATOMIC_LEN, 1, FETCH_BACKLOG),
            WorkKind::Read => (message, 1, FETCH_BACKLOG),
            _ => (message, u64::from(message.div_ceil(pmtu).max(1)), backlog),
        };
        Self {
            qps: qps.iter().map(|&qp| Posted { qp, packets: 0 }).collect(),
            kind,
            message,
            packets_per_message,
            backlog: backlog.max(packets_per_message),
        }
    }

    /// Posts work requests up to the configured number.
    pub fn top_up(&mut self, nic: &mut Nic, now: Time) {
        let work = WorkRequest { kind: self.kind, len: self.message, id: 0 };
        for posted in &mut self.qps {
            let stats = nic.stats(posted.qp).requester;
            let sent_once = stats.packets - stats.retransmitted;
            while posted.packets - sent_once < self.backlog {
                // A QP that has failed takes nothing more; the report tells.
                if nic.post(posted.qp, work, now).is_err() {
                    break;
                }
                posted.packets += self.packets_per_message;
            }
        }
    }

    /// Messages that are not completed.
    pub fn pending(&self, nic: &Nic) -> usize {
        self.qps.iter().map(|posted| nic.pending(posted.qp)).sum()
    }

    /// Whether no QP works any more.
    pub fn all_failed(&self, nic: &Nic) -> bool {
        self.qps.iter().all(|posted| nic.has_failed(posted.qp))
    }
}

#[cfg(test)]
mod tests {
    use common::heap::HeapPool;
    use common::wire::Qpn;
    use rnic::{NicConfig, QpConfig, lab_ip};

    use super::*;

    fn config() -> QpConfig {
        QpConfig::new(Qpn::new(1), Qpn::new(2), [3; 6], lab_ip(2))
    }

    #[test]
    fn something_always_waits_but_not_much() {
        let mut nic = Nic::new(NicConfig::new([2; 6], lab_ip(1)));
        let qp = nic.add_qp(QpConfig { window: 10, ..config() }).expect("valid");
        let mut workload = Workload::new(&[qp], WorkKind::Write, 3_000, 1_024, 7);
        workload.top_up(&mut nic, Time::ZERO);
        assert_eq!(workload.pending(&nic), 3); // 9 packets, 7 or more
        workload.top_up(&mut nic, Time::ZERO);
        assert_eq!(workload.pending(&nic), 3);
        while nic.poll_transmit(Time::ZERO, &mut HeapPool).is_some() {}
        workload.top_up(&mut nic, Time::ZERO);
        assert_eq!(workload.pending(&nic), 6); // 9 sent, 9 waiting
        while nic.poll_transmit(Time::ZERO, &mut HeapPool).is_some() {}
        workload.top_up(&mut nic, Time::ZERO);
        assert_eq!(workload.pending(&nic), 6); // the window let one out: 8 wait
        assert!(!workload.all_failed(&nic));
    }

    #[test]
    fn reads_wait_for_those_on_their_way() {
        for (kind, message) in [(WorkKind::Read, 1 << 20), (WorkKind::FetchAdd { add: 1 }, 99)] {
            let mut nic = Nic::new(NicConfig::new([2; 6], lab_ip(1)));
            let qp = nic.add_qp(QpConfig { window: 1 << 20, ..config() });
            let mut workload = Workload::new(&[qp.expect("valid")], kind, message, 1_024, 7);
            for pending in [16, 32, 32] {
                workload.top_up(&mut nic, Time::ZERO);
                assert_eq!(workload.pending(&nic), pending);
                while nic.poll_transmit(Time::ZERO, &mut HeapPool).is_some() {}
            }
        }
    }

    #[test]
    fn an_empty_message_is_a_packet() {
        let mut nic = Nic::new(NicConfig::new([2; 6], lab_ip(1)));
        let qp = nic.add_qp(config()).expect("valid");
        let mut workload = Workload::new(&[qp], WorkKind::Send, 0, 1_024, 4);
        workload.top_up(&mut nic, Time::ZERO);
        assert_eq!(workload.pending(&nic), 4);
    }
}
