//! Why cells of the matrix are missed, where it is known.

use crate::scheme::Scheme;

const BOTH: &[Scheme] = &[Scheme::Auto, Scheme::Cached];
const CACHED: &[Scheme] = &[Scheme::Cached];

/// `auto` differs from `cached` in that it asks the source, and in nothing else.
const NEVER_ASKS: &str = "`cached` never asks the source: what no cache has waits for a timeout. `auto` asks, and is met";

const FOUR: &str = "incast 8 x 4 MB";
const EIGHT: &str = "incast 8 x 8 MB";
const MANY: &str = "incast 64 x 0.5 MB";
const NARROW: &str = "loss 1e-3, 0.8 ms, 10G, marks from 1 MB";

/// By traffic, cell and modes. A cell that is met needs none. The ratios of mean and 99th
/// percentile over more seeds are the larger of the two modes', by `lr2-sim run` with the
/// cell's command and so many times `--seed`.
const REASONS: [(&str, &str, &[Scheme], &str); 15] = [
    (
        FOUR,
        "base",
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.98 and 1.00 over 300 seeds",
    ),
    (
        FOUR,
        "marks from 40 kB",
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.97 and 1.00 over 300 seeds",
    ),
    (
        FOUR,
        "loss 0",
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.98 and 1.00 over 300 seeds",
    ),
    (
        FOUR,
        "loss 0, no marks",
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.93 and 1.00 over 300 seeds",
    ),
    (
        FOUR,
        "loss 0, no DCQCN",
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.93 and 1.00 over 300 seeds",
    ),
    (FOUR, "loss 1e-3, 0.8 ms", CACHED, NEVER_ASKS),
    (
        FOUR,
        NARROW,
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.91 and 0.91 over 150 seeds",
    ),
    (EIGHT, "base", CACHED, NEVER_ASKS),
    (EIGHT, "32 MiB", CACHED, NEVER_ASKS),
    (EIGHT, "marks from 40 kB", CACHED, NEVER_ASKS),
    (EIGHT, "no marks, 32 MiB", CACHED, NEVER_ASKS),
    (EIGHT, "no DCQCN, PFC", CACHED, NEVER_ASKS),
    (
        EIGHT,
        "loss 1e-3, 0.8 ms",
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.99 and 1.04 over 300 seeds",
    ),
    (
        EIGHT,
        NARROW,
        BOTH,
        "chance: the second slowest of 160 messages met a timeout more; 0.92 and 0.98 over 150 seeds",
    ),
    (
        MANY,
        NARROW,
        BOTH,
        "chance: the 13 slowest of 1,280 messages met a timeout more; 1.02 and 1.01 over 37 seeds",
    ),
];

/// Why `scheme` misses a cell; empty if that isn't known.
pub(super) fn reason(traffic: &str, cell: &str, scheme: Scheme) -> &'static str {
    let is_it = |(t, c, schemes, _): &&(&str, &str, &[Scheme], &str)| {
        *t == traffic && *c == cell && schemes.contains(&scheme)
    };
    REASONS.iter().find(is_it).map_or("", |(.., reason)| reason)
}
