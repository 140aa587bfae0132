//! RNICs that deviate from the model: what they send and take unlike it.

use std::collections::{HashSet, VecDeque};

use common::control::DEFAULT_OPCODE;
use common::frame::Frame;
use common::heap::HeapFrame;
use common::psn::Psn;
use common::wire::{
    Aeth, Headers, PacketKind, Qpn, Response, Roce, Transport, Verdict as Meaning, icrc, parse,
};
use testbed::rnic_check::End;

use super::World;

/// What the RNICs do unlike the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deviation {
    /// The requester heeds no NAK.
    IgnoresNaks,
    /// The responder answers no packet that it has had.
    DropsDuplicates,
    /// Both answer a control message by a NAK of what they expect.
    AnswersControl,
    /// The requester heeds no ACK but those of the responder itself.
    IgnoresOurAcks,
    /// The requester sends again what is not acknowledged when an old ACK comes.
    RepeatsAtOldAcks,
    /// Both compute another ICRC.
    OtherIcrc,
    /// The hosts answer what is not theirs by ICMP.
    AnswersByIcmp,
    /// The requester repeats no READ request.
    NeverAsksAgain,
    /// The responder keeps what is behind a gap.
    KeepsBehindGaps,
    /// The requester goes back to the oldest packet that is not acknowledged, not to the PSN of the NAK.
    GoesBackTooFar,
    /// The requester takes no ACK that comes behind one that was lost, and sends again.
    NeedsEveryAck,
    /// The responder answers frames that are no RoCE by a NAK of what it expects.
    AnswersAll,
    /// The requester sends again what is not acknowledged when a CNP comes.
    RepeatsAtCnps,
    /// After its timeout the requester does not send the oldest packet again.
    SkipsTheOldest,
    /// The responder executes an atomic that comes again.
    ExecutesTwice,
    /// The responder is silent.
    IsSilent,
    /// The responder answers one packet in 64 by a NAK, though it has come in order.
    RefusesForNothing,
}

/// What RNICs that deviate remember.
#[derive(Default)]
pub struct Memory {
    /// Highest PSN that the responder has had, for one that drops duplicates.
    had: Option<Psn>,
    /// Headers of the newest request.
    request: Option<Headers>,
    /// Packets behind a gap, for one that keeps them.
    kept: Vec<HeapFrame>,
    /// All frames of the responder, for a requester that heeds no others.
    responses: HashSet<Vec<u8>>,
    /// ACKs of the responder that have not come, for a requester that needs each.
    acks: VecDeque<Vec<u8>>,
    /// One past the PSN that was acknowledged last.
    acked: Psn,
    /// Highest PSN that the requester has sent.
    sent: Option<Psn>,
    /// PSNs of atomics that were answered.
    executed: HashSet<Psn>,
}

impl World {
    /// What an RNIC that deviates sends where the model sends a frame.
    pub(super) fn sends(&mut self, end: End, mut frame: HeapFrame) -> Option<HeapFrame> {
        let Ok(roce) = parse(frame.bytes()) else { return Some(frame) };
        let is_withheld = match (self.deviation, end) {
            // The model asks for the rest, whose length is no multiple of the whole.
            (Some(Deviation::NeverAsksAgain), End::A) if self.results().is_empty() => {
                roce.kind() == PacketKind::ReadRequest
                    && roce.reth(frame.bytes()).is_some_and(|reth| reth.len != self.load.len)
            }
            (Some(Deviation::SkipsTheOldest), End::A) => {
                let is_repeat = self.memory.sent.is_some_and(|sent| roce.psn.distance(sent) <= 0);
                if !is_repeat {
                    self.memory.sent = Some(roce.psn);
                }
                is_repeat && roce.psn == self.memory.acked
            }
            (Some(Deviation::IgnoresOurAcks), End::B) => {
                self.memory.responses.insert(frame.bytes().to_vec());
                false
            }
            (Some(Deviation::NeedsEveryAck), End::B) => {
                self.memory.acks.push_back(frame.bytes().to_vec());
                false
            }
            (Some(Deviation::ExecutesTwice), End::B) => {
                if let Some(value) = roce.atomic_original(frame.bytes())
                    && !self.memory.executed.insert(roce.psn)
                {
                    let icrc_at = roce.icrc_at();
                    let at = icrc_at - size_of::<u64>();
                    frame.bytes_mut()[at..icrc_at].copy_from_slice(&(value + 1).to_be_bytes());
                    let right = icrc(frame.bytes(), &roce).to_le_bytes();
                    frame.bytes_mut()[icrc_at..icrc_at + right.len()].copy_from_slice(&right);
                }
                false
            }
            _ => false,
        };
        (!is_withheld).then_some(frame)
    }

