//! Every counter of a switch, in one dense table.
//!
//! A worker owns its [`Counters`] and bumps them without any synchronisation;
//! the gateway publishes copies to its control thread. Names and labels follow
//! Prometheus' conventions and have a fixed, small cardinality.

use crate::histogram::{Timing, Timings};
use crate::time::Span;

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// Only grows, from zero at start.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// How a metric is presented.
#[derive(Clone, Copy, Debug)]
pub struct Desc {
    /// Prometheus family; several metrics share one and differ in labels.
    pub name: &'static str,
    /// Label names and values.
    pub labels: &'static [(&'static str, &'static str)],
    /// One sentence for people.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
}

impl Desc {
    /// The name without `lr2_` and `_total`, and the values of the labels: the name of an event in records and traces.
    pub fn short_name(&self) -> String {
        let name = self.name.strip_prefix("lr2_").unwrap_or(self.name);
        let name = name.strip_suffix("_total").unwrap_or(name);
        self.labels.iter().fold(name.to_owned(), |name, (_, value)| name + " " + value)
    }
}

macro_rules! metrics {
    ($( $kind:ident $family:literal $help:literal { $( $variant:ident $([$label:literal = $value:literal])* ),+ $(,)? } )+) => {
        /// A number that a switch keeps. The variants of one family are
        /// described by its help text and their labels: see [`Metric::desc`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(usize)]
        pub enum Metric { $( $( #[doc = $help] $variant ),+ ),+ }

        impl Metric {
            /// All of them, family by family.
            pub const ALL: &'static [Self] = &[ $( $( Self::$variant ),+ ),+ ];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Name, labels, help and kind.
            pub const fn desc(self) -> Desc {
                match self {
                    $( $( Self::$variant => Desc {
                        name: $family,
                        labels: &[ $( ($label, $value) ),* ],
                        help: $help,
                        kind: MetricKind::$kind,
                    } ),+ ),+
                }
            }
        }
    };
}

metrics! {
    Counter "lr2_received_frames_total" "Frames received, by side." {
        ReceivedLan ["side" = "lan"], ReceivedWan ["side" = "wan"],
    }
    Counter "lr2_transmitted_frames_total" "Frames handed to a port's egress queue, by side." {
        TransmittedLan ["side" = "lan"], TransmittedWan ["side" = "wan"],
    }
    Counter "lr2_created_frames_total" "Frames created by the gateway, by kind." {
        CreatedSync ["kind" = "sync"], CreatedStatus ["kind" = "status"],
        CreatedNak ["kind" = "nak"], CreatedAck ["kind" = "ack"],
        CreatedFetch ["kind" = "fetch"], CreatedAbsent ["kind" = "absent"],
        CreatedCnp ["kind" = "cnp"],
        CreatedHandle ["kind" = "handle"],
    }
    Counter "lr2_dropped_frames_total" "Frames dropped, by reason." {
        DropFiltered ["reason" = "filtered_repeat"],
        DropSpurious ["reason" = "filtered_spurious_timeout"],
        DropReleased ["reason" = "handle_released"],
        DropSyncConsumed ["reason" = "sync_consumed"],
        DropStatusConsumed ["reason" = "status_consumed"],
        DropFetchConsumed ["reason" = "fetch_consumed"],
        DropAbsentConsumed ["reason" = "absent_consumed"],
        DropNakAbsorbed ["reason" = "nak_absorbed"],
        DropReorderDuplicate ["reason" = "reorder_duplicate"],
        DropConflict ["reason" = "psn_conflict"], DropAheadOfSource ["reason" = "ahead_of_source"],
        DropReorderFull ["reason" = "reorder_pool_full"],
        DropOldIncarnation ["reason" = "old_incarnation_of_flow"],
        DropAskedAgain ["reason" = "answer_asked_for_again"],
        DropMacControl ["reason" = "mac_control"],
        DropControlFromLan ["reason" = "control_from_lan"],
        DropControlTruncated ["reason" = "control_truncated"],
        DropControlVersion ["reason" = "control_version"],
        DropControlBadTag ["reason" = "control_bad_tag"],
        DropControlBadIcrc ["reason" = "control_bad_icrc"],
        DropControlInvalid ["reason" = "control_invalid"],
        DropControlReplayed ["reason" = "control_replayed"],
        DropControlUnknownFlow ["reason" = "control_unknown_flow"],
    }
    Counter "lr2_passed_frames_total" "Frames forwarded without a pipeline, by reason." {
        PassedOther ["reason" = "not_roce"],
        PassedMalformed ["reason" = "malformed"],
        PassedTransport ["reason" = "not_rc"],
        PassedTableFull ["reason" = "flow_table_full"], PassedHostsFull ["reason" = "flows_of_hosts"],
        PassedLeaving ["reason" = "hosts_left"], PassedOperator ["reason" = "operator"],
        PassedOverload ["reason" = "overload"],
        PassedPrefix ["reason" = "outside_remote_prefixes"],
        PassedRole ["reason" = "role_or_off"],
        PassedBadIcrc ["reason" = "bad_icrc"],
    }
    Counter "lr2_alloc_failures_total" "Frames not created because the mbuf pool is at its reserve, by kind." {
        AllocSync ["kind" = "sync"], AllocStatus ["kind" = "status"],
        AllocNak ["kind" = "nak"], AllocAck ["kind" = "ack"],
        AllocFetch ["kind" = "fetch"], AllocAbsent ["kind" = "absent"], AllocCnp ["kind" = "cnp"],
    }
    Counter "lr2_syncs_sent_total" "SYNC messages sent, by reason." {
        SyncOpen ["reason" = "open"], SyncTail ["reason" = "tail"],
        SyncResent ["reason" = "resent"], SyncKeepalive ["reason" = "keepalive"],
        SyncRelease ["reason" = "release"], SyncLost ["reason" = "lost"],
    }
    Counter "lr2_control_withheld_total" "Control messages delayed because their allowance was used up, by kind." {
        WithheldOpen ["kind" = "sync_open"], WithheldTail ["kind" = "sync_tail"],
        WithheldLate ["kind" = "sync_tail_late"], WithheldKeepalive ["kind" = "sync_keepalive"],
        WithheldStatus ["kind" = "status"], WithheldFetch ["kind" = "fetch_tail"],
    }
    Counter "lr2_depot_nacks_sent_total" "STATUS messages with missing ranges sent (Depot-NACKs), by cause." {
        NackNewGap ["cause" = "new_gap"], NackRepeat ["cause" = "repeat"], NackSync ["cause" = "sync"],
    }
    Counter "lr2_depot_gaps_total" "Gaps in the PSN sequence at the Depot, by event." {
        GapsSeen ["event" = "seen"], GapsFilled ["event" = "filled"], GapsGivenUp ["event" = "given_up"],
    }
    Counter "lr2_depot_overtaken_packets_total" "Packets that arrived behind later ones, by whether they had been reported missing: waited for, or resent needlessly." {
        DepotAwaited ["verdict" = "awaited"], DepotMisjudged ["verdict" = "lost"],
    }
    Counter "lr2_depot_packets_total" "Data packets at the Depot, by event." {
        DepotInOrder ["event" = "in_order"], DepotHeld ["event" = "held"],
        DepotDrained ["event" = "drained"], DepotBehind ["event" = "behind"],
        DepotPassive ["event" = "passive"], DepotProbe ["event" = "probe"],
        DepotReleased ["event" = "released"], DepotGoneBack ["event" = "gone_back"],
        DepotLeap ["event" = "leap_too_far"],
        DepotSetAckReq ["event" = "set_ack_req"],
    }
    Counter "lr2_depot_local_resent_total" "Packets resent to the destination from the backup pool, by cause." {
        LocalNak ["cause" = "nak"], LocalTimeout ["cause" = "timeout"],
    }
    Counter "lr2_depot_local_exhausted_total" "Times that local resends ended without a response of the destination." {
        LocalExhausted,
    }
    Counter "lr2_depot_backup_full_total" "Delivered packets without a backup copy because the backup pool was full." {
        BackupFull,
    }
    Counter "lr2_depot_cnps_total" "Congestion notification packets (CNPs) sent to sources, by cause: loss on the destination's LAN, or a queue in front of it." {
        CnpLoss ["cause" = "loss"], CnpQueue ["cause" = "queue"],
    }
    Counter "lr2_lan_windows_total" "Congestion windows of hosts on the LAN, by event: opened at a loss, halved at a further loss, closed after a time without loss." {
        LanOpened ["event" = "opened"], LanHalved ["event" = "halved"], LanClosed ["event" = "closed"],
    }
    Counter "lr2_depot_naks_forwarded_total" "NAKs of the destination that were forwarded to the source, by when." {
        NakAtOnce ["when" = "at_once"], NakAfterGiveUp ["when" = "after_give_up"],
    }
    Counter "lr2_read_responses_total" "READ responses and atomic ACKs, by event." {
        ResponseHeld ["event" = "held"], ResponseResent ["event" = "resent"],
        ResponseUncached ["event" = "not_cached"], ResponseCacheFull ["event" = "cache_full"],
    }
    Counter "lr2_read_gaps_total" "Gaps among READ responses and atomic ACKs, by event." {
        ReadGapsSeen ["event" = "seen"], ReadGapsFilled ["event" = "filled"], ReadGapsGivenUp ["event" = "given_up"],
        ReadGapsAbsent ["event" = "absent"],
    }
    Counter "lr2_fetches_sent_total" "FETCH messages sent, by reason." {
        FetchGap ["reason" = "gap"], FetchTail ["reason" = "tail"], FetchRelease ["reason" = "release"],
    }
    Counter "lr2_sentry_packets_total" "Data packets at the Sentry, by event." {
        SentryNew ["event" = "new"], SentryAhead ["event" = "ahead"],
        SentryUnprotected ["event" = "repeat_unprotected"],
        SentrySetAckReq ["event" = "set_ack_req"],
        SentryLeap ["event" = "leap_too_far"],
        SentryNeeded ["event" = "repeat_needed"], SentryDoubtful ["event" = "repeat_doubtful"],
    }
    Counter "lr2_sentry_resent_total" "Packets that the Sentry resent from its cache." {
        SentryResent,
    }
    Counter "lr2_sentry_aggregated_resends_total" "STATUS messages on which packets of several gaps were resent together." {
        SentryAggregated,
    }
    Counter "lr2_sentry_uncached_total" "Missing packets that were not in the Sentry's cache." {
        SentryUncached,
    }
    Counter "lr2_sentry_cache_full_total" "Packets not cached because the resend cache was full." {
        SentryCacheFull,
    }
    Counter "lr2_sentry_slots_full_total" "Packets in flight that are no longer tracked because the worker ran out of slots." {
        SentrySlotsFull,
    }
    Counter "lr2_sentry_passes_total" "Rewinds of sources, by cause." {
        PassSolicited ["cause" = "solicited"], PassTimeout ["cause" = "timeout"],
    }
    Counter "lr2_naks_total" "RoCE NAKs, by origin." {
        NakDestination ["from" = "destination"], NakRnr ["from" = "destination_rnr"],
        NakSynthesised ["from" = "sentry"], NakSourceLan ["from" = "sentry_source_lan"],
        NakRepeated ["from" = "sentry_again"],
    }
    Counter "lr2_nak_withheld_total" "NAKs that were due and not sent, by reason." {
        NakNoRequester ["reason" = "requester_unknown"], NakNoAcked ["reason" = "acked_unknown"],
        NakCapped ["reason" = "cap"], NakMidMessage ["reason" = "within_read_response"],
    }
    Counter "lr2_flow_events_total" "Events of flows." {
        FlowCreated ["event" = "created"], FlowAged ["event" = "aged"],
        FlowProtected ["event" = "protected"], FlowPeerLost ["event" = "peer_lost"],
        FlowNewEpoch ["event" = "new_epoch"], FlowBypassed ["event" = "bypassed"],
        FlowSelective ["event" = "selective_repeat"],
        FlowOrphaned ["event" = "orphaned"], FlowDeferred ["event" = "deferred"],
        FlowPaired ["event" = "paired"], FlowSynced ["event" = "synced"],
        FlowEvicted ["event" = "evicted"],
        FlowReset ["event" = "reset"],
        FlowConnected ["event" = "connected"], FlowDisconnected ["event" = "disconnected"],
    }
    Gauge "lr2_flows" "Entries of the flow table, by state." {
        FlowsAll ["state" = "all"], FlowsProtected ["state" = "protected"], FlowsSynced ["state" = "synced"],
        FlowsUnprotected ["state" = "operator"], FlowsDeferred ["state" = "deferred"],
    }
    Gauge "lr2_flow_state_bytes" "Memory of the flows' state per packet in flight, in bytes; without entries and held frames." {
        FlowStateBytes,
    }
    Gauge "lr2_held_frames" "Frames held, by pool." {
        HeldReorder ["pool" = "reorder"], HeldBackup ["pool" = "backup"], HeldCache ["pool" = "resend_cache"],
    }
    Gauge "lr2_held_bytes" "Bytes of the frames held, by pool." {
        HeldReorderBytes ["pool" = "reorder"], HeldBackupBytes ["pool" = "backup"], HeldCacheBytes ["pool" = "resend_cache"],
    }
    Gauge "lr2_lan_windowed_hosts" "Hosts on the LAN that have a congestion window." {
        LanHosts,
    }
    Gauge "lr2_lan_waiting_flows" "Flows that wait for room in their host's congestion window." {
        LanWaiting,
    }
    Gauge "lr2_path_round_trip_seconds" "Round trip time of the long-haul link, last measurement; without a tunnel." {
        PathRtt,
    }
}

impl Metric {
    /// Whether the [flight recorder](crate::recorder) records each event that this metric counts. It records events of flows, and of packets
    /// that are not simply forwarded in order.
    #[inline(always)]
    pub const fn is_recorded(self) -> bool {
        use Metric as M;
        matches!(
            self,
            M::CreatedNak
                | M::CreatedAck
                | M::CreatedCnp
                | M::DropFiltered
                | M::DropSpurious
                | M::DropNakAbsorbed
                | M::DropReorderDuplicate
                | M::DropConflict
                | M::DropAheadOfSource
                | M::DropReorderFull
                | M::DropOldIncarnation
                | M::DropAskedAgain
                | M::PassedBadIcrc
                | M::NackNewGap
                | M::NackRepeat
                | M::NackSync
                | M::GapsSeen
                | M::GapsFilled
                | M::GapsGivenUp
                | M::DepotAwaited
                | M::DepotMisjudged
                | M::DepotHeld
                | M::DepotBehind
                | M::DepotProbe
                | M::DepotGoneBack
                | M::DepotLeap
                | M::LocalNak
                | M::LocalTimeout
                | M::LocalExhausted
                | M::CnpLoss
                | M::CnpQueue
                | M::NakAtOnce
                | M::NakAfterGiveUp
                | M::ResponseHeld
                | M::ResponseResent
                | M::ResponseUncached
                | M::ReadGapsSeen
                | M::ReadGapsFilled
                | M::ReadGapsGivenUp
                | M::ReadGapsAbsent
                | M::FetchGap
                | M::FetchTail
                | M::SentryAhead
                | M::SentryUnprotected
                | M::SentryLeap
                | M::SentryNeeded
                | M::SentryDoubtful
                | M::SentryResent
                | M::SentryUncached
                | M::PassSolicited
                | M::PassTimeout
                | M::NakDestination
                | M::NakRnr
                | M::NakSynthesised
                | M::NakSourceLan
                | M::NakRepeated
                | M::NakNoRequester
                | M::NakNoAcked
                | M::NakCapped
                | M::NakMidMessage
                | M::FlowProtected
                | M::FlowPeerLost
                | M::FlowNewEpoch
                | M::FlowBypassed
                | M::FlowSelective
                | M::FlowOrphaned
                | M::FlowSynced
                | M::FlowReset
        )
    }

    /// The value as Prometheus has it: a time, which is counted in nanoseconds, in seconds.
    pub fn scaled(self, value: u64) -> f64 {
        match self {
            Self::PathRtt => value as f64 / 1e9,
            _ => value as f64,
        }
    }
}

/// One number per [`Metric`], and a histogram per [`Timing`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters([u64; Metric::COUNT], Timings);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Metric::COUNT], Timings::default())
    }
}

impl Counters {
    /// Adds `n`.
    #[inline]
    pub fn add(&mut self, metric: Metric, n: u64) {
        self.0[metric as usize] += n;
    }

    /// Adds one.
    #[inline]
    pub fn inc(&mut self, metric: Metric) {
        self.add(metric, 1);
    }

    /// Adds a time.
    #[inline]
    pub fn record(&mut self, what: Timing, time: Span) {
        self.1.record(what, time);
    }

    /// The histograms.
    pub const fn timings(&self) -> &Timings {
        &self.1
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&mut self, metric: Metric, value: u64) {
        self.0[metric as usize] = value;
    }

    /// Adds the counters of another switch. Of a round trip, the longer one remains.
    pub fn join(&mut self, other: &Self) {
        let round_trip = self.get(Metric::PathRtt).max(other.get(Metric::PathRtt));
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
        self.set(Metric::PathRtt, round_trip);
        self.1.join(&other.1);
    }

    /// The value.
    #[inline]
    pub fn get(&self, metric: Metric) -> u64 {
        self.0[metric as usize]
    }

    /// Frames that came in from a port or were made, handles included. Each of these
    /// either left or is held.
    pub fn entered(&self) -> u64 {
        self.sum(Metric::ReceivedLan, Metric::ReceivedWan)
            + self.sum(Metric::CreatedSync, Metric::CreatedHandle)
    }

    /// Frames that went out to a port or were dropped, handles included.
    pub fn left(&self) -> u64 {
        self.sum(Metric::TransmittedLan, Metric::TransmittedWan)
            + self.sum(Metric::DropFiltered, Metric::DropControlUnknownFlow)
    }

    fn sum(&self, first: Metric, last: Metric) -> u64 {
        self.0[first as usize..=last as usize].iter().sum()
    }

    /// The sum over a family, by its Prometheus name.
    pub fn family(&self, name: &str) -> u64 {
        Metric::ALL.iter().filter(|m| m.desc().name == name).map(|m| self.get(*m)).sum()
    }

    /// The values in the order of [`Metric::ALL`].
    pub fn values(&self) -> &[u64; Metric::COUNT] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_dense_and_in_order() {
        for (i, m) in Metric::ALL.iter().enumerate() {
            assert_eq!(*m as usize, i);
        }
    }

    #[test]
    fn counters_end_in_total_and_no_two_metrics_are_the_same() {
        let mut seen = std::collections::HashSet::new();
        for m in Metric::ALL {
            let d = m.desc();
            assert_eq!(d.kind == MetricKind::Counter, d.name.ends_with("_total"), "{}", d.name);
            assert!(seen.insert((d.name, d.labels)), "{m:?} is a second {} {:?}", d.name, d.labels);
        }
    }

    #[test]
    fn the_books_cover_their_families() {
        let mut c = Counters::default();
        for (i, m) in Metric::ALL.iter().enumerate() {
            c.add(*m, 1 << (i % 32));
        }
        let family = |name| c.family(name);
        assert_eq!(
            c.entered(),
            family("lr2_received_frames_total") + family("lr2_created_frames_total")
        );
        assert_eq!(
            c.left(),
            family("lr2_transmitted_frames_total") + family("lr2_dropped_frames_total")
        );
    }

    #[test]
    fn a_family_is_the_sum_of_its_members() {
        let mut c = Counters::default();
        c.inc(Metric::GapsSeen);
        c.add(Metric::GapsFilled, 2);
        assert_eq!(c.family("lr2_depot_gaps_total"), 3);
    }
}
