//! REPORTs of several lanes in one message.

use arrayvec::ArrayVec;

use crate::message::{Report, Reports};
use crate::number::{Lane, Port};

/// Gathers the REPORTs that are due together, by the port at which they leave. R-TUN-57
pub(super) struct Together {
    gathered: ArrayVec<Reports, { Port::COUNT_MAX as usize }>,
    /// By port: messages that have left.
    turns: [u8; Port::COUNT_MAX as usize],
}

impl Together {
    pub fn new(ports: u8) -> Self {
        Self {
            gathered: Port::all(ports).map(|_| Reports::default()).collect(),
            turns: [0; Port::COUNT_MAX as usize],
        }
    }

    /// Adds a REPORT. If there is no room for it in a message, returns those before it, which leave now.
    pub fn add(&mut self, port: Port, report: Report) -> Option<(Lane, Reports)> {
        let gathered = self.gathered.get_mut(port.index())?;
        if gathered.push(&report) {
            return None;
        }
        let full = core::mem::replace(gathered, report.into());
        self.leaving(port, full)
    }

    /// The REPORTs that leave at a port, if there are any.
    pub fn take(&mut self, port: Port) -> Option<(Lane, Reports)> {
        let gathered = self.gathered.get_mut(port.index()).filter(|it| !it.is_empty())?;
        let reports = core::mem::take(gathered);
        self.leaving(port, reports)
    }

    /// A message rides each of its lanes in turn, so that a path that is dead in this direction makes no other lane
    /// look silent.
    fn leaving(&mut self, port: Port, reports: Reports) -> Option<(Lane, Reports)> {
        let turn = &mut self.turns[port.index()];
        *turn = turn.wrapping_add(1);
        let at = usize::from(*turn).checked_rem(reports.lanes().len())?;
        let lane = reports.lanes().nth(at)?;
        Some((lane, reports))
    }
}
