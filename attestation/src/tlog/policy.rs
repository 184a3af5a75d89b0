//! Trust policies (C2SP tlog-policy): which logs and witnesses are known, and which of them must have signed a head.

use super::cosignature::CosignerKey;
use crate::note::{Note, NoteError, NoteKey, VerifyEd25519};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A policy file. Names are octets without a meaning outside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustPolicy {
    logs: Vec<LogLine>,
    witnesses: Vec<WitnessLine>,
    groups: Vec<Group>,
    quorum: Option<Vec<u8>>,
}

/// A known log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its key; the key's name is the log's origin.
    pub key: NoteKey,
    /// Where it is, for programs that fetch.
    pub url: Option<String>,
}

/// A known witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessLine {
    /// Its name in this file.
    pub name: Vec<u8>,
    /// Its key.
    pub key: CosignerKey,
    /// Its submission prefix.
    pub url: Option<String>,
}

/// A group of witnesses and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name in this file.
    pub name: Vec<u8>,
    /// Members that must have witnessed for the group to have.
    pub threshold: usize,
    /// Names of its members.
    pub members: Vec<Vec<u8>>,
}

/// What is wrong with a policy file, and on which line. The fault of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy line {line}: {fault}")]
pub struct PolicyFault {
    /// Counted from 1; one past the last line for what is missing.
    pub line: usize,
    /// What.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A control character other than tab and newline.
    #[error("octet {0:#04x} is not allowed; only tab, newline and printable text are")]
    Octet(u8),
    /// Not a line of a policy.
    #[error("a line begins with log, witness, group, quorum or #")]
    Keyword,
    /// Too few or too many items.
    #[error("it must read '{0}'")]
    Items(&'static str),
    /// A key that is none, or of another kind.
    #[error("{0}")]
    Key(NoteError),
    /// One public key on two lines.
    #[error("this public key is on an earlier line already")]
    DuplicateKey,
    /// A name on two lines, or `none`.
    #[error("the name is taken, or is 'none'")]
    Name,
    /// A threshold that is no number, 0, or more than the members.
    #[error("a threshold is 'any', 'all' or a number from 1 to the number of members")]
    Threshold,
    /// A member that is not defined above.
    #[error("'{0}' is not defined on an earlier line")]
    Unknown(String),
    /// A member of two groups, or twice of one.
    #[error("'{0}' is a member already; each name can be one once")]
    Again(String),
    /// None, or a second quorum line.
    #[error("a policy has exactly one quorum line")]
    Quorum,
    /// Too large.
    #[error("a policy has at most {MAX_LINES} lines")]
    TooLong,
}

/// A head that fulfils a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted<'p> {
    /// The log that signed.
    pub log: Option<&'p NoteKey>,
    /// The witnesses that cosigned, with their stated times, POSIX seconds.
    pub witnesses: Vec<(&'p CosignerKey, u64)>,
}

/// Why a head does not fulfil a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumError {
    /// A known key's signature does not hold, or no known log has signed.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// No log of the policy goes by the head's origin.
    #[error("no log of the policy has the origin {0:?}")]
    Origin(String),
    /// Too few witnesses.
    #[error("the head lacks the quorum '{quorum}': {have} of {known} known witnesses cosigned it")]
    Quorum {
        /// The quorum's name.
        quorum: String,
        /// Witnesses that cosigned.
        have: usize,
        /// Witnesses of the policy.
        known: usize,
    },
}

