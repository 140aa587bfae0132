use api::{Event, Events, Flow, Flows, Lane, Lanes, Peer, Peers, Pool, Pools, Port, Ports, Status};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::*;

/// A box with a tunnel of two lanes, of which one is down, `uptime` seconds after its start; every counter grows by the
/// same each second.
fn snapshot(boot: u64, uptime: f64) -> Snapshot {
    let grown = |each: u64| each * uptime as u64;
    let lane = |lane, state: &'static str| Lane {
        lane,
        port: "wan".into(),
        state: state.into(),
        round_trip: 0.01,
        sent: grown(9_900),
        resent: grown(100),
        lost: grown(100),
        ..Lane::default()
    };
    let peer = |node, state: &'static str| Peer {
        node,
        via: "wan".into(),
        state: state.into(),
        last_heard: 1e9 + uptime - 2.0,
        ..Peer::default()
    };
    let port = Port {
        port: "lan".into(),
        device: "net_null0".into(),
        up: Some(true),
        received: grown(1_000),
        received_bytes: grown(1_500_000),
        ..Port::default()
    };
    let flow = Flow {
        role: "depot".into(),
        source: "192.0.2.1".into(),
        destination_qpn: 0x11,
        state: "unprotected".into(),
        why: Some("no Sentry announced it".into()),
        lost: 42,
        ..Flow::default()
    };
    let event = |text: &str| Event { text: text.into(), ..Event::default() };
    Snapshot {
        status: Status {
            node: 7,
            boot: Some(boot),
            started: 1e9,
            uptime,
            health: "degraded".into(),
            reasons: vec!["degraded: the peer refuses our key".into()],
            ..Status::default()
        },
        peers: Peers { peers: vec![peer(8, "session"), peer(9, "silent")], ..Peers::default() },
        lanes: Lanes { lanes: vec![lane(0, "up"), lane(1, "down")] },
        ports: Ports { ports: vec![port] },
        pools: Pools { pools: vec![Pool { pool: "reorder_pool".into(), frames: 95, limit: 100 }] },
        flows: Flows { total: 1, matched: 1, flows: vec![flow], ..Flows::default() },
        events: Events { missed: 0, events: vec![event("older"), event("newer")] },
        ..Snapshot::default()
    }
}

fn shown(screen: &Screen) -> String {
    picture(screen, (132, 50))
}

/// The words of the first line that begins with all of `first`.
fn words<'a>(text: &'a str, first: &[&str]) -> Vec<&'a str> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .into_iter()
        .find(|words| words.starts_with(first))
        .unwrap_or_else(|| panic!("no line with {first:?} in\n{text}"))
}

#[test]
fn the_overview_has_all_parts_with_rates_of_a_second() {
    let mut screen = Screen::default();
    assert!(shown(&screen).contains("asking the gateway"));
    screen.take(Ok(snapshot(1, 10.0)));
    let text = shown(&screen);
    // One snapshot has no rates.
    assert_eq!(words(&text, &["0", "0", "wan", "up"])[6..9], ["-", "-", "-"], "{text}");
    screen.take(Ok(snapshot(1, 12.0)));
    let text = shown(&screen);
    for part in [
        "node 7: degraded",
        "up 12s",
        "degraded: the peer refuses our key",
        "has a session with this box",
        "is silent",
        "2.00 s ago",
        "95 %",
        "no Sentry announced it",
        "Flows, most lost first: 1",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let lane = words(&text, &["0", "0", "wan", "up"]);
    assert_eq!(
        lane[4..],
        ["10.0", "ms", "9900", "100", "1.000", "%", "100", "0", "0", "0"],
        "{text}"
    );
    assert_eq!(words(&text, &["0", "1", "wan"])[3], "down", "{text}");
    let port = words(&text, &["lan", "up"]);
    assert_eq!(port[2..], ["1000", "12.0", "M", "0", "0", "0", "0", "net_null0"], "{text}");
    let [newer, older] = ["newer", "older"].map(|event| text.find(event).expect(event));
    assert!(newer < older, "{text}");
}

#[test]
fn without_a_tunnel_the_recovery_is_shown() {
    let at = |uptime: f64, resent| {
        let mut it = snapshot(1, uptime);
        it.lanes = Lanes::default();
        it.recovery = api::Recovery { resent, round_trip: Some(0.02), ..api::Recovery::default() };
        it
    };
    let mut screen = Screen::default();
    screen.take(Ok(at(10.0, 100)));
    screen.take(Ok(at(11.0, 125)));
    let text = shown(&screen);
    assert!(!text.contains("Lanes") && text.contains("Recovery"), "{text}");
    assert_eq!(words(&text, &["20.0", "ms"])[2..6], ["0", "0", "0", "25"], "{text}");
}

#[test]
fn a_restarted_gateway_has_no_rates_until_the_second_look() {
    let mut screen = Screen::default();
    screen.take(Ok(snapshot(1, 100.0)));
    screen.take(Ok(snapshot(2, 1.0)));
    let text = shown(&screen);
    assert_eq!(words(&text, &["0", "0", "wan", "up"])[6], "-", "{text}");
    screen.take(Ok(snapshot(2, 2.0)));
    let text = shown(&screen);
    assert_eq!(words(&text, &["0", "0", "wan", "up"])[6], "9900", "{text}");
}

#[test]
fn a_gateway_that_is_gone_is_said_and_the_last_picture_stays() {
    let mut screen = Screen::default();
    screen.take(Err(Failure::failed("can't ask the gateway")));
    assert!(shown(&screen).contains("can't ask the gateway"));
    screen.take(Ok(snapshot(1, 1.0)));
    assert!(!shown(&screen).contains("can't ask the gateway"));
    screen.take(Err(Failure::failed("can't ask the gateway")));
    let text = shown(&screen);
    assert!(text.contains("can't ask the gateway") && text.contains("node 7"), "{text}");
}

#[test]
fn keys_choose_the_view() {
    let mut screen = Screen::default();
    screen.take(Ok(snapshot(1, 1.0)));
    for (key, has, lacks) in [
        ('2', "no Sentry announced it", "reorder_pool"),
        ('3', "newer", "no Sentry announced it"),
        ('1', "reorder_pool", "paused"),
        ('p', "paused", "no flow is known"),
        ('s', "most resent first", "most lost first"),
    ] {
        assert!(screen.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)));
        let text = shown(&screen);
        assert!(text.contains(has) && !text.contains(lacks), "{key}: {text}");
    }
}

