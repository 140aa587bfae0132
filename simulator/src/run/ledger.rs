//! Traffic of the long-haul links: first copies, repeats, losses,
//! and when a lost packet came after all.

use std::collections::{BTreeMap, BTreeSet};

use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Roce, parse};
use link::wire_bytes;

use crate::results::LongHaulUse;

/// The packets of a queue pair.
#[derive(Default)]
struct Track {
    /// One past the highest that was on a long-haul link.
    next: Option<Seq>,
    /// Below that, those that were not.
    skipped: BTreeSet<Seq>,
    /// Lost, and when first; not arrived since.
    lost: BTreeMap<Seq, Time>,
}

/// The books on all queue pairs, which are numbered through.
#[derive(Default)]
pub(super) struct Ledger {
    tracks: Vec<Track>,
    /// Packets that are lost and have not arrived.
    missing: usize,
    pub(super) long_haul: LongHaulUse,
    pub(super) recoveries: Vec<Span>,
}

impl Ledger {
    /// A request of `len` bytes leaves for the other site.
    pub(super) fn sent(&mut self, roce: &Roce, len: usize, is_lost: bool, now: Time) {
        let qpn = roce.dest_qpn.get() as usize;
        if self.tracks.len() <= qpn {
            self.tracks.resize_with(qpn + 1, Track::default);
        }
        let track = &mut self.tracks[qpn];
        let mut next = track.next.unwrap_or(Seq::first(roce.psn));
        let seq = roce.psn.unwrap_near(next);
        if seq >= next {
            while next < seq {
                track.skipped.insert(next);
                next = next.next();
            }
            track.next = Some(seq.next());
        } else if !track.skipped.remove(&seq) {
            self.long_haul.repeated_bytes += wire_bytes(len);
        }
        if is_lost {
            self.long_haul.lost_packets += 1;
            if let std::collections::btree_map::Entry::Vacant(entry) = track.lost.entry(seq) {
                entry.insert(now);
                self.missing += 1;
            }
        }
    }

    /// A frame arrives at a host.
    pub(super) fn arrived(&mut self, frame: &[u8], now: Time) {
        if self.missing == 0 {
            return;
        }
        let Ok(roce) = parse(frame) else { return };
        if !roce.opcode.kind().is_request() {
            return;
        }
        let Some(track) = self.tracks.get_mut(roce.dest_qpn.get() as usize) else { return };
        if track.lost.is_empty() {
            return;
        }
        let Some(next) = track.next else { return };
        let seq = roce.psn.unwrap_near(next);
        if let Some(lost) = track.lost.remove(&seq) {
            self.missing -= 1;
            self.recoveries.push(now.since(lost));
        }
    }
}
