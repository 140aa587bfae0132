//! From a device's name to DPDK's number for its port.

use std::ffi::{CString, c_int};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::{fs, io};

use crate::eal::EalInner;
use crate::error::{Error, errno_text};
use crate::{ffi, log};

/// A port that DPDK knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: u16,
    /// Whether [`find`] made the device, so that closing has to remove it.
    pub(crate) made_here: bool,
}

/// Finds the port of `device`, a virtual device with its arguments
/// (`net_memif0,role=server`) or a PCI address, and probes it if needed.
pub(crate) fn find(eal: &EalInner, device: &str) -> Result<Found, Error> {
    // Escaped, so that the message stays one line for any configured name.
    let shown = device.escape_debug().to_string();
    let no_device = |reason: String| Error::NoDevice { device: shown.clone(), reason };
    let (first, args) = device.split_once(',').unwrap_or((device, ""));
    let pci = PciAddress::parse(first);
    let name = pci.as_ref().map_or_else(|| first.to_owned(), PciAddress::to_string);
    if name.len() >= ffi::RTE_ETH_NAME_MAX_LEN as usize {
        return Err(no_device(format!(
            "a device name has at most {} bytes",
            ffi::RTE_ETH_NAME_MAX_LEN - 1
        )));
    }
    let c_string = |s: &str| {
        CString::new(s).map_err(|_| no_device("a device name must not contain a zero byte".into()))
    };
    let c_name = c_string(&name)?;
    if let Some(id) = by_name(&c_name) {
        return Ok(Found { id, made_here: false });
    }
    if let Some(address) = &pci {
        address.check(eal).map_err(no_device)?;
    }
    check_arguments(&name, args).map_err(no_device)?;
    clear_stale_socket(&name, args);
    let full = if args.is_empty() { name.clone() } else { format!("{name},{args}") };
    let full = c_string(&full)?;
    // SAFETY: the EAL runs, and DPDK copies the string.
    let (ret, said) = log::collect(|| unsafe { ffi::rte_dev_probe(full.as_ptr()) });
    match (by_name(&c_name), &pci) {
        (Some(id), _) => Ok(Found { id, made_here: pci.is_none() }),
        (None, Some(address)) => Err(no_device(address.why_no_port(&failure(ret, said)))),
        (None, None) => Err(no_device(why_no_vdev(&name, &failure(ret, said)))),
    }
}

