//! DCQCN: the congestion control of RoCEv2 NICs (Zhu et al., *Congestion
//! Control for Large-Scale RDMA Deployments*, SIGCOMM 2015).
//!
//! A switch marks packets as its queue grows (the congestion point). The
//! destination answers marks with congestion notification packets
//! ([`NotificationPoint`]), and the source slows down with each of these and
//! speeds up again in their absence ([`ReactionPoint`]). Both are pure: time
//! is an argument.

use common::time::{Span, Time};

/// Parameters of DCQCN; names as in the paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dcqcn {
    /// Gain of α, 0 to 1.
    pub g: f64,
    /// α decays each time this long has passed without a CNP.
    pub alpha_timer: Span,
    /// The rate timer: an increase each time this long has passed.
    pub rate_timer: Span,
    /// The byte counter: an increase each time so many bytes were sent.
    pub byte_counter: u64,
    /// F: events of each kind spent in fast recovery.
    pub fast_recovery: u32,
    /// Additive increase in bit/s.
    pub r_ai: u64,
    /// Hyper increase in bit/s.
    pub r_hai: u64,
    /// The rate is never less, bit/s.
    pub min_rate: u64,
    /// A receiver sends at most one CNP per queue pair in this time.
    pub cnp_interval: Span,
}

impl Dcqcn {
    /// The values of the paper, but for the interval of CNPs, which today's
    /// NICs have at 4 µs.
    pub const DEFAULT: Self = Self {
        g: 1.0 / 256.0,
        alpha_timer: Span::from_micros(55),
        rate_timer: Span::from_micros(55),
        byte_counter: 10 << 20,
        fast_recovery: 5,
        r_ai: 40_000_000,
        r_hai: 200_000_000,
        min_rate: 10_000_000,
        cnp_interval: Span::from_micros(4),
    };

    /// The name of a value that is out of range, if one is, on a line of `rate` bit/s.
    pub fn out_of_range(&self, rate: u64) -> Option<&'static str> {
        let rules = [
            ((0.0..=1.0).contains(&self.g), "g must be from 0 to 1"),
            (self.alpha_timer > Span::ZERO, "alpha_timer must be greater than zero"),
            (self.rate_timer > Span::ZERO, "rate_timer must be greater than zero"),
            (self.byte_counter > 0, "byte_counter must be at least 1"),
            (
                (1..=rate).contains(&self.min_rate),
                "min_rate must be at least 1 bit/s and at most the NIC's rate",
            ),
        ];
        rules.into_iter().find_map(|(right, rule)| (!right).then_some(rule))
    }
}

/// The sending side of a queue pair: at which rate it sends.
///
/// It starts at line rate. Nothing has to be called when a timer is due:
/// everything up to `now` is caught up with when the rate is asked for, so an
/// idle queue pair costs nothing. Only additions and multiplications are done
/// with its numbers, so they are the same on every machine.
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    config: Dcqcn,
    /// All rates in bit/s.
    line: f64,
    current: f64,
    target: f64,
    alpha: f64,
    /// Since when α has neither grown nor decayed.
    alpha_since: Time,
    /// When the rate timer is due next; [`Time::NEVER`] at line rate, where
    /// there is nothing to increase.
    rate_at: Time,
    /// Bytes sent since the byte counter last ran out.
    bytes: u64,
    /// T: events of the rate timer since the last CNP.
    timer_events: u32,
    /// BC: events of the byte counter since the last CNP.
    byte_events: u32,
}

impl ReactionPoint {
    /// On a line of `rate` bit/s.
    pub fn new(config: Dcqcn, rate: u64) -> Self {
        let line = rate as f64;
        Self {
            config,
            line,
            current: line,
            target: line,
            alpha: 1.0,
            alpha_since: Time::ZERO,
            rate_at: Time::NEVER,
            bytes: 0,
            timer_events: 0,
            byte_events: 0,
        }
    }

