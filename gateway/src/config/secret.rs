//! The secret shared with the peer.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use settings::Document;

/// Shortest secret, bytes: 128 bits, the length of a control message's tag.
const MIN_LEN: usize = 16;

/// Longest secret, bytes. A longer file is not a key but a mistake.
const MAX_LEN: usize = 4096;

/// Key material. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secret that authenticates control messages.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Keying {
    /// A secret that both boxes have.
    Shared {
        /// The secret of new messages.
        current: Secret,
        /// The second accepted secret while keys are being rotated.
        previous: Option<Secret>,
    },
    /// A well-known key: anyone on the path can speak for the peer. For labs.
    #[default]
    LabUnkeyed,
}

/// Reads the file that `key` names. A trailing line end is no part of the
/// secret, so that `openssl rand -hex 32 > key` works.
pub(super) fn read(
    doc: &Document<'_>,
    key: &str,
    path: &Path,
    warnings: &mut Vec<String>,
) -> Option<Secret> {
    let shown = path.display();
    let bytes = match read_file(path) {
        Ok(bytes) => bytes,
        Err(e) => {
            doc.problem(
                key,
                format!("{shown}, which can't be read: {e}"),
                "a file that the gateway may read, e.g. made by: openssl rand -hex 32",
            );
            return None;
        }
    };
    let secret = bytes.trim_ascii_end();
    if !(MIN_LEN..=MAX_LEN).contains(&secret.len()) {
        doc.problem(
            key,
            format!("{shown} with a secret of {} bytes", secret.len()),
            format!("{MIN_LEN} to {MAX_LEN} bytes, e.g. made by: openssl rand -hex 32"),
        );
        return None;
    }
    if let Ok(meta) = std::fs::metadata(path)
        && meta.permissions().mode() & 0o077 != 0
    {
        warnings.push(format!("{key}: {shown} may be read by other users; chmod 600 it"));
    }
    Some(Secret(secret.to_vec()))
}

/// The beginning of a file: enough to see that it is too long, since not every
/// file has an end.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_LEN as u64 + 64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
