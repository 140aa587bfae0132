//! Renders the state in Prometheus' text format.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use common::histogram::{BOUNDS, Histogram, Timing};
use common::metrics::{Desc, Metric, MetricKind};
use prometheus::proto::{
    Bucket, Counter, Gauge, LabelPair, Metric as Point, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};

use super::State;
use super::reason::Kind;
use super::tunnel::Expected;
use crate::port::PortId;
use crate::telemetry::{IoCounters, LaneIo, LoopIo, PortIo, TunnelIo};

/// The media type of [`render`]'s output.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

type Labels<'a> = &'a [(&'a str, &'a str)];

/// Families under construction, in order of first mention.
#[derive(Default)]
struct Families<'a> {
    all: Vec<MetricFamily>,
    /// The pair of ports of the next values, if there are several.
    pair: Option<&'a str>,
}

impl Families<'_> {
    fn add(&mut self, desc: &Desc, more: Labels<'_>, value: f64) {
        let mut point = Point::from_label(self.labels(more.iter().chain(desc.labels)));
        match desc.kind {
            MetricKind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                point.set_counter(counter);
            }
            MetricKind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                point.set_gauge(gauge);
            }
        }
        let kind = match desc.kind {
            MetricKind::Counter => MetricType::COUNTER,
            MetricKind::Gauge => MetricType::GAUGE,
        };
        self.push((desc.name, desc.help, kind), point);
    }

    /// These, behind that of the pair.
    fn labels<'l>(
        &self,
        labels: impl IntoIterator<Item = &'l (&'l str, &'l str)>,
    ) -> Vec<LabelPair> {
        let of_pair = self.pair.map(|name| pair(&("pair", name)));
        of_pair.into_iter().chain(labels.into_iter().map(pair)).collect()
    }

    fn push(&mut self, (name, help, kind): (&str, &str, MetricType), point: Point) {
        // A few dozen families, a few times a minute.
        match self.all.iter_mut().find(|f| f.name() == name) {
            Some(family) => family.mut_metric().push(point),
            None => {
                let mut family = MetricFamily::default();
                family.set_name(name.to_owned());
                family.set_help(help.to_owned());
                family.set_field_type(kind);
                family.set_metric(vec![point]);
                self.all.push(family);
            }
        }
    }

    fn histogram(
        &mut self,
        (name, help): (&'static str, &'static str),
        labels: Labels<'_>,
        value: &Histogram,
    ) {
        let mut histogram = prometheus::proto::Histogram::default();
        let mut below = 0;
        let mut buckets = Vec::with_capacity(BOUNDS);
        for (bound, count) in Histogram::bounds().zip(value.counts()) {
            below += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(below);
            buckets.push(bucket);
        }
        histogram.set_bucket(buckets);
        histogram.set_sample_count(value.counts().iter().sum());
        histogram.set_sample_sum(value.sum_nanos() as f64 / 1e9);
        let mut point = Point::from_label(self.labels(labels));
        point.set_histogram(histogram);
        self.push((name, help, MetricType::HISTOGRAM), point);
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: f64) {
        self.add(&Desc { name, labels: &[], help, kind: MetricKind::Gauge }, labels, value);
    }

    fn counter(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: u64) {
        self.add(
            &Desc { name, labels: &[], help, kind: MetricKind::Counter },
            labels,
            value as f64,
        );
    }
}

fn pair((name, value): &(&str, &str)) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name((*name).to_owned());
    pair.set_value((*value).to_owned());
    pair
}

/// Everything of all pairs of ports, as text.
///
/// # Errors
/// If the encoder refuses a family, which its own checks of names would cause.
pub fn render(states: &[Arc<State>]) -> prometheus::Result<Vec<u8>> {
    let mut families = Families::default();
    if let Some(state) = states.first() {
        process(state, &mut families);
    }
    for state in states {
        families.pair = state.pair();
        one(state, &mut families);
    }
    let mut text = Vec::with_capacity(16 << 10);
    TextEncoder::new().encode(&families.all, &mut text)?;
    Ok(text)
}