impl TrustPolicy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`PolicyFault`] with the line.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyFault> {
        let mut reader = Reader::default();
        let mut line = 0;
        for text in bytes.split(|byte| *byte == b'\n') {
            line += 1;
            if line > MAX_LINES {
                return Err(PolicyFault {
                    line,
                    fault: Fault::TooLong,
                });
            }
            reader.line(text).map_err(|fault| PolicyFault { line, fault })?;
        }
        let Some(quorum) = reader.quorum else {
            return Err(PolicyFault {
                line: line + 1,
                fault: Fault::Quorum,
            });
        };
        Ok(Self {
            logs: reader.logs,
            witnesses: reader.witnesses,
            groups: reader.groups,
            quorum: (quorum != NONE).then_some(quorum),
        })
    }

    /// The known logs.
    #[must_use]
    pub fn logs(&self) -> &[LogLine] {
        &self.logs
    }

    /// The known witnesses.
    #[must_use]
    pub fn witnesses(&self) -> &[WitnessLine] {
        &self.witnesses
    }

    /// The groups, each after its members.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether no cosignature is asked for.
    #[must_use]
    pub fn needs_none(&self) -> bool {
        self.quorum.is_none()
    }

    /// Checks a head: signed by the known log of its origin, cosigned by the quorum. Lines of unknown keys are ignored, a
    /// known key's bad line refuses the head. A policy without logs leaves the log's own signature to the caller.
    ///
    /// # Errors
    /// [`QuorumError`].
    pub fn accept(&self, note: &Note, check: &VerifyEd25519<'_>) -> Result<Accepted<'_>, QuorumError> {
        let mut log = None;
        if !self.logs.is_empty() {
            let origin = note.text().split('\n').next().unwrap_or_default();
            let own = self
                .logs
                .iter()
                .find(|line| line.key.name() == origin)
                .ok_or_else(|| QuorumError::Origin(origin.chars().take(80).collect()))?;
            note.verify(std::slice::from_ref(&own.key), check)?;
            log = Some(&own.key);
        }
        let mut cosigned = BTreeSet::new();
        let mut witnesses = Vec::new();
        for witness in &self.witnesses {
            if let Some(time) = witness.key.time_on(note, check)? {
                witnesses.push((&witness.key, time));
                cosigned.insert(witness.name.as_slice());
            }
        }
        if !self.satisfied(&cosigned) {
            return Err(QuorumError::Quorum {
                quorum: shown(self.quorum.as_deref().unwrap_or(NONE)),
                have: witnesses.len(),
                known: self.witnesses.len(),
            });
        }
        Ok(Accepted { log, witnesses })
    }

    /// Whether these witnesses, by their names in the file, make the quorum.
    #[must_use]
    pub fn satisfied(&self, witnesses: &BTreeSet<&[u8]>) -> bool {
        let Some(quorum) = self.quorum.as_deref() else {
            return true;
        };
        let mut done: BTreeSet<&[u8]> = self
            .witnesses
            .iter()
            .map(|line| line.name.as_slice())
            .filter(|name| witnesses.contains(name))
            .collect();
        // Members are defined before their group, so one pass is enough.
        for group in &self.groups {
            let have = group
                .members
                .iter()
                .filter(|member| done.contains(member.as_slice()))
                .count();
            if have >= group.threshold {
                done.insert(&group.name);
            }
        }
        done.contains(quorum)
    }
}

impl fmt::Display for TrustPolicy {
    /// The policy without comments. Octets that are no UTF-8 are shown as replacement characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = |url: &Option<String>| url.as_ref().map_or(String::new(), |url| format!(" {url}"));
        for line in &self.logs {
            writeln!(f, "log {}{}", line.key, url(&line.url))?;
        }
        for line in &self.witnesses {
            writeln!(f, "witness {} {}{}", shown(&line.name), line.key, url(&line.url))?;
        }
        for group in &self.groups {
            write!(f, "group {} {}", shown(&group.name), group.threshold)?;
            for member in &group.members {
                write!(f, " {}", shown(member))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "quorum {}", shown(self.quorum.as_deref().unwrap_or(NONE)))
    }
}

/// A policy as far as it is read.
#[derive(Default)]
struct Reader {
    logs: Vec<LogLine>,
    witnesses: Vec<WitnessLine>,
    groups: Vec<Group>,
    quorum: Option<Vec<u8>>,
    /// Names of witnesses and groups, and whether each is a member of a group already.
    names: BTreeMap<Vec<u8>, bool>,
}