    /// A CNP has arrived.
    pub fn on_cnp(&mut self, now: Time) {
        self.catch_up(now);
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.config.min_rate as f64);
        self.alpha = (1.0 - self.config.g) * self.alpha + self.config.g;
        self.alpha_since = now;
        self.rate_at = now + self.config.rate_timer;
        (self.bytes, self.timer_events, self.byte_events) = (0, 0, 0);
    }

    /// A frame of `len` bytes leaves.
    pub fn sent(&mut self, len: usize, now: Time) {
        self.catch_up(now);
        if self.rate_at == Time::NEVER {
            return;
        }
        self.bytes += len as u64;
        while self.bytes >= self.config.byte_counter {
            self.bytes -= self.config.byte_counter;
            self.increase();
            self.byte_events += 1;
        }
        self.settle();
    }

    /// The rate in bit/s.
    pub fn rate(&mut self, now: Time) -> u64 {
        self.catch_up(now);
        self.current as u64
    }

    /// Applies the expirations of both timers until now.
    fn catch_up(&mut self, now: Time) {
        while self.rate_at <= now {
            self.increase();
            self.timer_events += 1;
            self.rate_at += self.config.rate_timer;
            self.settle();
        }
        let timer = self.config.alpha_timer.as_nanos();
        let periods = now.since(self.alpha_since).as_nanos() / timer;
        if periods > 0 {
            self.alpha *= power(1.0 - self.config.g, periods);
            self.alpha_since += self.config.alpha_timer * periods;
        }
    }

    /// One event of either counter. It counts itself afterwards, so that fast
    /// recovery takes F of them.
    fn increase(&mut self) {
        let (t, bc, f) = (self.timer_events, self.byte_events, self.config.fast_recovery);
        let step = match () {
            () if t.max(bc) < f => 0,
            () if t.min(bc) > f => self.config.r_hai,
            () => self.config.r_ai,
        };
        self.target = (self.target + step as f64).min(self.line);
        self.current = (self.current + self.target) / 2.0;
    }

    /// Stops the timer at line rate.
    fn settle(&mut self) {
        if self.line - self.current < 1.0 {
            (self.current, self.target) = (self.line, self.line);
            self.rate_at = Time::NEVER;
        }
    }
}

/// `base` to the power of `exponent`. Unlike `f64::powi` the same everywhere.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

/// The receiving side of a queue pair: when it sends CNPs.
#[derive(Clone, Debug)]
pub struct NotificationPoint {
    interval: Span,
    /// No CNP before.
    quiet_until: Time,
}

impl NotificationPoint {
    /// At most one CNP in `interval`.
    pub fn new(interval: Span) -> Self {
        Self { interval, quiet_until: Time::ZERO }
    }

