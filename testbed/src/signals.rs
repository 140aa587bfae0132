//! How the programs are told to stop, and tell that they run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Raised by the first SIGTERM or SIGINT. A second one ends the program at
/// once.
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
    let register = |signal| -> io::Result<()> {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&raised))?;
        flag::register(signal, Arc::clone(&raised))?;
        Ok(())
    };
    [SIGTERM, SIGINT].into_iter().try_for_each(register).context("cannot catch signals")?;
    Ok(StopFlag(raised))
}

/// Says that the ports are open: what a script waits for.
pub fn ready(program: &str) {
    eprintln!("{program}: ready");
}
