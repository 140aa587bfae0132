//! The boot id: the number of this run of the box.
//!
//! Peers drop the messages of an incarnation that is older than one they know. So the boot id has
//! to grow from start to start, also when the clock was set back meanwhile: it is kept in a
//! file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use common::control::BootId;

/// The boot id of a start, and a warning for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boot {
    /// The boot id.
    pub id: BootId,
    /// In one sentence, why the next one may not be larger.
    pub warning: Option<String>,
}

/// The boot id of this start: larger than the one in `file`, and no less than `clock`, the
/// wall clock in nanoseconds. It is written to `file`. Never fails: a file that can't be read or
/// written is a warning (R-PEER-16).
pub fn next(file: &Path, clock: u64) -> Boot {
    let (last, odd) = match last(file) {
        Ok(last) => (last, None),
        Err(problem) => (BootId::NONE, Some(problem)),
    };
    let id = last.next().max(BootId(clock));
    let unwritten = write(file, id).err().map(|error| cant_keep(file, &error));
    Boot { id, warning: unwritten.or(odd) }
}

/// A finding about the file, in one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The boot id is kept.
    Kept(String),
    /// The boot id can be kept from the next start on, or if the folder is made until then, as systemd makes it.
    Warning(String),
    /// The boot id can't be kept: the folder is there, and takes no file.
    Fault(String),
}

/// The finding of `--check` about `file`, which stays unchanged. A file beside it is made and removed.
pub fn check(file: &Path) -> Finding {
    match (last(file), probe(file)) {
        (_, Err(error)) if !folder(file).exists() => Finding::Warning(cant_keep(file, &error)),
        (_, Err(error)) => Finding::Fault(cant_keep(file, &error)),
        (Err(problem), Ok(())) => Finding::Warning(problem),
        (Ok(BootId::NONE), Ok(())) => {
            Finding::Kept(format!("The boot id will be kept in {}.", file.display()))
        }
        (Ok(last), Ok(())) => Finding::Kept(format!(
            "The boot id is kept in {}; the last was {last}.",
            file.display()
        )),
    }
}

/// Does what a start does with the file, under another name.
fn probe(file: &Path) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".check.{}", std::process::id()));
    let probe = folder(file).join(name);
    let written = File::create(&probe).and_then(|mut probe| {
        writeln!(probe, "{}", u64::MAX)?;
        probe.sync_all()
    });
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

/// The folder that a file is in.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn cant_keep(file: &Path, error: &io::Error) -> String {
    format!(
        "can't keep the boot id in {} ({error}): should the clock be set back, peers ignore this \
         box until it has caught up; make its folder writable, or name another file in \
         peer.boot_file",
        file.display()
    )
}

/// The last boot id; 0 if there was none. `Err`: the fault of the file.
fn last(file: &Path) -> Result<BootId, String> {
    match fs::read_to_string(file) {
        Ok(text) => text.trim().parse().map(BootId).map_err(|_| {
            format!(
                "{} holds no boot id (a number): should the clock have been set back, peers \
                 ignore this box until it has caught up",
                file.display()
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BootId::NONE),
        Err(error) => Err(cant_keep(file, &error)),
    }
}

/// Whole, or not at all.
fn write(file: &Path, id: BootId) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = folder(file).join(name);
    let written = File::create(&new).and_then(|mut new| {
        writeln!(new, "{id}")?;
        new.sync_all()
    });
    written.and_then(|()| fs::rename(&new, file)).inspect_err(|_| _ = fs::remove_file(&new))
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    // R-PEER-16
    #[test]
    fn it_grows_whatever_the_clock_does() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("boot");
        let next = |clock| {
            let Boot { id, warning } = next(&file, clock);
            assert_eq!(warning, None);
            id.0
        };
        assert_eq!(
            [next(500), next(900), next(100), next(100), next(2_000)],
            [500, 900, 901, 902, 2_000]
        );
        let Finding::Kept(text) = check(&file) else { panic!("{:?}", check(&file)) };
        assert!(text.ends_with("the last was 2000."), "{text}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn without_a_file_it_is_the_clock_and_a_warning() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("none").join("boot");
        let Boot { id, warning } = next(&file, 700);
        assert_eq!(id.0, 700);
        assert!(warning.is_some_and(|text| text.starts_with("can't keep the boot id in /")));
        assert!(matches!(check(&file), Finding::Warning(_)), "it is said before, too");
    }

    #[test]
    fn a_file_that_says_something_else_is_replaced() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("boot");
        fs::write(&file, "yesterday\n").unwrap();
        assert!(matches!(check(&file), Finding::Warning(_)));
        let Boot { id, warning } = next(&file, 700);
        assert_eq!(id.0, 700);
        assert!(warning.is_some_and(|text| text.contains("holds no boot id")));
        assert_eq!(next(&file, 600), Boot { id: BootId(701), warning: None });
    }

    /// As on a file system that is read-only or full: the folder is there.
    #[test]
    fn a_folder_that_takes_no_file_is_a_fault() {
        let finding = check(Path::new("/proc/self/lr2-boot"));
        let Finding::Fault(text) = &finding else { panic!("{finding:?}") };
        assert!(text.starts_with("can't keep the boot id in /proc/self/lr2-boot ("), "{text}");
        let full = check(Path::new("/dev/full/boot"));
        assert!(matches!(full, Finding::Fault(_)), "{full:?}");
    }
}
