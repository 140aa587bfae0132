//! How long each stage takes: `cargo bench -p benches --bench cycles [-- NAME]`.
//!
//! One iteration is a round, of 32 packets unless the case has another number; items are
//! packets. Clock cycles are time times the clock.

use std::cell::RefCell;
use std::fmt;

use benches::{CASES, Case};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use galois::Kernel;

fn main() {
    divan::main();
}

/// Bytes of a frame, and sums to which each is added: a window of 256 frames, and a repair frame for 64.
const FRAME: usize = 4096;
const SUMS: usize = 4;

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

/// A frame is multiplied into each sum, by the kernels of this CPU. All are in the cache.
#[divan::bench(args = Kernel::available().map(Kernel::name))]
fn galois(bencher: Bencher<'_, '_>, name: &str) {
    let kernel = Kernel::available().find(|kernel| kernel.name() == name).expect("its name");
    let frame = [0x5a_u8; FRAME];
    let mut sums = [[0_u8; FRAME]; SUMS];
    bencher.counter(ItemsCount::new(1_u32)).bench_local(|| {
        for (sum, factor) in sums.iter_mut().zip(2..) {
            kernel.mul_add(black_box(sum), black_box(factor), black_box(&frame));
        }
    });
}
