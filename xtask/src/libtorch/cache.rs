//! The folder in the user's cache that all clones share, and the lock that keeps two of them apart.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::VERSION;

/// Where libtorch lives, and beside it what is only there while it is being obtained.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache of this user: `$XDG_CACHE_HOME/veilsum`, else `~/.cache/veilsum`.
    ///
    /// # Errors
    /// When neither `XDG_CACHE_HOME` nor `HOME` is set to an absolute path.
    pub(crate) fn of_user() -> Result<Self> {
        let absolute = |name| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .context("no place for the cache: set HOME or XDG_CACHE_HOME to an absolute path")?;
        Ok(Self::at(base.join("veilsum")))
    }

    /// A cache at a folder of the caller's choice.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The finished libtorch.
    pub(crate) fn libtorch(&self) -> PathBuf {
        self.root.join(format!("libtorch-{VERSION}-cpu"))
    }

    /// Wheels and part files.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.root.join(format!("libtorch-{VERSION}-cpu.download"))
    }

    /// Where the wheels are unpacked before the folder takes its name.
    pub(crate) fn unpacking(&self) -> PathBuf {
        self.root.join(format!("libtorch-{VERSION}-cpu.unpacking"))
    }

    /// Waits until this process is the only one that writes here. The system drops the lock when the process
    /// ends, however it ends.
    ///
    /// # Errors
    /// When the folder or the lock file cannot be made.
    pub(crate) fn lock(&self) -> Result<Lock> {
        fs::create_dir_all(&self.root).with_context(|| format!("cannot make {}", self.root.display()))?;
        let path = self.root.join(format!("libtorch-{VERSION}-cpu.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!(
                    "waiting: another clone is obtaining libtorch ({})",
                    path.display()
                );
                file.lock()
                    .with_context(|| format!("cannot lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(Lock { _file: file })
    }
}

/// Held while a process changes the cache.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Removes a file or folder that may not be there.
///
/// # Errors
/// When it is there and stays.
pub(crate) fn clear(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("deep/cache"));
        let held = cache.lock().unwrap();
        let entered = AtomicBool::new(false);
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let _lock = cache.lock().unwrap();
                entered.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(200));
            assert!(
                !entered.load(Ordering::SeqCst),
                "entered while the first held the lock"
            );
            drop(held);
            second.join().unwrap();
        });
        assert!(entered.load(Ordering::SeqCst));
    }
}
