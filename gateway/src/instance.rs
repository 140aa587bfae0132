//! Whether a gateway runs with a configuration: `--check` must leave its devices alone, and `release-links` the interfaces
//! that it holds down.
//!
//! One process at a time has the mark of an `eal.file_prefix`. A gateway keeps it as long as it runs; `--check` and
//! `release-links` keep it for a moment, and a process that comes meanwhile waits. A socket with no file is the mark: it
//! ends with its process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread;
use std::time::{Duration, Instant};

/// The time that a process waits for one that has the mark for a moment. `--check` opens and closes all ports within it.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two tries.
const STEP: Duration = Duration::from_millis(20);

/// Why a process takes the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It is a gateway.
    ToRun,
    /// It opens ports, or sets up interfaces, and ends.
    ForAMoment,
}

/// The mark of this process, as long as it is kept.
#[derive(Debug)]
pub struct Instance {
    /// Says that a gateway has the mark. It goes first.
    _runs: Option<UnixDatagram>,
    _mark: UnixDatagram,
}

impl Instance {
    /// Takes the mark of this `eal.file_prefix`; `None` if a gateway with it runs. Waits while another process has the mark
    /// for a moment.
    ///
    /// # Errors
    /// If another process keeps the mark and is no gateway that runs, or the kernel refuses for another reason.
    pub fn claim(file_prefix: &str, purpose: Purpose) -> io::Result<Option<Self>> {
        Self::claim_within(file_prefix, purpose, PATIENCE)
    }

    fn claim_within(
        file_prefix: &str,
        purpose: Purpose,
        patience: Duration,
    ) -> io::Result<Option<Self>> {
        // Of this network namespace, as are most devices.
        let address =
            |more: &str| SocketAddr::from_abstract_name(format!("lr2-gateway/{file_prefix}{more}"));
        let (mark, runs) = (address("")?, address("/runs")?);
        let is_other = |error: &io::Error| error.kind() != io::ErrorKind::AddrInUse;
        let end = Instant::now() + patience;
        loop {
            match UnixDatagram::bind_addr(&mark) {
                Ok(mark) if purpose == Purpose::ForAMoment => {
                    return Ok(Some(Self { _runs: None, _mark: mark }));
                }
                // The kernel closes the sockets of a process that is killed one after the other.
                Ok(mark) => match UnixDatagram::bind_addr(&runs) {
                    Ok(runs) => return Ok(Some(Self { _runs: Some(runs), _mark: mark })),
                    Err(error) if is_other(&error) => return Err(error),
                    Err(_) => {}
                },
                Err(error) if is_other(&error) => return Err(error),
                Err(_) if UnixDatagram::unbound()?.connect_addr(&runs).is_ok() => return Ok(None),
                Err(_) => {}
            }
            if Instant::now() >= end {
                let why = format!(
                    "lr2-gateway --check or release-links with eal.file_prefix = \"{file_prefix}\" has not ended for {} s; end it, and try again",
                    patience.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            thread::sleep(STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gateway_at_a_time() {
        let name = format!("test-{}", std::process::id());
        let first = Instance::claim(&name, Purpose::ToRun).unwrap();
        assert!(first.is_some());
        for purpose in [Purpose::ToRun, Purpose::ForAMoment] {
            let began = Instant::now();
            assert!(Instance::claim(&name, purpose).unwrap().is_none());
            assert!(began.elapsed() < PATIENCE / 2, "nobody waits for a gateway that runs");
        }
        drop(first);
        assert!(Instance::claim(&name, Purpose::ToRun).unwrap().is_some());
    }

    #[test]
    fn who_comes_while_another_has_it_for_a_moment_waits() {
        let name = format!("moment-{}", std::process::id());
        let first = Instance::claim(&name, Purpose::ForAMoment).unwrap().unwrap();
        let short = Duration::from_millis(50);
        let error = Instance::claim_within(&name, Purpose::ToRun, short).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("--check"), "{error}");
        thread::scope(|scope| {
            let second = scope.spawn(|| Instance::claim(&name, Purpose::ToRun));
            thread::sleep(short);
            assert!(!second.is_finished());
            drop(first);
            let second = second.join().unwrap().unwrap();
            assert!(second.is_some());
            assert!(Instance::claim(&name, Purpose::ForAMoment).unwrap().is_none());
        });
    }
}
