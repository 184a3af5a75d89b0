//! Two heads of one log that do not fit each other, as a file a third party can check.
//!
//! Two signed heads of one size with two roots speak for themselves. For two sizes the file also holds the root the longer
//! log has at the shorter one's size, and the RFC 9162 consistency proof from it: hashes leave the longer log one root at
//! that size, and it is not the one that was signed.
//!
//! ```text
//! veilsum-fork/1
//! log VKEY
//! prefix ROOT        only for two sizes: base64
//! proof HASH         zero or more: base64
//! note LENGTH        the shorter log's head
//! ...
//! note LENGTH        the longer log's head
//! ...
//! ```

use super::cosignature::CosignerKey;
use super::proof::{decimal, hash};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::merkle::{Hash, MerkleError, Tree, empty_root, verify_consistency};
use crate::note::{Note, NoteError, NoteKey, VerifyEd25519};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::str::FromStr;

/// Evidence that the holder of one key signed two histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    key: NoteKey,
    shorter: Note,
    longer: Note,
    prefix: Option<(Hash, Vec<Hash>)>,
}

/// How two heads of a log stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One size, one root.
    Same,
    /// The longer extends the shorter.
    Extends,
    /// They do not fit.
    Forked(Box<Fork>),
    /// Two sizes, and the entries of the longer log are not at hand.
    Undecided {
        /// The size of the longer log.
        longer: u64,
    },
}

/// What is wrong with heads that are compared, or with a fork file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// A head is no note, or not signed by the log.
    #[error("{which} head: {error}")]
    Note {
        /// `the first`, `the second`.
        which: &'static str,
        /// What.
        error: NoteError,
    },
    /// A head is no checkpoint.
    #[error("{which} head: {error}")]
    Checkpoint {
        /// `the first`, `the second`.
        which: &'static str,
        /// What.
        error: CheckpointError,
    },
    /// Two logs.
    #[error("the heads are of two logs, {0:?} and {1:?}; only heads of one log can contradict each other")]
    Origins(String, String),
    /// The entries given do not hash to the head given with them.
    #[error("the entries beside the head of {0} do not hash to it")]
    Entries(u64),
    /// Not a fork file of this version, or another spelling of one.
    #[error("line {0} of the fork file is not what it must be; it was changed, or is another kind of file")]
    Malformed(usize),
    /// The heads fit, or the proof does not hold.
    #[error("the file proves nothing: {0}")]
    NoFork(&'static str),
    /// The proof cannot be made.
    #[error(transparent)]
    Merkle(#[from] MerkleError),
}

/// Compares two heads signed by the log with `key`. `tree` is the tree of either log, as far as it is at hand.
///
/// # Errors
/// [`ForkError`] when the heads are not both the log's, or a tree is not the head's.
pub fn compare(
    key: &NoteKey,
    first: (&Note, Option<&Tree>),
    second: (&Note, Option<&Tree>),
    check: &VerifyEd25519<'_>,
) -> Result<Relation, ForkError> {
    let heads = [
        signed_head("the first", first.0, key, check)?,
        signed_head("the second", second.0, key, check)?,
    ];
    for (head, (_, tree)) in heads.iter().zip([first, second]) {
        if tree.is_some_and(|tree| tree.root_at(head.size()).ok() != Some(*head.root())) {
            return Err(ForkError::Entries(head.size()));
        }
    }
    let [a, b] = &heads;
    let (short, long, tree, notes) = if a.size() <= b.size() {
        (a, b, second.1, (first.0, second.0))
    } else {
        (b, a, first.1, (second.0, first.0))
    };
    let prefix = if short.size() == long.size() {
        if short.root() == long.root() {
            return Ok(Relation::Same);
        }
        None
    } else if short.size() == 0 {
        // Every log extends the empty one, and the empty one has one root.
        if *short.root() == empty_root() {
            return Ok(Relation::Extends);
        }
        None
    } else {
        let Some(tree) = tree else {
            return Ok(Relation::Undecided { longer: long.size() });
        };
        let root = tree.root_at(short.size())?;
        if root == *short.root() {
            return Ok(Relation::Extends);
        }
        Some((root, tree.consistency_proof(short.size(), long.size())?))
    };
    Ok(Relation::Forked(Box::new(Fork {
        key: key.clone(),
        shorter: notes.0.clone(),
        longer: notes.1.clone(),
        prefix,
    })))
}

impl Fork {
    /// The key that signed both heads. Whose it is, the file cannot say: compare it with the policy's.
    #[must_use]
    pub fn key(&self) -> &NoteKey {
        &self.key
    }

    /// The two heads, the shorter log's first.
    #[must_use]
    pub fn notes(&self) -> (&Note, &Note) {
        (&self.shorter, &self.longer)
    }

    /// Checks that the two heads are signed and do not fit. Gives their numbers.
    ///
    /// # Errors
    /// [`ForkError`], with [`ForkError::NoFork`] when the heads fit or the proof does not hold.
    pub fn check(&self, check: &VerifyEd25519<'_>) -> Result<(Checkpoint, Checkpoint), ForkError> {
        let short = signed_head("the first", &self.shorter, &self.key, check)?;
        let long = signed_head("the second", &self.longer, &self.key, check)?;
        if short.size() > long.size() {
            return Err(ForkError::NoFork("the heads are in the wrong order"));
        }
        match &self.prefix {
            None if short.size() == long.size() && short.root() == long.root() => {
                Err(ForkError::NoFork("both heads are the same"))
            }
            None if short.size() == long.size() => Ok((short, long)),
            None if short.size() == 0 && *short.root() != empty_root() => Ok((short, long)),
            None => Err(ForkError::NoFork("the proof for two sizes is missing")),
            Some((root, _)) if root == short.root() => {
                Err(ForkError::NoFork("the longer log extends the shorter"))
            }
            Some((root, proof)) => {
                verify_consistency(short.size(), long.size(), proof, root, long.root())
                    .map_err(|_| ForkError::NoFork("the proof does not lead to the longer log's head"))?;
                Ok((short, long))
            }
        }
    }

    /// The witnesses among `keys` that cosigned both heads, each of which says that it saw one history only.
    #[must_use]
    pub fn cosigners<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k CosignerKey>,
        check: &VerifyEd25519<'_>,
    ) -> Vec<&'k CosignerKey> {
        let signed = |key: &CosignerKey, note| matches!(key.time_on(note, check), Ok(Some(_)));
        keys.into_iter()
            .filter(|key| signed(key, &self.shorter) && signed(key, &self.longer))
            .collect()
    }
}

