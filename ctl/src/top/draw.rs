//! The screen as cells of a terminal.

use api::{Event, Flow, Pool};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::columns::{Column, table};
use super::screen::{Screen, View};
use super::snapshot::{Pair, Snapshot};
use crate::view::{UNKNOWN, some, span, time};

const KEYS: &str = " q quit   p pause   s sort flows   n next view";

/// Draws all.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let rows = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
    let [head, body, keys] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(tabs(screen)).reversed(), head);
    frame.render_widget(Paragraph::new(KEYS).reversed(), keys);
    let body = match &screen.problem {
        None => body,
        Some(problem) => {
            let [top, rest] =
                Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(body);
            let text = format!("{problem}; asked again every moment");
            frame.render_widget(Paragraph::new(text).red().wrap(Wrap { trim: true }), top);
            rest
        }
    };
    let Some(pair) = screen.pair() else {
        if screen.problem.is_none() {
            frame.render_widget(Paragraph::new("asking the gateway"), body);
        }
        return;
    };
    match screen.view {
        View::Overview => overview(frame, body, &pair, screen),
        View::Flows => flows(frame, body, pair.now, screen),
        View::Events => events(frame, body, pair.now),
    }
}

fn tabs(screen: &Screen) -> Line<'static> {
    let mut line = Line::from(" lr2ctl top  ");
    for (view, name) in View::ALL {
        let style = if view == screen.view { Modifier::BOLD } else { Modifier::DIM };
        line.push_span(Span::styled(format!(" {name} "), Style::new().add_modifier(style)));
    }
    if screen.is_paused {
        line.push_span("  paused".bold());
    }
    line
}

/// Rows of a list that has a title and heads, or one line if it is empty.
fn height(rows: usize) -> Constraint {
    let rows = u16::try_from(rows.max(1)).unwrap_or(u16::MAX);
    Constraint::Length(rows.saturating_add(3))
}

fn overview(frame: &mut Frame<'_>, area: Rect, pair: &Pair<'_>, screen: &Screen) {
    let now = pair.now;
    let text = status(now);
    let has_lanes = !now.lanes.lanes.is_empty();
    // Lines that are too long are wrapped.
    let width = usize::from(area.width.max(1));
    let lines = text.iter().map(|line| line.width().div_ceil(width).max(1)).sum::<usize>();
    let rows = [
        Constraint::Length(u16::try_from(lines + 1).unwrap_or(u16::MAX)),
        height(now.peers.peers.len()),
        height(if has_lanes { now.lanes.lanes.len() } else { 1 }),
        height(now.ports.ports.len()),
        height(now.pools.pools.len()),
        height(now.flows.flows.len().min(5)),
        Constraint::Min(4),
    ];
    let [status, peers_area, repair, ports_area, pools_area, flows_area, events_area] =
        Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), status);
    peers(frame, peers_area, now);
    if has_lanes {
        lanes(frame, repair, pair);
    } else {
        recovery(frame, repair, pair);
    }
    ports(frame, ports_area, pair);
    pools(frame, pools_area, now);
    flows(frame, flows_area, now, screen);
    events(frame, events_area, now);
}

fn health(word: &str) -> Color {
    match word {
        "ok" => Color::Green,
        "degraded" => Color::Yellow,
        _ => Color::Red,
    }
}

fn status(now: &Snapshot) -> Vec<Line<'static>> {
    let it = &now.status;
    let up = humantime::format_duration(std::time::Duration::from_secs(it.uptime.max(0.0) as u64));
    let busy: Vec<_> = it.workers.iter().map(|w| format!("{:.0} %", w.busy * 100.0)).collect();
    let mut lines = vec![Line::from(vec![
        format!("{}node {}: ", crate::view::pair(it), it.node).into(),
        Span::styled(it.health.to_string(), Style::new().fg(health(&it.health)).bold()),
        format!(
            "   up {up}   role {}   recovery {}   tunnel {}   workers busy {}   {} flows, {} protected",
            it.role,
            it.recovery,
            it.tunnel,
            busy.join(" "),
            it.flows,
            it.flows_protected
        )
        .into(),
    ])];
    let color = health(&it.health);
    lines.extend(it.reasons.iter().map(|reason| Line::styled(reason.clone(), color)));
    lines
}

/// The style of a row that needs a look.
fn marked(is_bad: bool) -> Style {
    if is_bad { Color::Yellow.into() } else { Style::new() }
}

