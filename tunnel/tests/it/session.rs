//! Two boxes that find, lose and leave each other.

use common::control::Keys;
use common::ids::{BootId, NodeId};
use common::time::{Span, Time};
use common::wire::Spread;
use proptest::prelude::*;
use tunnel::message::{self, Header, Hello, Message};
use tunnel::session::{Change, End, EndPoint, Refusal, SessionConfig, State};
use tunnel::{Division, Features, LansRepaired, Part, Port};

const OVERHEAD: u16 = 14;

struct Side {
    config: SessionConfig,
    keys: Keys,
    end: EndPoint,
}

impl Side {
    fn new(node: u32, boot: u64) -> Self {
        let config = SessionConfig {
            node: NodeId(node),
            boot: BootId(boot),
            random: u64::from(node) << 32 | boot,
            part: Part::WHOLE,
            lanes: 1,
            ports: 1,
            frame_max: 1_532,
            overhead: OVERHEAD,
            lans: Default::default(),
            hello_interval: Span::from_millis(1_000),
            peer_timeout: Span::from_millis(3_000),
        };
        Self { end: EndPoint::new(&config), config, keys: Keys::from_secret(b"of both") }
    }

    fn written(&self, header: &Header, message: &Message) -> Vec<u8> {
        let mut bytes = vec![0; message::wire_len(message)];
        message::write(header, message, &self.keys, &mut bytes);
        bytes
    }

    /// The HELLO that is due, if one is.
    fn hello(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.end.hello_due(&self.config) > now {
            return None;
        }
        let (header, hello) = self
            .end
            .hellos(&self.config, now)
            .next()
            .map(|(_, header, hello)| (header, hello))
            .expect("a port");
        Some(self.written(&header, &hello))
    }

    fn take(
        &mut self,
        now: Time,
        bytes: &[u8],
    ) -> Result<(Option<Message>, Option<Change>), Refusal> {
        self.end.on_message(&self.config, now, Port::default(), bytes, &self.keys)
    }

    fn is_up(&self) -> bool {
        self.end.up().is_some()
    }
}

const fn at(ms: u64) -> Time {
    Time::from_nanos(5_000_000_000 + ms * 1_000_000)
}

/// Both talk for some milliseconds, over a path that carries what `carries` says, there and back.
fn talk(
    sides: &mut [Side; 2],
    from: u64,
    ms: u64,
    carries: impl Fn(usize, &[u8]) -> bool,
) -> Vec<(usize, Change)> {
    let mut changes = Vec::new();
    for now in (from..from + ms).map(at) {
        for me in 0..2 {
            if let Some(change) = sides[me].end.on_timer(&sides[me].config.clone(), now) {
                changes.push((me, change));
            }
            let Some(hello) = sides[me].hello(now).filter(|hello| carries(me, hello)) else {
                continue;
            };
            let (_, change) = sides[1 - me].take(now, &hello).expect("a good HELLO");
            changes.extend(change.map(|change| (1 - me, change)));
        }
    }
    changes
}

fn pair() -> [Side; 2] {
    [Side::new(1, 100), Side::new(2, 200)]
}

fn up() -> [Side; 2] {
    let mut sides = pair();
    talk(&mut sides, 0, 500, |_, _| true);
    assert!(sides.iter().all(Side::is_up));
    sides
}

