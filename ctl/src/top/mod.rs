//! `lr2ctl top`: a live view of a gateway.
//!
//! A thread of its own asks the gateway for `Snapshot`s, so that keys are answered meanwhile. `Screen` is the state of the
//! view, and the module `draw` makes cells of it, on a terminal or in memory.

mod columns;
mod draw;
mod screen;
mod snapshot;

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::screen::Screen;
use self::snapshot::Snapshot;
use crate::client::Client;
use crate::{BAD_INPUT, Failure};

/// Time for which a key is waited for, until answers of the gateway are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Columns and rows of a picture that is printed.
const PICTURE: (u16, u16) = (132, 60);

/// Shows the gateway until a key ends it.
///
/// # Errors
/// There is no terminal, or it fails.
pub fn live(client: &Client, interval: Duration) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let text = "top needs a terminal; top --once prints one picture, and --json with status, lanes or flows is for programs";
        return Err(Failure { code: BAD_INPUT, text: text.to_owned() });
    }
    let broken = |e: io::Error| Failure::failed(format!("the terminal fails: {e}"));
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let ended = watch(&mut terminal, client, interval);
    let restored = ratatui::try_restore();
    ended.and(restored).map_err(broken)
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    client: &Client,
    interval: Duration,
) -> io::Result<()> {
    let (wanted, answers) = asker(client.clone());
    let mut screen = Screen::default();
    let mut due = Some(Instant::now());
    loop {
        if !screen.is_paused && due.is_some_and(|due| due <= Instant::now()) {
            due = None;
            // The thread ends with this function.
            let _ = wanted.send(screen.order);
        }
        terminal.draw(|frame| draw::draw(frame, &screen))?;
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && !screen.press(key)
        {
            return Ok(());
        }
        match answers.try_recv() {
            Ok(answer) => {
                screen.take(answer);
                due = Some(Instant::now() + interval);
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(io::Error::other("no thread is left")),
        }
    }
}

/// A thread that answers each order of flows with a snapshot.
fn asker(client: Client) -> (Sender<api::Order>, Receiver<Result<Snapshot, Failure>>) {
    let (wanted, orders) = channel();
    let (to, answers) = channel();
    thread::spawn(move || {
        for order in orders {
            if to.send(Snapshot::take(&client, order)).is_err() {
                return;
            }
        }
    });
    (wanted, answers)
}

/// Prints one picture, whose rates are of one interval.
///
/// # Errors
/// The gateway can't be asked.
pub fn once(client: &Client, interval: Duration, out: &mut dyn Write) -> Result<(), Failure> {
    let mut screen = Screen::default();
    screen.take(Ok(Snapshot::take(client, screen.order)?));
    thread::sleep(interval);
    screen.take(Ok(Snapshot::take(client, screen.order)?));
    out.write_all(picture(&screen, PICTURE).as_bytes())
        .map_err(|e| Failure::failed(format!("can't write: {e}")))
}

/// The screen as text, without spaces at the ends of lines.
fn picture(screen: &Screen, (columns, rows): (u16, u16)) -> String {
    // Memory does not fail.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let Ok(_) = terminal.draw(|frame| draw::draw(frame, screen));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(columns)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
