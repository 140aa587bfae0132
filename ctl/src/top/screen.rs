//! The state of the live view, and how each key changes it.

use api::Order;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::snapshot::{Pair, Snapshot};
use crate::Failure;

/// A view.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum View {
    /// The box, its peers, the repair, ports, pools, the worst flows and the newest events.
    #[default]
    Overview,
    /// Flows only.
    Flows,
    /// Events only.
    Events,
}

impl View {
    /// All, with the names that the head of the screen has.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Overview, "1 overview"), (Self::Flows, "2 flows"), (Self::Events, "3 events")];

    fn next(self) -> Self {
        match self {
            Self::Overview => Self::Flows,
            Self::Flows => Self::Events,
            Self::Events => Self::Overview,
        }
    }
}

/// All that is shown.
#[derive(Clone, Default, Debug)]
pub struct Screen {
    /// The view.
    pub view: View,
    /// By what flows are sorted.
    pub order: Order,
    /// No snapshots are taken.
    pub is_paused: bool,
    /// Why the last snapshot could not be taken.
    pub problem: Option<String>,
    now: Option<Snapshot>,
    before: Option<Snapshot>,
}

impl Screen {
    /// Takes in a snapshot, or the reason why there is none.
    pub fn take(&mut self, answer: Result<Snapshot, Failure>) {
        match answer {
            Ok(snapshot) => {
                self.before = self.now.replace(snapshot);
                self.problem = None;
            }
            Err(failure) => self.problem = Some(failure.text),
        }
    }

    /// The newest snapshots, if there is one.
    pub fn pair(&self) -> Option<Pair<'_>> {
        self.now.as_ref().map(|now| Pair::new(now, self.before.as_ref()))
    }

    /// Handles a key press. Returns `false` if the key ends the program.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Lost => Order::Resent,
                    Order::Resent => Order::Held,
                    Order::Held => Order::Lost,
                }
            }
            KeyCode::Char('n') | KeyCode::Tab => self.view = self.view.next(),
            KeyCode::Char('1') => self.view = View::Overview,
            KeyCode::Char('2') => self.view = View::Flows,
            KeyCode::Char('3') => self.view = View::Events,
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_last_line_says() {
        let mut screen = Screen::default();
        let mut press = |code| {
            let goes_on = screen.press(KeyEvent::new(code, KeyModifiers::NONE));
            (goes_on, screen.view, screen.order, screen.is_paused)
        };
        let (overview, lost) = (View::Overview, Order::Lost);
        assert_eq!(press(KeyCode::Char('p')), (true, overview, lost, true));
        assert_eq!(press(KeyCode::Char(' ')), (true, overview, lost, false));
        assert_eq!(press(KeyCode::Tab), (true, View::Flows, lost, false));
        assert_eq!(press(KeyCode::Char('n')), (true, View::Events, lost, false));
        assert_eq!(press(KeyCode::Tab), (true, overview, lost, false));
        assert_eq!(press(KeyCode::Char('3')), (true, View::Events, lost, false));
        assert_eq!(press(KeyCode::Char('s')), (true, View::Events, Order::Resent, false));
        assert_eq!(press(KeyCode::Char('c')), (true, View::Events, Order::Resent, false));
        assert!(!press(KeyCode::Char('q')).0);
        assert!(!press(KeyCode::Esc).0);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!screen.press(interrupt));
    }
}
