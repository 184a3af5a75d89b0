//! `[watch]`: where the server can be looked at.

use super::ConfigError;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The page, the metrics and the health of a server, for reading only. Off where the section is left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchConfig {
    /// TCP address to answer on, in plain HTTP. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Must be true for an address that others can reach: whoever can reads how the federation goes.
    #[serde(default)]
    pub public: bool,
    /// Names, besides `localhost` and IP addresses, that requests may call this server by.
    #[serde(default)]
    pub hosts: Vec<String>,
}

impl WatchConfig {
    /// Whether it may be opened.
    ///
    /// # Errors
    /// [`ConfigError::Value`]: an address others can reach that is not meant to be, or a name that is none.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.listen.ip().is_loopback() && !self.public {
            return Err(ConfigError::Value {
                key: "watch.listen",
                reason: format!(
                    "others can reach {}: take 127.0.0.1, and a tunnel or proxy that asks who is there, or say `public = true`",
                    self.listen.ip()
                ),
            });
        }
        let name = |host: &String| {
            !host.is_empty()
                && host.len() <= 253
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        };
        match self.hosts.iter().find(|host| !name(host)) {
            None => Ok(()),
            Some(host) => Err(ConfigError::Value {
                key: "watch.hosts",
                reason: format!(
                    "`{}` is no host name: letters, digits, hyphens and dots, without scheme and port",
                    host.escape_debug()
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<String> {
        let config: WatchConfig = toml::from_str(text).unwrap();
        config.check().err().map(|error| error.to_string())
    }

    #[test]
    fn only_loopback_unless_said_otherwise() {
        for fine in [
            "listen = \"127.0.0.1:9464\"",
            "listen = \"127.9.9.9:0\"",
            "listen = \"[::1]:9464\"",
            "listen = \"0.0.0.0:9464\"\npublic = true",
            "listen = \"192.0.2.1:1\"\npublic = true\nhosts = [\"watch.example.org\", \"srv-1\"]",
        ] {
            assert_eq!(fault(fine), None, "{fine}");
        }
        for open in [
            "0.0.0.0:9464",
            "[::]:9464",
            "192.0.2.1:9464",
            "[::ffff:192.0.2.1]:1",
        ] {
            let said = fault(&format!("listen = \"{open}\"")).unwrap();
            assert!(
                said.starts_with("setting `watch.listen`: others can reach"),
                "{said}"
            );
            assert!(said.contains("public = true"), "{said}");
        }
        for host in ["http://a", "a:80", "", "a b", "ä"] {
            let said = fault(&format!("listen = \"127.0.0.1:1\"\nhosts = [\"{host}\"]")).unwrap();
            assert!(said.starts_with("setting `watch.hosts`"), "{said}");
        }
    }
}
