//! Ethernet II and its VLAN tags.

use core::fmt;

use super::be16;

/// Length of an Ethernet header without tags.
pub(super) const ETHER_LEN: usize = 14;
/// Length of one VLAN tag.
pub(super) const TAG_LEN: usize = 4;
/// Most tags that a RoCEv2 frame may carry.
pub(super) const MAX_TAGS: usize = 2;

/// EtherType of IPv4.
pub(super) const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub(super) const IPV6: u16 = 0x86dd;
/// TPID of a customer tag (IEEE 802.1Q).
pub(super) const C_TAG: u16 = 0x8100;
/// TPID of a service tag (IEEE 802.1ad).
const S_TAG: u16 = 0x88a8;
/// TPID of the outer tag in switches older than IEEE 802.1ad.
const OLD_S_TAG: u16 = 0x9100;

/// EtherType of MAC control: PAUSE and PFC.
const MAC_CONTROL: u16 = 0x8808;
/// Where MAC control frames go.
const MAC_CONTROL_ADDRESS: MacAddr = [0x01, 0x80, 0xc2, 0, 0, 1];
/// How the addresses begin that no bridge forwards to (IEEE 802.1Q, table 8-1).
pub(super) const LINK_LOCAL: u32 = 0x0180_c200;

/// An Ethernet address, in the order of transmission.
pub type MacAddr = [u8; 6];

/// The VLANs a frame belongs to, outermost first: none, one or two.
///
/// Only the ids are kept, since priority (PCP) and drop eligibility (DEI) may
/// differ between packets of one flow. A priority tag (id 0) names no VLAN
/// (IEEE 802.1Q, 9.6) and doesn't appear here: a host that tags its data for
/// PFC but not its ACKs still has one flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vlans([u16; MAX_TAGS]);

impl Vlans {
    /// Untagged.
    pub const NONE: Self = Self([0; MAX_TAGS]);

    /// The VLANs of these tags, outermost first. Only the low 12 bits of each
    /// count, tags with id 0 are left out.
    pub const fn new(outer: u16, inner: u16) -> Self {
        let (outer, inner) = (outer & 0xfff, inner & 0xfff);
        if outer == 0 { Self([inner, 0]) } else { Self([outer, inner]) }
    }

    /// Their ids, outermost first, each in 1 ..= 4095.
    pub fn ids(self) -> impl Iterator<Item = u16> {
        self.0.into_iter().take_while(|&id| id != 0)
    }

    /// As one number that no other VLANs have; 0 for none.
    #[inline]
    pub const fn packed(self) -> u32 {
        (self.0[0] as u32) << 16 | self.0[1] as u32
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0[0] == 0
    }
}

impl fmt::Debug for Vlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

/// Where the network header starts, its EtherType, and the VLANs of the
/// frame. `None` if the frame ends before, or has more tags than we know.
#[inline(always)]
pub(super) fn parse(frame: &[u8]) -> Option<(usize, u16, Vlans)> {
    let ethertype = be16(frame.first_chunk::<ETHER_LEN>()?, ETHER_LEN - 2);
    if is_tag(ethertype) { parse_tagged(frame) } else { Some((ETHER_LEN, ethertype, Vlans::NONE)) }
}

/// The offset of the network header behind at most two VLAN tags, and its EtherType. `None` if the frame has more tags, or is
/// too short.
#[inline]
pub fn network(frame: &[u8]) -> Option<(usize, u16)> {
    parse(frame).map(|(l3, ethertype, _)| (l3, ethertype))
}

fn parse_tagged(frame: &[u8]) -> Option<(usize, u16, Vlans)> {
    let one = frame.first_chunk::<{ ETHER_LEN + TAG_LEN }>()?;
    let (outer, ethertype) = (be16(one, ETHER_LEN), be16(one, ETHER_LEN + 2));
    if !is_tag(ethertype) {
        return Some((one.len(), ethertype, Vlans::new(outer, 0)));
    }
    let two = frame.first_chunk::<{ ETHER_LEN + 2 * TAG_LEN }>()?;
    let (inner, ethertype) = (be16(two, ETHER_LEN + 4), be16(two, ETHER_LEN + 6));
    (!is_tag(ethertype)).then(|| (two.len(), ethertype, Vlans::new(outer, inner)))
}

/// Whether it is a MAC control frame, by its address or by its EtherType behind any
/// number of tags.
#[inline]
pub fn is_mac_control(frame: &[u8]) -> bool {
    let Some(head) = frame.first_chunk::<ETHER_LEN>() else { return is_any_mac_control(frame) };
    let ethertype = u16::from_be_bytes([head[12], head[13]]);
    if is_tag(ethertype) || ethertype == MAC_CONTROL || head[0] == MAC_CONTROL_ADDRESS[0] {
        return is_any_mac_control(frame);
    }
    false
}

fn is_any_mac_control(frame: &[u8]) -> bool {
    let mut rest = frame.get(ETHER_LEN - 2..).unwrap_or_default();
    while let Some(ethertype) = rest.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)) {
        if !is_tag(ethertype) {
            return ethertype == MAC_CONTROL || frame.starts_with(&MAC_CONTROL_ADDRESS);
        }
        rest = rest.get(TAG_LEN..).unwrap_or_default();
    }
    frame.starts_with(&MAC_CONTROL_ADDRESS)
}

const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, C_TAG | S_TAG | OLD_S_TAG)
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(size_of::<Vlans>() == 4, "part of every flow key");

    #[test]
    fn priority_tags_name_no_vlan() {
        assert_eq!(Vlans::new(0xe000, 0), Vlans::NONE);
        assert_eq!(Vlans::new(0, 5), Vlans::new(5, 0));
        assert_eq!(Vlans::new(7, 5).ids().collect::<Vec<_>>(), [7, 5]);
        assert_eq!(Vlans::new(0xf007, 0).ids().collect::<Vec<_>>(), [7]);
    }
}
