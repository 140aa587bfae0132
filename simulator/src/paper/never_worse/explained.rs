//! Why cells of the matrix are missed, where it is known.

use crate::scheme::Scheme;

/// Why a cell is missed.
#[derive(Clone, Copy)]
enum Reason {
    /// In `auto` and `cached`: these slowest of all messages had one more timeout. Mean and 99th
    /// percentile over more seeds are the larger of the two modes', by `lr2-sim run` with the
    /// cell's command and so many times `--seed`.
    Chance(&'static str, &'static str),
    /// In `cached` alone: it differs from `auto` only in that it never asks the source.
    NeverAsks,
}

use Reason::{Chance, NeverAsks};

const FOUR: &str = "incast 8 x 4 MB";
const EIGHT: &str = "incast 8 x 8 MB";
const MANY: &str = "incast 64 x 0.5 MB";
const NARROW: &str = "loss 1e-3, 0.8 ms, 10G, marks from 1 MB";
const SECOND: &str = "the second slowest of 160 messages";

/// By traffic and cell, for cells that miss the limit.
const REASONS: [(&str, &str, Reason); 15] = [
    (FOUR, "base", Chance(SECOND, "0.98 and 1.00 over 300")),
    (FOUR, "marks from 40 kB", Chance(SECOND, "0.97 and 1.00 over 300")),
    (FOUR, "loss 0", Chance(SECOND, "0.98 and 1.00 over 300")),
    (FOUR, "loss 0, no marks", Chance(SECOND, "0.93 and 1.00 over 300")),
    (FOUR, "loss 0, no DCQCN", Chance(SECOND, "0.93 and 1.00 over 300")),
    (FOUR, "loss 1e-3, 0.8 ms", NeverAsks),
    (FOUR, NARROW, Chance(SECOND, "0.91 and 0.91 over 150")),
    (EIGHT, "base", NeverAsks),
    (EIGHT, "32 MiB", NeverAsks),
    (EIGHT, "marks from 40 kB", NeverAsks),
    (EIGHT, "no marks, 32 MiB", NeverAsks),
    (EIGHT, "no DCQCN, PFC", NeverAsks),
    (EIGHT, "loss 1e-3, 0.8 ms", Chance(SECOND, "0.99 and 1.04 over 300")),
    (EIGHT, NARROW, Chance(SECOND, "0.92 and 0.98 over 150")),
    (MANY, NARROW, Chance("the 13 slowest of 1,280 messages", "1.02 and 1.01 over 37")),
];

/// Why `scheme` misses a cell; empty if that isn't known.
pub(super) fn reason(traffic: &str, cell: &str, scheme: Scheme) -> String {
    match REASONS.iter().find(|(t, c, _)| *t == traffic && *c == cell) {
        Some((.., Chance(which, ratios))) if scheme != Scheme::TUNNEL => {
            format!("chance: {which} had one more timeout; ratios of {ratios} seeds")
        }
        Some((.., NeverAsks)) if scheme == Scheme::CACHED => {
            "`cached` never asks the source, so a packet that is in no cache waits for a timeout; \
             `auto` asks, and meets the limit"
                .to_owned()
        }
        _ => String::new(),
    }
}
