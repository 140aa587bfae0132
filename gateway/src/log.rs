//! The level of the log, which can be changed while the gateway runs.

use std::fmt;

use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;

/// The levels that can be set, from silence to everything.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What replaces the filter of the log.
type Replace = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// The level, and the way to change it.
pub struct Log {
    replace: Replace,
    level: Mutex<String>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("level", &self.level()).finish_non_exhaustive()
    }
}

/// A log that nobody changes.
impl Default for Log {
    fn default() -> Self {
        Self::new("info".into(), |_| Ok(()))
    }
}

impl Log {
    /// `replace` replaces the filter, which is `level` now: one of [`LEVELS`], or more, by `RUST_LOG`.
    pub fn new(
        level: String,
        replace: impl Fn(EnvFilter) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { replace: Box::new(replace), level: Mutex::new(level) }
    }

    /// The level.
    pub fn level(&self) -> String {
        self.level.lock().clone()
    }

    /// Logs only what is at least as grave as `level` from now on.
    ///
    /// # Errors
    /// In one line: there is no such level, or the log is gone.
    pub fn set(&self, level: &str) -> Result<&'static str, String> {
        let found = LEVELS.into_iter().find(|it| *it == level.trim());
        let level = found.ok_or_else(|| {
            format!("log level: found {}; allowed: {}", level.trim(), LEVELS.join(", "))
        })?;
        (self.replace)(EnvFilter::new(level))?;
        let mut now = self.level.lock();
        let before = std::mem::replace(&mut *now, level.to_owned());
        tracing::info!("the log level is {level} from now on, and was {before}");
        Ok(level)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_level_is_set_or_nothing_is_changed() {
        let set = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&set);
        let log = Log::new("info".into(), move |filter| {
            seen.lock().push(filter.to_string());
            Ok(())
        });
        assert_eq!(log.set(" debug\n"), Ok("debug"));
        assert_eq!(log.level(), "debug");
        let error = log.set("loud").unwrap_err();
        assert_eq!(error, "log level: found loud; allowed: off, error, warn, info, debug, trace");
        assert_eq!((log.level(), set.lock().clone()), ("debug".into(), vec!["debug".into()]));
    }
}