#[test]
fn a_terminal_of_any_size_is_drawn_on() {
    let mut screen = Screen::default();
    screen.take(Ok(snapshot(1, 1.0)));
    for size in [(1, 1), (20, 5), (80, 24), (300, 100)] {
        assert_eq!(picture(&screen, size).lines().count(), usize::from(size.1));
    }
}

#[test]
fn text_of_the_gateway_can_not_steer_the_terminal() {
    let mut screen = Screen::default();
    let mut evil = snapshot(1, 1.0);
    evil.flows.flows[0].source = "\x1b]0;title\x07\x1b[2J".into();
    evil.events.events[0].text = "red\x1b[31m\r\n".into();
    screen.take(Ok(evil));
    let text = shown(&screen);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn what_needs_a_look_is_coloured() {
    let mut screen = Screen::default();
    screen.take(Ok(snapshot(1, 1.0)));
    let Ok(mut terminal) = Terminal::new(TestBackend::new(132, 50));
    let Ok(_) = terminal.draw(|frame| draw::draw(frame, &screen));
    let buffer = terminal.backend().buffer();
    let color_of = |word: &str| {
        let lines = shown(&screen);
        let row = lines.lines().position(|line| line.contains(word)).expect(word);
        let column = lines.lines().nth(row).and_then(|line| line.find(word)).expect(word);
        buffer[(u16::try_from(column).unwrap(), u16::try_from(row).unwrap())].fg
    };
    assert_eq!(color_of("degraded"), Color::Yellow);
    assert_eq!(color_of("is silent"), Color::Yellow);
    assert_eq!(color_of("has a session"), Color::Reset);
}

/// No cell of a number is cut: where columns have no room they are narrower, or left out.
#[test]
fn eighty_columns_show_whole_numbers() {
    let mut screen = Screen::default();
    let at = |uptime: f64| {
        let mut it = snapshot(1, uptime);
        for lane in &mut it.lanes.lanes {
            (lane.round_trip, lane.lost) = (543e-6, 0);
        }
        it.peers.peers[0].node = 4_294_967_295;
        it.flows.flows[0].destination = "198.51.100.200".into();
        it
    };
    screen.take(Ok(at(10.0)));
    screen.take(Ok(at(12.0)));
    let text = picture(&screen, (80, 24));
    let lane = words(&text, &["0", "0", "wan", "up"]);
    assert_eq!(lane[4..], ["543", "us", "9900", "0", "0.000", "%", "100"], "{text}");
    assert!(text.contains("tunnel  lane  port  state  round trip  sent/s"), "{text}");
    let peer = words(&text, &["4294967295"]);
    assert_eq!(peer[3..], ["has", "a", "session", "with", "this", "box", "-", "2.00", "s", "ago"]);
}
