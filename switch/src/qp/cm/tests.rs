//! Exchanges as hosts have them, and as a network leaves them.

use common::frame::Side;
use common::wire::cm::{Dreq, Rej};
use common::wire::{Addr, Qpn, Vlans};

use super::*;

const A_QPN: Qpn = Qpn::new(0x11);
const B_QPN: Qpn = Qpn::new(0x22);
const A_COMM: u32 = 0xa;
const B_COMM: u32 = 0xb;

fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000 * ms)
}

/// From host A, which is the active one, to B.
fn hosts() -> Hosts {
    let [src, dst] = [1, 2].map(|last| Addr::from_v4([10, 0, 0, last]));
    Hosts { side: Side::Lan, vlans: Vlans::NONE, src, dst }
}

fn req() -> Req {
    Req {
        local: A_COMM,
        qpn: A_QPN,
        starting_psn: Psn::new(100),
        pmtu: 1024,
        is_rc: true,
        local_gid: hosts().src,
        remote_gid: hosts().dst,
    }
}

fn by_a() -> Ids {
    Ids { local: A_COMM, remote: B_COMM }
}

fn by_b() -> Ids {
    Ids { local: B_COMM, remote: A_COMM }
}

fn rep() -> Rep {
    Rep { ids: by_b(), qpn: B_QPN, starting_psn: Psn::new(200) }
}

fn connection() -> Connection {
    let direction =
        |hosts, qpn, psn| Direction { key: FlowKey { hosts, dest_qpn: qpn }, first_psn: psn };
    Connection {
        directions: [
            direction(hosts(), B_QPN, Psn::new(200)),
            direction(hosts().reversed(), A_QPN, Psn::new(100)),
        ],
        pmtu: 1024,
    }
}

/// A box between the two hosts.
struct Bench {
    connections: Connections,
    now: Time,
}

impl Bench {
    fn new() -> Self {
        Self::with_limit(4)
    }

    fn with_limit(limit: usize) -> Self {
        Self { connections: Connections::new(limit, 1), now: at(0) }
    }

    /// The two hosts are connected.
    fn connected() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.a(Message::Req(req())), None);
        assert_eq!(bench.b(Message::Rep(rep())), Some(Event::Established(connection())));
        bench
    }

    fn a(&mut self, message: Message) -> Option<Event> {
        let event = self.connections.observe(hosts(), &message, self.now, |_| false);
        self.check();
        event
    }

    fn b(&mut self, message: Message) -> Option<Event> {
        let event = self.connections.observe(hosts().reversed(), &message, self.now, |_| false);
        self.check();
        event
    }

    fn check(&self) {
        let Connections { exchanges, flows, asked, made, limit, .. } = &self.connections;
        assert_eq!(exchanges.len(), asked.len() + made.len());
        assert_eq!(flows.len(), 2 * made.len());
        assert!(asked.len().max(made.len()) <= *limit);
        for (turn, name) in asked.iter().chain(made) {
            assert_eq!(exchanges[name].turn, *turn);
        }
    }
}

#[test]
fn a_req_and_its_rep_make_a_connection() {
    let mut bench = Bench::connected();
    assert_eq!(bench.a(Message::Rtu(by_a())), None);
    let dreq = Message::Dreq(Dreq { ids: by_a(), remote_qpn: B_QPN });
    assert_eq!(bench.a(dreq), Some(Event::Ended(connection())));
    assert_eq!(bench.a(dreq), None, "it is repeated");
    assert_eq!(bench.b(Message::Drep(by_b())), None);
}

#[test]
fn the_passive_host_may_end_it() {
    let mut bench = Bench::connected();
    let dreq = Message::Dreq(Dreq { ids: by_b(), remote_qpn: A_QPN });
    assert_eq!(bench.b(dreq), Some(Event::Ended(connection())));
}

#[test]
fn the_confirmation_does_where_the_request_was_damaged() {
    assert_eq!(Bench::connected().b(Message::Drep(by_b())), Some(Event::Ended(connection())));
    assert_eq!(Bench::connected().a(Message::Drep(by_a())), Some(Event::Ended(connection())));
}

#[test]
fn repeated_messages_are_no_news() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        assert_eq!(bench.a(Message::Req(req())), None);
    }
    assert!(bench.b(Message::Rep(rep())).is_some());
    for _ in 0..3 {
        assert_eq!(bench.b(Message::Rep(rep())), None);
        assert_eq!(bench.a(Message::Req(req())), None, "overtaken by its REP");
        assert_eq!(bench.a(Message::Rtu(by_a())), None);
    }
    assert!(bench.b(Message::Drep(by_b())).is_some(), "it is still known");
}

