//! The counters of each lane of a worker's end of the tunnel.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tunnel::{Health, LaneState};

use super::{Desc, MetricKind};

counters! {
    /// A counter of a lane of the tunnel.
    LaneIo
    Counter "lr2_tunnel_sent_frames_total"
        "Frames sent with a number, by whether for the first time." {
        First ["copy" = "first"], Resent ["copy" = "resent"]
    }
    Counter "lr2_tunnel_resent_again_frames_total"
        "Frames resent because a retransmission was lost; among those resent." { ResentAgain }
    Counter "lr2_tunnel_aggregated_resends_total"
        "REPORTs on which the frames of several gaps were resent together." { Aggregated }
    Counter "lr2_tunnel_moved_frames_total"
        "Frames resent on another lane, as REPORTs of theirs were overdue; among those resent." { Moved }
    Counter "lr2_tunnel_not_kept_frames_total"
        "Frames sent without a copy, as the resend cache was full or mbufs were scarce." { NotKept }
    Counter "lr2_tunnel_lost_frames_total"
        "Transmissions that the peer reported missing." { Lost }
    Counter "lr2_tunnel_skipped_frames_total"
        "Lost frames that are not resent, by why: no copy; beyond the share of retransmissions; resent for as long or as often as any frame is; all resends of its flow were lost." {
        SkippedUnkept ["reason" = "no_copy"], SkippedBeyond ["reason" = "share"],
        SkippedOld ["reason" = "age"], SkippedRefused ["reason" = "refused"]
    }
    Counter "lr2_tunnel_delivered_frames_total"
        "Frames that arrived with a number and were delivered to the LAN port or to the switch that repairs the LANs, by order: behind all earlier ones of their flow; an ACK before earlier ACKs; after later ones, as it was given up; before earlier ones." {
        Ordered ["order" = "kept"], Overtook ["order" = "ack_first"],
        Late ["order" = "late"], Unordered ["order" = "given_up"]
    }
    Counter "lr2_tunnel_waited_frames_total"
        "Frames that waited for an earlier one of their flow, by the lane of that one." { Waited }
    Counter "lr2_tunnel_missing_numbers_total" "Numbers that were missing for a while." { Missing }
    Counter "lr2_tunnel_overtaken_numbers_total"
        "Numbers that arrived behind later ones, by whether they had been reported missing: waited for, or resent needlessly." {
        Awaited ["verdict" = "awaited"], Misjudged ["verdict" = "lost"]
    }
    Counter "lr2_tunnel_late_frames_total"
        "Frames that were dropped on arrival, by why: their numbers had been given up so long ago that hosts may have begun anew; an ACK, of which a newer one was delivered." {
        TooLate ["reason" = "age"], Superseded ["reason" = "newer_ack"]
    }
    Counter "lr2_tunnel_duplicate_frames_total"
        "Frames that were dropped as they had arrived before, by the lane of their first transmission." { Duplicate }
    Counter "lr2_tunnel_given_up_numbers_total"
        "Missing numbers that were given up: after a time, or since the peer skips them, as those of lost retransmissions." {
        GivenUp ["reason" = "timeout"], PeerSkipped ["reason" = "peer_skipped"]
    }
    Counter "lr2_tunnel_overdue_reports_total"
        "Times that a REPORT of the peer was overdue." { Suspected }
    Counter "lr2_tunnel_marked_frames_total"
        "Sent frames that reached the peer with a congestion mark of the path." { Marked }
    Gauge "lr2_tunnel_lane_state"
        "1 for the state of the lane: it carries new frames; a REPORT of the peer is overdue; that was so, and PROBEs are answered; its port can't be used, or there is no session." {
        StateUp ["state" = "up"], StateSuspect ["state" = "suspect"],
        StateProbing ["state" = "probing"], StateDown ["state" = "down"]
    }
    Gauge "lr2_tunnel_round_trip_seconds"
        "Round trip to the peer, smoothed; the configured guess until it is measured." { RttNanos }
    Gauge "lr2_tunnel_delay_variation_seconds"
        "Mean deviation of the round trip, smoothed; 0 until it is measured." { DeviationNanos }
    Gauge "lr2_tunnel_path_queue_seconds"
        "Time that a frame is predicted to wait in queues of the lane's path; 0 while none is known." { QueueNanos }
    Gauge "lr2_tunnel_path_later_seconds"
        "Time by which the lane's path takes longer, one way and without a queue, than the shortest one of the tunnel; 0 until it is measured." { LaterNanos }
    Gauge "lr2_tunnel_report_age_seconds"
        "Time for which sent frames have waited for a REPORT of the peer; 0 if it has reported all." { ReportAgeNanos }
    Gauge "lr2_tunnel_tolerated_numbers"
        "Later numbers that may arrive before a missing one counts as lost; 0 on a lane that keeps order." { ToleratedDepth }
    Gauge "lr2_tunnel_tolerated_seconds"
        "Time after which a missing number counts as lost; 0 on a lane that keeps order." { ToleratedNanos }
}