/// What happens in a second.
fn rate(value: Option<f64>) -> String {
    some(value, scaled)
}

/// A number in three digits.
fn scaled(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => return if v < 10.0 && v > 0.0 { format!("{v:.1}") } else { format!("{v:.0}") },
    };
    format!("{value:.digits$} {unit}", digits = usize::from(value < 100.0))
}

fn percent(share: Option<f64>) -> String {
    some(share, |share| format!("{:.3} %", share * 100.0))
}

fn peers(frame: &mut Frame<'_>, area: Rect, now: &Snapshot) {
    let clock = now.status.started + now.status.uptime;
    let ago = |at: f64| format!("{} ago", span((clock - at).max(0.0)));
    let rows = now.peers.peers.iter().map(|peer| {
        let words = match &*peer.state {
            "session" => "has a session with this box",
            "answers" => "answers",
            "heard" => "is heard, and does not answer",
            "silent" => "is silent",
            other => other,
        };
        let cells = vec![
            peer.node.to_string(),
            some(peer.tunnel, |n| n.to_string()),
            peer.via.to_string(),
            words.to_owned(),
            some(peer.round_trip, span),
            ago(peer.last_heard),
            some(peer.last_report, ago),
        ];
        (marked(!peer.is_up()), cells)
    });
    let heads = [
        Column::number("node", 8),
        Column::number("tunnel", 6).extra(),
        Column::text("via", 16),
        Column::text("state", 30),
        Column::number("round trip", 10),
        Column::number("heard", 12),
        Column::number("reported", 12).extra(),
    ];
    let none = "no box at the other end is heard";
    table(frame, area, "Peers", &heads, rows.collect(), none);
}

fn lanes(frame: &mut Frame<'_>, area: Rect, pair: &Pair<'_>) {
    let rows = pair.now.lanes.lanes.iter().map(|lane| {
        let get = |field: fn(&api::Lane) -> u64| {
            move |it: &Snapshot| {
                let same =
                    |other: &&api::Lane| (other.tunnel, other.lane) == (lane.tunnel, lane.lane);
                it.lanes.lanes.iter().find(same).map(field)
            }
        };
        let cells = vec![
            lane.tunnel.to_string(),
            lane.lane.to_string(),
            lane.port.to_string(),
            lane.state.to_string(),
            span(lane.round_trip),
            rate(pair.rate(get(|it| it.sent))),
            rate(pair.rate(get(|it| it.lost))),
            percent(pair.share(get(|it| it.lost), get(|it| it.sent + it.resent))),
            rate(pair.rate(get(|it| it.resent))),
            rate(pair.rate(get(|it| it.delivered))),
            rate(pair.rate(get(|it| it.waited))),
            rate(pair.rate(get(|it| it.given_up))),
        ];
        (marked(lane.state != "up"), cells)
    });
    let heads = [
        Column::number("tunnel", 6),
        Column::number("lane", 4),
        Column::text("port", 6),
        Column::text("state", 8),
        Column::number("round trip", 10),
        Column::number("sent/s", 8),
        Column::number("lost/s", 8),
        Column::number("loss", 9),
        Column::number("resent/s", 8),
        Column::number("delivered/s", 11).extra(),
        Column::number("waited/s", 8).extra(),
        Column::number("given up/s", 10),
    ];
    table(frame, area, "Lanes", &heads, rows.collect(), "");
}

fn recovery(frame: &mut Frame<'_>, area: Rect, pair: &Pair<'_>) {
    let it = |field: fn(&api::Recovery) -> u64| {
        rate(pair.rate(move |snapshot: &Snapshot| Some(field(&snapshot.recovery))))
    };
    let cells = vec![
        some(pair.now.recovery.round_trip, span),
        it(|it| it.gaps),
        it(|it| it.filled),
        it(|it| it.given_up),
        it(|it| it.resent),
        it(|it| it.not_cached),
        it(|it| it.resent_to_lan),
        it(|it| it.needless),
        it(|it| it.naks),
    ];
    let heads = [
        Column::number("round trip", 10),
        Column::number("gaps/s", 8),
        Column::number("filled/s", 8),
        Column::number("given up/s", 10),
        Column::number("resent/s", 8),
        Column::number("not cached/s", 12).extra(),
        Column::number("resent to LAN/s", 15),
        Column::number("needless/s", 10).extra(),
        Column::number("NAKs/s", 8),
    ];
    table(frame, area, "Recovery", &heads, vec![(Style::new(), cells)], "");
}

