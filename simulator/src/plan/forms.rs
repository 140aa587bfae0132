//! Closed forms: the goodput of a scheme, without simulating anything.
//!
//! They hold for a flow that is limited by its NIC, on a link that loses packets
//! without being congested. Time is in *slots*, one packet at line rate; `W` is
//! the round trip in slots, `p` the share of packets lost, `T` the
//! retransmission timeout in slots. Derived from the schemes' rules; a slot
//! simulation (W = 200 and 1000, p = 1e-3 and 1e-2, T = 10 W) agrees with them
//! to 7 %; the tests hold that table. Those of go-back-N, LR2, IRN and the cache agree with
//! the packet simulation to 10 % for W from 50 to 5000 and p from 1e-5 to 3e-2:
//! [`crate::paper::forms`].
//!
//! *Bursts.* Losses that are neighbours are repaired together, so the rate
//! of repairs is `e = p / burst`. This holds while a burst
//! is much shorter than a window.

/// The path of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Path {
    /// W: round trip in slots, more than 0.
    pub window: f64,
    /// p: share of packets lost, 0 to less than 1.
    pub loss: f64,
    /// Mean length of bursts, at least 1.
    pub burst: f64,
    /// T: retransmission timeout in slots.
    pub timeout: f64,
}

/// Parameters of the RNICs at its ends, and the tunnel's overhead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nic {
    /// Packets that a queue pair may have unacknowledged, in round trips.
    pub window: f64,
    /// Packets from one that asks for an ACK to the next.
    pub ack_every: f64,
    /// Packets before a loss at which a rewind begins.
    pub rewind: f64,
    /// Slots from a NAK to its repeat, where NAKs are repeated.
    pub re_nak: f64,
    /// IRN's window, in round trips.
    pub irn_cap: f64,
    /// IRN's timeout, in round trips.
    pub irn_timeout: f64,
    /// Slots that a packet takes behind the tunnel's header, at least 1.
    pub tunnelled: f64,
    /// Slots that the tunnel's messages take in a round trip.
    pub messages: f64,
}

impl Path {
    /// e: bursts of loss per packet.
    pub fn events(&self) -> f64 {
        self.loss / self.burst
    }

    /// Chance that a repeat is lost as well, and no NAK reports it.
    fn lost_again(&self) -> f64 {
        self.events() * self.loss / (1.0 - self.loss)
    }

    /// Go-back-N with one NAK per gap, as RNICs do, where each `m`-th packet asks
    /// for an ACK: `η = 1 / (1 + e(W+1) + e·p·T·(m+1)/2 / (1-p))`. Each loss costs
    /// the window that follows it; a repeat that is lost again waits for the
    /// timeout. So does any packet that is lost among the first ones of a rewind: up
    /// to an ACK, RNICs ignore a second NAK (decision 10).
    pub fn gbn(&self, m: f64) -> f64 {
        let exposed = f64::midpoint(m, 1.0);
        let timeouts = self.lost_again() * exposed * self.timeout;
        1.0 / (1.0 + self.events() * (self.window + 1.0) + timeouts)
    }

    /// Go-back-N with a NAK every `n` slots, each obeyed, as in the simulators
    /// of HPCC and ConWeave (every 4 µs): `η = (1-p+np) / (1-p+p(2W+1))`. Each
    /// stale NAK rewinds once more. For single losses.
    pub fn gbn_renak_every(&self, n: f64) -> f64 {
        let (p, arrived) = (self.loss, 1.0 - self.loss);
        (arrived + n * p) / (arrived + p * (2.0 * self.window + 1.0))
    }

    /// LR2, the source resends: `η = S / (S+W)`, S as in
    /// `progress`. Each rewind repairs all losses of a window;
    /// while few repeats are lost again that is `(1+eW) / (1+2eW)`, which is
    /// never less than a half.
    pub fn lr2(&self) -> f64 {
        self.lr2_rewinding(0.0)
    }

    /// LR2 where a rewind begins `l` packets before the loss, at the first one
    /// that is not acknowledged (an unmodified RNIC, whose ACKs are coalesced):
    /// `η ≈ S / (S+W+l)`.
    pub fn lr2_rewinding(&self, l: f64) -> f64 {
        let progress = self.progress(self.window);
        if progress.is_infinite() { 1.0 } else { progress / (progress + self.window + l) }
    }

