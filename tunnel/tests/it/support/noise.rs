//! What makes round trips noisy: other traffic on the paths, and programs that are not scheduled for a while.

use common::time::{Span, Time};

/// How noisy it is; nothing by default.
#[derive(Clone, Copy, Default, Debug)]
pub struct Noise {
    /// Most microseconds of queue that another's burst brings at once, on one lane and in one direction,
    pub burst: u64,
    /// and microseconds between two of these on average.
    pub bursts_apart: u64,
    /// Most microseconds for which the paths, the sender or the receiver stand still,
    pub pause: u64,
    /// and microseconds between two times that one of them does so, on average.
    pub pauses_apart: u64,
}

/// A queue on the way, and when the next burst comes.
struct Queue {
    until: Time,
    next: Time,
}

/// Who stands still.
#[derive(Clone, Copy)]
pub enum Still {
    Paths,
    Sender,
    Receiver,
}

pub struct Noises {
    noise: Noise,
    dice: Dice,
    queues: Vec<Queue>,
    pauses: [Vec<(Time, Time)>; 3],
}

impl Noises {
    /// For so many queues, from `start` on, for ten minutes.
    pub fn new(noise: Noise, seed: u64, queues: usize, start: Time) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let mut pauses: [Vec<_>; 3] = Default::default();
        for pauses in pauses.iter_mut().filter(|_| noise.pause > 0) {
            let mut at = start;
            while at < start + Span::from_millis(600_000) {
                at += spread(&mut dice, noise.pauses_apart);
                let end = at + Span::from_micros((dice.roll() * noise.pause as f64) as u64);
                pauses.push((at, end));
                at = end;
            }
        }
        let queues = (0..queues).map(|_| Queue { until: start, next: start }).collect();
        Self { noise, dice, queues, pauses }
    }

    /// How long what comes now waits behind others' frames.
    pub fn wait(&mut self, queue: usize, now: Time) -> Span {
        let Noise { burst, bursts_apart, .. } = self.noise;
        if burst == 0 {
            return Span::ZERO;
        }
        let state = &mut self.queues[queue];
        while state.next <= now {
            let more = Span::from_micros((self.dice.roll() * burst as f64) as u64);
            state.until = state.until.max(state.next) + more;
            state.next += spread(&mut self.dice, bursts_apart);
        }
        state.until.since(now)
    }

    /// `at`, or when the one who stands still then goes on.
    pub fn not_before(&self, who: Still, at: Time) -> Time {
        let pauses = &self.pauses[who as usize];
        let before = pauses.partition_point(|(start, _)| *start <= at);
        let end = before.checked_sub(1).map_or(at, |last| pauses[last].1);
        at.max(end)
    }
}

/// A time with this mean, in microseconds, as between events that know nothing of each other.
fn spread(dice: &mut Dice, mean: u64) -> Span {
    Span::from_micros((-(1.0 - dice.roll()).ln() * mean as f64) as u64 + 1)
}

/// xorshift64*: the same sequence for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
