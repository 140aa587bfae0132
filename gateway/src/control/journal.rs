//! The reasons that the log has: each is written once, and so is its end.

use std::time::{Duration, Instant};

/// Time that a reason, or the lack of any, stands before it is logged. A session begins, or begins again, in less.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// Reasons that are new, and stand.
    Reasons(String),
    /// No reason holds any more.
    Solved,
}

/// Remembers the reasons that were logged.
#[derive(Debug)]
pub struct Journal {
    /// `None`: nothing was logged.
    logged: Option<Option<String>>,
    seen: Option<String>,
    since: Instant,
}

impl Journal {
    /// Nothing was logged.
    pub fn new(now: Instant) -> Self {
        Self { logged: None, seen: None, since: now }
    }

    /// The lack of a reason was logged.
    pub fn of_solved(now: Instant) -> Self {
        Self { logged: Some(None), ..Self::new(now) }
    }

    /// The news, given the reasons of now.
    pub fn look(&mut self, reasons: Option<String>, now: Instant) -> Option<News> {
        if reasons != self.seen {
            (self.seen, self.since) = (reasons, now);
        }
        // At the start the lack of a reason is news at once.
        let is_first = self.logged.is_none() && self.seen.is_none();
        let is_early = !is_first && now.duration_since(self.since) < PATIENCE;
        if is_early || self.logged.as_ref() == Some(&self.seen) {
            return None;
        }
        self.logged = Some(self.seen.clone());
        Some(self.seen.clone().map_or(News::Solved, News::Reasons))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_stands_is_logged_once_and_so_is_its_end() {
        let start = Instant::now();
        let at = |half: u32| start + PATIENCE * half / 2;
        let mut journal = Journal::new(start);
        let [peer, router] = ["no peer", "no router"].map(|text| Some(text.to_owned()));
        assert_eq!(journal.look(peer.clone(), at(0)), None);
        assert_eq!(journal.look(peer.clone(), at(2)), peer.clone().map(News::Reasons));
        assert_eq!(journal.look(peer.clone(), at(3)), None);
        assert_eq!(journal.look(router.clone(), at(4)), None);
        assert_eq!(journal.look(router.clone(), at(6)), router.map(News::Reasons));
        // The end of a reason stands as long before it is logged: no all-clear between two reasons.
        assert_eq!(journal.look(None, at(7)), None);
        assert_eq!(journal.look(peer.clone(), at(8)), None);
        assert_eq!(journal.look(None, at(9)), None);
        assert_eq!(journal.look(None, at(11)), Some(News::Solved));
        assert_eq!(journal.look(None, at(12)), None);
        // A reason of less than two seconds is not logged.
        assert_eq!(journal.look(peer, at(13)), None);
        assert_eq!(journal.look(None, at(14)), None);
        assert_eq!(journal.look(None, at(17)), None);
        // A session that begins at the start is.
        assert_eq!(Journal::new(start).look(None, at(0)), Some(News::Solved));
    }
}