    /// S: packets from one rewind of LR2 to the next, where a rewind passes over
    /// `w` packets that were sent before: all of these and `1/e` new ones, or up
    /// to the first that is missing still.
    ///
    /// A packet is passed over in every rewind from W before it on, every S
    /// packets; one that is `d` before the end of the window has been sent
    /// `d/S` times, rounded up, and is missing after one more with `e·p` to that
    /// power. So S is the mean of a distance with that hazard, itself S: solved
    /// by bisection. The first lost repeats cost `e·p·W` of a rewind each; at
    /// W = 5000 and p = 3e-2 the efficiency is .37 instead of .50.
    fn progress(&self, w: f64) -> f64 {
        let e = self.events();
        if e <= 0.0 {
            return f64::INFINITY;
        }
        let mean = |every: f64| {
            let (mut reached, mut sum, mut at) = (1.0, 0.0, 0.0);
            for times in (1..=(w / every).ceil() as i32).rev() {
                let until = w - f64::from(times - 1) * every;
                let hazard = e * self.loss.powi(times);
                let passed = (-hazard * (until - at)).exp();
                // Where next to nothing is missing, the whole stretch.
                sum +=
                    reached * if hazard * w < 1e-9 { until - at } else { (1.0 - passed) / hazard };
                reached *= passed;
                at = until;
            }
            sum + reached / e
        };
        // More often means that less is missing: `mean` falls as `every` rises.
        let (mut low, mut high) = (w / 64.0, w + 1.0 / e);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if mean(middle) > middle { low = middle } else { high = middle }
        }
        high
    }

    /// Selective repeat without a bound, in the RNIC or by a Sentry that resends
    /// from its cache: `η = 1-p`. It needs a window of at least two round trips;
    /// see [`bounded`](Self::bounded).
    pub fn selective_repeat(&self) -> f64 {
        1.0 - self.loss
    }

    /// Selective repeat where so many round trips' worth of packets may be
    /// unacknowledged. While a gap is open no ACK returns: a window of one
    /// round trip stalls for another, and gives no more than
    /// [`lr2`](Self::lr2); from two on there is no stall. In between, the stall
    /// is the part that the window lacks (linear, not from a published source). A packet
    /// that is lost k times is k+1 round trips late, and stalls a window that
    /// is smaller, for one of them:
    /// `1/η = 1/η(k=1) + Σ e·p^(k-1)·W·min(k+1-R, 1)` over k from 2 on.
    pub fn bounded(&self, round_trips: f64) -> f64 {
        let most = round_trips.min(1.0);
        let stall = (2.0 - round_trips).clamp(0.0, 1.0);
        let progress = self.progress(self.window);
        if progress.is_infinite() {
            return most;
        }
        let stalled = progress / (progress + self.window * stall);
        let mut again = 0.0;
        for k in 2..32 {
            let lacks = (f64::from(k) + 1.0 - round_trips).clamp(0.0, 1.0);
            // With a stall for each gap those of lost repeats are in `progress`.
            again += lacks * (1.0 - stall) * self.events() * self.loss.powi(k - 1) * self.window;
        }
        most / (1.0 / (stalled * self.selective_repeat()) + again)
    }

    /// The tunnel: as [`bounded`](Self::bounded), but where the NIC is as fast as the link, headers and messages take
    /// their part of it: `1/η = h/η(bounded) + c/W`, h slots for a packet behind its header, c slots of messages in
    /// a round trip. Those matter where a round trip is some dozens of packets.
    pub fn tunnel(&self, nic: &Nic) -> f64 {
        1.0 / (nic.tunnelled / self.bounded(nic.window) + nic.messages / self.window)
    }

    /// IRN: selective repeat in the RNIC, a window of `cap` round trips, at least
    /// 2, and a timeout of `rto` round trips. It repeats a packet once; one that
    /// is lost again, `λ = e·p`, waits for the timeout. That begins with the
    /// repeat, a round trip after the loss, or with the ACK of an earlier
    /// repeat, up to one more; and takes a round trip more until the ACK. The
    /// source stalls for the part that the window does not cover; then all within
    /// the window is repaired:
    /// `η = (1-p)(1+cλW) / (1+cλW+sλW)`, `s = rto + 3 - exp(-eW) - c`.
    pub fn irn(&self, cap: f64, rto: f64) -> f64 {
        let lost_again = self.events() * self.loss * self.window;
        let stall = rto + 3.0 - (-self.events() * self.window).exp() - cap;
        let covered = 1.0 + cap * lost_again;
        self.selective_repeat() * covered / (covered + stall.max(0.0) * lost_again)
    }

    /// Packets that cross the long-haul link per packet delivered, with LR2 or
    /// a cache: `1/(1-p)`.
    pub fn sends_repairing(&self) -> f64 {
        1.0 / (1.0 - self.loss)
    }

    /// The same with go-back-N: while its window lasts the sender never pauses, so
    /// `1/η`. The further timeouts of coalesced ACKs are pauses.
    pub fn sends_gbn(&self) -> f64 {
        1.0 / self.gbn(1.0)
    }

    /// Mean completion time of a message of `n` packets without loss, in slots:
    /// the packets and a round trip.
    pub fn fct_lossless(&self, n: f64) -> f64 {
        n + self.window
    }

    /// With go-back-N, as [`gbn`](Self::gbn): the time of a long flow's packet on
    /// average, for each packet, and the timeout if the message's end is lost, which
    /// no later packet reveals.
    pub fn fct_gbn(&self, n: f64, m: f64) -> f64 {
        n / self.gbn(m) + self.window + self.loss * self.timeout
    }

    /// How often the packet of a message of `n` that is lost most often is lost, on
    /// average: `R = Σ 1-(1-e·p^(k-1))^N` over k from 1 on.
    fn rounds(&self, n: f64) -> f64 {
        let lost = |k: i32| self.events() * self.loss.powi(k - 1);
        (1..32).map(|k| 1.0 - (1.0 - lost(k)).powf(n)).sum()
    }

    /// With LR2: each rewind costs a window and repairs all that was lost within
    /// one, or within the message if that is shorter: `N + W + W·N/S`, S for
    /// min(N, W). But a packet that is lost k times takes k of them, which counts
    /// for messages shorter than a window or two: `N + W + W·R`, R as in `rounds`.
    /// Never sooner than with a cache. For longer ones, while few repeats are lost
    /// again, this is [`paper_slowdown`](Self::paper_slowdown).
    pub fn fct_lr2(&self, n: f64) -> f64 {
        let rewinds = (n / self.progress(n.min(self.window))).max(self.rounds(n));
        (n + self.window * (1.0 + rewinds)).max(self.fct_cached(n))
    }

    /// Slowdown of a message that the LR2 paper derives:
    /// `1 + N·e / ((1+δ)(1+eW))`, δ = N/W. For messages shorter than a window on
    /// links that lose several packets per window it is far too small: it
    /// spreads the cost of a rewind over losses of packets that don't exist.
    pub fn paper_slowdown(&self, n: f64) -> f64 {
        let events = self.events();
        1.0 + n * events / ((1.0 + n / self.window) * (1.0 + events * self.window))
    }

    /// With a resend cache, and a destination that wants its packets in order: while
    /// a gap is open, for a round trip, nothing is delivered, and its link is idle.
    /// The waiting packets then use the whole link, so that further gaps cost
    /// nothing, but no more than that: where the source sends at the pace of the
    /// destination's link, the time is not made up. So a message is as many round
    /// trips late as any of its packets is lost: `N/(1-p) + W + W·R`, R as in
    /// `rounds`; next to no loss of repeats, `R = 1-(1-e)^N`.
    pub fn fct_cached(&self, n: f64) -> f64 {
        n / (1.0 - self.loss) + self.window * (1.0 + self.rounds(n))
    }

    /// With the tunnel: as with a cache, and what headers and messages take of the link:
    /// `N·(h/(1-p) + c/W) + W + W·R`.
    pub fn fct_tunnel(&self, n: f64, nic: &Nic) -> f64 {
        let slot = nic.tunnelled / (1.0 - self.loss) + nic.messages / self.window;
        n * slot + self.window * (1.0 + self.rounds(n))
    }

    /// With selective repeat in the RNIC, which takes packets in any order: each
    /// repair takes a round trip, during which others arrive, so only the last loss
    /// within the last `m = min(N, W)` packets delays the end, by the rest of its
    /// round trip: `Σ e·q^d·(W-d)` for d from 0 to m-1, q = 1-e.
    pub fn fct_selective_repeat(&self, n: f64) -> f64 {
        let sending = n / (1.0 - self.loss) + self.window;
        let e = self.events();
        if e <= 0.0 {
            return sending;
        }
        let (q, m) = (1.0 - e, n.min(self.window));
        let none = q.powf(m);
        let mean_distance = q / e * (1.0 - none) - m * none;
        sending + self.window * (1.0 - none) - mean_distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(window: f64, loss: f64) -> Path {
        Path { window, loss, burst: 1.0, timeout: 10.0 * window }
    }

    fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
        let off = found / expected - 1.0;
        assert!(off.abs() <= tolerance, "{what}: {found:.3}, not {expected}: {:.0} %", off * 100.0);
    }

    /// A simulation slot by slot, T = 10 W: GBN, LR2, selective repeat; sends per
    /// packet of LR2 and GBN.
    const MEASURED: [(f64, f64, [f64; 5]); 4] = [
        (200.0, 1e-3, [0.81, 0.83, 0.999, 1.00, 1.23]),
        (200.0, 1e-2, [0.33, 0.59, 0.987, 1.01, 3.1]),
        (1000.0, 1e-3, [0.50, 0.64, 0.992, 1.00, 2.0]),
        (1000.0, 1e-2, [0.08, 0.51, 0.975, 1.01, 12.4]),
    ];

    #[test]
    fn the_forms_agree_with_a_slot_simulation() {
        for (w, p, [gbn, lr2, repeat, sends, sends_gbn]) in MEASURED {
            let path = path(w, p);
            let what = |scheme| format!("{scheme}, W = {w}, p = {p}");
            near(path.gbn(1.0), gbn, 0.07, &what("GBN"));
            near(path.lr2(), lr2, 0.05, &what("LR2"));
            near(path.selective_repeat(), repeat, 0.02, &what("selective repeat"));
            near(path.sends_repairing(), sends, 0.01, &what("sends of LR2"));
            near(path.sends_gbn(), sends_gbn, 0.07, &what("sends of GBN"));
        }
    }

    #[test]
    fn a_nak_that_is_ignored_costs_a_timeout() {
        let path = path(200.0, 1e-2);
        // Eight packets and a half, on average, that must not be lost again.
        let per_packet = 1.0 / path.gbn(16.0) - 1.0 / path.gbn(1.0);
        near(per_packet, 7.5 * 1e-4 * 2000.0 / 0.99, 1e-9, "timeouts");
    }

    /// Simulated, [`crate::paper::forms`].
    #[test]
    fn lost_repeats_take_lr2_below_a_half() {
        for (w, p, expected) in
            [(1000.0, 3e-2, 0.425), (5000.0, 1e-2, 0.433), (5000.0, 3e-2, 0.349)]
        {
            near(path(w, p).lr2(), expected, 0.07, &format!("W = {w}, p = {p}"));
        }
    }

    /// Measured at W = 300, p = 1e-2.
    #[test]
    fn coalesced_acks_lengthen_the_rewind() {
        for (l, expected) in [(0.0, 0.57), (64.0, 0.52), (256.0, 0.42)] {
            near(path(300.0, 1e-2).lr2_rewinding(l), expected, 0.04, &format!("L = {l}"));
        }
    }

    #[test]
    fn a_window_of_one_round_trip_gains_nothing_over_lr2() {
        let path = path(1000.0, 1e-2);
        near(path.bounded(1.0), path.lr2(), 0.011, "one");
        // Where a repeat is lost as well, two round trips are not enough.
        near(path.bounded(2.0), 1.0 / (1.0 / 0.99 + 0.1), 0.002, "two");
        near(path.bounded(3.0), path.selective_repeat(), 0.002, "three");
        assert!(path.bounded(1.5) > path.lr2() && path.bounded(1.5) < path.bounded(2.0));
        // Half a round trip in flight is half the rate at most.
        assert!(path.bounded(0.5) < 0.5);
    }

    #[test]
    fn schemes_without_loss_are_all_the_same() {
        let path = path(500.0, 0.0);
        for eta in [
            path.gbn(1.0),
            path.gbn(16.0),
            path.lr2(),
            path.selective_repeat(),
            path.bounded(1.0),
            path.bounded(2.0),
            path.irn(2.0, 4.0),
            path.gbn_renak_every(7.0),
        ] {
            assert_eq!(eta, 1.0);
        }
        for fct in [
            path.fct_gbn(90.0, 16.0),
            path.fct_lr2(90.0),
            path.fct_cached(90.0),
            path.fct_selective_repeat(90.0),
        ] {
            assert_eq!(fct, path.fct_lossless(90.0));
        }
    }

    /// A long message takes the time that the flow's share of the link implies.
    #[test]
    fn completion_times_of_long_messages_follow_the_throughput() {
        for (w, p, _) in MEASURED {
            let (path, n) = (path(w, p), 1e7);
            near(n / path.fct_gbn(n, 16.0), path.gbn(16.0), 0.01, "GBN");
            near(n / path.fct_lr2(n), path.lr2(), 0.01, "LR2");
            near(n / path.fct_cached(n), path.selective_repeat(), 0.01, "cached");
        }
    }

    #[test]
    fn the_papers_slowdown_is_that_of_messages_of_windows() {
        for (w, p, _) in MEASURED {
            let path = path(w, p);
            // At N = W, one repair is more than the paper's estimate; at
            // eW = 10, lost repeats count.
            for (n, tolerance) in [(w, 0.09), (3.0 * w, 0.03), (1000.0 * w, 0.03)] {
                let found = path.fct_lr2(n) / path.fct_lossless(n);
                let what = format!("N = {n}, W = {w}, p = {p}");
                near(found, path.paper_slowdown(n), tolerance, &what);
            }
        }
        // 245 packets of which a fifth meets a loss, which costs a round trip.
        let short = path(29_919.0, 1e-3);
        near(short.fct_lr2(245.0) - short.fct_lossless(245.0), 0.217 * 29_919.0, 0.02, "short");
        assert!(short.paper_slowdown(245.0) < 1.01);
    }

    /// The sum itself.
    #[test]
    fn with_selective_repeat_the_end_waits_for_the_last_repair() {
        for (w, p, n) in [(200.0, 1e-2, 50.0), (200.0, 1e-3, 5000.0), (50.0, 0.1, 50.0)] {
            let path = path(w, p);
            let m = f64::min(n, w) as u32;
            let wait: f64 = (0..m).map(|d| p * (1.0 - p).powf(d.into()) * (w - f64::from(d))).sum();
            near(path.fct_selective_repeat(n), n / (1.0 - p) + w + wait, 1e-9, "sum");
            assert!(path.fct_selective_repeat(n) <= path.fct_cached(n));
        }
        // One packet: lost or not, then a round trip more.
        let one = path(200.0, 1e-2);
        let expected = 1.0 / 0.99 + 200.0 + 2.0;
        near(one.fct_selective_repeat(1.0), expected, 1e-9, "one packet");
        near(one.fct_cached(1.0), expected, 1e-3, "one packet");
    }

    /// The NAKs of the simulators make things worse than one per gap, of which no
    /// repeat is lost.
    #[test]
    fn stale_naks_rewind_again() {
        let path = path(1000.0, 1e-3);
        assert!(path.gbn_renak_every(12.0) < 1.0 / (1.0 + path.events() * (path.window + 1.0)));
        near(path.gbn_renak_every(12.0), 1.011 / 3.0, 0.01, "every 12 packets");
    }

    #[test]
    fn bursts_cost_less_than_as_many_single_losses() {
        let single = path(1000.0, 1e-3);
        let burst = Path { burst: 8.0, ..single };
        assert!(burst.gbn(16.0) > single.gbn(16.0) && burst.lr2() > single.lr2());
        assert_eq!(burst.selective_repeat(), single.selective_repeat());
        assert!(burst.fct_cached(100.0) < single.fct_cached(100.0));
    }
}
