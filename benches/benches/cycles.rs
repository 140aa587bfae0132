//! How long each stage takes: `cargo bench -p benches --bench cycles [-- NAME]`.
//!
//! One iteration is a round, of 32 packets unless the case has another number; items are
//! packets. Clock cycles are time times the clock.

use std::cell::RefCell;
use std::fmt;

use benches::{CASES, Case};
use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

struct Named(&'static Case);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

// One round a sample: the next can't be made ready before.
#[divan::bench(args = CASES.iter().map(Named), sample_size = 1, sample_count = 2000)]
fn stage(bencher: Bencher<'_, '_>, case: &Named) {
    let stage = RefCell::new((case.0.make)());
    bencher
        .counter(ItemsCount::new(case.0.per_round))
        .with_inputs(|| stage.borrow_mut().prepare())
        .bench_local_values(|()| stage.borrow_mut().run());
}