    /// A packet with a congestion mark has arrived. Whether to send a CNP.
    pub fn on_mark(&mut self, now: Time) -> bool {
        let due = self.quiet_until <= now;
        if due {
            self.quiet_until = now + self.interval;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 10_000_000_000;
    const CONFIG: Dcqcn = Dcqcn {
        g: 0.25,
        alpha_timer: Span::from_micros(100),
        rate_timer: Span::from_micros(50),
        byte_counter: 1_000_000,
        fast_recovery: 2,
        r_ai: 400_000_000,
        r_hai: 2_000_000_000,
        min_rate: 1_000_000_000,
        cnp_interval: Span::from_micros(4),
    };

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn mbps(point: &mut ReactionPoint, now: Time) -> (u64, u64) {
        (point.rate(now) / 1_000_000, point.target as u64 / 1_000_000)
    }

    #[test]
    fn it_starts_at_line_rate_and_stays_there() {
        let mut point = ReactionPoint::new(CONFIG, LINE);
        for micros in 0..1_000 {
            point.sent(1_000_000, at(micros));
        }
        assert_eq!((point.rate(at(1_000)), point.target as u64), (LINE, LINE));
    }

    #[test]
    fn a_cnp_cuts_by_half_of_alpha() {
        let mut point = ReactionPoint::new(CONFIG, LINE);
        // α is 1 at first: half the rate; it stays 1: 0.75 × 1 + 0.25.
        point.on_cnp(at(0));
        assert_eq!(mbps(&mut point, at(0)), (5_000, 10_000));
        assert_eq!(point.alpha, 1.0);
        point.on_cnp(at(0));
        assert_eq!(mbps(&mut point, at(0)), (2_500, 5_000));
        // Never below the least rate; the target is unchanged.
        point.on_cnp(at(0));
        point.on_cnp(at(0));
        assert_eq!(mbps(&mut point, at(0)), (1_000, 1_250));
    }

    #[test]
    fn alpha_decays_without_cnps() {
        let mut point = ReactionPoint::new(CONFIG, LINE);
        point.on_cnp(at(0));
        point.rate(at(99));
        assert_eq!(point.alpha, 1.0);
        point.rate(at(100));
        assert_eq!(point.alpha, 0.75);
        point.rate(at(399));
        assert_eq!(point.alpha, 0.75 * 0.75 * 0.75);
        // At 399 µs, so that the rate is known: see the stages below.
        let before = point.rate(at(399)) as f64;
        point.on_cnp(at(399));
        let cut = 1.0 - 0.421_875 / 2.0;
        assert!((point.rate(at(399)) as f64 - before * cut).abs() < 2.0);
        assert_eq!(point.alpha, 0.75 * 0.421_875 + 0.25);
        // The CNP has started its timer anew.
        point.rate(at(498));
        assert_eq!(point.alpha, 0.75 * 0.421_875 + 0.25);
    }

    #[test]
    fn the_timer_alone_recovers_and_then_adds() {
        let mut point = ReactionPoint::new(CONFIG, LINE);
        point.on_cnp(at(0));
        point.on_cnp(at(0));
        assert_eq!(mbps(&mut point, at(49)), (2_500, 5_000));
        // Two events of fast recovery: half way to the target each.
        assert_eq!(mbps(&mut point, at(50)), (3_750, 5_000));
        assert_eq!(mbps(&mut point, at(100)), (4_375, 5_000));
        // Then additive, however often, since BC is 0.
        assert_eq!(mbps(&mut point, at(150)), (4_887, 5_400));
        assert_eq!(mbps(&mut point, at(200)), (5_343, 5_800));
        assert_eq!(mbps(&mut point, at(250)), (5_771, 6_200));
    }

    #[test]
    fn hyper_increase_wants_both_counters() {
        let mut point = ReactionPoint::new(CONFIG, LINE);
        point.on_cnp(at(0));
        point.on_cnp(at(0));
        // BC 0 and 1: fast recovery.
        point.sent(2_000_000, at(0));
        assert_eq!(mbps(&mut point, at(0)), (4_375, 5_000));
        // BC 2: additive, although T is 0.
        point.sent(1_000_000, at(0));
        assert_eq!(mbps(&mut point, at(0)), (4_887, 5_400));
        // T 0, 1, 2 with BC 3: additive; min(T, BC) is not above F.
        assert_eq!(mbps(&mut point, at(150)), (6_185, 6_600));
        // T 3, BC 3: hyper.
        assert_eq!(mbps(&mut point, at(200)), (7_392, 8_600));
        // A byte more than one counter's worth starts the next.
        point.sent(999_999, at(200));
        assert_eq!(mbps(&mut point, at(200)), (7_392, 8_600));
        point.sent(1, at(200));
        assert_eq!(mbps(&mut point, at(200)), (8_696, 10_000));
        // The line is the end; a CNP counts from 0 again.
        point.on_cnp(at(200));
        let (current, target) = mbps(&mut point, at(200));
        assert_eq!(target, 8_696);
        let halved = (current + target) / 2;
        assert!((halved..=halved + 1).contains(&mbps(&mut point, at(250)).0));
    }

    #[test]
    fn catching_up_late_is_the_same_as_in_time() {
        let (mut late, mut often) =
            (ReactionPoint::new(CONFIG, LINE), ReactionPoint::new(CONFIG, LINE));
        late.on_cnp(at(3));
        often.on_cnp(at(3));
        for micros in 3..2_000 {
            often.rate(at(micros));
        }
        assert_eq!(late.rate(at(1_999)), often.rate(at(1_999)));
        assert!((late.alpha - often.alpha).abs() < 1e-12);
        // A second of silence brings it back to the line.
        assert_eq!(late.rate(at(1_000_000)), LINE);
    }

    #[test]
    fn one_cnp_per_interval() {
        let mut point = NotificationPoint::new(Span::from_micros(4));
        let sent: Vec<u64> = (0..14).filter(|micros| point.on_mark(at(*micros))).collect();
        assert_eq!(sent, [0, 4, 8, 12]);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        assert_eq!(Dcqcn::DEFAULT.out_of_range(LINE), None);
        let rule = |config: Dcqcn| config.out_of_range(LINE).unwrap();
        assert!(rule(Dcqcn { g: 1.5, ..CONFIG }).starts_with("g "));
        assert!(rule(Dcqcn { g: f64::NAN, ..CONFIG }).starts_with("g "));
        assert!(rule(Dcqcn { alpha_timer: Span::ZERO, ..CONFIG }).starts_with("alpha_timer"));
        assert!(rule(Dcqcn { rate_timer: Span::ZERO, ..CONFIG }).starts_with("rate_timer"));
        assert!(rule(Dcqcn { byte_counter: 0, ..CONFIG }).starts_with("byte_counter"));
        assert!(rule(Dcqcn { min_rate: 0, ..CONFIG }).starts_with("min_rate"));
        assert!(rule(Dcqcn { min_rate: LINE + 1, ..CONFIG }).starts_with("min_rate"));
    }
}
