//! A window beside a map that does the same.

use super::*;
use crate::psn::Psn;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Pushes and pops in any order, few and many of them, places that stay vacant, are
/// filled and become vacant again, shrunk now and then.
#[derive(Clone, Debug)]
enum Op {
    Push(usize),
    Pop(usize),
    Extend(u64),
    Put(prop::sample::Index),
    Take(prop::sample::Index),
    DrainBefore(prop::sample::Index),
    PopFrom(prop::sample::Index, usize),
    SkipVacant,
    Shrink,
}

fn op() -> impl Strategy<Value = Op> {
    let any_of = || any::<prop::sample::Index>();
    prop_oneof![
        3 => (0..=2 * SEGMENT).prop_map(Op::Push),
        2 => (0..8_usize).prop_map(Op::Push),
        2 => (0..=SEGMENT).prop_map(Op::Pop),
        2 => (0..600_u64).prop_map(Op::Extend),
        6 => any_of().prop_map(Op::Put),
        2 => any_of().prop_map(Op::Take),
        2 => any_of().prop_map(Op::DrainBefore),
        1 => (any_of(), 0..600_usize).prop_map(|(at, n)| Op::PopFrom(at, n)),
        1 => Just(Op::SkipVacant),
        1 => Just(Op::Shrink),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_map(ops in proptest::collection::vec(op(), 0..60)) {
        let first = Seq::first(Psn::new(0xff_fff0));
        let mut window = Window::new(first);
        let (mut oracle, mut start, mut end) = (BTreeMap::new(), first, first);
        for (n, op) in ops.into_iter().enumerate() {
            let at = |index: &prop::sample::Index| start + index.index(end.since(start) as usize + 1) as u64;
            match &op {
                Op::Push(times) => for n in (n * 1_000..).take(*times) {
                    oracle.insert(end, n);
                    window.push(n);
                    end = end.next();
                },
                Op::Pop(times) => for _ in 0..*times {
                    let popped = oracle.remove(&start);
                    start = start + u64::from(popped.is_some());
                    prop_assert_eq!(window.pop(), popped);
                },
                Op::Extend(more) => {
                    end = end + *more;
                    window.extend_to(end);
                }
                Op::Put(index) if at(index) < end => {
                    prop_assert_eq!(window.put(at(index), n), oracle.insert(at(index), n));
                }
                Op::Take(index) => {
                    prop_assert_eq!(window.take(at(index)), oracle.remove(&at(index)));
                }
                Op::DrainBefore(index) => {
                    start = at(index);
                    let mut drained = Vec::new();
                    window.drain_before(start, |seq, n| drained.push((seq, n)));
                    let kept = oracle.split_off(&start);
                    let before = core::mem::replace(&mut oracle, kept);
                    prop_assert!(drained.into_iter().eq(before));
                }
                Op::PopFrom(index, times) => {
                    let floor = at(index);
                    for _ in 0..*times {
                        let popped = oracle.last_entry().filter(|slot| *slot.key() >= floor);
                        let popped = popped.map(|slot| slot.remove_entry());
                        end = popped.map_or(floor, |(seq, _)| seq).min(end);
                        prop_assert_eq!(window.pop_from(floor), popped.map(|(_, n)| n));
                    }
                }
                Op::SkipVacant => {
                    window.skip_vacant();
                    start = oracle.first_key_value().map_or(end, |(seq, _)| *seq);
                }
                Op::Shrink => window.shrink(),
                Op::Put(_) => {}
            }
            prop_assert_eq!((window.start(), window.end()), (start, end), "{:?}", op);
            prop_assert_eq!(window.filled(), oracle.len());
            prop_assert_eq!(window.front(), oracle.get(&start));
            prop_assert!(window.iter().eq(oracle.iter().map(|(seq, n)| (*seq, n))));
            for seq in (0..=end.since(start)).step_by(7).map(|n| start + n).chain([first - 1]) {
                let slot = oracle.get(&seq);
                prop_assert_eq!(window.get(seq), slot);
                prop_assert_eq!(window.get_mut(seq).map(|slot| *slot), slot.copied());
                let next = oracle.range(seq..).next().map(|(seq, _)| *seq);
                prop_assert_eq!(window.first_from(seq), next);
                let last = oracle.range(..=seq).next_back().map(|(seq, n)| (*seq, n));
                prop_assert_eq!(window.last_to(seq), last);
            }
        }
    }
}

/// Places without a slot take no memory, and neither does a slot among them take that
/// of its neighbours.
#[test]
fn vacant_places_cost_nothing() {
    let mut w = Window::new(Seq::first(Psn::new(0)));
    w.push([0_u64; 6]);
    w.extend_to(w.start() + (1 << 19));
    w.push([0; 6]);
    let two = w.heap_bytes();
    assert!(two <= 1024, "{two} bytes");
    for n in 0..1_000 {
        w.put(w.start() + 100 + n * 500, [n; 6]);
    }
    assert!(w.heap_bytes() <= 1_000 * 8 * size_of::<[u64; 6]>(), "{}", w.heap_bytes());
}

/// Freed slots are there for the next taker, and are returned on request.
#[test]
fn many_slots_take_what_they_need() {
    let mut w = Window::new(Seq::first(Psn::new(0)));
    for n in 0..100_000_u64 {
        w.push(n);
    }
    let all = w.heap_bytes();
    let slots = 100_000 * size_of::<u64>();
    assert!((slots..slots + slots / 10).contains(&all), "{all}");
    while w.len() > 10 {
        w.pop();
    }
    let kept = w.heap_bytes();
    for n in 10..100_000 {
        w.push(n);
    }
    // Those that are left are not where a segment begins.
    assert!(w.heap_bytes() <= kept + (SEGMENT + 8) * size_of::<u64>());
    while w.len() > 10 {
        w.pop();
    }
    w.shrink();
    assert!(w.heap_bytes() < all / 20, "{}", w.heap_bytes());
    while w.pop().is_some() {}
    w.shrink();
    assert_eq!(w.heap_bytes(), 0);
}

#[test]
fn a_window_shrinks_to_its_slots() {
    let mut w = Window::new(Seq::first(Psn::new(0)));
    for n in 0..100_u64 {
        w.push(n);
    }
    for (left, room) in [(20, 20), (3, FEW), (0, FEW)] {
        while w.len() > left {
            w.pop();
        }
        w.shrink();
        let oldest = (left > 0).then_some(100 - left as u64);
        let bytes = room * size_of::<u64>();
        assert_eq!((w.heap_bytes(), w.get(w.start()).copied()), (bytes, oldest));
    }
}