#[test]
fn half_an_exchange_teaches_nothing() {
    let mut bench = Bench::new();
    assert_eq!(bench.b(Message::Rep(rep())), None);
    assert_eq!(bench.a(Message::Req(req())), None);
    // Nor does a REP for another REQ, or one that travels along with the REQ.
    let other = Rep { ids: Ids { remote: A_COMM + 1, ..by_b() }, ..rep() };
    assert_eq!(bench.b(Message::Rep(other)), None);
    assert_eq!(bench.a(Message::Rep(rep())), None);
    assert!(bench.b(Message::Rep(rep())).is_some());
}

#[test]
fn another_vlan_or_side_is_another_exchange() {
    let mut bench = Bench::new();
    bench.a(Message::Req(req()));
    let back = hosts().reversed();
    for hosts in [Hosts { vlans: Vlans::new(5, 0), ..back }, Hosts { side: Side::Lan, ..back }] {
        assert_eq!(bench.connections.observe(hosts, &Message::Rep(rep()), at(0), |_| false), None);
    }
    assert!(bench.b(Message::Rep(rep())).is_some());
}

#[test]
fn what_is_not_rc_or_is_redirected_is_not_learned() {
    let elsewhere = Addr::from_v4([10, 0, 0, 3]);
    for req in [
        Req { is_rc: false, ..req() },
        Req { local_gid: elsewhere, ..req() },
        Req { remote_gid: elsewhere, ..req() },
    ] {
        let mut bench = Bench::new();
        bench.a(Message::Req(req));
        assert_eq!(bench.b(Message::Rep(rep())), None);
    }
}

#[test]
fn a_rejected_req_is_forgotten() {
    let rej = |local, remote| Message::Rej(Rej { ids: Ids { local, remote }, reason: 28 });
    // By the passive host, which has no name for it, or one; by the active
    // host, which has lost patience.
    for (from_a, rej) in
        [(false, rej(0, A_COMM)), (false, rej(B_COMM, A_COMM)), (true, rej(A_COMM, 0))]
    {
        let mut bench = Bench::new();
        bench.a(Message::Req(req()));
        assert_eq!(if from_a { bench.a(rej) } else { bench.b(rej) }, None);
        assert_eq!(bench.b(Message::Rep(rep())), None);
    }
}

#[test]
fn a_rejected_rep_ends_the_connection() {
    let rej = |ids| Message::Rej(Rej { ids, reason: 4 });
    assert_eq!(Bench::connected().a(rej(by_a())), Some(Event::Ended(connection())));
    assert_eq!(Bench::connected().b(rej(by_b())), Some(Event::Ended(connection())));
    // One that doesn't know of it is late.
    assert_eq!(Bench::connected().b(rej(Ids { local: 0, remote: A_COMM })), None);
}

#[test]
fn the_end_of_another_connection_is_not_this_ones() {
    let mut bench = Bench::connected();
    let stranger = Ids { local: A_COMM, remote: B_COMM + 1 };
    for message in [
        Message::Dreq(Dreq { ids: stranger, remote_qpn: B_QPN }),
        Message::Dreq(Dreq { ids: by_a(), remote_qpn: B_QPN.offset(1) }),
        Message::Dreq(Dreq { ids: by_a(), remote_qpn: A_QPN }),
        Message::Drep(stranger),
        Message::Rej(Rej { ids: stranger, reason: 4 }),
    ] {
        assert_eq!(bench.a(message), None, "{message:?}");
    }
    let crossed = Message::Dreq(Dreq { ids: by_a(), remote_qpn: B_QPN });
    assert_eq!(bench.b(crossed), None);
}

#[test]
fn a_name_that_is_used_again_ends_what_it_stood_for() {
    let mut bench = Bench::connected();
    let again = Req { qpn: A_QPN.offset(1), ..req() };
    assert_eq!(bench.a(Message::Req(again)), Some(Event::Ended(connection())));
    // Before the first one was answered: the reply is to the newer.
    let newest = Req { starting_psn: Psn::new(5), ..again };
    assert_eq!(bench.a(Message::Req(newest)), None);
    let Some(Event::Established(made)) = bench.b(Message::Rep(rep())) else { panic!() };
    assert_eq!(made.directions[1].first_psn, Psn::new(5));
}

#[test]
fn a_second_answer_that_differs_leaves_doubt() {
    let mut bench = Bench::connected();
    let other = Rep { qpn: B_QPN.offset(1), ..rep() };
    assert_eq!(bench.b(Message::Rep(other)), Some(Event::Ended(connection())));
    assert_eq!(bench.b(Message::Rep(rep())), None);
    assert_eq!(bench.b(Message::Rep(other)), None);
}

