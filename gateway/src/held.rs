//! Marks of the kernel interfaces that link-loss forwarding holds down: files that outlive the process. A process that is
//! killed raises nothing; by its marks the next start does, or `lr2-gateway release-links`.

use std::fs::{self, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dpdk_sys_wrapper::raise_interface;

use crate::instance::{Instance, Purpose};

/// Where the marks are, unless systemd gives a folder. That of a unit would not do: it goes when the unit stops.
const FOLDER: &str = "/run/lr2-held";

/// The folder of marks of this process: systemd's `RuntimeDirectory=`, else `/run/lr2-held`.
pub fn folder() -> PathBuf {
    // Of several the first is the gateway's own.
    let given = std::env::var("RUNTIME_DIRECTORY").unwrap_or_default();
    given.split(':').find(|folder| !folder.is_empty()).unwrap_or(FOLDER).into()
}

/// The marks of one gateway: `held-links/NAMESPACE/FILE_PREFIX/INTERFACE`, empty files. Interfaces of the same name may be in several network
/// namespaces, which share the folder.
#[derive(Clone, Debug)]
pub struct Marks(PathBuf);

impl Marks {
    /// Those below `folder` of the gateway with this `eal.file_prefix`.
    pub fn of(folder: &Path, file_prefix: &str) -> Self {
        Self(all(folder).join(file_prefix))
    }

    /// Where they are.
    #[cfg(test)]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Marks an interface; to be called before it is set down.
    ///
    /// # Errors
    /// If the file can't be made.
    pub fn set(&self, interface: &str) -> anyhow::Result<()> {
        let file = self.0.join(interface);
        let made = fs::create_dir_all(&self.0).and_then(|()| fs::write(&file, ""));
        made.with_context(|| format!("can't make {}", file.display()))
    }

    /// Removes the mark of an interface that is up again.
    pub fn clear(&self, interface: &str) {
        // Who has none needs none removed.
        let _ = fs::remove_file(self.0.join(interface));
    }

    /// Sets up every interface that is marked, and removes the marks. One that is gone needs nothing.
    ///
    /// # Errors
    /// The folder that can't be read, or every interface that stays down, in one line.
    pub fn release(&self, raise: impl Fn(&str) -> io::Result<()>) -> anyhow::Result<Vec<String>> {
        let (mut raised, mut faults) = (Vec::new(), Vec::new());
        for interface in names(&self.0)? {
            match raise(&interface) {
                Ok(()) => raised.push(interface.clone()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    faults.push(format!(
                        "{interface} stays down: {error}; as root: ip link set {interface} up"
                    ));
                    continue;
                }
            }
            self.clear(&interface);
        }
        // It stays while there is something in it.
        let _ = fs::remove_dir(&self.0);
        anyhow::ensure!(faults.is_empty(), "{}", faults.join("; "));
        Ok(raised)
    }
}

/// Sets up the interfaces that killed gateways held down, and returns their names. An interface that a running gateway holds down
/// stays down.
///
/// # Errors
/// As [`Marks::release`], of all gateways in one line.
pub fn release(folder: &Path) -> anyhow::Result<Vec<String>> {
    let (mut raised, mut faults) = (Vec::new(), Vec::new());
    for file_prefix in names(&all(folder))? {
        let released = match Instance::claim(&file_prefix, Purpose::ForAMoment) {
            Ok(None) => continue,
            Ok(Some(_instance)) => Marks::of(folder, &file_prefix).release(raise_interface),
            Err(error) => Err(error).context(format!("can't tell whether {file_prefix} runs")),
        };
        match released {
            Ok(names) => raised.extend(names),
            Err(error) => faults.push(format!("{error:#}")),
        }
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("; "));
    Ok(raised)
}

/// The marks of all gateways in the network namespace of this process.
fn all(folder: &Path) -> PathBuf {
    let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |file| file.ino());
    folder.join("held-links").join(namespace.to_string())
}

/// The names of the entries of a folder, sorted; none if the folder does not exist.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let read = |entries: ReadDir| -> io::Result<Vec<_>> {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    match fs::read_dir(folder).and_then(read) {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            anyhow::bail!("can't read {}: only root may", folder.display())
        }
        Err(error) => anyhow::bail!("can't read {}: {error}", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn what_is_marked_is_raised_once() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = format!("held-{}", std::process::id());
        let (marks, other) = (Marks::of(folder.path(), &prefix), Marks::of(folder.path(), "other"));
        let asked = RefCell::new(Vec::new());
        let raise = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            match name {
                "gone0" => Err(io::ErrorKind::NotFound.into()),
                "mine0" => Err(io::ErrorKind::PermissionDenied.into()),
                _ => Ok(()),
            }
        };
        assert!(marks.release(raise).unwrap().is_empty());
        for name in ["eth1", "eth2", "gone0", "mine0"] {
            marks.set(name).unwrap();
        }
        marks.clear("eth2");
        other.set("eth3").unwrap();
        let error = marks.release(raise).unwrap_err().to_string();
        assert_eq!(error, "mine0 stays down: permission denied; as root: ip link set mine0 up");
        assert_eq!(asked.take(), ["eth1", "gone0", "mine0"]);
        // Only what failed is tried again.
        assert!(marks.release(raise).is_err());
        assert_eq!(asked.take(), ["mine0"]);
        marks.clear("mine0");
        assert!(marks.release(raise).unwrap().is_empty());
        assert_eq!(other.release(raise).unwrap(), ["eth3"]);
    }

    /// No interface has such a name, so that none is touched.
    #[test]
    fn what_a_gateway_holds_that_runs_stays_down() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = format!("runs-{}", std::process::id());
        let marks = Marks::of(folder.path(), &prefix);
        assert!(release(folder.path()).unwrap().is_empty());
        marks.set("no interface").unwrap();
        let running = Instance::claim(&prefix, Purpose::ToRun).unwrap();
        assert!(running.is_some());
        assert!(release(folder.path()).unwrap().is_empty());
        assert_eq!(names(&marks.0).unwrap(), ["no interface"]);
        drop(running);
        assert!(release(folder.path()).unwrap().is_empty());
        assert!(names(&all(folder.path())).unwrap().is_empty());
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("held-links")).unwrap();
        fs::write(all(folder.path()), "").unwrap();
        let error = release(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("can't read ") && error.contains("held-links"), "{error}");
    }
}
