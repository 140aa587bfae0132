//! Driving a flow, whichever pipeline it is of.

use common::psn::Psn;
use common::time::Time;

use crate::input::Input;

/// The flow's first PSN: not far from where they begin again.
pub const FIRST: Psn = Psn::new(0xff_fff0);
/// When it begins.
pub const START: Time = Time::from_nanos(1_000_000_000);
/// Its destination.
pub const QPN: u32 = 0x11;
/// Who sends its requests.
pub const REQUESTER: u32 = 0x77;
/// Most timers that may fire at one time.
const AT_ONCE: u32 = 16;
/// Most timers until a flow that nobody speaks to any more is silent.
const UNTIL_SILENT: u32 = 20_000;

/// A flow with all that a switch gives it.
pub trait Bench: Sized {
    /// A flow of which nothing is known.
    fn new(input: &mut Input<'_>) -> Self;

    /// The other gateway is heard of, and so is the destination.
    fn open(&mut self);

    /// Something happens.
    fn play(&mut self, input: &mut Input<'_>);

    /// The present, to be put forward.
    fn now(&mut self) -> &mut Time;

    /// When a timer is due.
    fn deadline(&self) -> Time;

    /// Runs the timers that are due.
    fn timer(&mut self);

    /// in + created = out + held.
    fn check(&self);

    /// It has fallen silent: nothing is to be held.
    fn end(&mut self);
}

/// `data` is a sequence of operations.
pub fn run<B: Bench>(data: &[u8]) {
    let mut input = Input::new(data);
    let mut bench = B::new(&mut input);
    let is_prompt = !input.one_in(8);
    if !input.one_in(4) {
        bench.open();
    }
    while !input.is_empty() {
        bench.play(&mut input);
        if is_prompt {
            settle(&mut bench);
        }
        bench.check();
    }
    settle(&mut bench);
    fall_silent(&mut bench);
    bench.end();
    bench.check();
}

/// Runs the timers that are due.
pub fn settle(bench: &mut impl Bench) {
    for _ in 0..AT_ONCE {
        if bench.deadline() > *bench.now() {
            return;
        }
        bench.timer();
    }
    panic!("a timer stays due: {:?} at {:?}", bench.deadline(), bench.now());
}

/// Nothing comes any more.
fn fall_silent(bench: &mut impl Bench) {
    for fired in 0.. {
        let due = bench.deadline();
        if due == Time::NEVER {
            break;
        }
        assert!(fired < UNTIL_SILENT, "no end of timers");
        let now = bench.now();
        *now = due.max(*now);
        bench.timer();
    }
}
