//! The requests of a flow: gaps, late packets, and runs of resent packets with their causes.
//!
//! A *run* begins when a packet passes whose PSN is not newer than those before, and goes on while PSNs follow each other.
//! What it was is decided when it ends: a go-back-N source resends all from some PSN on; a packet that was only late is
//! alone, and the flow goes on behind its newest packet.

use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{MAX_SPAN, PacketKind, read_responses};

use crate::counts::{RequestCounts, Resends};
use crate::reads::Reads;
use crate::timeline::Timeline;
use crate::window::{State, Window};

/// PSNs by which a flow may leap: beyond, its queue pair has begun anew.
const LEAP: u64 = 1 << 18;
/// Path MTUs of RoCE, in bytes.
const PATH_MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// Why a source went back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A NAK: PSN sequence error.
    Nak,
    /// A NAK: receiver not ready.
    Rnr,
    /// Responses to a READ were missing.
    Read,
    /// No NAK, and a long time since the packet passed before.
    Timeout,
    /// Responses of this flow were not found in the capture.
    Unknown,
}

/// One request, as the flow sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub at: Time,
    pub psn: Psn,
    pub kind: PacketKind,
    /// Payload; of a READ 0.
    pub bytes: u64,
    /// Bytes that a READ asks for; `None` also if the READ was captured without its length.
    pub read_len: Option<u32>,
}

impl Request {
    /// Whether it is a READ whose length was not captured.
    fn is_blind(&self) -> bool {
        self.kind == PacketKind::ReadRequest && self.read_len.is_none()
    }
}

#[derive(Clone, Copy, Debug)]
struct Run {
    next: Seq,
    at: Time,
    /// When the flow's packet before it passed.
    before: Time,
    last: Time,
    packets: u64,
    bytes: u64,
    repeated: u64,
    repeated_bytes: u64,
    /// Bytes of the first packet, if it had passed before.
    first: Option<u64>,
    filled: u64,
    /// Of these, packets of before the first one that passed.
    early: u64,
    lost_again: u64,
    /// The newest packet is a READ of unknown length: nothing is known to be missing behind it.
    is_blind: bool,
    /// How long ago the first packet passed, or was found missing.
    age: Span,
    cause: Option<Cause>,
    /// The NAK that it follows, unless it is only late.
    taken: Option<(Psn, Cause, Time)>,
    /// Packets that had overtaken the first one.
    depth: u64,
    /// It ends where the flow's newest packet is.
    is_caught_up: bool,
}

/// The requests to one queue pair.
#[derive(Debug)]
pub(crate) struct Requests {
    window: Window,
    last: Time,
    is_paired: bool,
    run: Option<Run>,
    /// The newest NAK or RNR NAK that no run has followed.
    nak: Option<(Psn, Cause, Time)>,
    /// All before it has arrived.
    acknowledged: Seq,
    /// The shortest time from a NAK to the run that followed it.
    reaction: Option<Span>,
    /// Since when the flow brings nothing new, and why.
    stalled: Option<(Time, Cause)>,
    /// Path MTU in bytes; 0: unknown.
    pub pmtu: u16,
    /// A READ whose number of responses is not known yet, and the bytes that it asks for, if these were captured.
    open_read: Option<(Seq, Option<u32>)>,
    pub reads: Reads,
    pub counts: RequestCounts,
    pub timeline: Timeline,
}

/// What all flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Slots that windows may still take.
    pub budget: u32,
    /// Silence that makes a resend a timeout.
    pub silence: Span,
    /// When the capture begins, if there is to be a timeline.
    pub begin: Option<Time>,
}

impl Requests {
    pub fn new(first: Psn, at: Time) -> Self {
        Self {
            window: Window::new(first),
            last: at,
            is_paired: false,
            run: None,
            nak: None,
            acknowledged: Seq::default(),
            reaction: None,
            stalled: None,
            pmtu: 0,
            open_read: None,
            reads: Reads::default(),
            counts: RequestCounts::default(),
            timeline: Timeline::default(),
        }
    }