fn by_name(name: &CString) -> Option<u16> {
    let mut id = 0;
    // SAFETY: a C string and a place for the answer.
    (unsafe { ffi::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

fn failure(ret: c_int, said: String) -> String {
    match (ret, said.is_empty()) {
        (_, false) => said,
        (0, true) => "the driver made no port".into(),
        (_, true) => errno_text(ret),
    }
}

fn why_no_vdev(name: &str, failure: &str) -> String {
    if !name.starts_with("net_") {
        "neither a PCI address (0000:3b:00.0) nor a virtual device (net_memif0,role=server)".into()
    } else if failure.contains("failed to parse device") {
        "DPDK has no such driver; without a NIC there are net_memif, net_af_packet, net_af_xdp, \
         net_tap, net_vhost, net_virtio_user, net_pcap, net_ring and net_null, with a number \
         after the name"
            .into()
    } else {
        failure.into()
    }
}

/// The arguments of `net_memif`, which takes its defaults for all of them,
/// without a word, when one is misspelt.
const MEMIF_KEYS: [&str; 11] = [
    "bsize",
    "id",
    "mac",
    "owner-gid",
    "owner-uid",
    "role",
    "rsize",
    "secret",
    "socket",
    "socket-abstract",
    "zero-copy",
];

fn check_arguments(name: &str, args: &str) -> Result<(), String> {
    if !name.starts_with("net_memif") || args.is_empty() {
        return Ok(());
    }
    for arg in args.split(',') {
        match arg.split_once('=') {
            // The peer could then edit frames that have other owners.
            Some(("zero-copy", "yes")) => {
                return Err("zero-copy=yes would let the peer edit frames that are held".into());
            }
            Some((key, _)) if MEMIF_KEYS.contains(&key) => {}
            _ => {
                return Err(format!(
                    "{:?} is no argument of net_memif; those are {}, each with =value",
                    arg,
                    MEMIF_KEYS.join(", ")
                ));
            }
        }
    }
    Ok(())
}

/// Removes the socket that the server of a `net_memif` left when it was killed: the driver does not take its place.
fn clear_stale_socket(name: &str, args: &str) {
    let argument =
        |key| args.split(',').find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='));
    let is_server = argument("role") == Some("server") && argument("socket-abstract") == Some("no");
    if !name.starts_with("net_memif") || !is_server {
        return;
    }
    let Some(path) = argument("socket").map(Path::new) else { return };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    // memif's sockets are SOCK_SEQPACKET: a live server answers a stream socket with another error.
    let is_stale = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket
        && UnixStream::connect(path).is_err_and(|error| is_stale(&error))
        && let Err(error) = fs::remove_file(path)
    {
        tracing::warn!("{}: an old socket stays: {error}", path.display());
    }
}

/// Domain, bus, device, function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl std::fmt::Display for PciAddress {
    /// As DPDK and sysfs write it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl PciAddress {
    /// `0000:3b:00.0`, or `3b:00.0` in domain 0.
    fn parse(text: &str) -> Option<Self> {
        let hex = |s: &str, digits| {
            let fits =
                !s.is_empty() && s.len() <= digits && s.bytes().all(|b| b.is_ascii_hexdigit());
            if fits { u32::from_str_radix(s, 16).ok() } else { None }
        };
        let (rest, function) = text.rsplit_once('.')?;
        let (rest, device) = rest.rsplit_once(':')?;
        let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
        Some(Self {
            domain: hex(domain, 8)?,
            bus: hex(bus, 2)? as u8,
            device: hex(device, 2).filter(|&d| d < 32)? as u8,
            function: hex(function, 1).filter(|&f| f < 8)? as u8,
        })
    }

    fn sysfs(&self) -> String {
        format!("/sys/bus/pci/devices/{self}")
    }

    /// Whether probing has a chance.
    fn check(&self, eal: &EalInner) -> Result<(), String> {
        if !Path::new(&self.sysfs()).exists() {
            return Err("this machine has no such PCI device (lspci -D lists them)".into());
        }
        let same = |text: &String| {
            let address = text.split(',').next().unwrap_or(text);
            Self::parse(address) == Some(*self)
        };
        if !eal.pci_allow.iter().any(same) {
            return Err("the PCI device is not among those that DPDK was allowed to take".into());
        }
        Ok(())
    }

    fn why_no_port(&self, failure: &str) -> String {
        let bound = fs::read_link(format!("{}/driver", self.sysfs()));
        let driver = bound.ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
        match driver.as_deref() {
            None => format!(
                "{failure}; no kernel driver has the device: dpdk-devbind.py --bind=vfio-pci {self}"
            ),
            // These are driven through the kernel's own driver.
            Some("vfio-pci" | "igb_uio" | "uio_pci_generic" | "mlx5_core" | "mlx4_core") => {
                format!("{failure} (access needs root or the right to /dev/vfio, and memlock)")
            }
            Some(other) => format!(
                "{failure}; the device belongs to the kernel driver {other}: dpdk-devbind.py --bind=vfio-pci {self}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn pci_addresses_with_and_without_domain_are_the_same() {
        let long = PciAddress::parse("0000:3b:00.1").unwrap();
        assert_eq!(PciAddress::parse("3b:00.1"), Some(long));
        assert_eq!(long.to_string(), "0000:3b:00.1");
        assert_eq!(PciAddress::parse("10000:01:1f.7").unwrap().to_string(), "10000:01:1f.7");
    }

    #[test]
    fn a_misspelt_argument_of_memif_is_found() {
        let check = |args| check_arguments("net_memif0", args);
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("role=server,id=1,socket=/run/x,socket-abstract=no,bsize=9216"), Ok(()));
        assert!(check("id=0,rolle=server").unwrap_err().starts_with("\"rolle=server\" is no"));
        assert!(check("role").is_err());
        assert!(check("zero-copy=yes").unwrap_err().contains("held"));
        assert_eq!(check_arguments("net_pcap0", "infinite_rx=1"), Ok(()));
    }

    #[test]
    fn what_is_no_pci_address_is_not_taken_for_one() {
        for text in
            ["net_memif0", "", "3b:00", "3b:00.8", "3b:20.0", "x:3b:00.0", "+3b:00.0", "a.b"]
        {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_removed() {
        let path = std::env::temp_dir().join(format!("lr2-stale-{}.sock", std::process::id()));
        let args = format!("role=server,socket={},socket-abstract=no", path.display());
        let listener = UnixListener::bind(&path).unwrap();
        clear_stale_socket("net_memif0", &args);
        assert!(path.exists(), "somebody listens");
        drop(listener);
        clear_stale_socket("net_memif0", &args.replace("server", "client"));
        clear_stale_socket("net_memif0", &args.replace("=no", "=yes"));
        assert!(path.exists(), "it is not a server's");
        clear_stale_socket("net_memif0", &args);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        clear_stale_socket("net_memif0", &args);
        assert!(path.exists(), "it is no socket");
        fs::remove_file(&path).unwrap();
    }
}
