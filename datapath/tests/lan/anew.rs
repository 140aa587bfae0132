//! Pairs of hosts that are left: at once, as the peer begins anew, or for want of NAKs.

use super::*;

/// R-TUN-28: a packet without a shim says so too, before a HELLO does; messages about the flows that this box forgets then are not
/// sent, and the hosts' packets pass.
#[test]
fn a_plain_packet_of_a_watched_pair_is_of_a_peer_that_begins_anew() {
    let mut link = Link::new(Which::AfterNak);
    link.send(1, &response(2, 1, 6, 0x60));
    for psn in 0..200 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
        link.send(1, &write(2, 1, psn));
        link.send(0, &response(1, 2, psn, 0x1f));
        link.pass(SECOND / 1_000);
    }
    assert!(link.protected().iter().all(|n| *n > 0), "{:?}", link.protected());
    let long = frame(&headers(1, 2, Vlans::NONE), Opcode::SEND_ONLY, 0x11, 200, &[7; 600]);
    for (plain, pairs, has_unsent) in
        [(write(3, 4, 5), 1, false), (long, 1, false), (write(1, 2, 200), 0, true)]
    {
        link.arrive(1, Side::Wan, plain.clone());
        assert_eq!(link.pairs(), [Some(1), Some(pairs)]);
        assert_eq!(link.all_counts()[1].unsent_messages > 0, has_unsent);
        assert!(!has_unsent || link.wan[0].is_empty(), "{:?}", link.wan[0]);
        assert_eq!(link.hosts[1].last(), Some(&plain));
    }
}

/// R-TUN-28: a pair is left once the switch has forgotten its flows, of which it forgets 64 at a time.
#[test]
fn a_pair_of_many_flows_is_watched_until_all_are_forgotten() {
    let mut link = Link::new(Which::AfterNak);
    link.send(1, &response(2, 1, 6, 0x60));
    let is_forgetting = |link: &Link| {
        let lan = link.ends[1].as_tunnel().unwrap().lan().unwrap();
        lan.switch().is_forgetting()
    };
    for psn in 0..6 {
        for qpn in 0..300 {
            let headers = headers(1, 2, Vlans::NONE);
            link.send(0, &frame(&headers, Opcode::SEND_ONLY, 0x100 + qpn, psn, &[7; 64]));
        }
        link.pass(SECOND * 9);
    }
    let mut forgetting = 0;
    while link.pairs()[1] == Some(1) {
        forgetting += u64::from(is_forgetting(&link));
        link.step();
        assert!(link.now < Time::ZERO + SECOND * 70);
    }
    assert!(forgetting >= 3, "{forgetting}");
    assert!(!is_forgetting(&link));
}
