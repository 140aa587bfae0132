//! How the programs are told to stop, or to wait no longer, and tell that they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

/// Raised by SIGTERM or SIGINT. Further ones change nothing: `timeout`, for
/// one, sends two in a row, and the programs end soon after the first.
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Whether the program is to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Catches SIGTERM and SIGINT from now on.
///
/// # Errors
/// If the operating system refuses.
pub fn stop_flag() -> Result<StopFlag> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&raised)).context("cannot catch signals")?;
    }
    Ok(StopFlag(raised))
}

/// Raised by SIGUSR1, each time anew.
pub struct SkipFlag(Arc<AtomicBool>);

impl SkipFlag {
    /// Whether it was raised since the last call.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// Catches SIGUSR1 from now on.
///
/// # Errors
/// If the operating system refuses.
pub fn skip_flag() -> Result<SkipFlag> {
    let raised = Arc::new(AtomicBool::new(false));
    flag::register(SIGUSR1, Arc::clone(&raised)).context("cannot catch signals")?;
    Ok(SkipFlag(raised))
}

/// Announces that the ports are open; scripts wait for it.
pub fn ready(program: &str) {
    manual::out::complain(format_args!("{program}: ready"));
}