const LANE: usize = LaneIo::TABLE.len();

impl LaneIo {
    /// Lost frames that are not resent, for whatever reason.
    pub const SKIPPED: [Self; 4] =
        [Self::SkippedUnkept, Self::SkippedBeyond, Self::SkippedOld, Self::SkippedRefused];

    /// The value for a person, in seconds where it is a time.
    pub fn scaled(self, value: u64) -> f64 {
        match self {
            Self::RttNanos
            | Self::DeviationNanos
            | Self::QueueNanos
            | Self::LaterNanos
            | Self::ReportAgeNanos
            | Self::ToleratedNanos => value as f64 / 1e9,
            _ => value as f64,
        }
    }
}

/// The copy of a lane's counters that both threads see.
#[derive(Debug)]
pub struct PublishedLane([AtomicU64; LANE]);

impl Default for PublishedLane {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; _])
    }
}

impl PublishedLane {
    /// Replaces the copy.
    pub(super) fn store(&self, state: &LaneState<'_>) {
        for (what, _) in LaneIo::TABLE {
            self.0[*what as usize].store(value(state, *what), Relaxed);
        }
    }

    /// Whether new frames avoid the lane, since REPORTs of it were overdue.
    pub fn is_silent(&self) -> bool {
        self.get(LaneIo::StateSuspect) + self.get(LaneIo::StateProbing) > 0
    }

    /// One of the counters.
    pub fn get(&self, what: LaneIo) -> u64 {
        self.0[what as usize].load(Relaxed)
    }
}

fn value(state: &LaneState<'_>, what: LaneIo) -> u64 {
    let LaneState { sent, received, rtt, report_age, limits, health, queue, later_by, .. } = state;
    match what {
        LaneIo::First => sent.frames,
        LaneIo::Resent => sent.resent,
        LaneIo::ResentAgain => sent.resent_again,
        LaneIo::Aggregated => sent.aggregated,
        LaneIo::Moved => sent.moved,
        LaneIo::NotKept => sent.not_kept,
        LaneIo::Lost => sent.lost,
        LaneIo::SkippedUnkept => {
            sent.skipped - sent.skipped_beyond - sent.skipped_old - sent.skipped_refused
        }
        LaneIo::SkippedBeyond => sent.skipped_beyond,
        LaneIo::SkippedOld => sent.skipped_old,
        LaneIo::SkippedRefused => sent.skipped_refused,
        LaneIo::Ordered => {
            received.delivered - received.late - received.unordered - received.overtook
        }
        LaneIo::Overtook => received.overtook,
        LaneIo::Late => received.late,
        LaneIo::Unordered => received.unordered,
        LaneIo::Waited => received.waited,
        LaneIo::Missing => received.missing,
        LaneIo::Awaited => received.overtaken - received.misjudged,
        LaneIo::Misjudged => received.misjudged,
        LaneIo::TooLate => received.too_late,
        LaneIo::Superseded => received.superseded,
        LaneIo::Duplicate => received.duplicate,
        LaneIo::GivenUp => received.given_up,
        LaneIo::PeerSkipped => received.skipped,
        LaneIo::Suspected => sent.suspected,
        LaneIo::Marked => sent.marked,
        LaneIo::StateUp => (*health == Health::Good).into(),
        LaneIo::StateSuspect => (*health == Health::Suspect { answers: 0 }).into(),
        LaneIo::StateProbing => matches!(health, Health::Suspect { answers: 1.. }).into(),
        LaneIo::StateDown => (*health == Health::Down).into(),
        LaneIo::RttNanos => rtt.mean().as_nanos(),
        LaneIo::DeviationNanos if rtt.is_measured() => rtt.deviation().as_nanos(),
        LaneIo::DeviationNanos => 0,
        LaneIo::QueueNanos => queue.as_nanos(),
        LaneIo::LaterNanos => later_by.unwrap_or_default().as_nanos(),
        LaneIo::ReportAgeNanos => report_age.as_nanos(),
        LaneIo::ToleratedDepth => limits.map_or(0, |limits| limits.depth),
        LaneIo::ToleratedNanos => limits.map_or(0, |limits| limits.longest().as_nanos()),
    }
}
