//! READs and atomics: executed once, remembered for duplicates.

use std::collections::VecDeque;

use common::psn::Seq;
use common::wire::{Aeth, AtomicEth, Opcode, Reth, Roce, read_responses};

use super::responses::{ReadResponse, Response};
use super::{INVALID_REQUEST, REMOTE_ACCESS, Refusal, Responder};
use crate::config::PartialRead;
use crate::content::Content;
use crate::work::{ATOMIC_LEN, MAX_MESSAGE, MAX_READ_PACKETS};

/// A READ or atomic that was executed.
#[derive(Clone, Copy, Debug)]
struct Resource {
    first: Seq,
    last: Seq,
    what: Executed,
}

#[derive(Clone, Copy, Debug)]
enum Executed {
    Read { reth: Reth, content: Content },
    Atomic { original: u64 },
}

/// The newest READs and atomics; as many as the requester may have on their
/// way.
#[derive(Debug)]
pub(super) struct Resources {
    kept: VecDeque<Resource>,
    max: usize,
    /// READs and atomics executed.
    executed: u64,
}

impl Resources {
    pub(super) fn new(max: u32) -> Self {
        let max = max as usize;
        Self { kept: VecDeque::with_capacity(max), max, executed: 0 }
    }

    fn keep(&mut self, resource: Resource) {
        if self.kept.len() >= self.max {
            self.kept.pop_front();
        }
        self.kept.push_back(resource);
        self.executed += 1;
    }

    fn find(&self, seq: Seq) -> Option<Resource> {
        let found = |resource: &&Resource| (resource.first..=resource.last).contains(&seq);
        self.kept.iter().find(found).copied()
    }
}

impl Responder {
    /// Takes a READ request or an atomic with the expected PSN.
    pub(super) fn fetch(&mut self, roce: &Roce, frame: &[u8]) -> Result<(), Refusal> {
        if self.open.is_some() || self.resources.max == 0 {
            return Err(INVALID_REQUEST);
        }
        let response = if let Some(eth) = roce.atomic_eth(frame) {
            self.execute(roce.opcode, &eth)?
        } else {
            let reth = roce.reth(frame).ok_or(INVALID_REQUEST)?;
            self.read(reth)?
        };
        self.stats.accepted += 1;
        // The response acknowledges everything before it.
        self.settled();
        self.responses.push(response);
        Ok(())
    }

    fn read(&mut self, reth: Reth) -> Result<Response, Refusal> {
        let packets = read_responses(reth.len, self.pmtu as u32); // a PMTU: 13 bits
        if reth.len > MAX_MESSAGE || packets > MAX_READ_PACKETS {
            return Err(INVALID_REQUEST);
        }
        self.check_access(&reth)?;
        let first = self.expected;
        self.expected = first + u64::from(packets);
        self.msn_up();
        let content = self.stream.fetched().message(self.resources.executed);
        let what = Executed::Read { reth, content };
        self.resources.keep(Resource { first, last: self.expected.prev(), what });
        self.stats.reads += 1;
        let end = u64::from(reth.len);
        let msn = self.msn;
        Ok(Response::Read(ReadResponse { content, next: first, offset: 0, end, starts: true, msn }))
    }

    fn execute(&mut self, opcode: Opcode, eth: &AtomicEth) -> Result<Response, Refusal> {
        if !eth.va.is_multiple_of(u64::from(ATOMIC_LEN)) {
            return Err(INVALID_REQUEST);
        }
        // The model has memory for one word only.
        let right = eth.rkey == self.config.local_region.rkey
            && eth.va == self.config.local_region.va
            && self.config.local_region.len >= u64::from(ATOMIC_LEN);
        if !right {
            return Err(REMOTE_ACCESS);
        }
        let original = self.word;
        if opcode != Opcode::COMPARE_SWAP {
            self.word = original.wrapping_add(eth.swap_add);
        } else if original == eth.compare {
            self.word = eth.swap_add;
        }
        let seq = self.expected;
        self.expected = seq.next();
        self.acknowledged = self.expected;
        self.msn_up();
        let what = Executed::Atomic { original };
        self.resources.keep(Resource { first: seq, last: seq, what });
        self.stats.atomics += 1;
        Ok(self.original(seq, original))
    }

    fn original(&self, seq: Seq, original: u64) -> Response {
        let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: self.msn };
        Response::Original { psn: seq.psn(), aeth, original }
    }

    /// Answers a READ or atomic again. Nothing is executed twice: a forgotten
    /// request, or one that differs, is discarded.
    pub(super) fn repeat(&mut self, seq: Seq, roce: &Roce, frame: &[u8]) {
        let response = self.resources.find(seq).and_then(|resource| match resource.what {
            Executed::Atomic { original } => {
                roce.atomic_eth(frame)?;
                self.stats.atomics_repeated += 1;
                Some(self.original(seq, original))
            }
            Executed::Read { reth, content } => {
                let part = roce.reth(frame)?;
                let offset = seq.since(resource.first) * self.pmtu;
                let end = offset + u64::from(part.len);
                let same = part.rkey == reth.rkey
                    && part.va == reth.va.wrapping_add(offset)
                    && end <= u64::from(reth.len)
                    && (part.len > 0 || reth.len == 0);
                self.stats.reads_repeated += u64::from(same);
                let starts = offset == 0 || self.config.partial_read == PartialRead::Anew;
                let (next, msn) = (seq, self.msn);
                same.then_some(Response::Read(ReadResponse {
                    content,
                    next,
                    offset,
                    end,
                    starts,
                    msn,
                }))
            }
        });
        match response {
            Some(response) => self.responses.push(response),
            None => self.stats.duplicates_dropped += 1,
        }
    }
}
