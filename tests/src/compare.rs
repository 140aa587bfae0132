//! Results of a mode on a path, compared with no gateways on the same losses.

use crate::order::Ordered;
use crate::world::Outcome;

/// The queue pairs of many runs in one mode, each with its twin in a run with
/// the same seed and without gateways. A queue pair that is used again counts
/// once per incarnation.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Runs compared.
    pub runs: u64,
    /// Queue pairs compared.
    pub qps: u64,
    /// Those that died though their twins lived, with the seed.
    pub lost: Vec<(u64, String)>,
    /// Those that lived though their twins died.
    pub saved: u64,
    /// Those that died like their twins.
    pub both_dead: u64,
    /// Those to which not exactly the same happened.
    pub changed: u64,
    /// Those that lived like their twins: seconds without gateways, and with, on
    /// average.
    sums: [f64; 2],
    /// The frames that tunnels without repair of the LANs carried.
    pub order: Ordered,
    lived: u64,
    /// By how many seconds the slowest ones were slower than their twins, the
    /// worst first, with the seed and how long the twin took.
    pub slowest: Vec<(f64, u64, f64)>,
}

/// How many of the slowest are kept.
const SLOWEST: usize = 8;

impl Comparison {
    /// Adds the runs with `seed`.
    pub fn add(&mut self, seed: u64, plain: &Outcome, with: &Outcome) {
        assert_eq!(plain.qps.len(), with.qps.len(), "seed {seed}: not the same work");
        self.runs += 1;
        self.order += with.order;
        for (q, (plain, with)) in plain.qps.iter().zip(&with.qps).enumerate() {
            self.qps += 1;
            self.changed += u64::from(plain != with);
            match (plain.died, with.died) {
                (None, Some(status)) => self.lost.push((seed, format!("{q}: {status:?}"))),
                (Some(_), None) => self.saved += 1,
                (Some(_), Some(_)) => self.both_dead += 1,
                (None, None) => {
                    let [plain, with] = [plain.took, with.took].map(|took| took.as_secs_f64());
                    self.lived += 1;
                    self.sums[0] += plain;
                    self.sums[1] += with;
                    self.slowest.push((with - plain, seed, plain));
                }
            }
        }
        self.slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.slowest.truncate(SLOWEST);
    }

    /// Mean seconds until the work of a queue pair was done, without gateways
    /// and with, over those that lived either way.
    pub fn means(&self) -> [f64; 2] {
        self.sums.map(|sum| sum / self.lived.max(1) as f64)
    }

    /// Queue pairs fare no worse than without gateways: at most `most` of `of` die that live without
    /// them, and those that live take no longer on average.
    ///
    /// # Panics
    /// If they fare worse.
    pub fn assert_no_worse(&self, most: u64, of: u64) {
        let (lost, qps) = (self.lost.len() as u64, self.qps);
        assert!(lost * of <= most * qps, "{lost} of {qps} died that live without gateways");
        let [plain, with] = self.means();
        assert!(with <= plain, "mean time {with:.4} s, without gateways {plain:.4} s");
    }

    /// A summary for people.
    pub fn report(&self) -> String {
        let [plain, with] = self.means();
        let slowest: Vec<String> = self
            .slowest
            .iter()
            .map(|(by, seed, plain)| format!("SEED={seed} {:.3} s, was {plain:.3} s", plain + by))
            .collect();
        format!(
            "{} queue pairs, {} died that live without gateways, {} live that died, {} died \
             either way; mean {:.1} ms, was {:.1} ms\n  died: {:?}\n  slowest: {slowest:#?}",
            self.qps,
            self.lost.len(),
            self.saved,
            self.both_dead,
            with * 1e3,
            plain * 1e3,
            self.lost,
        )
    }
}