    /// Whether a response may be to one of them.
    pub fn has(&self, psn: Psn, is_nak: bool) -> bool {
        self.window.has(psn, is_nak)
    }

    /// A request passes.
    pub fn take(&mut self, request: &Request, shared: &mut Shared) {
        self.resolve_read(request.psn, shared);
        self.counts.packets += 1;
        self.counts.bytes += request.bytes;
        let mut seq = self.window.unwrap(request.psn);
        let next = self.window.next();
        if seq.since(next) > LEAP || next.since(seq) > LEAP {
            self.end_run(shared);
            self.counts.restarts += 1;
            self.window.restart(request.psn, &mut shared.budget);
            (self.nak, self.stalled, self.open_read) = (None, None, None);
            self.acknowledged = Seq::default();
            seq = self.window.next();
        }
        if seq >= self.window.next() {
            self.new_packet(seq, request, shared);
        } else {
            self.old_packet(seq, request, shared);
        }
        self.last = request.at;
    }

    fn new_packet(&mut self, seq: Seq, request: &Request, shared: &mut Shared) {
        if let Some(run) = &mut self.run {
            run.is_caught_up = run.next == seq && seq == self.window.next();
        }
        self.end_run(shared);
        if let Some((since, cause)) = self.stalled.take() {
            self.resends(cause).stalled_ns += request.at.since(since).as_nanos();
        }
        let missing = seq.since(self.window.next());
        if missing > 0 {
            self.counts.gaps += 1;
            self.counts.missing += missing;
            self.window.push(missing, State::Missing(request.at), &mut shared.budget);
        }
        let span = self.span(seq, request);
        self.window.push(span, State::Passed(request.at), &mut shared.budget);
        self.counts.new_bytes += request.bytes;
        if let Some(begin) = shared.begin {
            let bin = self.timeline.at(request.at.since(begin));
            bin.new_bytes += request.bytes;
            bin.missing += missing as u32;
        }
        if request.kind == PacketKind::ReadRequest {
            // Any response up to the next request may be to a READ of unknown length.
            let span = if request.is_blind() { MAX_SPAN.into() } else { span };
            self.reads.request(seq, span);
        }
    }

    /// PSNs of a new request.
    fn span(&mut self, seq: Seq, request: &Request) -> u64 {
        if request.is_blind() {
            self.open_read = Some((seq, None));
        }
        let Some(len) = request.read_len else { return 1 };
        match self.pmtu {
            0 if len > PATH_MTUS[0] => {
                self.open_read = Some((seq, Some(len)));
                1
            }
            pmtu => responses(len, pmtu),
        }
    }

    /// Finds the PSNs of a READ by the path MTU, or by the PSN of the next request.
    fn resolve_read(&mut self, psn: Psn, shared: &mut Shared) {
        let Some((seq, len)) = self.open_read else { return };
        let distance = self.window.unwrap(psn).since(seq);
        let span = match len {
            // Packets that are missing right before the next request can't be told from responses.
            None if (1..=MAX_SPAN.into()).contains(&distance) => distance,
            None => return,
            Some(len) => {
                if self.pmtu == 0 {
                    let fits = |pmtu: &u32| u64::from(read_responses(len, *pmtu)) == distance;
                    let Some(pmtu) = PATH_MTUS.into_iter().find(fits) else { return };
                    self.pmtu = pmtu as u16;
                }
                responses(len, self.pmtu)
            }
        };
        self.open_read = None;
        let more = (seq + span).since(self.window.next());
        self.window.push(more, State::Passed(self.last), &mut shared.budget);
        self.reads.resize(seq, span);
    }

