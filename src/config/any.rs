//! A configuration file of either role.

use super::{ClientConfig, ConfigError, Located, ServerConfig, read_text, toml_error};
use std::path::{Path, PathBuf};
use toml::Table;

/// A server's or a client's file.
#[derive(Clone, Debug)]
pub struct AnyConfig {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its settings.
    pub role: Role,
}

/// The settings by role.
#[derive(Clone, Debug)]
pub enum Role {
    /// Of `server.toml`.
    Server(Box<Located<ServerConfig>>),
    /// Of `client.toml`.
    Client(Box<Located<ClientConfig>>),
}

impl AnyConfig {
    /// Reads a file, or the `server.toml` or `client.toml` of a folder. Which of the two a file is follows from its keys.
    ///
    /// # Errors
    /// [`ConfigError`] as for [`Located::read`], or [`ConfigError::Role`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let path = file_in(path)?;
        let text = read_text(&path)?;
        let keys: Table = toml::from_str(&text).map_err(|error| toml_error(&path, &text, &error))?;
        let count = |names: &[&str]| names.iter().filter(|name| keys.contains_key(**name)).count();
        let (server, client) = (count(&SERVER_KEYS), count(&CLIENT_KEYS));
        let role = match server.cmp(&client) {
            std::cmp::Ordering::Greater => Role::Server(Box::new(Located::read(&path)?)),
            std::cmp::Ordering::Less => Role::Client(Box::new(Located::read(&path)?)),
            std::cmp::Ordering::Equal => {
                return Err(ConfigError::Role {
                    path: path.display().to_string(),
                });
            }
        };
        Ok(Self { path, text, role })
    }
}

fn file_in(path: &Path) -> Result<PathBuf, ConfigError> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    ["server.toml", "client.toml"]
        .iter()
        .map(|name| path.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| ConfigError::Role {
            path: path.display().to_string(),
        })
}

/// Keys at the top of `server.toml` that `client.toml` has not.
const SERVER_KEYS: [&str; 6] = [
    "listen",
    "initial_model",
    "witnesses",
    "bundle",
    "round",
    "deadlines",
];

/// The other way round.
const CLIENT_KEYS: [&str; 8] = [
    "client",
    "server",
    "server_name",
    "give_up_after_s",
    "floors",
    "learner",
    "training",
    "data",
];
