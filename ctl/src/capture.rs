//! `lr2ctl capture`: fetches frames that the gateway copies, part by part.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cli::CaptureOf;
use crate::client::{Client, Request, read};
use crate::{BAD_INPUT, Failure};

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
        let more = match missed {
            0 => String::new(),
            n => format!("; {n} more came too fast"),
        };
        let _ = writeln!(out, "{captured} frames in {name}{more}");
    }
    Ok(())
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
