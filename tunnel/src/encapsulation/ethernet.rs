//! The encapsulation `ethernet`: the MAC addresses as they came, an EtherType, the shim, and the rest of
//! the frame from its own EtherType or VLAN tag on.

use common::frame::Headroom;
use common::wire::MacAddr;

use super::{ETHER_LEN, MACS_LEN, Outer};
use crate::shim::{self, Shim};

/// EtherType unless configured otherwise: local experimental 1 (IEEE 802).
pub const DEFAULT_ETHERTYPE: u16 = 0x88b5;

/// Where control messages go while no peer is known: a group address of local administration.
pub const PEERS: MacAddr = [0x03, b'L', b'R', b'2', 0, 1];

/// Whether a frame has the EtherType.
#[inline]
pub(super) fn is_ours(frame: &[u8], ethertype: u16) -> bool {
    frame.get(MACS_LEN..ETHER_LEN) == Some(&ethertype.to_be_bytes())
}

/// The EtherType in front of shims.
#[derive(Clone, Copy)]
pub(crate) struct Tag(pub u16);

impl Outer for Tag {
    const MOVED: usize = MACS_LEN;

    #[inline(always)]
    fn shim_at(&self) -> usize {
        ETHER_LEN
    }

    /// Moves the addresses to the front of the room, and puts the EtherType and the shim behind them.
    #[inline(always)]
    fn wrap(&self, frame: &mut [u8], shim: &Shim, _: u8) {
        const FRONT: usize = ETHER_LEN - MACS_LEN + shim::LEN;
        let head = frame.first_chunk_mut::<{ FRONT + MACS_LEN }>().expect("room was reserved");
        let mut macs = [0; MACS_LEN];
        macs.copy_from_slice(&head[FRONT..]);
        head[..MACS_LEN].copy_from_slice(&macs);
        head[MACS_LEN..ETHER_LEN].copy_from_slice(&self.0.to_be_bytes());
        shim.write(&mut head[ETHER_LEN..]);
    }

    #[inline(always)]
    fn shim<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8; shim::LEN]> {
        // With the EtherType of the frame itself.
        let head = frame.first_chunk::<{ ETHER_LEN + shim::LEN + ETHER_LEN - MACS_LEN }>()?;
        let is_ours = [head[12], head[13]] == self.0.to_be_bytes();
        head[ETHER_LEN..].first_chunk().filter(|_| is_ours)
    }

    #[inline(always)]
    fn unwrap<F: Headroom>(&self, frame: &mut F) {
        const FRONT: usize = ETHER_LEN - MACS_LEN + shim::LEN;
        unwrap(frame.bytes_mut(), FRONT);
        frame.shrink_front(FRONT);
    }
}

/// Writes the header of a control message.
pub(super) fn write(out: &mut [u8], ethertype: u16, source: MacAddr, destination: MacAddr) {
    out[..6].copy_from_slice(&destination);
    out[6..MACS_LEN].copy_from_slice(&source);
    out[MACS_LEN..ETHER_LEN].copy_from_slice(&ethertype.to_be_bytes());
}

/// Moves the addresses behind the shim, `front` bytes further.
#[inline]
pub(super) fn unwrap(frame: &mut [u8], front: usize) {
    let mut macs = [0; MACS_LEN];
    macs.copy_from_slice(&frame[..MACS_LEN]);
    frame[front..front + MACS_LEN].copy_from_slice(&macs);
}