/// R-TUN-55: a box tells its ports and its repair of the LANs; one that tells nothing, or something unknown, is a peer all the same.
#[test]
fn a_box_tells_what_it_is() {
    for lans in [LansRepaired::Off, LansRepaired::On, LansRepaired::Auto] {
        for ports in 1..=8 {
            let features =
                Features { ports, lans, answers_paths: ports % 2 == 0, repairs: ports % 3 == 0 };
            assert_eq!(Features::read(features.code()), Some(features));
            assert_eq!(
                Features::read(features.code() | 0xffff_ff00),
                Some(features),
                "further bits"
            );
        }
    }
    for unknown in [0, 0x09, 0x31, 0x10] {
        assert_eq!(Features::read(unknown), None, "{unknown:#x}");
    }
    let mut sides = pair();
    sides[0].config.lans = LansRepaired::Auto;
    talk(&mut sides, 0, 500, |_, _| true);
    for (side, lans) in sides.iter().zip([LansRepaired::Off, LansRepaired::Auto]) {
        let features = side.end.up().expect("up").features;
        assert_eq!(
            features,
            Some(Features { ports: 1, lans, answers_paths: true, repairs: false }),
            "of the other one"
        );
    }

    let mut sides = pair();
    let hello = sides[0].hello(at(0)).expect("the first one");
    let read = message::read(&hello, &sides[0].keys);
    let Ok((header, Message::Hello(hello))) = read else { panic!("{read:?}") };
    let older = sides[0].written(&header, &Message::Hello(Hello { features: 0, ..hello }));
    assert_eq!(sides[1].take(at(1), &older), Ok((None, None)));
    assert_eq!(sides[1].end.state().peer().map(|peer| peer.features), Some(None));
}

/// R-TUN-15
#[test]
fn two_boxes_agree_within_a_few_hellos() {
    let mut sides = pair();
    let changes = talk(&mut sides, 0, 500, |_, _| true);
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes.iter().all(|(_, change)| *change == Change::Began));
    for (me, other) in [(0, 1), (1, 0)] {
        let peer = sides[me].end.up().expect("up");
        assert_eq!(peer.session, sides[other].end.own());
        assert_eq!(
            (peer.node, peer.boot),
            (NodeId(other as u32 + 1), BootId((other as u64 + 1) * 100))
        );
    }
    assert_ne!(sides[0].end.own(), sides[1].end.own());
}

/// R-TUN-61: two boxes start, or one starts again, and up to three of the first eight HELLOs are lost: the session is up within 600 ms.
#[test]
fn lost_hellos_cost_a_part_of_the_interval() {
    use std::cell::Cell;

    for restarts in [false, true] {
        for lost in (0..1_u32 << 8).filter(|lost| lost.count_ones() <= 3) {
            let mut sides = if restarts { up() } else { pair() };
            if restarts {
                sides[0] = Side::new(1, 101);
            }
            let count = Cell::new(0);
            talk(&mut sides, 1_000, 600, |_, _| {
                let number = count.replace(count.get() + 1);
                number >= 8 || lost & 1 << number == 0
            });
            assert!(sides.iter().all(Side::is_up), "restarts: {restarts}, lost: {lost:#010b}");
            assert!(count.get() <= 20, "{} HELLOs", count.get());
        }
    }
}

/// R-TUN-61, R-TUN-17: one of two ports carries frames in one direction only, and the other one loses the first padded HELLO. The boxes send
/// no more HELLOs than with two sound ports, and still measure the sound path.
#[test]
fn a_port_that_is_dead_one_way_causes_no_further_hellos() {
    let config = |side: Side| SessionConfig { ports: 2, ..side.config };
    let configs = pair().map(config);
    let keys = Keys::from_secret(b"of both");
    let mut ends = [EndPoint::new(&configs[0]), EndPoint::new(&configs[1])];
    let (mut is_lost, mut sent) = (false, 0);
    let [dead, sound] = [0, 1].map(|n| Port::all(2).nth(n).expect("two ports"));
    for now in (0..10_000).map(at) {
        for me in 0..2 {
            if ends[me].hello_due(&configs[me]) > now {
                continue;
            }
            for (port, header, hello) in ends[me].hellos(&configs[me], now).collect::<Vec<_>>() {
                sent += u32::from(now >= at(5_000));
                let mut bytes = vec![0; message::wire_len(&hello)];
                message::write(&header, &hello, &keys, &mut bytes);
                let is_padded = bytes.len() > message::HELLO_LEN;
                let is_first = me == 0 && port == sound && is_padded && !is_lost;
                is_lost |= is_first;
                if is_first || me == 0 && port == dead {
                    continue;
                }
                ends[1 - me]
                    .on_message(&configs[1 - me], now, port, &bytes, &keys)
                    .expect("a good HELLO");
            }
        }
    }
    assert!(is_lost);
    assert!(ends.iter().all(|end| end.reached(sound) == 1_532), "both ways");
    assert!(sent <= 2 * 2 * 6, "{sent} HELLOs in five intervals");
}

