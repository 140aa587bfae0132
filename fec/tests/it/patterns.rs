//! Any pattern of losses, doubles and delays.

use std::collections::BTreeMap;

use fec::{Plan, Repair, factor};
use galois::{inverse, mul};
use proptest::prelude::*;

use crate::lane::{Far, Near, Sent, frame};

/// What an operator, a host or the lane does.
#[derive(Clone, Debug)]
enum Step {
    /// A frame of so many bytes.
    Frame(usize),
    Start(Plan),
    Stop,
    Flush,
}

/// What becomes of something on the lane: for each copy, by how many places it is late.
type Fate = Vec<usize>;

fn plan() -> impl Strategy<Value = Plan> {
    (0_u8..4, 1_u8..5, 1_u8..5)
        .prop_map(|(streams, every, windows)| Plan::new(1 << streams, 1 << every, windows).unwrap())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        100 => (0_usize..50).prop_map(Step::Frame),
        1 => plan().prop_map(Step::Start),
        1 => Just(Step::Stop),
        2 => Just(Step::Flush),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        16 => Just(vec![0]),
        2 => Just(vec![]),
        1 => proptest::collection::vec(0_usize..60, 1..3),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// `Far::take` checks every frame that is decoded.
    #[test]
    fn a_decoded_frame_is_right_and_comes_once(
        first in prop_oneof![0_u64..100, (1_u64 << 32) - 300..(1 << 32) + 100],
        plan in plan(),
        steps in proptest::collection::vec(step(), 1..600),
        fates in proptest::collection::vec(fate(), 50..100),
    ) {
        let (mut near, mut far) = (Near::new(first), Far::new(first));
        // By the time at which it arrives.
        let mut lane: BTreeMap<(usize, usize), Sent> = BTreeMap::new();
        let (mut time, mut order) = (0, 0);
        let begin = std::iter::once(Step::Start(plan));
        for step in begin.chain(steps) {
            let all = match step {
                Step::Frame(len) => near.send(&frame(near.next, len)),
                Step::Start(plan) => vec![near.start(plan)],
                Step::Stop => {
                    near.encoder.stop();
                    vec![]
                }
                Step::Flush => near.flush(),
            };
            for sent in all {
                for late in &fates[time % fates.len()] {
                    lane.insert((time + late, order), sent.clone());
                    order += 1;
                }
                time += 1;
            }
            while let Some(entry) = lane.first_entry().filter(|entry| entry.key().0 < time) {
                far.take(&near, &entry.remove());
            }
        }
        for sent in lane.values() {
            far.take(&near, sent);
        }
    }

    /// On a lane that keeps order: all that any decoder could solve.
    #[test]
    fn all_is_decoded_that_can_be(
        plan in plan(),
        lost in proptest::collection::vec(proptest::bool::weighted(0.12), 100),
        lengths in proptest::collection::vec(1_usize..30, 10),
    ) {
        let (mut near, mut far) = (Near::new(0), Far::new(0));
        let announcement = near.start(plan);
        far.take(&near, &announcement);
        let (mut missing, mut repairs) = (Vec::new(), Vec::new());
        // No row is too old to be kept.
        let frames = (2 * plan.span()).min(120);
        let mut lost = lost.into_iter().cycle();
        for number in 0..frames {
            for sent in near.send(&frame(number, lengths[number as usize % lengths.len()])) {
                match (lost.next(), &sent) {
                    (Some(true), Sent::Frame(number)) => missing.push(*number),
                    (Some(true), _) => {}
                    (_, sent) => {
                        if let Sent::Repair(repair, _) = sent {
                            repairs.push(*repair);
                        }
                        far.take(&near, sent);
                    }
                }
            }
        }
        prop_assert_eq!(far.decoded(), solvable(&missing, &repairs));
    }
}

/// Which of these numbers follow from these sums, by elimination of the whole matrix.
fn solvable(missing: &[u64], repairs: &[Repair]) -> Vec<u64> {
    let row = |repair: &Repair| -> Vec<u8> {
        let step = u64::from(repair.plan.streams());
        let has = |number: u64| {
            number >= repair.first
                && (number - repair.first).is_multiple_of(step)
                && (number - repair.first) / step < u64::from(repair.count)
        };
        missing.iter().map(|n| if has(*n) { factor(repair.seed, *n) } else { 0 }).collect()
    };
    let mut rows: Vec<Vec<u8>> = repairs.iter().map(row).collect();
    let mut done = 0;
    for column in 0..missing.len() {
        let Some(at) = (done..rows.len()).find(|at| rows[*at][column] != 0) else { continue };
        rows.swap(done, at);
        let by = inverse(rows[done][column]).unwrap();
        let pivot: Vec<u8> = rows[done].iter().map(|value| mul(*value, by)).collect();
        for (at, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if at != done && factor != 0 {
                row.iter_mut().zip(&pivot).for_each(|(value, pivot)| *value ^= mul(factor, *pivot));
            }
        }
        rows[done] = pivot;
        done += 1;
    }
    let mut solved: Vec<u64> = rows
        .iter()
        .filter(|row| row.iter().filter(|value| **value != 0).count() == 1)
        .map(|row| missing[row.iter().position(|value| *value != 0).unwrap()])
        .collect();
    solved.sort_unstable();
    solved
}
