//! For any bytes on the wire: nothing panics, nothing reads past the end; and
//! a built frame parses as it was built.

use std::net::IpAddr;
use std::sync::LazyLock;

use crate::support::all_frames;
use common::control::{DEFAULT_OPCODE, Keys, decode};
use common::psn::Psn;
use common::wire::{
    Addr, Aeth, AtomicEth, Bth, Headers, Opcode, Qpn, Reth, Vlans, icrc_ok, parse, read_responses,
};
use proptest::prelude::*;
use testkit::frames::{self, bth_of};

static CAPTURED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(all_frames);

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    // Most of the relevant fields are in the first bytes.
    let header_change = (0usize..90, any::<u8>());
    (
        any::<prop::sample::Index>(),
        prop::collection::vec(header_change, 0..4),
        prop::collection::vec(change, 0..3),
        prop::option::of(any::<prop::sample::Index>()),
    )
        .prop_map(|(which, header, anywhere, cut)| {
            let mut frame = which.get(&CAPTURED).clone();
            for (at, value) in header {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            for (at, value) in anywhere {
                *at.get_mut(&mut frame) = value;
            }
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        })
}

/// UDP to port 4791 with anything in it and lengths that are right, so that the
/// look goes deep.
fn anything_over_udp() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), prop::collection::vec(any::<u8>(), 16..400), 0usize..3).prop_map(
        |(v4, content, tags)| {
            let mut frame = vec![2; 12];
            (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 1]));
            let udp = 8 + content.len() as u16;
            if v4 {
                frame.extend([0x08, 0x00, 0x45, 0]);
                frame.extend((20 + udp).to_be_bytes());
                frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            } else {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(udp.to_be_bytes());
                frame.extend([17, 64]);
                frame.extend([0xfd; 32]);
            }
            frame.extend([0xc0, 0, 0x12, 0xb7]);
            frame.extend(udp.to_be_bytes());
            frame.extend([0, 0]);
            frame.extend(content);
            let bth = frame.len() + 8 - usize::from(udp);
            frame[bth + 1] &= 0xf0;
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        frames::run(&frame);
    }

    #[test]
    fn damaged_frames(frame in damaged()) {
        frames::run(&frame);
    }

    #[test]
    fn any_packet_over_udp(frame in anything_over_udp()) {
        frames::run(&frame);
    }

    /// A view of one frame, used on another.
    #[test]
    fn a_view_of_another_frame(frame in damaged(), other in damaged()) {
        if let Ok(roce) = parse(&frame) {
            if other.len() < usize::from(roce.end) {
                prop_assert!(!icrc_ok(&other, &roce));
            }
            let _ = (roce.payload(&other), roce.aeth(&other), roce.reth(&other), roce.imm(&other));
            let _ = (roce.ieth(&other), roce.atomic_eth(&other), roce.deth(&other));
            let _ = decode(&other, &roce, DEFAULT_OPCODE, &Keys::unkeyed_lab());
        }
    }
}

prop_compose! {
    fn any_headers()(
        v4 in any::<bool>(), src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(),
        macs in any::<[[u8; 6]; 2]>(), outer in 0u16..4096, inner in 0u16..4096,
        src_port in any::<u16>(), tos in any::<u8>(), ttl in any::<u8>(),
    ) -> (Headers, Vlans, Addr, Addr) {
        let ip = |b: [u8; 16]| -> IpAddr {
            if v4 { [b[0], b[1], b[2], b[3]].into() } else { b.into() }
        };
        let vlans = Vlans::new(outer, inner);
        let headers = Headers::new(macs[0], macs[1], vlans, ip(src), ip(dst), src_port, tos, ttl);
        assert_eq!((headers.src_mac(), headers.dst_mac()), (macs[0], macs[1]));
        assert_eq!((headers.src_port(), headers.tos()), (src_port, tos));
        (headers, vlans, ip(src).into(), ip(dst).into())
    }
}