/// Everything of one pair of ports.
fn one(state: &State, families: &mut Families<'_>) {
    let help =
        "Whether a pair of ports forwards. Of several, one that can't be opened stops no other.";
    families.gauge("lr2_pair_up", help, &[], state.fault().is_none().into());
    events(state, families);
    workers(state, families);
    ports_and_pool(state, families);
    peers(state, families);
    if let Some(expected) = &state.tunnel {
        tunnel(state, expected, families);
    }
    timings(state, families);
    for metric in Metric::ALL {
        let each = state.workers.iter().map(|worker| worker.switch(*metric));
        let value = match metric {
            // Each measures it for itself, or has no flow to measure it with.
            Metric::PathRtt => each.max().unwrap_or_default(),
            _ => each.sum(),
        };
        families.add(&metric.desc(), &[], metric.scaled(value));
    }
}

fn process(state: &State, families: &mut Families<'_>) {
    let version = env!("CARGO_PKG_VERSION");
    let labels = [("version", version), ("role", state.role)];
    families.gauge("lr2_build_info", "What runs here; always 1.", &labels, 1.0);
    let help = "When the process started, seconds since 1970.";
    families.gauge("lr2_start_time_seconds", help, &[], state.start_time);
    let help = "How long the process has been running, seconds.";
    families.gauge("lr2_uptime_seconds", help, &[], state.started.elapsed().as_secs_f64());
}

fn events(state: &State, families: &mut Families<'_>) {
    let help = "Events by kind; /events has the newest.";
    for (kind, count) in state.events.counts() {
        families.counter("lr2_events_total", help, &[("event", kind)], count);
    }
    let help = "Events that were not noted, as there were too many at a time.";
    families.counter("lr2_events_missed_total", help, &[], state.events.missed());
}

fn workers(state: &State, families: &mut Families<'_>) {
    let each: Vec<_> = state.workers.iter().map(|worker| worker.io()).collect();
    let mut io = IoCounters::default();
    each.iter().for_each(|worker| io.join(worker));
    for port in PortId::all(state.wans) {
        for (what, desc) in PortIo::TABLE {
            families.add(desc, &[("port", port.name())], what.scaled(io.port(port, *what)));
        }
    }
    for (what, desc) in LoopIo::TABLE {
        for (n, worker) in each.iter().enumerate() {
            let value = what.scaled(worker.round(*what));
            families.add(desc, &[("worker", &n.to_string())], value);
        }
    }
}

fn timings(state: &State, families: &mut Families<'_>) {
    for (what, name, help) in Timing::ALL {
        for (n, worker) in state.workers.iter().enumerate() {
            let n = n.to_string();
            let labels = |of| [("worker", &*n), ("of", of)];
            families.histogram((name, help), &labels("flows"), &worker.flow_timings().get(what));
            if state.tunnel.is_some() {
                let value = worker.tunnel_timings().get(what);
                families.histogram((name, help), &labels("tunnel"), &value);
            }
        }
    }
}