    fn old_packet(&mut self, seq: Seq, request: &Request, shared: &mut Shared) {
        self.window.reach_back(seq, request.at, &mut shared.budget);
        let state = self.window.state(seq);
        let is_missing = matches!(state, State::Missing(_));
        // A source that goes back leaves out nothing: what is not there was lost again.
        let follows = self.run.as_ref().is_some_and(|run| {
            let goes_back = run.cause.is_some() || run.packets > 1 && run.repeated > 0;
            seq == run.next || seq > run.next && goes_back
        });
        if !follows {
            self.end_run(shared);
            self.begin_run(seq, state, request, shared);
        }
        let span = request.read_len.map_or(1, |len| responses(len, self.pmtu));
        let end = seq + span;
        self.window.push(
            end.since(self.window.next()),
            State::Passed(request.at),
            &mut shared.budget,
        );
        if is_missing && request.kind == PacketKind::ReadRequest {
            self.reads.request(seq, span);
        }
        let Some(run) = &mut self.run else { return };
        run.lost_again += if run.is_blind { 0 } else { seq.since(run.next) };
        run.is_blind = request.is_blind();
        run.next = end;
        run.last = request.at;
        run.packets += 1;
        run.bytes += request.bytes;
        if is_missing {
            run.filled += 1;
            run.early += u64::from(self.window.is_early(seq));
            self.counts.new_bytes += request.bytes;
        } else {
            run.repeated += 1;
            run.repeated_bytes += request.bytes;
        }
        self.window.pass(seq, request.at);
        if let Some(begin) = shared.begin {
            let bin = self.timeline.at(request.at.since(begin));
            *if is_missing { &mut bin.new_bytes } else { &mut bin.resent_bytes } += request.bytes;
        }
    }

    fn begin_run(&mut self, seq: Seq, state: State, request: &Request, shared: &Shared) {
        let age = match state {
            State::Missing(at) | State::Passed(at) => request.at.since(at),
            State::Old => request.at.since(self.last),
        };
        // What a NAK asked for may have arrived since, from a gateway; and a source may ignore a NAK.
        let patience = self.reaction.map(|reaction| shared.silence.max(reaction.scale(4, 1)));
        let nak = self.nak.filter(|(psn, _, at)| {
            let (from, age) = (self.window.unwrap(*psn), request.at.since(*at));
            from <= seq
                && (self.acknowledged <= from || age < shared.silence)
                && patience.is_none_or(|patience| age <= patience)
        });
        if nak.is_some() {
            self.nak = None;
        }
        let taken = nak;
        let nak = nak.map(|(_, cause, _)| cause);
        let asked = self.reads.asked.filter(|(psn, _)| *psn == request.psn).map(|_| Cause::Read);
        let is_read = request.kind == PacketKind::ReadRequest;
        let cause = nak.or(if is_read { asked } else { None }).or({
            let is_missing = matches!(state, State::Missing(_));
            let is_silent = request.at.since(self.last) >= shared.silence;
            if age >= shared.silence && (is_silent || !is_missing) {
                Some(Cause::Timeout)
            } else {
                None
            }
        });
        self.run = Some(Run {
            next: seq,
            at: request.at,
            before: self.last,
            last: request.at,
            packets: 0,
            bytes: 0,
            repeated: 0,
            repeated_bytes: 0,
            first: (!matches!(state, State::Missing(_))).then_some(request.bytes),
            filled: 0,
            early: 0,
            lost_again: 0,
            is_blind: false,
            age,
            cause,
            taken,
            depth: self.window.next().since(seq + 1),
            is_caught_up: false,
        });
    }