prop_compose! {
    fn any_bth()(
        opcode in any::<u8>(), solicited in any::<bool>(), pkey in any::<u16>(),
        dest_qpn in (0..Qpn::COUNT).prop_map(Qpn::new), ack_req in any::<bool>(), psn in 0u32..1 << 24,
    ) -> Bth {
        let psn = Psn::new(psn);
        Bth { opcode: Opcode(opcode), solicited, pad: 0, pkey, dest_qpn, ack_req, psn }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_built_is_found_again(
        (headers, vlans, src, dst) in any_headers(),
        mut bth in any_bth(),
        ext in any::<[u8; 32]>(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let ext = &ext[..bth.opcode.ext_len()];
        bth.pad = (payload.len().wrapping_neg() % 4) as u8;
        let padded = payload.len() + usize::from(bth.pad);
        let mut frame = vec![0xa5; headers.frame_len(ext.len() + padded)];
        headers.emit(&bth, &mut frame, |body| {
            body[..ext.len()].copy_from_slice(ext);
            body[ext.len()..][..payload.len()].copy_from_slice(&payload);
            body[ext.len() + payload.len()..].fill(0);
        });

        let roce = parse(&frame).unwrap();
        prop_assert_eq!(bth_of(&roce), bth);
        prop_assert_eq!((roce.vlans, roce.src, roce.dst), (vlans, src, dst));
        prop_assert_eq!((roce.src_port, roce.ecn), (headers.src_port(), headers.tos() & 3));
        prop_assert_eq!(usize::from(roce.end), frame.len());
        prop_assert_eq!(roce.payload(&frame), payload);
        prop_assert_eq!(&frame[roce.extension()], ext);
        prop_assert!(icrc_ok(&frame, &roce));
    }

    #[test]
    fn extension_headers_are_where_their_opcode_has_them(
        which in any::<prop::sample::Index>(), va in any::<u64>(), rkey in any::<u32>(),
        len in any::<u32>(), imm in any::<u32>(), value in any::<u64>(), syndrome in any::<u8>(),
        msn in 0u32..1 << 24,
    ) {
        let opcode = *which.get(Opcode::RC);
        let reth = Reth { va, rkey, len };
        let atomic = AtomicEth { va, rkey, swap_add: value, compare: !value };
        let aeth = Aeth { syndrome, msn };
        // In the order of the specification.
        let mut ext = Vec::new();
        if opcode == Opcode::FLUSH { ext.extend([0; 4]); }
        if opcode.has_reth() { ext.extend(reth.to_bytes()); }
        if matches!(opcode, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD) { ext.extend(atomic.to_bytes()); }
        if opcode.has_aeth() { ext.extend(aeth.to_bytes()); }
        if opcode == Opcode::ATOMIC_ACK { ext.extend(value.to_be_bytes()); }
        if opcode.has_imm() || opcode.has_ieth() { ext.extend(imm.to_be_bytes()); }
        prop_assert_eq!(ext.len(), opcode.ext_len());

        let ip = |last| [10, 0, 0, last].into();
        let headers = Headers::new([1; 6], [2; 6], Vlans::NONE, ip(1), ip(2), 1, 0, 64);
        let mut frame = vec![0; headers.frame_len(ext.len())];
        let bth = Bth::new(opcode, Qpn::new(1), Psn::new(1));
        headers.emit(&bth, &mut frame, |body| body.copy_from_slice(&ext));
        let roce = parse(&frame).unwrap();
        let when = |has: bool| has.then_some(());
        prop_assert_eq!(roce.reth(&frame), when(opcode.has_reth()).map(|()| reth));
        prop_assert_eq!(roce.aeth(&frame), when(opcode.has_aeth()).map(|()| aeth));
        prop_assert_eq!(roce.imm(&frame), when(opcode.has_imm()).map(|()| imm));
        prop_assert_eq!(roce.ieth(&frame), when(opcode.has_ieth()).map(|()| imm));
        let is_atomic = matches!(opcode.0, 0x13 | 0x14);
        prop_assert_eq!(roce.atomic_eth(&frame), when(is_atomic).map(|()| atomic));
        prop_assert_eq!(roce.atomic_original(&frame), when(opcode.0 == 0x12).map(|()| value));
        let psns = if opcode == Opcode::READ_REQUEST { read_responses(len, 256) } else { 1 };
        prop_assert_eq!(roce.psn_count(&frame, 256), psns);
    }

    #[test]
    fn reads_take_their_responses(len in any::<u32>(), shift in 8u32..13) {
        let pmtu = 1 << shift;
        let n = u64::from(read_responses(len, pmtu));
        prop_assert!(n >= 1 && n * u64::from(pmtu) >= u64::from(len));
        prop_assert!(n == 1 || (n - 1) * u64::from(pmtu) < u64::from(len));
    }
}

#[test]
fn reads_at_their_edges() {
    assert_eq!(read_responses(0, 1024), 1);
    assert_eq!(read_responses(1024, 1024), 1);
    assert_eq!(read_responses(1025, 1024), 2);
    assert_eq!(read_responses(1 << 31, 256), 1 << 23);
    assert_eq!(read_responses(0, 0), 1);
}
