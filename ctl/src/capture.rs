//! `lr2ctl capture` and `trace`: fetches what the gateway has captured, part by part.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cli::{CaptureOf, TraceOf};
use crate::client::{Client, Request, read};
use crate::{BAD_INPUT, Failure, view};

/// Status of an answer once a capture has all its frames.
const NOTHING_MORE: u16 = 204;

/// Captures until there are enough frames or the time is over, and says how many there are.
///
/// # Errors
/// The gateway refuses it, another capture runs, or the file can't be written.
pub fn run(client: &Client, of: &CaptureOf, out: &mut dyn Write) -> Result<(), Failure> {
    let name = of.out.display();
    let cant_write = |e: io::Error| Failure::failed(format!("can't write to {name}: {e}"));
    // The gateway checks the options before an older file is lost.
    let begun = read::<api::Capture>(&client.ask(&Request::post(&of.path()))?)?;
    let path = format!("/capture/{}", begun.capture);
    let written = match of.out == Path::new("-") {
        true => fetch(client, &path, of.seconds, out),
        false => File::create(&of.out)
            .map_err(|e| Failure { code: BAD_INPUT, text: format!("can't write to {name}: {e}") })
            .and_then(|mut file| fetch(client, &path, of.seconds, &mut file)),
    };
    let end = client.ask(&Request::delete(&path)).and_then(|body| read::<api::CaptureEnd>(&body));
    written?.map_err(cant_write)?;
    let api::CaptureEnd { captured, missed } = end?;
    if of.out != Path::new("-") {
        let _ = writeln!(out, "{captured} frames in {name}{}", too_fast(missed));
    }
    Ok(())
}

/// Prints what is decided for packets, until there are enough of them or the time is over, and says how many there were.
///
/// # Errors
/// The gateway refuses it, or a capture or another trace runs.
pub fn trace(
    client: &Client,
    of: &TraceOf,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let begun = read::<api::Capture>(&client.ask(&Request::post(&of.path()))?)?;
    let path = format!("/trace/{}", begun.capture);
    let mut lines = Lines { json, out };
    let written = fetch(client, &path, of.seconds, &mut lines);
    let end = client.ask(&Request::delete(&path)).and_then(|body| read::<api::CaptureEnd>(&body));
    // Who reads no further has seen enough.
    if written?.is_err() || json {
        return Ok(());
    }
    let api::CaptureEnd { captured, missed } = end?;
    let _ = writeln!(out, "{captured} packets{}", too_fast(missed));
    Ok(())
}

/// The end of a summary: frames that are missing from the capture.
fn too_fast(missed: u64) -> String {
    match missed {
        0 => String::new(),
        n => format!("; {n} more came too fast"),
    }
}

/// Lines of a trace on their way to the reader.
struct Lines<'a> {
    json: bool,
    out: &'a mut dyn Write,
}

impl Write for Lines<'_> {
    /// A part of the answer, which has whole lines.
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(part).lines() {
            match serde_json::from_str::<api::Traced>(line) {
                Ok(traced) if !self.json => writeln!(self.out, "{}", view::traced(&traced))?,
                Ok(_) | Err(_) => writeln!(self.out, "{line}")?,
            }
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes what the gateway has, until there is no more or the time is over.
fn fetch(
    client: &Client,
    path: &str,
    seconds: u32,
    to: &mut dyn Write,
) -> Result<io::Result<()>, Failure> {
    let end = Instant::now() + Duration::from_secs(seconds.into());
    loop {
        let (status, part) = client.fetch(&Request::get(path))?;
        if let Err(e) = to.write_all(&part).and_then(|()| to.flush()) {
            return Ok(Err(e));
        }
        if status == NOTHING_MORE || Instant::now() >= end {
            return Ok(Ok(()));
        }
    }
}