    /// Decides what the run was, and counts it.
    fn end_run(&mut self, shared: &Shared) {
        let Some(run) = self.run.take() else { return };
        // All of it was missing, and the flow goes on elsewhere: nobody went back.
        let is_late = run.repeated == 0 && !run.is_caught_up && run.next < self.window.next();
        if is_late {
            self.nak = self.nak.or(run.taken);
            self.counts.late += run.filled - run.early;
            self.counts.before_first += run.early;
            self.counts.late_depth = self.counts.late_depth.max(run.depth);
            self.counts.late_ns = self.counts.late_ns.max(run.age.as_nanos());
            return;
        }
        let is_silent = run.at.since(run.before) >= shared.silence || run.age >= shared.silence;
        let cause = match run.cause.or(is_silent.then_some(Cause::Timeout)) {
            // There may have been a NAK.
            _ if !self.is_paired => Some(Cause::Unknown),
            cause => cause,
        };
        let Some(cause) = cause else {
            self.counts.duplicates += run.repeated;
            self.counts.late += run.filled - run.early;
            self.counts.before_first += run.early;
            return;
        };
        if cause == Cause::Read {
            self.reads.asked = None;
        }
        if let Some((_, Cause::Nak, at)) = run.taken {
            let reaction = run.at.since(at);
            self.reaction = Some(self.reaction.map_or(reaction, |shortest| shortest.min(reaction)));
        }
        self.counts.lost_before += run.filled - run.early;
        self.counts.before_first += run.early;
        self.counts.lost_again += run.lost_again;
        self.counts.lost_behind +=
            u64::from(run.first.is_some() && matches!(cause, Cause::Nak | Cause::Timeout));
        if cause == Cause::Timeout
            && let Some(begin) = shared.begin
        {
            self.timeline.at(run.at.since(begin)).timeouts += 1;
        }
        let since = if cause == Cause::Timeout { run.before } else { run.at };
        self.stalled.get_or_insert((since, cause));
        let resends = self.resends(cause);
        resends.times += 1;
        resends.packets += run.packets;
        resends.bytes += run.bytes;
        resends.wasted_packets += run.repeated - u64::from(run.first.is_some());
        resends.wasted_bytes += run.repeated_bytes - run.first.unwrap_or(0);
    }

    fn resends(&mut self, cause: Cause) -> &mut Resends {
        match cause {
            Cause::Nak => &mut self.counts.after_nak,
            Cause::Rnr => &mut self.counts.after_rnr,
            Cause::Read => &mut self.counts.read_repair,
            Cause::Timeout => &mut self.counts.after_timeout,
            Cause::Unknown => &mut self.counts.unexplained,
        }
    }

    /// The responses of this flow are known from now on, and there were none before: so there was no NAK either.
    pub fn pair(&mut self) {
        self.is_paired = true;
        let (timeouts, unexplained) =
            (&mut self.counts.after_timeout, std::mem::take(&mut self.counts.unexplained));
        timeouts.times += unexplained.times;
        timeouts.packets += unexplained.packets;
        timeouts.bytes += unexplained.bytes;
        timeouts.wasted_packets += unexplained.wasted_packets;
        timeouts.wasted_bytes += unexplained.wasted_bytes;
        timeouts.stalled_ns += unexplained.stalled_ns;
        if let Some((_, cause @ Cause::Unknown)) = &mut self.stalled {
            *cause = Cause::Timeout;
        }
    }

    /// A READ response tells the path MTU.
    pub fn know_path_mtu(&mut self, pmtu: u16, shared: &mut Shared) {
        self.pmtu = pmtu;
        if let Some((_, Some(_))) = self.open_read {
            self.resolve_read(self.window.next().psn(), shared);
        }
    }

    /// A response passes: all before `psn` has arrived.
    pub fn acknowledged(&mut self, psn: Psn, shared: &mut Shared) {
        let seq = self.window.unwrap(psn);
        if seq <= self.window.next() {
            self.acknowledged = self.acknowledged.max(seq);
            self.window.acknowledge(seq, &mut shared.budget);
        }
    }

    /// A NAK passes that makes the source go back to `psn`.
    pub fn nak(&mut self, psn: Psn, cause: Cause, at: Time, begin: Option<Time>) {
        self.nak = Some((psn, cause, at));
        if let Some(begin) = begin {
            self.timeline.at(at.since(begin)).naks += 1;
        }
    }

    /// The capture ends.
    pub fn finish(&mut self, shared: &Shared) {
        if let Some(run) = &mut self.run {
            // With nothing behind it, a run of resent packets is one that caught up.
            run.is_caught_up = run.next == self.window.next();
        }
        let end = self.run.map(|run| run.last);
        self.end_run(shared);
        if let (Some((since, cause)), Some(end)) = (self.stalled.take(), end) {
            self.resends(cause).stalled_ns += end.since(since).as_nanos();
        }
        self.counts.never = self.window.missing();
    }
}

/// PSNs of a READ of `len` bytes; not more than a gateway follows.
fn responses(len: u32, pmtu: u16) -> u64 {
    read_responses(len, u32::from(pmtu.max(256))).min(MAX_SPAN).into()
}
