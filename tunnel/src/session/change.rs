//! Changes of a session.

/// Why a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing was heard for `peer_timeout`.
    Silence,
    /// The peer offers another session: it restarted, or lost us for a while.
    PeerRestarted,
    /// The peer said BYE.
    Bye,
    /// This box said BYE.
    Closed,
}

/// A change of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The session begins.
    Began,
    /// The session is over.
    Ended(End),
}
