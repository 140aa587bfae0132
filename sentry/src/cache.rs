//! Packets in the cache: handles that share a frame with the port.

use common::frame::{Frame, Kept, Packet};
use common::metrics::Metric;

use crate::{Actions, Context};

/// Shares `frame` between the port and the cache. Returns the packet to send and the handle to
/// cache, if the budget allows one.
#[inline]
pub(crate) fn share<F: Frame, A: Actions<F>>(
    cx: &mut Context<'_, A>,
    frame: F,
) -> (Packet<F>, Option<Kept<F::Shared>>) {
    let len = frame.bytes().len();
    if !cx.cache.take(len) {
        cx.out.count(Metric::SentryCacheFull, 1);
        return (Packet::Owned(frame), None);
    }
    cx.out.count(Metric::CreatedHandle, 1);
    let (sent, handle) = frame.share_twice();
    (Packet::Shared(sent), Some(Kept { handle, len: len as u32 }))
}

/// Frees a handle.
#[inline(always)]
pub(crate) fn release<F: Frame, A: Actions<F>>(
    cx: &mut Context<'_, A>,
    kept: Option<Kept<F::Shared>>,
) {
    if let Some(Kept { handle, len }) = kept {
        cx.cache.give(len as usize);
        cx.out.discard(Packet::Shared(handle), Metric::DropReleased);
    }
}
