//! DPDK's own log: to `tracing`, or held back while it explains a failure.
//!
//! Target `dpdk`. While the EAL starts or a device is probed the messages are
//! collected, so that they go into the error if there is one and don't bury
//! it; if all goes well they are passed on at level `debug`.

use std::ffi::c_char;
use std::panic::catch_unwind;
use std::slice;

use parking_lot::Mutex;

use crate::ffi;

// RTE_LOG_ERR and so on of rte_log.h.
const ERR: u32 = 4;
const WARNING: u32 = 5;
const NOTICE: u32 = 6;
const INFO: u32 = 7;

struct Line {
    level: u32,
    text: String,
}

static HELD: Mutex<Option<Vec<Line>>> = Mutex::new(None);
/// One collection at a time.
static COLLECTING: Mutex<()> = Mutex::new(());

/// Sends DPDK's log here. Called once, before the EAL starts.
pub(crate) fn redirect() {
    // SAFETY: `sink` stays valid for ever and never unwinds. Out of memory
    // leaves the log where it was, on stderr.
    unsafe { ffi::lr2_log_redirect(Some(sink)) };
}

/// Runs `f`; returns its result and the relevant part of DPDK's log meanwhile: its
/// errors, or its warnings if there were no errors, joined into one line.
pub(crate) fn collect<T>(f: impl FnOnce() -> T) -> (T, String) {
    let _one = COLLECTING.lock();
    *HELD.lock() = Some(Vec::new());
    let result = f();
    let held = HELD.lock().take().unwrap_or_default();
    for line in &held {
        tracing::debug!(target: "dpdk", "{}", line.text);
    }
    (result, gist(&held))
}

/// Follows another message, and says less.
const ECHOES: [&str; 2] = ["Failed to attach device on primary process", "probe failed."];

fn gist(lines: &[Line]) -> String {
    let worst = if lines.iter().any(|l| l.level <= ERR) { ERR } else { WARNING };
    let mut said: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|l| l.level <= worst) {
        let echo = !said.is_empty() && ECHOES.iter().any(|e| line.text.ends_with(e));
        if !echo && !said.contains(&line.text.as_str()) {
            said.push(&line.text);
        }
    }
    // Messages of several lines are rare, and are made to fit.
    said.join("; ").split('\n').map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Receives one message. May run on any thread, with DPDK's locks held: it
/// must not call DPDK.
extern "C" fn sink(level: u32, text: *const c_char, len: usize) {
    // A panic must not unwind into C. There is nobody to tell about it.
    let _ = catch_unwind(|| {
        // SAFETY: C hands over `len` readable bytes, which stay until we return.
        let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), len) };
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        if let Some(lines) = HELD.lock().as_mut() {
            lines.push(Line { level, text: text.to_owned() });
            return;
        }
        match level {
            0..=ERR => tracing::error!(target: "dpdk", "{text}"),
            WARNING => tracing::warn!(target: "dpdk", "{text}"),
            NOTICE..=INFO => tracing::info!(target: "dpdk", "{text}"),
            _ => tracing::debug!(target: "dpdk", "{text}"),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: u32, text: &str) -> Line {
        Line { level, text: text.into() }
    }

    #[test]
    fn an_echo_is_left_out_unless_it_is_all_there_is() {
        let echo = || line(ERR, "EAL: Failed to attach device on primary process");
        assert_eq!(gist(&[line(ERR, "no such\n  key"), echo()]), "no such key");
        assert_eq!(gist(&[echo()]), "EAL: Failed to attach device on primary process");
    }

    #[test]
    fn the_gist_is_the_errors_once_each() {
        let lines = [line(WARNING, "w"), line(ERR, "a"), line(ERR, "b"), line(ERR, "a")];
        assert_eq!(gist(&lines), "a; b");
    }

    #[test]
    fn without_errors_the_gist_is_the_warnings() {
        assert_eq!(gist(&[line(INFO, "i"), line(WARNING, "w")]), "w");
        assert_eq!(gist(&[]), "");
    }
}