    /// The requester goes back to the oldest packet that is not acknowledged, by headers of the responder.
    fn goes_back(&mut self, bytes: &[u8], roce: &Roce, msn: u32) {
        let headers = Headers::of(bytes, roce);
        let mut nak = vec![0; headers.frame_len(Aeth::LEN)];
        let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn };
        headers.emit_ack(roce.dest_qpn, self.memory.acked, aeth, &mut nak);
        self.nics[0].receive(&nak, self.now);
    }

    /// The responder sends a NAK of this PSN.
    fn refuses(&mut self, psn: Psn) {
        let Some(request) = &self.memory.request else { return };
        let headers = request.reversed();
        let mut nak = vec![0; headers.frame_len(Aeth::LEN)];
        let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: 0 };
        headers.emit_ack(Qpn::new(0x11), psn, aeth, &mut nak);
        self.fly(true, End::B, HeapFrame::from(nak));
    }

    /// Does with a frame what an RNIC does that deviates. Whether the model is not to have it.
    pub(super) fn deviates(&mut self, end: End, frame: &HeapFrame) -> bool {
        let bytes = frame.bytes();
        let parsed = parse(bytes).ok();
        match (self.deviation, parsed) {
            (Some(Deviation::IgnoresNaks), Some(roce)) => {
                Response::of(&roce, bytes).is_some_and(|r| r.verdict == Meaning::Missing)
            }
            (Some(Deviation::IgnoresOurAcks), Some(_)) => {
                end == End::A && !self.memory.responses.contains(bytes)
            }
            (Some(Deviation::DropsDuplicates), Some(roce)) if roce.kind().is_request() => {
                let is_old = self.memory.had.is_some_and(|had| roce.psn.distance(had) <= 0);
                if !is_old {
                    self.memory.had = Some(roce.psn);
                }
                is_old
            }
            (Some(Deviation::KeepsBehindGaps), Some(roce)) if roce.kind().is_request() => {
                self.keep(frame, roce.psn)
            }
            (Some(Deviation::GoesBackTooFar), Some(roce)) if end == End::A => {
                let Some(response) = Response::of(&roce, bytes) else { return false };
                if response.verdict == Meaning::Acknowledged {
                    self.memory.acked = roce.psn.offset(1);
                }
                let is_nak = response.verdict == Meaning::Missing;
                if is_nak {
                    self.goes_back(bytes, &roce, response.msn.unwrap_or(0));
                }
                is_nak
            }
            (Some(Deviation::RepeatsAtOldAcks), Some(roce)) if end == End::A => {
                let is_ack = Response::of(&roce, bytes)
                    .is_some_and(|response| response.verdict == Meaning::Acknowledged);
                let is_old = is_ack && roce.psn.distance(self.memory.acked) < -1;
                if is_old {
                    self.goes_back(bytes, &roce, 0);
                } else if is_ack {
                    self.memory.acked = roce.psn.offset(1);
                }
                is_old
            }
            (Some(Deviation::AnswersControl), Some(roce)) if roce.opcode == DEFAULT_OPCODE => {
                let headers = Headers::of(bytes, &roce).reversed();
                let mut nak = vec![0; headers.frame_len(Aeth::LEN)];
                let qpn = if end == End::B { Qpn::new(0x11) } else { Qpn::new(0x22) };
                let aeth = Aeth { syndrome: Aeth::NAK_INVALID_REQUEST, msn: 0 };
                headers.emit_ack(qpn, roce.psn, aeth, &mut nak);
                self.fly(true, end, HeapFrame::from(nak));
                true
            }
            (Some(Deviation::AnswersByIcmp), roce)
                if roce.is_none_or(|roce| roce.opcode == DEFAULT_OPCODE) =>
            {
                let mut icmp = vec![0; 60];
                icmp[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
                (icmp[23], icmp[34], icmp[35]) = (1, 3, 3);
                self.fly(true, end, HeapFrame::from(icmp));
                true
            }
            (Some(Deviation::NeedsEveryAck), Some(roce)) if end == End::A => {
                let is_next = self.memory.acks.front().is_some_and(|ack| ack == bytes);
                // Those before it are lost.
                while self.memory.acks.pop_front().is_some_and(|ack| ack != bytes) {}
                if is_next {
                    self.memory.acked = roce.psn.offset(1);
                } else {
                    self.goes_back(bytes, &roce, 0);
                }
                !is_next
            }
            (Some(Deviation::RepeatsAtCnps | Deviation::SkipsTheOldest), Some(roce))
                if end == End::A =>
            {
                let is_cnp = roce.opcode.transport() == Transport::Cnp;
                if is_cnp && self.deviation == Some(Deviation::RepeatsAtCnps) {
                    self.goes_back(bytes, &roce, 0);
                } else if !is_cnp {
                    self.memory.acked = roce.psn.offset(1);
                }
                is_cnp
            }
            (Some(Deviation::AnswersAll), Some(roce)) if end == End::B => {
                self.memory.had = Some(roce.psn);
                self.memory.request = Some(Headers::of(bytes, &roce));
                false
            }
            (Some(Deviation::AnswersAll), None) if end == End::B => {
                let had = self.memory.had.unwrap_or_default();
                self.refuses(had.offset(1));
                true
            }
            (Some(Deviation::RefusesForNothing), Some(roce))
                if end == End::B && roce.kind().is_request() =>
            {
                self.memory.request = Some(Headers::of(bytes, &roce));
                if roce.psn.get().is_multiple_of(64) {
                    self.refuses(roce.psn);
                }
                false
            }
            (Some(Deviation::IsSilent), Some(_)) => end == End::B,
            _ => false,
        }
    }

    /// Whether a packet is kept because one before it is missing; the first such is not, so that it makes the NAK.
    fn keep(&mut self, frame: &HeapFrame, psn: Psn) -> bool {
        let expected = self.memory.had.map_or(psn, |had| had.offset(1));
        match psn.distance(expected) {
            0 => {
                self.memory.had = Some(psn);
                self.nics[1].receive(frame.bytes(), self.now);
                let kept = std::mem::take(&mut self.memory.kept);
                for frame in kept {
                    let psn = parse(frame.bytes()).expect("it was one").psn;
                    if self.memory.had.is_some_and(|had| psn == had.offset(1)) {
                        self.memory.had = Some(psn);
                        self.nics[1].receive(frame.bytes(), self.now);
                    }
                }
                true
            }
            1.. => {
                let is_first = self.memory.kept.is_empty();
                self.memory.kept.push(frame.clone());
                !is_first
            }
            _ => false,
        }
    }
}