fn tunnel(state: &State, expected: &Expected, families: &mut Families<'_>) {
    let all = state.all_tunnels();
    for (what, desc) in TunnelIo::TABLE {
        families.add(desc, &[], all.as_ref().map_or(0, |all| all.get(*what)) as f64);
    }
    for (what, desc) in LaneIo::TABLE {
        for (t, tunnel) in state.tunnels().enumerate() {
            for (n, lane) in tunnel.lanes().iter().enumerate() {
                let (t, n) = (t.to_string(), n.to_string());
                let labels = [("tunnel", &*t), ("lane", &*n)];
                // With one tunnel there is no choice.
                let labels = &labels[usize::from(expected.tunnels == 1)..];
                families.add(desc, labels, what.scaled(lane.get(*what)));
            }
        }
    }
    for port in PortId::all(state.wans).skip(1) {
        let is_used = all.as_ref().is_some_and(|tunnel| tunnel.uses(port.wan_port()));
        let help = "Whether frames of the tunnel, of each if there are several, take a WAN port: there is a session, and messages pass the port both ways.";
        let label = [("port", port.name())];
        families.gauge("lr2_tunnel_port_used", help, &label, is_used.into());
        let path = all.as_ref().map(|tunnel| *tunnel.path(port.wan_port())).unwrap_or_default();
        let help = "Bytes of the longest frame that reaches the peer, by WAN port; 0 without a session, or while none is known to.";
        families.gauge("lr2_tunnel_path_frame_bytes", help, &label, path.longest.into());
        let help = "Round trip of probes of a WAN port's path; 0 until it is measured.";
        let seconds = path.rtt.as_nanos() as f64 / 1e9;
        families.gauge("lr2_tunnel_path_round_trip_seconds", help, &label, seconds);
        let help = "Share of the newest probes of a WAN port's path that were not answered in time, 0 to 1.";
        let lost = f64::from(path.lost) / f64::from(path.checks.max(1));
        families.gauge("lr2_tunnel_path_lost_ratio", help, &label, lost);
    }
    let help = "Bytes of the longest frame of the WAN, from its destination MAC address on: the WAN port's, \
                and what a full frame of the LAN needs with the tunnel's headers.";
    for (of, len) in [("port", expected.port), ("needed", expected.needed)] {
        families.gauge("lr2_tunnel_frame_limit_bytes", help, &[("of", of)], len.into());
    }
}

fn peers(state: &State, families: &mut Families<'_>) {
    let reasons = state.reasons();
    let help = "Whether frames are not protected, or are dropped, by reason: /healthz has the sentence and the next command.";
    for (kind, reason) in Kind::ALL {
        let holds = reasons.iter().any(|reason| reason.kind == kind);
        families.gauge("lr2_degraded", help, &[("reason", reason)], holds.into());
    }
    let wall = SystemTime::now();
    let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    for peer in state.peers.all(wall) {
        let node = peer.node.to_string();
        let tunnel = peer.tunnel.unwrap_or_default().to_string();
        let labels = [("peer", &*node), ("tunnel", &*tunnel)];
        let labels = &labels[..1 + usize::from(peer.tunnel.is_some())];
        let help = "Whether a box and this one hear each other, by its node id.";
        families.gauge("lr2_peer_up", help, labels, peer.is_up().into());
        let help = "Time since a box was last heard.";
        families.gauge("lr2_peer_silence_seconds", help, labels, (now - peer.last_heard).max(0.0));
        if let Some(at) = peer.last_report {
            let help = "Time since a box last reported what arrived there.";
            families.gauge("lr2_peer_report_age_seconds", help, labels, (now - at).max(0.0));
        }
        if let Some(trip) = peer.round_trip {
            let help = "Round trip to a box.";
            families.gauge("lr2_peer_round_trip_seconds", help, labels, trip);
        }
    }
}

