//! Every setting of a file with its value and where that comes from. Printed as TOML, it can be read again.

use super::{AnyConfig, ConfigError, DataConfig, Role, mistake};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// A file's settings, in the order of the documentation.
#[derive(Clone, Debug, Serialize)]
pub struct Resolved {
    schema: &'static str,
    file: String,
    role: &'static str,
    settings: Vec<Setting>,
}

/// One setting.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Its section and name, as `round.wait_for`.
    pub key: String,
    /// Its value; none for a setting that is left out and has no value to show.
    pub value: Option<Value>,
    /// Where the value comes from.
    pub origin: Origin,
    /// The file's line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The file or folder that a path comes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it means that it is left out, or why it is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The file says it.
    File,
    /// The file leaves it out.
    Default,
}

impl Resolved {
    /// The settings of a file.
    ///
    /// # Errors
    /// [`ConfigError::Toml`]; a file that was read has none.
    pub fn of(config: &AnyConfig) -> Result<Self, ConfigError> {
        let fault = |error: String| ConfigError::Toml {
            path: config.path.display().to_string(),
            error,
        };
        let (role, plain, unset) = match &config.role {
            Role::Server(located) => (
                "server",
                toml::to_string(&located.settings),
                SERVER_UNSET.to_vec(),
            ),
            Role::Client(located) => {
                let mut unset = CLIENT_UNSET.to_vec();
                match located.settings.data {
                    DataConfig::Folder { .. } => unset.extend_from_slice(&FOLDER_UNSET),
                    DataConfig::FleetFolder { .. } => unset.extend_from_slice(&FLEET_UNSET),
                    DataConfig::Kitti(_) => unset.extend(KITTI_UNSET.iter().chain(&LISTED_UNSET)),
                    DataConfig::Nyu(_) => unset.extend(NYU_UNSET.iter().chain(&LISTED_UNSET)),
                    DataConfig::NyuMat(_) => unset.extend(NYU_MAT_UNSET.iter().chain(&READ_UNSET)),
                    DataConfig::M3ed(_) => unset.extend(M3ED_UNSET.iter().chain(&READ_UNSET)),
                    DataConfig::Generated { .. } | DataConfig::GeneratedFleet { .. } => {}
                }
                ("client", toml::to_string(&located.settings), unset)
            }
        };
        let plain = plain.map_err(|error| fault(error.to_string()))?;
        let lines = lines(&config.text).map_err(|error| fault(error.to_string()))?;
        let base = config.path.parent().unwrap_or(Path::new(""));
        let mut settings: Vec<Setting> = pairs(&plain)
            .into_iter()
            .map(|(key, value)| setting(key, value, &lines, base))
            .collect();
        for (key, note) in unset {
            if settings.iter().all(|setting| setting.key != key) {
                settings.push(Setting {
                    key: key.to_owned(),
                    value: None,
                    origin: Origin::Default,
                    line: None,
                    path: None,
                    note: Some(note),
                });
            }
        }
        // What is left out stands with its section.
        let rank: BTreeMap<String, usize> = settings
            .iter()
            .enumerate()
            .rev()
            .map(|(at, setting)| (section(&setting.key).to_owned(), at))
            .collect();
        settings.sort_by_key(|setting| rank.get(section(&setting.key)).copied());
        Ok(Self {
            schema: SCHEMA,
            file: config.path.display().to_string(),
            role,
            settings,
        })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
}

fn setting(key: String, value: Value, lines: &BTreeMap<String, usize>, base: &Path) -> Setting {
    let line = lines.get(&key).copied();
    let is_path = PATHS.contains(&key.as_str());
    let hidden = is_path && value.as_str().is_some_and(is_secret);
    Setting {
        path: value
            .as_str()
            .filter(|_| is_path && !hidden)
            .map(|path| base.join(path).display().to_string()),
        note: hidden.then_some(
            "not shown: this looks like a key itself; put it into a file of mode 600 and name the file",
        ),
        value: Some(value).filter(|_| !hidden),
        origin: if line.is_some() {
            Origin::File
        } else {
            Origin::Default
        },
        line,
        key,
    }
}

/// Whether a path is no path but a secret that was pasted in its place.
fn is_secret(text: &str) -> bool {
    text.contains("PRIVATE KEY") || (text.len() >= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn section(key: &str) -> &str {
    key.split_once('.').map_or("", |(section, _)| section)
}

fn name(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, name)| name)
}

/// Keys and values of a text that the serializer wrote, in its order.
fn pairs(text: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let (mut section, mut open) = (String::new(), String::new());
    for line in text.lines() {
        if open.is_empty()
            && let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        {
            section = format!("{name}.");
            continue;
        }
        // A string may go over several lines.
        open.push_str(line);
        open.push('\n');
        if let Ok(table) = toml::from_str::<Table>(&open) {
            found.extend(
                table
                    .into_iter()
                    .map(|(key, value)| (format!("{section}{key}"), value)),
            );
            open.clear();
        }
    }
    found
}

/// The line of each key in a file.
fn lines(text: &str) -> Result<BTreeMap<String, usize>, toml::de::Error> {
    fn walk(table: &DeTable<'_>, section: &str, text: &str, into: &mut BTreeMap<String, usize>) {
        for (key, value) in table {
            let name = format!("{section}{}", key.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                walk(inner, &format!("{name}."), text, into);
            } else {
                let (line, _) = mistake::line_and_column(text, key.span().start);
                into.insert(name, line);
            }
        }
    }
    let mut into = BTreeMap::new();
    walk(DeTable::parse(text)?.get_ref(), "", text, &mut into);
    Ok(into)
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {} ({})", self.file, self.role)?;
        let mut open = "";
        for setting in &self.settings {
            if section(&setting.key) != open {
                open = section(&setting.key);
                writeln!(f, "\n[{open}]")?;
            }
            let Some(value) = &setting.value else {
                let note = setting.note.unwrap_or_default();
                let origin = setting
                    .line
                    .map_or("not set".to_owned(), |line| format!("line {line}"));
                writeln!(f, "# {}  {origin}: {note}", name(&setting.key))?;
                continue;
            };
            let origin = setting
                .line
                .map_or("default".to_owned(), |line| format!("line {line}"));
            write!(
                f,
                "{:<40}  # {origin}",
                format!("{} = {value}", name(&setting.key))
            )?;
            match &setting.path {
                Some(path) => writeln!(f, ": {path}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

const SCHEMA: &str = "veilsum-config/1";

/// Settings that name a file or folder.
const PATHS: [&str; 14] = [
    "policy",
    "key",
    "state",
    "initial_model",
    "witnesses",
    "bundle",
    "tls.certificate",
    "tls.key",
    "tls.authority",
    "data.path",
    "data.depth",
    "data.train_list",
    "data.test_list",
    "data.splits",
];

const SERVER_UNSET: [(&str, &str); 3] = [
    ("witnesses", "no witness has to cosign before a round starts"),
    ("round.clusters", "the policy clusters clients by their data"),
    (
        "watch",
        "no page and no metrics: a section [watch] with `listen` opens them",
    ),
];

const CLIENT_UNSET: [(&str, &str); 3] = [
    ("floors.max_epsilon", "descriptors may cost any epsilon"),
    (
        "learner.personal",
        "`camera-embeddings` for bird's-eye views; depth networks do not use it",
    ),
    ("watch", "no metrics: a section [watch] with `listen` opens them"),
];

const FLEET_UNSET: [(&str, &str); 2] = [("data.cameras", "all cameras"), ("data.max_frames", "all frames")];

const FOLDER_UNSET: [(&str, &str); 4] = [
    ("data.scale", "the folder's meta.json says it"),
    ("data.on_fault", "`refuse`: one unreadable frame ends the start"),
    ("data.max_frames", "all frames"),
    ("data.memory_limit_mib", "2048"),
];

const LISTED_UNSET: [(&str, &str); 7] = [
    ("data.train_list", "every frame of data.sequences"),
    (
        "data.test_list",
        "every frame of data.test_sequences; no test frames without either",
    ),
    ("data.sequences", "every line of data.train_list"),
    ("data.test_sequences", "every line of data.test_list"),
    ("data.on_fault", "`refuse`: one unreadable frame ends the start"),
    ("data.max_frames", "all frames"),
    ("data.memory_limit_mib", "2048"),
];

const READ_UNSET: [(&str, &str); 3] = [
    ("data.on_fault", "`refuse`: one unreadable frame ends the start"),
    ("data.max_frames", "all frames"),
    ("data.memory_limit_mib", "2048"),
];

const NYU_MAT_UNSET: [(&str, &str); 4] = [
    ("data.sequences", "all training frames"),
    ("data.test_sequences", "all test frames"),
    (
        "data.crop",
        "true: training frames of 565 x 427, test depths in Eigen's mask",
    ),
    ("data.dense", "false: measured depths"),
];

const M3ED_UNSET: [(&str, &str); 4] = [
    ("data.sequences", "no training frames"),
    ("data.test_sequences", "no test frames"),
    ("data.camera", "`rgb`"),
    ("data.view", "`camera`"),
];

const KITTI_UNSET: [(&str, &str); 3] = [
    ("data.crop", "true: 1216 x 352"),
    ("data.mask", "`garg`"),
    (
        "data.mask_before_crop",
        "false: the mask is laid on the cut depth map",
    ),
];

const NYU_UNSET: [(&str, &str); 2] = [
    (
        "data.crop",
        "true: training frames of 565 x 427, test depths in Eigen's mask",
    ),
    ("data.dense", "false: measured depth maps"),
];
