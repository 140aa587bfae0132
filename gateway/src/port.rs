//! The ports of the box: one towards the LAN, and one or several towards the WAN.

use common::frame::Side;
use tunnel::Port;

/// Most ports of a box.
pub const PORTS: usize = 1 + Port::COUNT_MAX as usize;

/// One of the box's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortId(u8);

impl PortId {
    /// The port towards the LAN.
    pub const LAN: Self = Self(0);

    /// A port towards the WAN.
    pub const fn wan(port: Port) -> Self {
        Self(1 + port.get())
    }

    /// The LAN port and so many WAN ports.
    pub fn all(wans: u8) -> impl Iterator<Item = Self> + Clone {
        std::iter::once(Self::LAN).chain(Port::all(wans).map(Self::wan))
    }

    /// Where it leads.
    pub const fn side(self) -> Side {
        if self.0 == 0 { Side::Lan } else { Side::Wan }
    }

    /// Which WAN port it is; for the LAN port, the first.
    pub fn wan_port(self) -> Port {
        self.0.checked_sub(1).and_then(Port::new).unwrap_or_default()
    }

    /// Its position among all: the LAN port is the first.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its name in labels and messages.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; PORTS] =
            ["lan", "wan", "wan1", "wan2", "wan3", "wan4", "wan5", "wan6", "wan7"];
        NAMES[self.0 as usize]
    }
}

/// Of several WAN ports, the first.
impl From<Side> for PortId {
    fn from(side: Side) -> Self {
        match side {
            Side::Lan => Self::LAN,
            Side::Wan => Self(1),
        }
    }
}
