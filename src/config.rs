//! Configuration: one TOML file per role. Unknown keys are refused with the line; paths are relative to the file.

mod any;
mod client;
mod data;
mod mistake;
mod resolved;
mod server;
mod watch;

pub use any::{AnyConfig, Role};
pub use client::{
    ClientConfig, FloorConfig, LearnerConfig, LearnerKind, NetworkName, NetworkSize, TrainingConfig,
};
pub use data::{DataConfig, DataLoadError, Frames, KittiConfig, Loaded, M3edConfig, NyuConfig, NyuMatConfig};
pub use resolved::{Origin, Resolved, Setting};
pub use server::{ClusterList, DeadlineConfig, RoundConfig, ServerConfig};
pub use watch::WatchConfig;

use crate::genesis::Trust;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use veilsum_crypto::{Digest, Identity, PublicIdentity};
use zeroize::Zeroizing;

/// Whom the party trusts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustConfig {
    /// The federation's name.
    pub federation: String,
    /// The authority's signing key, 64 hexadecimal characters, told out of band.
    pub authority: String,
}

impl TrustConfig {
    /// The checked form.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for a key that is not 64 hexadecimal characters.
    pub fn trust(&self) -> Result<Trust, ConfigError> {
        let key = Digest::from_hex(&self.authority).ok_or(ConfigError::Value {
            key: "trust.authority",
            reason: "it must be 64 hexadecimal characters".into(),
        })?;
        Ok(Trust {
            federation: self.federation.clone(),
            authority: PublicIdentity(key.0),
        })
    }
}

/// Where a party's TLS files are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM; readable by its owner only.
    pub key: PathBuf,
    /// The consortium's certificate authority, PEM. System authorities are never used.
    pub authority: PathBuf,
}

/// What an auditor is told out of band.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditorConfig {
    /// Whom to trust.
    pub trust: AuditorTrust,
}

/// Whom an auditor trusts, and what was agreed on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditorTrust {
    /// The federation's name.
    pub federation: String,
    /// The authority's signing key, 64 hexadecimal characters.
    pub authority: String,
    /// C2SP policy file of the witnesses whose quorum the last head must carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<PathBuf>,
    /// Published rounds for which masked vectors are kept, where the policy sets no window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_rounds: Option<u64>,
}

impl AuditorTrust {
    /// The name and the key.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for a key that is none.
    pub fn trust(&self) -> Result<Trust, ConfigError> {
        TrustConfig {
            federation: self.federation.clone(),
            authority: self.authority.clone(),
        }
        .trust()
    }
}

/// A configuration file and where it was found.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The settings.
    pub settings: T,
    base: PathBuf,
}

impl<T: DeserializeOwned> Located<T> {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`]: unreadable, not TOML, an unknown key or a wrong type, with the line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path)?;
        let settings = toml::from_str(&text).map_err(|error| toml_error(path, &text, &error))?;
        let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(Self { settings, base })
    }
}

impl<T> Located<T> {
    /// A path of the settings, relative to their file.
    #[must_use]
    pub fn path(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    /// The bytes of a file named in the settings.
    ///
    /// # Errors
    /// [`ConfigError::Io`] naming the file.
    pub fn bytes(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
        let path = self.path(path);
        std::fs::read(&path)
            .map(Zeroizing::new)
            .map_err(|error| ConfigError::Io {
                path: path.display().to_string(),
                error,
            })
    }

    /// A secret file: refused when others could read it.
    ///
    /// # Errors
    /// [`ConfigError::Permissions`] or [`ConfigError::Io`].
    pub fn secret(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
        use std::os::unix::fs::PermissionsExt;
        let full = self.path(path);
        let shown = || full.display().to_string();
        let meta = std::fs::metadata(&full).map_err(|error| ConfigError::Io { path: shown(), error })?;
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(ConfigError::Permissions { path: shown(), mode });
        }
        self.bytes(path)
    }

    /// A signing key file: 64 hexadecimal characters and a newline.
    ///
    /// # Errors
    /// [`ConfigError`] as for [`Located::secret`], or for other contents.
    pub fn identity(&self, path: &Path) -> Result<Identity, ConfigError> {
        let bytes = self.secret(path)?;
        let bad = || ConfigError::Value {
            key: "key",
            reason: format!(
                "{} is not a signing key (64 hexadecimal characters)",
                self.path(path).display()
            ),
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| bad())?;
        let seed = Zeroizing::new(Digest::from_hex(text.trim_end()).ok_or_else(bad)?.0);
        Identity::from_seed(&seed).map_err(|_| bad())
    }

    /// The TLS files: certificate chain, key, authority.
    ///
    /// # Errors
    /// As [`Located::secret`].
    pub fn tls(
        &self,
        tls: &TlsConfig,
    ) -> Result<(veilsum_transport::TlsIdentity, veilsum_transport::TrustRoots), ConfigError> {
        let certificate = self.bytes(&tls.certificate)?;
        let key = self.secret(&tls.key)?;
        let authority = self.bytes(&tls.authority)?;
        let identity = veilsum_transport::TlsIdentity::from_pem(&certificate, &key)?;
        let roots = veilsum_transport::TrustRoots::from_pem(&authority)?;
        Ok((identity, roots))
    }
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| ConfigError::Io {
        path: path.display().to_string(),
        error,
    })
}

fn toml_error(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError::Toml {
        path: path.display().to_string(),
        error: mistake::explain(text, error),
    }
}

/// Why a configuration is refused. Always before any work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Not TOML, an unknown key, or a wrong type.
    #[error("{path}: {error}")]
    Toml {
        /// Which file.
        path: String,
        /// What and where, with the line.
        error: String,
    },
    /// Neither a server's nor a client's.
    #[error(
        "{path} is neither a server's nor a client's configuration; name a `server.toml` or a `client.toml`"
    )]
    Role {
        /// Which file or folder.
        path: String,
    },
    /// A value that cannot be.
    #[error("setting `{key}`: {reason}")]
    Value {
        /// Which key.
        key: &'static str,
        /// Why, and what would do.
        reason: String,
    },
    /// A secret that others can read.
    #[error("{path} holds a secret and has mode {mode:o}: others can read it. Run `chmod 600 {path}`")]
    Permissions {
        /// Which file.
        path: String,
        /// Its mode.
        mode: u32,
    },
    /// A TLS file that does not hold.
    #[error(transparent)]
    Transport(#[from] veilsum_transport::TransportError),
}