/// R-TUN-61: a box that hears no peer doubles the wait between two HELLOs, up to the interval.
#[test]
fn a_box_that_hears_no_peer_sends_fewer_hellos() {
    let mut side = Side::new(1, 100);
    let hellos = (0..10_000).filter(|ms| side.hello(at(*ms)).is_some());
    assert_eq!(hellos.collect::<Vec<_>>()[..6], [0, 63, 188, 438, 938, 1_938]);
}

/// R-TUN-17
#[test]
fn padded_hellos_measure_the_path() {
    let mut sides = pair();
    talk(&mut sides, 0, 500, |_, _| true);
    assert!(sides.iter().all(|side| side.end.reached(Port::default()) == 1_532));

    let mut sides = pair();
    talk(&mut sides, 0, 5_000, |_, hello| hello.len() <= 1_400);
    for side in &sides {
        let peer = side.end.up().expect("up: the path is short, not broken");
        assert_eq!(
            usize::from(side.end.reached(Port::default())),
            message::HELLO_LEN + usize::from(OVERHEAD)
        );
        assert_eq!(peer.frame_max, 1_532);
    }
}

/// R-TUN-15
#[test]
fn a_restarted_peer_begins_another_session() {
    let mut sides = up();
    let (old, their) = (sides[0].end.own(), sides[1].end.own());
    sides[1] = Side::new(2, 300);
    let changes = talk(&mut sides, 1_000, 500, |_, _| true);
    let ours: Vec<Change> =
        changes.iter().filter(|(me, _)| *me == 0).map(|(_, change)| *change).collect();
    assert_eq!(ours, [Change::Ended(End::PeerRestarted), Change::Began]);
    assert!(sides.iter().all(Side::is_up));
    assert_ne!(sides[0].end.own(), old);
    assert_ne!(sides[1].end.own(), their);
    assert_eq!(sides[0].end.up().expect("up").session, sides[1].end.own());
}

/// R-TUN-15
#[test]
fn silence_ends_a_session_and_both_begin_another() {
    for deaf in [[true, true], [true, false], [false, true]] {
        let mut sides = up();
        let changes = talk(&mut sides, 500, 7_000, |from, _| !deaf[1 - from]);
        let ended = changes.iter().filter(|(_, change)| matches!(change, Change::Ended(_))).count();
        assert_eq!(ended, 2, "{changes:?}");
        assert!(!sides.iter().any(Side::is_up), "{deaf:?}");
        let changes = talk(&mut sides, 8_000, 2_000, |_, _| true);
        assert_eq!(changes.len(), 2, "{changes:?}");
        for (me, other) in [(0, 1), (1, 0)] {
            assert_eq!(sides[me].end.up().expect("up").session, sides[other].end.own());
        }
    }
}

/// R-TUN-15
#[test]
fn a_box_that_was_heard_and_is_gone_is_forgotten() {
    let mut sides = pair();
    let changes = talk(&mut sides, 0, 6_000, |from, _| from == 1);
    assert!(
        changes.is_empty() && matches!(sides[0].end.state(), State::Heard(_)),
        "as long as it talks"
    );
    let heard_at = sides[0].end.heard_at();
    assert_eq!(sides[0].end.silence_at(&sides[0].config), heard_at + sides[0].config.peer_timeout);
    let changes = talk(&mut sides, 6_000, 6_000, |_, _| false);
    assert!(changes.is_empty(), "there was no session: {changes:?}");
    assert_eq!(*sides[0].end.state(), State::Searching);
    talk(&mut sides, 12_000, 2_000, |_, _| true);
    assert!(sides.iter().all(Side::is_up));
}