fn ports(frame: &mut Frame<'_>, area: Rect, pair: &Pair<'_>) {
    let rows = pair.now.ports.ports.iter().map(|port| {
        let get = |field: fn(&api::Port) -> u64| {
            let ports = |it: &Snapshot| {
                it.ports.ports.iter().find(|other| other.port == port.port).map(field)
            };
            pair.rate(ports)
        };
        let lost = get(|it| it.missed + it.dropped + it.errors);
        let cells = vec![
            port.port.to_string(),
            some(port.up, |up| if up { "up" } else { "down" }.to_owned()),
            rate(get(|it| it.received)),
            rate(get(|it| it.received_bytes * 8)),
            rate(get(|it| it.transmitted)),
            rate(get(|it| it.transmitted_bytes * 8)),
            port.queued.to_string(),
            rate(lost),
            port.device.clone(),
        ];
        (marked(port.up == Some(false) || lost > Some(0.0)), cells)
    });
    let heads = [
        Column::text("port", 6),
        Column::text("link", 5),
        Column::number("received/s", 10),
        Column::number("bit/s", 8),
        Column::number("transmitted/s", 13),
        Column::number("bit/s", 8),
        Column::number("queued", 7).extra(),
        Column::number("dropped/s", 9),
        Column::text("device", 44),
    ];
    table(frame, area, "Ports", &heads, rows.collect(), "no ports");
}

fn pools(frame: &mut Frame<'_>, area: Rect, now: &Snapshot) {
    let rows = now.pools.pools.iter().map(|Pool { pool, frames, limit }| {
        let used = *frames as f64 / (*limit).max(1) as f64;
        let bar = "#".repeat((used.clamp(0.0, 1.0) * 40.0).round() as usize);
        let used_text = format!("{:.0} %", used * 100.0);
        let cells = vec![pool.to_string(), frames.to_string(), limit.to_string(), used_text, bar];
        (marked(used >= 0.9), cells)
    });
    let heads = [
        Column::text("pool", 14),
        Column::number("frames", 9),
        Column::number("limit", 9),
        Column::number("used", 6),
        Column::text("", 40),
    ];
    table(frame, area, "Pools", &heads, rows.collect(), "no pools");
}

fn flows(frame: &mut Frame<'_>, area: Rect, now: &Snapshot, screen: &Screen) {
    let row = |flow: &Flow| {
        let qpn = |qpn: u32| format!("{qpn:#x}");
        let cells = vec![
            flow.role.to_string(),
            flow.source.clone(),
            flow.destination.clone(),
            qpn(flow.destination_qpn),
            some(flow.source_qpn, qpn),
            flow.state.to_string(),
            some(flow.round_trip, span),
            flow.held.to_string(),
            flow.lost.to_string(),
            flow.resent.to_string(),
            flow.why.as_ref().map_or(String::new(), |why| why.to_string()),
        ];
        (marked(flow.state == "unprotected"), cells)
    };
    let heads = [
        Column::text("role", 6),
        Column::text("source", 15),
        Column::text("destination", 15),
        Column::number("QPN", 8),
        Column::number("source QPN", 10).extra(),
        Column::text("state", 11),
        Column::number("round trip", 10).extra(),
        Column::number("held", 7).extra(),
        Column::number("lost", 7),
        Column::number("resent", 7),
        Column::text("why", 40),
    ];
    let title = format!("Flows, most {} first: {}", screen.order, now.flows.total);
    table(
        frame,
        area,
        &title,
        &heads,
        now.flows.flows.iter().map(row).collect(),
        "no flow is known",
    );
}

fn events(frame: &mut Frame<'_>, area: Rect, now: &Snapshot) {
    let line = |Event { time: at, worker, tunnel, text, .. }: &Event| {
        let worker = worker.map_or(String::new(), |n| format!("worker {n}: "));
        let tunnel = tunnel.map_or(String::new(), |n| format!("tunnel {n}: "));
        Line::from(format!("{}  {worker}{tunnel}{text}", time(*at)))
    };
    let mut lines = vec![Line::from("Events, the newest first".bold())];
    lines.extend(now.events.events.iter().rev().map(line));
    if lines.len() == 1 {
        lines.push(UNKNOWN.into());
    }
    frame.render_widget(Paragraph::new(lines), area);
}
