//! A witness's signing key: a file of 64 hexadecimal characters that only its owner can read.

use rand_core::CryptoRng;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use veilsum_crypto::{Digest, Identity};
use zeroize::Zeroizing;

/// Reads the key, or makes one where there is no file. Says whether it was made.
///
/// # Errors
/// [`KeyError`] naming the file.
pub fn witness_key<R: CryptoRng + ?Sized>(path: &Path, rng: &mut R) -> Result<(Identity, bool), KeyError> {
    let io = |error| KeyError::Io {
        path: path.to_path_buf(),
        error,
    };
    let bad = || KeyError::Contents(path.to_path_buf());
    let text = match std::fs::read_to_string(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok((make(path, rng).map_err(io)?.ok_or_else(bad)?, true));
        }
        Err(error) => return Err(io(error)),
    };
    let mode = std::fs::metadata(path).map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Mode {
            path: path.to_path_buf(),
            mode,
        });
    }
    let seed = Zeroizing::new(Digest::from_hex(text.trim_end()).ok_or_else(bad)?.0);
    Ok((Identity::from_seed(&seed).map_err(|_| bad())?, false))
}

fn make<R: CryptoRng + ?Sized>(path: &Path, rng: &mut R) -> std::io::Result<Option<Identity>> {
    let Ok(identity) = Identity::generate(rng) else {
        return Ok(None);
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = Zeroizing::new(hex::encode(identity.expose_seed()));
    text.push('\n');
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(Some(identity))
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The disk.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not a key.
    #[error("{} is not a signing key (64 hexadecimal characters)", .0.display())]
    Contents(PathBuf),
    /// Readable by others.
    #[error("{path} holds a secret and has mode {mode:o}: others can read it. Run `chmod 600 {path}`", path = path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}