/// R-TUN-15
#[test]
fn a_bye_ends_the_session_at_once() {
    let mut sides = up();
    let (_, header, bye) = sides[0].end.close(&sides[0].config.clone()).pop().expect("up");
    assert!(!sides[0].is_up());
    let bye = sides[0].written(&header, &bye);
    let ended = sides[1].take(at(600), &bye);
    assert_eq!(ended, Ok((None, Some(Change::Ended(End::Bye)))));
    assert!(!sides[1].is_up());
    assert_eq!(sides[1].take(at(601), &bye), Err(Refusal::Replayed));
}

/// What a box knows, as far as it shows.
fn shown(side: &Side) -> (State, tunnel::Session, Time) {
    (*side.end.state(), side.end.own(), side.end.silence_at(&side.config))
}

/// R-TUN-16: each message again, at the same box and at its maker.
#[test]
fn a_replayed_message_changes_nothing() {
    let mut sides = pair();
    let mut seen = Vec::new();
    for now in (0..3_000).map(at) {
        for me in 0..2 {
            let Some(hello) = sides[me].hello(now) else { continue };
            sides[1 - me].take(now, &hello).expect("a good HELLO");
            seen.push((me, hello));
        }
    }
    assert!(seen.len() > 6);
    for (maker, bytes) in &seen {
        let before = [shown(&sides[0]), shown(&sides[1])];
        assert_eq!(sides[1 - maker].take(at(3_100), bytes), Err(Refusal::Replayed));
        assert_eq!(sides[*maker].take(at(3_100), bytes), Err(Refusal::OwnNode));
        assert_eq!([shown(&sides[0]), shown(&sides[1])], before);
    }
    // A box that has just started remembers nothing. It may think that the peer is there, but no session
    // comes of it: none of the old messages names its session.
    sides[0] = Side::new(1, 101);
    for (maker, bytes) in &seen {
        if *maker == 1 {
            let _ = sides[0].take(at(3_200), bytes);
            assert!(!sides[0].is_up());
        }
    }
    talk(&mut sides, 3_300, 1_500, |_, _| true);
    assert!(sides.iter().all(Side::is_up), "the true peer is found all the same");
}

