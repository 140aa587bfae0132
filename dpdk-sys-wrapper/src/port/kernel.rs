//! The kernel's interface behind a port: of `net_af_packet`, whose driver neither knows nor sets its link, and of others that are
//! named only.

use std::ffi::{c_int, c_short, c_ulong};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_indextoname;

/// `ETHTOOL_GLINK`: whether there is a carrier.
const GLINK: u32 = 10;
const SIOCETHTOOL: c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// The interface that a device's arguments name.
pub(super) fn of(driver: &str, device: &str) -> Option<String> {
    let name = device.split(',').find_map(|argument| argument.strip_prefix("iface="))?;
    (driver == "net_af_packet").then(|| name.to_owned())
}

/// The length in bytes of a frame that fills its slot in the ring of `net_af_packet`; `None` with other drivers. The kernel truncates
/// longer frames to it, which the driver does not report.
pub(super) fn cut_from(driver: &str, device: &str) -> Option<usize> {
    /// The driver's own.
    const DEFAULT_SLOT: usize = 2048;
    /// Where the kernel puts the Ethernet header: `TPACKET2_HDRLEN` and 16 bytes, rounded up to 80, end where the payload begins.
    const OFFSET: usize = 80 - 14;
    let slot = device.split(',').find_map(|argument| argument.strip_prefix("framesz="));
    let slot = slot.and_then(|slot| slot.parse().ok()).unwrap_or(DEFAULT_SLOT);
    (driver == "net_af_packet").then(|| slot.saturating_sub(OFFSET))
}

/// The name of the interface with the kernel's number `index`.
pub(super) fn name(index: u32) -> Option<String> {
    // For an index without an interface nix returns an empty name, not an error.
    if_indextoname(index).ok()?.into_string().ok().filter(|name| !name.is_empty())
}

/// Sets a kernel interface up by its name. DPDK need not run: the process that set the interface down may have been killed.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if this network namespace has no such interface; otherwise the error of the kernel.
pub fn raise(name: &str) -> io::Result<()> {
    set(name, true).map_err(|errno| match errno {
        Errno::ENODEV => io::ErrorKind::NotFound.into(),
        errno => errno.into(),
    })
}

/// Whether an interface is there, is up and has a carrier; `None` if the kernel doesn't say.
pub(super) fn is_up(name: &str) -> Option<bool> {
    let socket = socket().ok()?;
    let flags = match flags(&socket, name) {
        Ok(flags) => flags,
        Err(Errno::ENODEV) => return Some(false),
        Err(_) => return None,
    };
    if c_int::from(flags) & libc::IFF_UP == 0 {
        return Some(false);
    }
    let mut value = Value { command: GLINK, data: 0 };
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    ioctl(&socket, SIOCETHTOOL, &mut request).ok()?;
    Some(value.data != 0)
}

/// Sets an interface up or down.
pub(super) fn set(name: &str, up: bool) -> Result<(), Errno> {
    let socket = socket()?;
    let before = flags(&socket, name)?;
    let bit = libc::IFF_UP as c_short;
    let mut request = request(name).ok_or(Errno::ENODEV)?;
    request.ifr_ifru.ifru_flags = if up { before | bit } else { before & !bit };
    ioctl(&socket, libc::SIOCSIFFLAGS, &mut request)
}

fn flags(socket: &OwnedFd, name: &str) -> Result<c_short, Errno> {
    let mut request = request(name).ok_or(Errno::ENODEV)?;
    ioctl(socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the request was answered, with flags.
    Ok(unsafe { request.ifr_ifru.ifru_flags })
}

/// Any socket serves to ask for interfaces of its network namespace.
fn socket() -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    let fd = Errno::result(unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    })?;
    // SAFETY: `socket` has just returned this descriptor: it is open, and nothing else closes it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `None`: no interface can have that name.
fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: plain data, for which zero is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return None;
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as _);
    Some(request)
}

fn ioctl(socket: &OwnedFd, number: c_ulong, request: &mut libc::ifreq) -> Result<(), Errno> {
    // SAFETY: an open socket, and a request for an interface, which these calls read and write. Data that it points to
    // lives as long as the caller's frame.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut *request) };
    Errno::result(ret).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_packet_socket_has_an_interface_of_the_kernel() {
        assert_eq!(of("net_af_packet", "net_af_packet0,iface=eth1"), Some("eth1".to_owned()));
        assert_eq!(of("net_tap", "net_tap0,iface=eth1"), None);
        assert_eq!(of("net_af_packet", "net_af_packet0"), None);
    }

    #[test]
    fn only_a_packet_socket_truncates_frames() {
        let cut =
            |driver: &str, more: &str| cut_from(driver, &format!("{driver}0,iface=eth1{more}"));
        assert_eq!(cut("net_af_packet", ""), Some(1982));
        assert_eq!(cut("net_af_packet", ",blocksz=16384,framesz=16384"), Some(16_318));
        assert_eq!(cut("net_tap", ",framesz=16384"), None);
    }

    #[test]
    fn the_kernel_knows_its_interfaces() {
        assert!(is_up("lo").is_some());
        assert_eq!(is_up("nosuch0"), Some(false));
        assert_eq!(is_up("a-name-of-many-bytes"), Some(false));
        assert_eq!(set("nosuch0", true), Err(Errno::ENODEV));
        assert_eq!(raise("nosuch0").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        assert_eq!((name(lo).as_deref(), name(0)), (Some("lo"), None));
    }
}
