//! Finds the gateway's socket if neither `--socket` nor `--address` is given.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::{BAD_INPUT, Failure};

/// The folder of the units' runtime folders.
pub const RUN: &str = "/run";
/// The runtime folder of `lr2-gateway.service`. That of `lr2-gateway@NAME.service` has this name, a dash and NAME.
const FOLDER: &str = "lr2-gateway";
/// The socket in it.
const SOCKET: &str = "control.sock";

/// The socket of the only gateway that runs here, of a unit or an instance. If none runs, the path of the unit's.
///
/// # Errors
/// Several run.
pub fn socket(run: &Path) -> Result<PathBuf, Failure> {
    let is_ours = |name: &str| {
        name.strip_prefix(FOLDER).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let folders = fs::read_dir(run).into_iter().flatten().flatten();
    let folders = folders.filter(|folder| folder.file_name().to_str().is_some_and(is_ours));
    let mut found: Vec<_> =
        folders.map(|folder| folder.path().join(SOCKET)).filter(|path| listens(path)).collect();
    found.sort();
    match &*found {
        [] => Ok(run.join(FOLDER).join(SOCKET)),
        [only] => Ok(only.clone()),
        several => {
            let paths: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            let text = format!(
                "several gateways run here; choose one with --socket: {}",
                paths.join(", ")
            );
            Err(Failure { code: BAD_INPUT, text })
        }
    }
}

/// Whether a process listens at a socket. One that may not be opened counts: then the error says so.
fn listens(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_only_gateway_is_found_and_several_are_named() {
        let run = tempfile::tempdir().unwrap();
        let path = |folder: &str| run.path().join(folder).join(SOCKET);
        assert_eq!(socket(run.path()), Ok(path("lr2-gateway")));
        assert_eq!(socket(Path::new("/nowhere")), Ok("/nowhere/lr2-gateway/control.sock".into()));
        let listen = |folder: &str| {
            fs::create_dir(run.path().join(folder)).unwrap();
            UnixListener::bind(path(folder)).unwrap()
        };
        let _other = listen("lr2-gatewayed");
        // Its process was killed.
        drop(listen("lr2-gateway"));
        let _b = listen("lr2-gateway-b");
        assert_eq!(socket(run.path()), Ok(path("lr2-gateway-b")));
        let _a = listen("lr2-gateway-a");
        let failure = socket(run.path()).unwrap_err();
        assert_eq!(failure.code, BAD_INPUT);
        let both =
            format!("{}, {}", path("lr2-gateway-a").display(), path("lr2-gateway-b").display());
        assert!(failure.text.ends_with(&both) && failure.text.contains("--socket"), "{failure:?}");
    }
}
