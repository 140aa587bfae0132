//! Pre-shared keys, and the tag that proves that their holder wrote a message.

use core::fmt;

use crate::wire::{Addr, Opcode, Qpn};

/// Length of a tag in bytes.
pub const TAG_LEN: usize = 16;

/// A tag: the first half of a keyed BLAKE3.
pub(super) type Tag = [u8; TAG_LEN];

/// Binds a key to its use, as BLAKE3's key derivation asks.
const CONTEXT: &str = "LR2 Gateway, tag of control messages, version 1";

/// The keys of a box: one to write with, and up to two to read with.
///
/// To change keys without losing a message, in three steps, each done on all
/// boxes before the next: accept the new key besides the old one; write with
/// the new key and still accept the old one; remove the old one.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    current: [u8; 32],
    other: Option<[u8; 32]>,
}

impl Keys {
    /// Writes and reads with the key derived from `secret`, which may have any
    /// length. It should hold at least 128 bits of chance.
    pub fn from_secret(secret: &[u8]) -> Self {
        Self { current: blake3::derive_key(CONTEXT, secret), other: None }
    }

    /// Also reads messages written with the key derived from `secret`.
    pub fn also_accepting(mut self, secret: &[u8]) -> Self {
        self.other = Some(blake3::derive_key(CONTEXT, secret));
        self
    }

    /// The key that everybody knows. Tags then detect damage, but anyone can
    /// forge a message: for the laboratory only.
    pub fn unkeyed_lab() -> Self {
        Self { current: [0; 32], other: None }
    }

    /// The tag to write.
    pub(super) fn seal(&self, scope: &Scope, body: &[u8]) -> Tag {
        tag(&self.current, scope, body)
    }

    /// The tag of a message of the tunnel, which is about no single flow.
    pub fn seal_tunnel(&self, message: &[u8]) -> [u8; TAG_LEN] {
        self.seal(&Scope::tunnel(), message)
    }

    /// Whether one of the keys gives this tag to a message of the tunnel.
    pub fn verify_tunnel(&self, message: &[u8], claimed: &[u8; TAG_LEN]) -> bool {
        self.verify(&Scope::tunnel(), message, claimed)
    }

    /// Whether one of the keys gives this tag. Takes as long for a nearly right
    /// tag as for any other.
    pub(super) fn verify(&self, scope: &Scope, body: &[u8], claimed: &Tag) -> bool {
        let claimed = u128::from_ne_bytes(*claimed);
        let matches = |key| u128::from_ne_bytes(tag(key, scope, body)) ^ claimed == 0;
        matches(&self.current) || self.other.as_ref().is_some_and(matches)
    }
}

/// Keys are not for logs.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// The part of the headers that a tag covers.
pub(super) struct Scope {
    pub src: Addr,
    pub dst: Addr,
    pub opcode: Opcode,
    /// Of the BTH.
    pub bth_qpn: Qpn,
}

impl Scope {
    /// No message about a flow has an opcode below 0xc0, so that none has the tag of a message of the
    /// tunnel.
    fn tunnel() -> Self {
        Self {
            src: Addr::default(),
            dst: Addr::default(),
            opcode: Opcode(0),
            bth_qpn: Qpn::default(),
        }
    }
}

fn tag(key: &[u8; 32], scope: &Scope, body: &[u8]) -> Tag {
    let mut head = [0; 16 + 16 + 1 + 4];
    head[..16].copy_from_slice(scope.src.as_bytes());
    head[16..32].copy_from_slice(scope.dst.as_bytes());
    head[32] = scope.opcode.0;
    head[33..].copy_from_slice(&scope.bth_qpn.get().to_be_bytes());
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&head).update(body);
    let mut tag = [0; TAG_LEN];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..TAG_LEN]);
    tag
}
