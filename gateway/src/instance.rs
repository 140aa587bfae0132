//! Whether a gateway runs with a configuration: `--check` must leave its devices alone.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A mark of this process, as long as it is kept. It leaves no file, and ends with the process.
#[derive(Debug)]
pub struct Instance {
    _mark: UnixListener,
}

impl Instance {
    /// Marks that a gateway with this `eal.file_prefix` runs; `None` if another one does.
    ///
    /// # Errors
    /// If the kernel refuses for another reason.
    pub fn claim(file_prefix: &str) -> io::Result<Option<Self>> {
        // Of this network namespace, as are most devices.
        let address = SocketAddr::from_abstract_name(format!("lr2-gateway/{file_prefix}"))?;
        match UnixListener::bind_addr(&address) {
            Ok(mark) => Ok(Some(Self { _mark: mark })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let name = format!("test-{}", std::process::id());
        let first = Instance::claim(&name).unwrap();
        assert!(first.is_some());
        assert!(Instance::claim(&name).unwrap().is_none());
        drop(first);
        assert!(Instance::claim(&name).unwrap().is_some());
    }
}
