//! Does one case for a while, for callgrind to count in [`measured`] alone:
//! `lr2-instructions CASE ROUNDS`. Without arguments it names the cases, each
//! with how often a round does it.

use std::hint::black_box;
use std::process::ExitCode;

use benches::{CASES, Stage, case};

/// Rounds before the first that counts.
const WARM: u32 = 8;

/// The function in which callgrind counts, by its name.
#[inline(never)]
fn measured(stage: &mut dyn Stage) {
    stage.run();
    // Not the last thing to be done, so that it is a call rather than a jump.
    black_box(());
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = &arguments[..] else {
        for case in CASES {
            println!("{}\t{}", case.per_round, case.name);
        }
        return ExitCode::SUCCESS;
    };
    let (Some(case), Ok(rounds)) = (case(name), rounds.parse::<u32>()) else {
        eprintln!("lr2-instructions: no case {name}, or no number of rounds: {rounds}");
        return ExitCode::from(2);
    };
    let mut stage = (case.make)();
    for _ in 0..WARM {
        stage.prepare();
        stage.run();
    }
    for _ in 0..rounds {
        stage.prepare();
        measured(&mut *stage);
    }
    ExitCode::SUCCESS
}
