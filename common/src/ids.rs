//! Identifiers of boxes and their boots, of flows and their incarnations, and of workers.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($type:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $type);

        impl From<$type> for $name {
            fn from(number: $type) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// A worker of a box, as the sender of control messages that are numbered in one sequence. It
    /// comes from the configuration or the machine's identity; no two boxes share one.
    NodeId(u32), "{:#010x}"
}

id! {
    /// A boot of a box: the wall clock at its start in nanoseconds, larger from boot to boot.
    BootId(u64), "{}"
}

id! {
    /// An incarnation of a flow: its number, modulo 2^32, among all that began at a Sentry since
    /// that started.
    Epoch(u32), "{}"
}

id! {
    /// A flow of a switch: the index of its entry in the flow table, which another flow may have
    /// after it.
    FlowId(u32), "{}"
}

id! {
    /// A worker of a box, counted from 0.
    WorkerId(u16), "{}"
}

impl BootId {
    /// None was seen.
    pub const NONE: Self = Self(0);

    /// The least that is larger.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Epoch {
    /// That of the incarnation that begins next.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
