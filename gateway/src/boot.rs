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

/// The finding of `--check` about `file`, which stays unchanged: one sentence, and whether it is
/// a warning.
pub fn check(file: &Path) -> (String, bool) {
    let may_write = match file.try_exists() {
        Ok(true) => File::options().append(true).open(file).map(drop),
        Ok(false) => may_create(file),
        Err(error) => Err(error),
    };
    match (last(file), may_write) {
        (Err(problem), _) => (problem, true),
        (_, Err(error)) => (cant_keep(file, &error), true),
        (Ok(BootId::NONE), Ok(())) => {
            (format!("The boot id will be kept in {}.", file.display()), false)
        }
        (Ok(last), Ok(())) => {
            (format!("The boot id is kept in {}; the last was {last}.", file.display()), false)
        }
    }
}

fn may_create(file: &Path) -> io::Result<()> {
    let folder = folder(file);
    if folder.is_dir() { Ok(()) } else { Err(io::Error::from(ErrorKind::NotFound)) }
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
        assert!(check(&file).0.ends_with("the last was 2000."), "{:?}", check(&file));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn without_a_file_it_is_the_clock_and_a_warning() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("none").join("boot");
        let Boot { id, warning } = next(&file, 700);
        assert_eq!(id.0, 700);
        assert!(warning.is_some_and(|text| text.starts_with("can't keep the boot id in /")));
        assert!(check(&file).1, "it is said before, too");
    }

    #[test]
    fn a_file_that_says_something_else_is_replaced() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("boot");
        fs::write(&file, "yesterday\n").unwrap();
        assert!(check(&file).1);
        let Boot { id, warning } = next(&file, 700);
        assert_eq!(id.0, 700);
        assert!(warning.is_some_and(|text| text.contains("holds no boot id")));
        assert_eq!(next(&file, 600), Boot { id: BootId(701), warning: None });
    }
}
