//! Output to a reader that may leave early, as `head` does.
//!
//! `print!` and `eprintln!` panic then, and a panic of a program that was built for release is a core dump.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Exit status of a program that SIGPIPE ends, as a shell shows it.
const READER_LEFT: i32 = 141;

/// Prints `text` on standard output. If the reader has left, the process ends with status 141; on another error with 1.
pub fn print(text: impl Display) {
    if let Err(error) = write(&mut io::stdout().lock(), text) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(READER_LEFT);
        }
        complain(format_args!("standard output: {error}"));
        std::process::exit(1);
    }
}

/// Prints `text` and the end of a line on standard output, as [`print()`] does.
pub fn println(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints `text` and the end of a line on standard error, if it has a reader.
pub fn complain(text: impl Display) {
    let _ = write(&mut io::stderr().lock(), format_args!("{text}\n"));
}

fn write(to: &mut dyn Write, text: impl Display) -> io::Result<()> {
    write!(to, "{text}")?;
    to.flush()
}
