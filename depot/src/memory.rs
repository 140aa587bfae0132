//! A flow's memory besides itself, for packets in flight.

use common::frame::Frame;

use crate::Flow;
use crate::backup::Backup;
use crate::sequence::Sequence;
use crate::tolerance::Reordering;

impl<F: Frame> Flow<F> {
    /// Memory of one PSN that waits or is missing, in bytes: see
    /// [`Window`](common::window::Window) for how many there is room for.
    pub const SLOT: usize = Sequence::<F>::SLOT;
    /// Memory of one PSN that the destination has not acknowledged, in bytes.
    pub const BACKUP_SLOT: usize = Backup::<F>::SLOT;

    /// Frees memory that no packet in flight takes. To be called when the
    /// flow has been idle for a while: lists that grow with the packets in flight
    /// keep their size until then.
    pub fn shrink(&mut self) {
        self.sequence.shrink();
        self.backup.shrink();
        self.responses.shrink();
        self.shrink_reordering();
    }

    /// Memory besides the flow itself and the frames that are held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let reordering = if self.reordering.is_some() { size_of::<Reordering>() } else { 0 };
        self.sequence.heap_bytes()
            + self.backup.heap_bytes()
            + self.responses.heap_bytes()
            + reordering
    }
}