fn ports_and_pool(state: &State, families: &mut Families<'_>) {
    let Some(sample) = state.sample() else { return };
    let help = "Share of the last half second in which the worker had something to do, 0 to 1.";
    for (n, worker) in sample.workers.iter().enumerate() {
        let label = [("worker", &*n.to_string())];
        families.gauge("lr2_worker_busy_ratio", help, &label, worker.busy_ratio);
    }
    let help = "Whether the worker has shown no sign of life for a second.";
    for (n, worker) in sample.workers.iter().enumerate() {
        let label = [("worker", &*n.to_string())];
        families.gauge("lr2_worker_stalled", help, &label, worker.stalled.into());
    }
    for (port, way) in PortId::all(state.wans).skip(1).zip(&sample.ways) {
        let label = [("port", port.name())];
        let help = "Whether the MAC address of the tunnel's next hop is known, by WAN port.";
        families.gauge("lr2_tunnel_next_hop_known", help, &label, way.mac.is_some().into());
        let help = "Whether the address of the tunnel's peer answers pings, by WAN port.";
        families.gauge("lr2_tunnel_peer_answers_ping", help, &label, way.is_answered.into());
    }
    let help = "mbufs of the pool, by state. Reception needs free ones.";
    let in_use = sample.mbufs.saturating_sub(sample.mbufs_free);
    families.gauge("lr2_mbufs", help, &[("state", "free")], sample.mbufs_free.into());
    families.gauge("lr2_mbufs", help, &[("state", "in_use")], in_use.into());
    for ((id, port), is_up) in PortId::all(state.wans).zip(&sample.ports).zip(&sample.up) {
        let label = [("port", id.name())];
        families.gauge("lr2_port_up", "Whether a port's link is up.", &label, (*is_up).into());
        let help = "Whether link-loss forwarding takes a port down.";
        families.gauge("lr2_port_held_down", help, &label, state.links.is_held(id).into());
        let help = "Whether the driver of a port can take it down, as link-loss forwarding needs.";
        families.gauge("lr2_port_link_settable", help, &label, state.links.is_settable(id).into());
        let help = "Frames a port lost because its receive queue was full.";
        families.counter("lr2_port_missed_frames_total", help, &label, port.rx_missed);
        let help = "Frames a port received with errors.";
        families.counter("lr2_port_receive_errors_total", help, &label, port.rx_errors);
        let help = "Frames a port failed to transmit.";
        families.counter("lr2_port_transmit_errors_total", help, &label, port.tx_errors);
        let help = "Receptions of a port that failed for want of an mbuf.";
        families.counter("lr2_port_no_mbuf_total", help, &label, port.rx_no_mbuf);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use common::frame::Side;
    use common::time::Span;

    use common::metrics::Counters;
    use dpdk_sys_wrapper::PortStats;

    use super::*;
    use crate::control::{Sample, WorkerHealth};

    fn text() -> String {
        let tunnel = Expected {
            tunnels: 2,
            ports: 1,
            lanes: 2,
            is_udp: false,
            headers: 26,
            port: 4248,
            needed: 4248,
        };
        let state = State::new("both", 2, Some(tunnel));
        let mut io = IoCounters::default();
        io.add(Side::Wan.into(), PortIo::DropFull, 3);
        let mut switch = Counters::default();
        switch.add(Metric::PassedMalformed, 7);
        state.workers[0].store(&switch, &io);
        io.add_loop(LoopIo::BusyRounds, 5);
        io.add_loop(LoopIo::IdleNanos, 1_500_000_000);
        switch.set(Metric::PathRtt, 20_000_000);
        switch.record(Timing::Recovery, Span::from_micros(20));
        switch.record(Timing::Recovery, Span::from_millis(20_000));
        state.workers[1].store(&switch, &io);
        state.links.set_held(PortId::LAN, true);
        let lan = PortStats { rx_missed: 9, ..PortStats::default() };
        state.put(Sample {
            ports: vec![lan, PortStats::default()],
            up: vec![true, false],
            mbufs_free: 60,
            mbufs: 100,
            workers: vec![
                WorkerHealth::default(),
                WorkerHealth { busy_ratio: 0.25, stalled: true },
            ],
            stopping: false,
            ways: Vec::new(),
        });
        String::from_utf8(render(&[Arc::new(state)]).unwrap()).unwrap()
    }

    #[test]
    fn each_value_of_several_pairs_says_which() {
        use crate::config::Pair;
        let state = |n| {
            let name = ["east", "west"][usize::from(n)].to_owned();
            let mut state = State::new("both", 1, None);
            state.pair = Pair { n, of: 2, name, is_table: true };
            Arc::new(state)
        };
        let states = [state(0), state(1)];
        states[1].fail("no such device".into());
        let text = String::from_utf8(render(&states).unwrap()).unwrap();
        let common = ["lr2_build_info", "lr2_start_time_seconds", "lr2_uptime_seconds"];
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let is_common = common.iter().any(|name| line.starts_with(name));
            assert_eq!(line.contains("pair=\""), !is_common, "{line}");
        }
        for line in ["lr2_pair_up{pair=\"east\"} 1", "lr2_pair_up{pair=\"west\"} 0"] {
            assert!(text.contains(line), "{text}");
        }
        let (word, lines) = crate::control::health::check_all(&states);
        assert_eq!(word.name(), "down");
        assert!(lines[0].starts_with("pair east: down for 0s: starting"), "{lines:?}");
        let fault = "pair west: down for 0s: it does not forward: no such device";
        assert!(lines[1].starts_with(fault), "{lines:?}");
    }

    #[test]
    fn numbers_are_where_they_belong() {
        let text = text();
        for line in [
            "# TYPE lr2_port_egress_dropped_frames_total counter",
            "lr2_port_egress_dropped_frames_total{port=\"wan\",reason=\"queue_full\"} 6",
            "lr2_passed_frames_total{reason=\"malformed\"} 14",
            "# TYPE lr2_mbufs gauge",
            "lr2_mbufs{state=\"in_use\"} 40",
            "lr2_port_missed_frames_total{port=\"lan\"} 9",
            "lr2_port_up{port=\"wan\"} 0",
            "lr2_port_held_down{port=\"lan\"} 1",
            "lr2_port_link_settable{port=\"lan\"} 0",
            "lr2_tunnel_frame_limit_bytes{of=\"needed\"} 4248",
            "lr2_tunnel_sent_frames_total{tunnel=\"1\",lane=\"1\",copy=\"resent\"} 0",
            "lr2_tunnel_report_age_seconds{tunnel=\"0\",lane=\"0\"} 0",
            "lr2_worker_busy_ratio{worker=\"1\"} 0.25",
            "lr2_worker_stalled{worker=\"0\"} 0",
            "lr2_worker_stalled{worker=\"1\"} 1",
            "lr2_worker_rounds_total{worker=\"1\",state=\"busy\"} 5",
            "lr2_worker_seconds_total{worker=\"1\",state=\"idle\"} 1.5",
            "lr2_path_round_trip_seconds 0.02",
            "# TYPE lr2_recovery_time_seconds histogram",
            "lr2_recovery_time_seconds_bucket{worker=\"1\",of=\"flows\",le=\"0.000016384\"} 0",
            "lr2_recovery_time_seconds_bucket{worker=\"1\",of=\"flows\",le=\"0.000032768\"} 1",
            "lr2_recovery_time_seconds_bucket{worker=\"1\",of=\"flows\",le=\"+Inf\"} 2",
            "lr2_recovery_time_seconds_sum{worker=\"1\",of=\"flows\"} 20.00002",
            "lr2_recovery_time_seconds_count{worker=\"1\",of=\"flows\"} 2",
            "lr2_hold_time_seconds_count{worker=\"0\",of=\"tunnel\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
        }
        assert!(text.contains("lr2_build_info{version=\""));
    }

    /// Prometheus refuses a scrape in which a family appears twice, or a
    /// sample twice.
    #[test]
    fn families_and_samples_appear_once_with_help_and_type() {
        let text = text();
        let (mut samples, mut types, mut helps) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap();
                assert!(types.insert(name.to_owned()), "{name} twice");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                helps.insert(rest.split(' ').next().unwrap().to_owned());
            } else {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                assert!(samples.insert(sample.to_owned()), "{sample} twice");
                value.parse::<f64>().unwrap();
                let name = sample.split('{').next().unwrap();
                let ends = ["_bucket", "_sum", "_count"].map(|end| name.strip_suffix(end));
                let name =
                    ends.into_iter().flatten().find(|it| types.contains(*it)).unwrap_or(name);
                assert!(types.contains(name), "{name} has no type before it");
            }
        }
        assert_eq!(types, helps);
        assert!(samples.len() > Metric::COUNT);
    }
}
