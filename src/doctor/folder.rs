//! Folders that are written to later.

use super::Sheet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What can be said of a state folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Made at the first start.
    New,
    /// Left by an earlier run.
    Used,
    /// A process runs on it.
    Locked,
    /// Not usable.
    Unusable,
}

/// Whether a state folder can be written and nobody runs on it.
pub(super) fn state(sheet: &mut Sheet, path: &Path) -> State {
    if !writable(sheet, CHECK, path) {
        return State::Unusable;
    }
    if !path.exists() {
        sheet.ok(
            CHECK,
            format!("{} will be made at the first start", path.display()),
        );
        return State::New;
    }
    let lock = path.join("lock");
    match File::open(&lock).map(|file| file.try_lock()) {
        Ok(Err(TryLockError::WouldBlock)) => {
            sheet.wrong(
                CHECK,
                format!("another process runs on {}", path.display()),
                "stop it before you start another; one process per state folder",
            );
            return State::Locked;
        }
        Ok(Err(TryLockError::Error(error))) => {
            sheet.wrong(
                CHECK,
                format!("{} cannot be locked: {error}", lock.display()),
                MEND,
            );
            return State::Unusable;
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            sheet.wrong(
                CHECK,
                format!("{} cannot be opened: {error}", lock.display()),
                MEND,
            );
            return State::Unusable;
        }
        Ok(Ok(())) | Err(_) => {}
    }
    State::Used
}

/// Whether files can be made in a folder, or in the nearest one above it that exists. A line only if not.
pub(super) fn writable(sheet: &mut Sheet, check: &'static str, path: &Path) -> bool {
    let mut there: PathBuf = path.to_path_buf();
    while !there.exists() && there.pop() {}
    if there.as_os_str().is_empty() {
        there = PathBuf::from(".");
    }
    let fault = if there.is_dir() {
        probe(&there).err().map(|error| error.to_string())
    } else {
        Some("it is not a folder".to_owned())
    };
    if let Some(fault) = &fault {
        sheet.wrong(
            check,
            format!("cannot write in {}: {fault}", there.display()),
            MEND,
        );
    }
    fault.is_none()
}

/// Makes a file and takes it away again.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".veilsum-doctor-{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, b"probe"));
    let gone = fs::remove_file(&path);
    written.and(gone)
}

pub(super) const CHECK: &str = "state folder";
const MEND: &str = "give the folder to the user that runs veilsum, and check free space";
