//! What the service manager is told: the protocol of `sd_notify(3)`, lines of text to a datagram socket.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to the service manager, if it wants to know.
#[derive(Debug, Default)]
pub struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Whether it ends a service that gives no sign of life.
    has_watchdog: bool,
    is_ready: bool,
}

impl Notifier {
    /// As the environment of the process says.
    pub fn from_environment() -> Self {
        let Ok(socket) = env::var("NOTIFY_SOCKET") else { return Self::default() };
        let pid = env::var("WATCHDOG_PID").ok();
        let is_ours = pid.is_none_or(|pid| pid == std::process::id().to_string());
        let period = env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        let period =
            period.map(Duration::from_micros).filter(|period| is_ours && !period.is_zero());
        Self::new(&socket, period.is_some()).unwrap_or_else(|error| {
            tracing::warn!("can't notify the service manager at {socket}: {error}");
            Self::default()
        })
    }

    /// At a socket: a path, or `@` and an abstract name.
    fn new(socket: &str, has_watchdog: bool) -> io::Result<Self> {
        let address = match socket.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(socket)?,
        };
        let to = UnixDatagram::unbound()?;
        // A manager that is behind must not hold up the main thread.
        to.set_nonblocking(true)?;
        Ok(Self { to: Some((to, address)), has_watchdog, is_ready: false })
    }

    /// Frames are forwarded. Said once.
    pub fn ready(&mut self) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.say("READY=1");
        }
    }

    /// A sign of life, for the watchdog.
    pub fn alive(&self) {
        if self.has_watchdog {
            self.say("WATCHDOG=1");
        }
    }

    /// The process is on its way out.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Nothing is left but to give back ports and memory. That gives no sign of life and may take longer than the watchdog
    /// waits, which would then kill a process that ends well. The manager's limit for a stop holds still.
    pub fn closing(&self) {
        if self.has_watchdog {
            self.say("WATCHDOG_USEC=0");
        }
    }

    fn say(&self, line: &str) {
        if let Some((to, address)) = &self.to {
            // It may be gone, or behind: the next line will do.
            let _ = to.send_to_addr(line.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("lr2-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}")),
        ] {
            manager.set_nonblocking(true).unwrap();
            let mut notifier = Notifier::new(&socket, true).unwrap();
            notifier.ready();
            notifier.ready();
            notifier.alive();
            notifier.stopping();
            notifier.closing();
            let next = || {
                let mut line = [0; 64];
                let len = manager.recv(&mut line).ok()?;
                Some(String::from_utf8_lossy(&line[..len]).into_owned())
            };
            let lines: Vec<_> = std::iter::from_fn(next).collect();
            assert_eq!(lines, ["READY=1", "WATCHDOG=1", "STOPPING=1", "WATCHDOG_USEC=0"]);
        }
        let mut nobody = Notifier::default();
        nobody.ready();
        nobody.alive();
        nobody.closing();
    }
}