#[test]
fn a_qp_is_in_one_connection_at_a_time() {
    let mut bench = Bench::connected();
    // A's QP is joined to another one; the end of the former was not seen.
    bench.a(Message::Req(Req { local: A_COMM + 1, ..req() }));
    let ids = Ids { local: B_COMM + 1, remote: A_COMM + 1 };
    let newer = bench.b(Message::Rep(Rep { ids, qpn: B_QPN.offset(1), ..rep() }));
    assert!(matches!(newer, Some(Event::Established(_))));
    assert_eq!(bench.connections.made.len(), 1);
    let late = Message::Dreq(Dreq { ids: by_a(), remote_qpn: B_QPN });
    assert_eq!(bench.a(late), None);
}

#[test]
fn a_req_waits_for_a_while_and_longer_if_it_is_repeated_or_put_off() {
    let patience = PATIENCE.as_micros() / 1000;
    let answered_after = |ms, renewal: Option<Message>| {
        let mut bench = Bench::new();
        bench.a(Message::Req(req()));
        if let Some(renewal) = renewal {
            bench.now = at(patience - 1);
            let event = match renewal {
                Message::Mra(_) => bench.b(renewal),
                _ => bench.a(renewal),
            };
            assert_eq!(event, None);
        }
        bench.now = at(ms);
        bench.b(Message::Rep(rep())).is_some()
    };
    assert!(answered_after(patience - 1, None));
    assert!(!answered_after(patience, None));
    let mra = Message::Mra(Ids { local: 0, remote: A_COMM });
    for renewal in [Message::Req(req()), mra] {
        assert!(answered_after(2 * patience - 2, Some(renewal)));
        assert!(!answered_after(2 * patience - 1, Some(renewal)));
    }
}

#[test]
fn the_oldest_is_forgotten_for_one_too_many() {
    let mut bench = Bench::with_limit(4);
    let ask = |bench: &mut Bench, n| {
        bench.a(Message::Req(Req { local: n, qpn: A_QPN.offset(n), ..req() }));
    };
    let accept = |bench: &mut Bench, n| {
        let ids = Ids { local: 100 + n, remote: n };
        bench.b(Message::Rep(Rep { ids, qpn: B_QPN.offset(n), ..rep() })).is_some()
    };
    (0..4).for_each(|n| ask(&mut bench, n));
    ask(&mut bench, 0); // again: now it is the newest
    ask(&mut bench, 4);
    assert_eq!([0, 1, 2, 3, 4].map(|n| accept(&mut bench, n)), [true, false, true, true, true]);
    ask(&mut bench, 5);
    assert!(accept(&mut bench, 5), "what waits doesn't compete with what is made");
    let drep = |n| Message::Drep(Ids { local: 100 + n, remote: n });
    assert_eq!(bench.b(drep(0)), None, "it was the oldest");
    assert!([2, 3, 4, 5].iter().all(|n| bench.b(drep(*n)).is_some()));
    assert_eq!(bench.connections.exchanges.len(), 0);
}

/// Hosts that connect their few QPs again and again, and a network that loses,
/// repeats and reorders their messages: both meant each connection that is learned.
#[test]
fn only_what_two_hosts_agreed_on_is_learned() {
    /// Messages that are still under way somewhere.
    const UNDER_WAY: usize = 24;
    let (mut learned, mut ended) = (0, 0);
    for seed in 1..=50u64 {
        let mut state = seed;
        let mut random = |below: usize| {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let mut bench = Bench::with_limit(3);
        let mut sent: Vec<(bool, Message)> = Vec::new();
        for n in 0..400u32 {
            let qpns = [A_QPN, B_QPN].map(|first| first.offset(random(4) as u32));
            // The names are new each time, and so are the PSNs, which tell the
            // test which REQ and REP belong together.
            let asked = Req { local: n, qpn: qpns[0], starting_psn: Psn::new(n), ..req() };
            let ids = Ids { local: 1_000_000 + n, remote: n };
            let accepted = Rep { ids, qpn: qpns[1], starting_psn: Psn::new(1_000_000 + n) };
            let dreq =
                Dreq { ids: Ids { local: ids.remote, remote: ids.local }, remote_qpn: qpns[1] };
            sent.push((true, Message::Req(asked)));
            sent.push((false, Message::Rep(accepted)));
            sent.push((true, Message::Dreq(dreq)));
            for _ in 0..4 {
                let recent = &sent[sent.len().saturating_sub(UNDER_WAY)..];
                let (from_a, message) = recent[random(recent.len())];
                match if from_a { bench.a(message) } else { bench.b(message) } {
                    Some(Event::Established(connection)) => {
                        let [there, back] = connection.directions.map(|d| d.first_psn.get());
                        assert_eq!(there, 1_000_000 + back, "seed {seed}");
                        learned += 1;
                    }
                    Some(Event::Ended(_)) => ended += 1,
                    None => {}
                }
            }
        }
    }
    assert!(learned > 1000 && ended > 300, "{learned} learned, {ended} ended");
}
