//! `lr2ctl`: see the library, and `lr2ctl --help`.

use std::io::{stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ctl::run(std::env::args_os(), &mut stdout(), &mut stderr()))
}
