//! A flow's memory besides itself, for packets in flight.

use common::frame::Frame;

use crate::Flow;
use crate::slot::Slot;

impl<F: Frame> Flow<F> {
    /// Memory of one PSN that is in flight, in bytes: see
    /// [`Window`](common::window::Window) for how many there is room for.
    pub const SLOT: usize = size_of::<Slot<F::Shared>>();

    /// Frees memory that no packet in flight takes. To be called when the
    /// flow has been idle for a while: lists that grow with the packets in flight
    /// keep their size until then.
    pub fn shrink(&mut self) {
        self.window.shrink();
        self.gaps.shrink();
        self.kept.shrink_to_fit();
        self.reads.shrink();
    }

    /// Memory besides the flow itself and the frames that are held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let kept = self.kept.capacity() * size_of_val(&self.released);
        self.window.heap_bytes() + self.gaps.heap_bytes() + kept + self.reads.heap_bytes()
    }
}
