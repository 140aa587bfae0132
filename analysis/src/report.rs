//! The report of an analysis.

use common::time::Time;
use serde::Serialize;

use crate::analysis::{Analysis, Totals};
use crate::counts::RequestCounts;
use crate::reads::ReadCounts;
use crate::stream::{ResponseCounts, Stream};
use crate::timeline::Timeline;

/// What LR2 would have saved: an upper bound, if the losses were on the long haul.
///
/// The rule: a gateway that keeps what is in flight resends a lost packet once, and the source never goes back. So the bytes
/// of needless repeats after NAKs and timeouts are saved, and the time in which the flow brought nothing new because of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Saved {
    /// Payload, in bytes.
    pub bytes: u64,
    /// Time, in ns; of several flows the sum.
    pub time_ns: u64,
}

/// A flow: requests to one queue pair, and what answered them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FlowReport {
    /// Address of the requester.
    pub src: String,
    /// Address of the responder.
    pub dst: String,
    /// The responder's queue pair.
    pub dest_qpn: u32,
    /// The requester's queue pair, if its responses were found.
    pub src_qpn: Option<u32>,
    /// VLANs, outermost first.
    pub vlans: Vec<u16>,
    /// UDP source port of the newest request.
    pub src_port: u16,
    /// Path MTU in bytes; 0: unknown.
    pub path_mtu: u16,
    /// From the beginning of the capture to its first packet, in ns.
    pub begin_ns: u64,
    /// From its first packet to its last one, in ns.
    pub duration_ns: u64,
    /// Packets towards the responder's queue pair, responses to requests of that one included.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Of the packets, those with a congestion mark.
    pub marked: u64,
    /// Congestion notifications to the requester.
    pub cnps: u64,
    /// Requests.
    pub requests: RequestCounts,
    /// Responses that are no READ data.
    pub responses: ResponseCounts,
    /// READs.
    pub reads: ReadCounts,
    /// What LR2 would have saved.
    pub lr2_saves: Saved,
    /// What happened when, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

impl FlowReport {
    /// How bad it was: flows are sorted by it.
    fn badness(&self) -> (u64, u64) {
        let requests = &self.requests;
        (
            self.lr2_saves.bytes + self.lr2_saves.time_ns,
            requests.missing + self.reads.missing + requests.duplicates,
        )
    }
}

/// The whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Why results may be wrong, as sentences about the file; see [`warnings`](crate::warnings).
    pub warnings: Vec<String>,
    /// Counts of the records of the capture.
    pub totals: Totals,
    /// From the first record to the last one, in ns.
    pub duration_ns: u64,
    /// What LR2 would have saved, of all flows.
    pub lr2_saves: Saved,
    /// Flows, the worst first.
    pub flows: Vec<FlowReport>,
}

impl Analysis {
    /// Ends the analysis.
    pub fn report(mut self) -> Report {
        self.finish();
        let (first, last) = self.span.unwrap_or_default();
        let mut flows: Vec<FlowReport> =
            (self.streams.iter()).filter_map(|stream| self.flow(stream, first, last)).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.badness()));
        let mut lr2_saves = Saved::default();
        for flow in &flows {
            lr2_saves.bytes += flow.lr2_saves.bytes;
            lr2_saves.time_ns += flow.lr2_saves.time_ns;
        }
        let duration_ns = last.since(first).as_nanos();
        Report { warnings: Vec::new(), totals: self.totals, duration_ns, lr2_saves, flows }
    }

    /// The flow of a stream with requests.
    fn flow(&self, stream: &Stream, first: Time, last: Time) -> Option<FlowReport> {
        let requests = stream.requests.as_ref()?;
        let back = stream.partner.map(|partner| &self.streams[partner]);
        let counts = requests.counts;
        let [nak, timeout] = [counts.after_nak, counts.after_timeout];
        let mut timeline = self.settings_with_timeline().then(|| requests.timeline.clone());
        if let Some(timeline) = &mut timeline {
            timeline.stretch(first, last);
        }
        Some(FlowReport {
            src: stream.key.src.to_ip().to_string(),
            dst: stream.key.dst.to_ip().to_string(),
            dest_qpn: stream.key.dest_qpn.get(),
            src_qpn: back.map(|back| back.key.dest_qpn.get()),
            vlans: stream.vlans.clone(),
            src_port: stream.src_port,
            path_mtu: requests.pmtu,
            begin_ns: stream.first.since(first).as_nanos(),
            duration_ns: stream.last.since(stream.first).as_nanos(),
            packets: stream.packets,
            bytes: stream.bytes,
            marked: stream.marked,
            cnps: back.map_or(0, |back| back.cnps),
            requests: counts,
            responses: back.map_or_else(ResponseCounts::default, |back| back.responses),
            reads: requests.reads.counts,
            lr2_saves: Saved {
                bytes: nak.wasted_bytes + timeout.wasted_bytes,
                time_ns: nak.stalled_ns + timeout.stalled_ns,
            },
            timeline,
        })
    }
}
