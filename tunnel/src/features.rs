//! What a box says of itself in its HELLOs, beside what both must agree on.

/// Whether a box repairs losses of the LANs beside the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LansRepaired {
    /// No: the RNICs recover from them.
    #[default]
    Off,
    /// Those of all RoCE.
    On,
    /// Those between hosts that were seen to lose.
    Auto,
}

/// The properties of a box that its HELLOs carry. R-TUN-55
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Its WAN ports, 1 to 8.
    pub ports: u8,
    /// Its repair of the LANs.
    pub lans: LansRepaired,
    /// The box answers probes of its paths. Releases before them do not. R-TUN-64
    pub answers_paths: bool,
    /// The box sends repair frames and decodes those of the peer, if the peer does so too. R-TUN-67
    pub repairs: bool,
}

/// [`Features::answers_paths`], in a HELLO.
const ANSWERS_PATHS: u32 = 1 << 6;
/// [`Features::repairs`], in a HELLO.
const REPAIRS: u32 = 1 << 7;

impl Features {
    /// As a HELLO transmits it.
    pub const fn code(self) -> u32 {
        let lans = match self.lans {
            LansRepaired::Off => 0,
            LansRepaired::On => 1,
            LansRepaired::Auto => 2,
        };
        let answers = if self.answers_paths { ANSWERS_PATHS } else { 0 };
        let repairs = if self.repairs { REPAIRS } else { 0 };
        self.ports as u32 & 0xf | lans << 4 | answers | repairs
    }

    /// What a HELLO transmits; `None` from a box that says nothing, as releases before this field do, or something that
    /// this release does not know. Further bits have no meaning yet.
    pub const fn read(code: u32) -> Option<Self> {
        let lans = match code >> 4 & 0x3 {
            0 => LansRepaired::Off,
            1 => LansRepaired::On,
            2 => LansRepaired::Auto,
            _ => return None,
        };
        let (answers_paths, repairs) = (code & ANSWERS_PATHS != 0, code & REPAIRS != 0);
        match code as u8 & 0xf {
            ports @ 1..=8 => Some(Self { ports, lans, answers_paths, repairs }),
            _ => None,
        }
    }
}