fn signed_head(
    which: &'static str,
    note: &Note,
    key: &NoteKey,
    check: &VerifyEd25519<'_>,
) -> Result<Checkpoint, ForkError> {
    note.verify(std::slice::from_ref(key), check)
        .map_err(|error| ForkError::Note { which, error })?;
    let head: Checkpoint = note
        .text()
        .parse()
        .map_err(|error| ForkError::Checkpoint { which, error })?;
    if head.origin() == key.name() {
        Ok(head)
    } else {
        Err(ForkError::Origins(
            head.origin().to_owned(),
            key.name().to_owned(),
        ))
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC}\nlog {}", self.key)?;
        if let Some((root, proof)) = &self.prefix {
            writeln!(f, "prefix {}", STANDARD.encode(root))?;
            for hash in proof {
                writeln!(f, "proof {}", STANDARD.encode(hash))?;
            }
        }
        for note in [&self.shorter, &self.longer] {
            let text = note.to_string();
            write!(f, "note {}\n{text}", text.len())?;
        }
        Ok(())
    }
}

impl FromStr for Fork {
    type Err = ForkError;

    /// Reads exactly what is written. Nothing is checked but the form: call [`Fork::check`].
    fn from_str(text: &str) -> Result<Self, ForkError> {
        let mut lines = Lines { rest: text, line: 0 };
        if lines.next() != Some(MAGIC) {
            return Err(lines.malformed());
        }
        let key = lines
            .next()
            .and_then(|line| line.strip_prefix("log ")?.parse().ok())
            .ok_or_else(|| lines.malformed())?;
        let (mut prefix, mut notes) = (None, Vec::new());
        while let Some(line) = lines.next() {
            match line.split_once(' ') {
                Some(("prefix", root)) if prefix.is_none() && notes.is_empty() => {
                    prefix = Some((hash(root).ok_or_else(|| lines.malformed())?, Vec::new()));
                }
                Some(("proof", node)) if notes.is_empty() => {
                    let (_, proof): &mut (Hash, Vec<Hash>) =
                        prefix.as_mut().ok_or_else(|| lines.malformed())?;
                    if proof.len() == MAX_HASHES {
                        return Err(lines.malformed());
                    }
                    proof.push(hash(node).ok_or_else(|| lines.malformed())?);
                }
                Some(("note", length)) if notes.len() < 2 => {
                    let note = decimal(length)
                        .and_then(|length| lines.bytes(usize::try_from(length).ok()?))
                        .and_then(|bytes| Note::parse(bytes.as_bytes()).ok())
                        .ok_or_else(|| lines.malformed())?;
                    notes.push(note);
                }
                _ => return Err(lines.malformed()),
            }
        }
        let [shorter, longer] = <[Note; 2]>::try_from(notes).map_err(|_| lines.malformed())?;
        let fork = Self {
            key,
            shorter,
            longer,
            prefix,
        };
        if fork.to_string() == text {
            Ok(fork)
        } else {
            Err(lines.malformed())
        }
    }
}

struct Lines<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.line += 1;
        let (line, rest) = self.rest.split_once('\n')?;
        self.rest = rest;
        Some(line)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a str> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.line += bytes.matches('\n').count();
        self.rest = rest;
        Some(bytes)
    }

    fn malformed(&self) -> ForkError {
        ForkError::Malformed(self.line)
    }
}

const MAGIC: &str = "veilsum-fork/1";

/// A tree of 2^64 leaves is 64 high; a consistency proof has one hash more at most.
const MAX_HASHES: usize = 65;