impl Reader {
    fn line(&mut self, text: &[u8]) -> Result<(), Fault> {
        if let Some(octet) = text
            .iter()
            .find(|byte| **byte < b' ' && **byte != b'\t' || **byte == 0x7f)
        {
            return Err(Fault::Octet(*octet));
        }
        let items: Vec<&[u8]> = text
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|item| !item.is_empty())
            .collect();
        match items.as_slice() {
            [] => Ok(()),
            [first, ..] if first.starts_with(b"#") => Ok(()),
            [b"log", rest @ ..] => self.log(rest),
            [b"witness", rest @ ..] => self.witness(rest),
            [b"group", rest @ ..] => self.group(rest),
            [b"quorum", rest @ ..] => self.quorum(rest),
            _ => Err(Fault::Keyword),
        }
    }

    fn log(&mut self, items: &[&[u8]]) -> Result<(), Fault> {
        let (key, url) = match items {
            [key] => (key, None),
            [key, url] => (key, Some(shown(url))),
            _ => return Err(Fault::Items("log VKEY [URL]")),
        };
        let key: NoteKey = shown(key).parse().map_err(Fault::Key)?;
        if self.logs.iter().any(|line| line.key.public() == key.public()) {
            return Err(Fault::DuplicateKey);
        }
        self.logs.push(LogLine { key, url });
        Ok(())
    }

    fn witness(&mut self, items: &[&[u8]]) -> Result<(), Fault> {
        let (name, key, url) = match items {
            [name, key] => (name, key, None),
            [name, key, url] => (name, key, Some(shown(url))),
            _ => return Err(Fault::Items("witness NAME VKEY [URL]")),
        };
        let key: CosignerKey = shown(key).parse().map_err(Fault::Key)?;
        if self
            .witnesses
            .iter()
            .any(|line| line.key.public() == key.public())
        {
            return Err(Fault::DuplicateKey);
        }
        self.define(name)?;
        self.witnesses.push(WitnessLine {
            name: name.to_vec(),
            key,
            url,
        });
        Ok(())
    }

    fn group(&mut self, items: &[&[u8]]) -> Result<(), Fault> {
        let [name, threshold, members @ ..] = items else {
            return Err(Fault::Items("group NAME any|all|K MEMBER..."));
        };
        if members.is_empty() {
            return Err(Fault::Items("group NAME any|all|K MEMBER..."));
        }
        let threshold = match *threshold {
            b"any" => 1,
            b"all" => members.len(),
            number => std::str::from_utf8(number)
                .ok()
                .and_then(super::proof::decimal)
                .and_then(|number| usize::try_from(number).ok())
                .filter(|number| (1..=members.len()).contains(number))
                .ok_or(Fault::Threshold)?,
        };
        for member in members {
            match self.names.get_mut(*member) {
                None => return Err(Fault::Unknown(shown(member))),
                Some(taken) if *taken => return Err(Fault::Again(shown(member))),
                Some(taken) => *taken = true,
            }
        }
        self.define(name)?;
        self.groups.push(Group {
            name: name.to_vec(),
            threshold,
            members: members.iter().map(|member| member.to_vec()).collect(),
        });
        Ok(())
    }

    fn quorum(&mut self, items: &[&[u8]]) -> Result<(), Fault> {
        let [name] = items else {
            return Err(Fault::Items("quorum NAME"));
        };
        if self.quorum.is_some() {
            return Err(Fault::Quorum);
        }
        if *name != NONE && !self.names.contains_key(*name) {
            return Err(Fault::Unknown(shown(name)));
        }
        self.quorum = Some(name.to_vec());
        Ok(())
    }

    fn define(&mut self, name: &[u8]) -> Result<(), Fault> {
        if name == NONE || self.names.insert(name.to_vec(), false).is_some() {
            return Err(Fault::Name);
        }
        Ok(())
    }
}

fn shown(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// The quorum of nobody.
const NONE: &[u8] = b"none";

/// The text asks for 32 logs, witnesses and groups each; comments come on top.
const MAX_LINES: usize = 4096;
