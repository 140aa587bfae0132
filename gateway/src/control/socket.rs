//! The socket by which parameters can be set: who may open it is a matter of its file's permissions.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Takes `path`, which only the user of this process may open then. A socket that a former process left there goes.
///
/// # Errors
/// In one line: the obstacle, and the key.
pub fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let is_other = fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket());
    let bound = if is_other {
        Err(io::Error::other("there is a file that is no socket"))
    } else if UnixStream::connect(path).is_ok() {
        Err(io::Error::other("another process listens there"))
    } else {
        make(path)
    };
    bound.map_err(|e| anyhow::anyhow!("can't listen at control.socket {}: {e}", path.display()))
}

/// The socket is made in a folder that nobody else may enter, and then moved: it is never there with other permissions.
fn make(path: &Path) -> io::Result<UnixListener> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(format!(".{}", std::process::id()));
    let folder = Path::new(&folder);
    DirBuilder::new().mode(0o700).create(folder)?;
    let within = folder.join("socket");
    let made = UnixListener::bind(&within).and_then(|listener| {
        listener.set_nonblocking(true)?;
        fs::set_permissions(&within, Permissions::from_mode(0o600))?;
        fs::rename(&within, path)?;
        Ok(listener)
    });
    if made.is_err() {
        let _ = fs::remove_file(&within);
    }
    fs::remove_dir(folder)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-TUN-54
    #[test]
    fn only_its_user_may_open_it_and_one_process_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let first = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = bind(&path).unwrap_err().to_string();
        assert!(
            second.contains("control.socket") && second.contains("another process"),
            "{second}"
        );
        drop(first);
        let again = bind(&path);
        assert!(again.is_ok(), "what a former process left is replaced: {again:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
        let other = folder.path().join("file");
        fs::write(&other, "of somebody").unwrap();
        assert!(bind(&other).unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody");
        let nowhere = bind(&folder.path().join("none/control.sock")).unwrap_err().to_string();
        assert!(nowhere.contains("No such file"), "{nowhere}");
    }
}
