//! The socket of requests that change something: who may open it is a matter of its file's permissions.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::Group;

/// The socket. Its file goes with it.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

impl Socket {
    /// The listener, and what removes its file when it is dropped.
    pub fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

/// The file of a socket. It is removed when this is dropped, unless it has been replaced since.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The folder of a socket in `/run`, which nobody but the system fills, is gone after a reboot: it is made, if its own folder is
/// there. Returns it if it was made.
fn make_folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    // Without a folder the next step fails, and says so.
    DirBuilder::new().mode(0o755).create(folder).ok().map(|()| folder)
}

/// Most bytes of the path of a Unix socket.
const PATH_MAX: usize = 107;

/// The sentence about a path that no socket can have; `None` if the path is short enough.
pub fn too_long(path: &Path) -> Option<String> {
    let len = path.as_os_str().len();
    (len > PATH_MAX).then(|| {
        format!("control.socket: {} has {len} bytes; allowed: at most {PATH_MAX}", path.display())
    })
}

/// Takes `path` as [`bind`] does, and leaves all as it was.
///
/// # Errors
/// As [`bind`].
pub fn try_bind(path: &Path, group: Option<&str>) -> anyhow::Result<()> {
    let made = make_folder(path);
    let bound = bind(path, group).map(drop);
    if let Some(folder) = made {
        let _ = fs::remove_dir(folder);
    }
    bound
}

/// Takes `path`, which only the user of this process and the members of `group` may open then. A socket that a former process
/// left there goes.
///
/// # Errors
/// In one line: the obstacle, and the key.
pub fn bind(path: &Path, group: Option<&str>) -> anyhow::Result<Socket> {
    let group = group.map(group_id).transpose()?;
    make_folder(path);
    let is_other = fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket());
    let bound = if let Err(too_long) = SocketAddr::from_pathname(path) {
        // Nobody could connect to it.
        Err(too_long)
    } else if is_other {
        Err(io::Error::other("there is a file that is no socket"))
    } else if UnixStream::connect(path).is_ok() {
        Err(io::Error::other("another process listens there"))
    } else {
        make(path, group)
    };
    bound.map_err(|e| anyhow::anyhow!("can't listen at control.socket {}: {e}", path.display()))
}

/// The number of a group of this machine.
fn group_id(name: &str) -> anyhow::Result<u32> {
    let group = Group::from_name(name)
        .map_err(|e| anyhow::anyhow!("can't look up control.group {name}: {e}"))?;
    let group = group.ok_or_else(|| {
        anyhow::anyhow!("control.group: this machine has no group {name}; groupadd --system {name}")
    })?;
    Ok(group.gid.as_raw())
}

/// The socket is made in a folder that nobody else may enter, and then moved: it is never there with other permissions.
fn make(path: &Path, group: Option<u32>) -> io::Result<Socket> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(format!(".{}", std::process::id()));
    let folder = Path::new(&folder);
    // A process of the same number, as the first of a container has, may have been killed here.
    let _ = fs::remove_file(folder.join(NAME));
    let _ = fs::remove_dir(folder);
    DirBuilder::new().mode(0o700).create(folder)?;
    let made = make_within(folder, path, group);
    if made.is_err() {
        let _ = fs::remove_file(folder.join(NAME));
    }
    fs::remove_dir(folder)?;
    made
}

/// The name of the socket until it is moved.
const NAME: &str = "socket";

fn make_within(folder: &Path, path: &Path, group: Option<u32>) -> io::Result<Socket> {
    let within = folder.join(NAME);
    // The path of a socket may have 107 bytes. That of the folder does not count, if it is reached through its descriptor.
    let opened = File::open(folder)?;
    let short = format!("/proc/self/fd/{}/{NAME}", opened.as_raw_fd());
    let listener = UnixListener::bind(short)?;
    listener.set_nonblocking(true)?;
    if group.is_some() {
        // Allowed to a member of the group, and to root.
        chown(&within, None, group)?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(&within, Permissions::from_mode(mode))?;
    fs::rename(&within, path)?;
    let inode = fs::symlink_metadata(path)?.ino();
    Ok(Socket { listener, file: SocketFile { path: path.to_owned(), inode } })
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-TUN-54
    #[test]
    fn only_its_user_may_open_it_and_one_process_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let first = bind(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = bind(&path, None).unwrap_err().to_string();
        assert!(
            second.contains("control.socket") && second.contains("another process"),
            "{second}"
        );
        let (listener, file) = first.into_parts();
        drop(listener);
        let again = bind(&path, None);
        assert!(again.is_ok(), "what a former process left is replaced: {again:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
        drop(file);
        assert!(UnixStream::connect(&path).is_ok(), "the file is that of another by now");
        drop(again);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "the file goes with its socket");
        let other = folder.path().join("file");
        fs::write(&other, "of somebody").unwrap();
        assert!(bind(&other, None).unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody");
        let nowhere =
            bind(&folder.path().join("none/none/control.sock"), None).unwrap_err().to_string();
        assert!(nowhere.contains("No such file"), "{nowhere}");
    }

    #[test]
    fn its_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let _socket = bind(&folder.path().join("lr2-gateway/control.sock"), None).unwrap();
        let mode = fs::metadata(folder.path().join("lr2-gateway")).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "others can't put a socket in its place");
    }

    #[test]
    fn a_try_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lr2-gateway/control.sock");
        try_bind(&path, None).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let nowhere = folder.path().join("none/none/control.sock");
        assert!(try_bind(&nowhere, None).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn a_path_of_107_bytes_is_the_longest() {
        let path = |len: usize| PathBuf::from(format!("/{}", "s".repeat(len - 1)));
        assert_eq!(too_long(&path(107)), None);
        let text = too_long(&path(108)).unwrap();
        assert!(
            text.starts_with("control.socket: /sss") && text.ends_with("at most 107"),
            "{text}"
        );
        assert!(SocketAddr::from_pathname(path(107)).is_ok());
        assert!(SocketAddr::from_pathname(path(108)).is_err());
    }

    #[test]
    fn the_members_of_a_group_may_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let own = Group::from_gid(nix::unistd::getegid()).unwrap().unwrap();
        let _socket = bind(&path, Some(&own.name)).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.permissions().mode() & 0o777, meta.gid()), (0o660, own.gid.as_raw()));
        let missing = bind(&path, Some("no-such-group")).unwrap_err().to_string();
        assert!(missing.contains("control.group") && !missing.contains('\n'), "{missing}");
    }

    #[test]
    fn a_path_may_be_as_long_as_a_sockets_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let rest = 107 - folder.path().as_os_str().len() - 1;
        let path = folder.path().join("s".repeat(rest));
        let socket = bind(&path, None).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(socket);
        let long = bind(&folder.path().join("s".repeat(rest + 1)), None).unwrap_err().to_string();
        assert!(long.contains("shorter"), "{long}");
    }

    #[test]
    fn what_a_process_of_the_same_number_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let left = folder.path().join(format!("control.sock.{}", std::process::id()));
        fs::create_dir(&left).unwrap();
        fs::write(left.join(NAME), "").unwrap();
        let socket = bind(&path, None);
        assert!(socket.is_ok(), "{socket:?}");
        assert!(!left.exists());
    }
}