/// R-TUN-16: of an earlier boot, of another box, of another session, without the key.
#[test]
fn a_forged_message_changes_nothing() {
    let mut sides = up();
    let (theirs, ours) = (sides[1].end.own(), sides[0].end.own());
    let good = Header {
        node: NodeId(2),
        boot: BootId(200),
        seq: 1_000,
        seen_boot: BootId(100),
        session: ours,
        tunnel: 0,
    };
    let hello = Message::Hello(Hello {
        session: theirs,
        lanes: 1,
        division: 0,
        features: 0,
        frame_max: 1_532,
        heard: 1_532,
        padding: 0,
    });
    let other = Message::Hello(Hello {
        session: theirs,
        lanes: 2,
        division: 0,
        features: 0,
        frame_max: 1_532,
        heard: 1_532,
        padding: 0,
    });
    let stranger = Keys::from_secret(b"of none");
    let before = shown(&sides[0]);
    let cases = [
        (good, Message::Bye, true, Refusal::BadTag),
        (good, hello.clone(), true, Refusal::BadTag),
        (Header { boot: BootId(199), ..good }, Message::Bye, false, Refusal::OldBoot),
        (Header { boot: BootId(199), ..good }, hello.clone(), false, Refusal::OldBoot),
        (Header { node: NodeId(3), ..good }, hello.clone(), false, Refusal::OtherPeer),
        (Header { node: NodeId(3), ..good }, Message::Bye, false, Refusal::OtherPeer),
        (Header { node: NodeId(1), ..good }, hello, false, Refusal::OwnNode),
        (
            Header { seq: 1_001, session: theirs, ..good },
            Message::Bye,
            false,
            Refusal::OtherSession,
        ),
        (
            Header { seq: 1_002, seen_boot: BootId(99), ..good },
            Message::Bye,
            false,
            Refusal::OtherSession,
        ),
        (good, other, false, Refusal::Lanes),
    ];
    for (header, message, is_stranger, refusal) in cases {
        let mut bytes = vec![0; message::wire_len(&message)];
        let keys = if is_stranger { &stranger } else { &sides[0].keys };
        message::write(&header, &message, keys, &mut bytes);
        assert_eq!(sides[0].take(at(700), &bytes), Err(refusal), "{header:?} {message:?}");
        assert_eq!(shown(&sides[0]), before, "{header:?} {message:?}");
        assert_eq!(sides[0].end.last_refusal().map(|(why, _)| why), Some(refusal));
    }
    let bytes = sides[0].written(&Header { seq: 1_003, ..good }, &Message::Bye);
    assert_eq!(
        sides[0].take(at(700), &bytes),
        Ok((None, Some(Change::Ended(End::Bye)))),
        "the good one"
    );
    assert_eq!(sides[0].end.last_refusal(), None, "of the newest message");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// R-TUN-15: however often boxes restart and however much of their talk is lost, delayed or doubled, they agree in
    /// the end, and never take each other for another session.
    #[test]
    fn they_agree_whatever_happened(
        seed: u64, loss in 0..90_u64, restarts in prop::collection::vec((0..2_usize, 200..9_000_u64), 0..5),
    ) {
        let mut sides = pair();
        let mut dice = seed | 1;
        let mut roll = move |n: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % n
        };
        let mut way: Vec<(u64, usize, Vec<u8>)> = Vec::new();
        let mut boots = 300;
        for ms in 0..20_000_u64 {
            for (who, when) in &restarts {
                if *when == ms {
                    boots += 1;
                    sides[*who] = Side::new(*who as u32 + 1, boots);
                }
            }
            for (me, side) in sides.iter_mut().enumerate() {
                side.end.on_timer(&side.config, at(ms));
                while let Some(hello) = side.hello(at(ms)) {
                    for _ in 0..1 + roll(2) {
                        if ms > 12_000 || roll(100) >= loss {
                            let delay = if ms > 12_000 { 10 } else { 10 + roll(400) };
                            way.push((ms + delay, 1 - me, hello.clone()));
                        }
                    }
                }
            }
            let arrived: Vec<_> = way.extract_if(.., |(when, ..)| *when <= ms).collect();
            for (_, to, bytes) in arrived {
                let _ = sides[to].take(at(ms), &bytes);
            }
        }
        for (me, other) in [(0, 1), (1, 0)] {
            let peer = sides[me].end.up();
            prop_assert_eq!(peer.map(|peer| peer.session), Some(sides[other].end.own()), "{:?}", sides[me].end);
        }
    }
}

/// R-TUN-41: boxes with another number of tunnels have no session, nor have two different tunnels.
#[test]
fn a_tunnel_talks_to_its_counterpart_only() {
    let divisions = [(1, Spread::Rss), (2, Spread::Rss), (4, Spread::Rss), (4, Spread::Mixed)];
    let divisions = divisions.map(|(n, spread)| Division::new(n, spread).expect("a power of two"));
    for here in divisions.into_iter().flat_map(Division::parts) {
        for there in divisions.into_iter().flat_map(Division::parts) {
            let mut sides = pair();
            for (side, part) in sides.iter_mut().zip([here, there]) {
                side.config.part = part;
                side.end = EndPoint::new(&side.config);
                assert_eq!(
                    side.end.own().get() % u32::from(part.division().tunnels()),
                    part.index().into()
                );
            }
            if here == there {
                talk(&mut sides, 0, 500, |_, _| true);
                assert!(sides.iter().all(Side::is_up), "{here:?}");
                continue;
            }
            let before = shown(&sides[0]);
            let hello = sides[1].hello(at(0)).expect("the first HELLO is due");
            assert_eq!(sides[0].take(at(0), &hello), Err(Refusal::Tunnels), "{here:?} {there:?}");
            assert_eq!(shown(&sides[0]), before, "it changes nothing");
        }
    }
}
