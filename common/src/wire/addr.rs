//! IP addresses of either family in one fixed-size type.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address in 16 bytes; IPv4 is mapped into IPv6 (`::ffff:a.b.c.d`), so
/// that a flow key has one shape and compares and hashes as plain bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr([u8; 16]);

/// The prefix of an IPv4 address that is mapped into IPv6 (RFC 4291, 2.5.5.2).
const V4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Addr {
    /// From the four bytes of an IPv4 header.
    #[inline]
    pub const fn from_v4(v4: [u8; 4]) -> Self {
        let mut bytes = [0; 16];
        bytes[10] = 0xff;
        bytes[11] = 0xff;
        bytes[12] = v4[0];
        bytes[13] = v4[1];
        bytes[14] = v4[2];
        bytes[15] = v4[3];
        Self(bytes)
    }

    /// From the sixteen bytes of an IPv6 header.
    #[inline]
    pub const fn from_v6(v6: [u8; 16]) -> Self {
        Self(v6)
    }

    /// The sixteen bytes; the last four are the IPv4 address if
    /// [`is_v4`](Self::is_v4).
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Whether this is an IPv4 address.
    pub fn is_v4(&self) -> bool {
        self.0.starts_with(&V4_PREFIX)
    }

    /// As the standard library's type.
    pub fn to_ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => v6.into(),
        }
    }
}

impl From<Ipv4Addr> for Addr {
    fn from(v4: Ipv4Addr) -> Self {
        Self::from_v4(v4.octets())
    }
}

impl From<Ipv6Addr> for Addr {
    fn from(v6: Ipv6Addr) -> Self {
        Self::from_v6(v6.octets())
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ip().fmt(f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_read_back() {
        for text in ["10.0.0.1", "255.255.255.255", "fd00::7", "::", "::1"] {
            let ip: IpAddr = text.parse().unwrap();
            let addr = Addr::from(ip);
            assert_eq!(addr.to_ip(), ip);
            assert_eq!(addr.to_string(), text);
            assert_eq!(addr.is_v4(), ip.is_ipv4());
        }
    }
}
