//! `audit fork`: do two heads of one log fit, and if not, the proof.

use super::{CommandError, Ending, Shape, config, open, print, print_json, read_trust, write_whole};
use crate::audit::enrolment::charter;
use crate::audit::report::Report;
use crate::audit::{Trust, read_entries, roster};
use crate::bundle::{BundleReader, Part, log_name, parse_head};
use crate::checkpoint::Checkpoint;
use crate::merkle::Tree;
use crate::note::{Note, NoteKey};
use crate::statement::federation_digest;
use crate::tlog::{CosignerKey, Fork, Relation, TrustPolicy, compare};
use serde::Serialize;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use veilsum_crypto::{PublicIdentity, Signature};

/// Two heads to compare. Each is a bundle, or a signed head as a client, a member or a witness keeps it.
#[derive(Clone, Copy, Debug)]
pub struct ForkRequest<'a> {
    /// One head.
    pub first: &'a Path,
    /// The other.
    pub second: &'a Path,
    /// Whom to trust; needed with a bundle and without [`ForkRequest::log`].
    pub trust: Option<&'a Path>,
    /// The log's key, when no bundle tells it.
    pub log: Option<&'a str>,
    /// Where the proof of a fork is written.
    pub out: Option<&'a Path>,
    /// How the result is printed.
    pub shape: Shape,
}

/// Compares two heads, and writes the proof if they do not fit.
///
/// # Errors
/// [`CommandError::Config`], also when the heads cannot be told apart without the longer log's entries.
pub fn fork(request: &ForkRequest<'_>, out: &mut dyn Write) -> Result<Ending, CommandError> {
    let trust = request.trust.map(read_trust).transpose()?;
    let first = Source::read(request.first, trust.as_ref())?;
    let second = Source::read(request.second, trust.as_ref())?;
    let key = match request.log {
        Some(text) => text.parse::<NoteKey>().map_err(config)?,
        None => first.key.clone().or_else(|| second.key.clone()).ok_or_else(|| {
            CommandError::Config(
                "nothing says which key signs this log: give --log VKEY, or a bundle and --trust FILE"
                    .to_owned(),
            )
        })?,
    };
    let relation = compare(
        &key,
        (&first.note, first.tree.as_ref()),
        (&second.note, second.tree.as_ref()),
        &verifies,
    )
    .map_err(config)?;
    let heads = [head(&first.note)?, head(&second.note)?];
    let (word, ending) = match &relation {
        Relation::Same => ("same", Ending::Clean),
        Relation::Extends => ("extends", Ending::Clean),
        Relation::Forked(_) => ("forked", Ending::Violated),
        Relation::Undecided { longer } => {
            return Err(CommandError::Config(format!(
                "the heads are of two sizes; to tell whether they fit, give the bundle of the longer log ({longer} \
                 entries) in place of its head"
            )));
        }
    };
    let mut written = None;
    if let Relation::Forked(proof) = &relation
        && let Some(path) = request.out
    {
        write_whole(path, &proof.to_string())?;
        written = Some(path.display().to_string());
    }
    let result = Compared {
        schema: SCHEMA,
        result: word,
        log: key.to_string(),
        heads,
        proof: written,
        cosigned_both: Vec::new(),
    };
    result.say(request.shape, out)?;
    if let (Relation::Forked(proof), Shape::Human, None) = (&relation, request.shape, request.out) {
        print(out, &format!("\n{}", proof.to_string().trim_end()))?;
    }
    Ok(ending)
}

/// Checks a fork file. `witnesses` is a policy file whose witnesses are looked for on both heads; `log` is the key the file
/// must be about.
///
/// # Errors
/// [`CommandError::Config`] when the file proves nothing, or is about another key.
pub fn check_fork(
    file: &Path,
    log: Option<&str>,
    witnesses: Option<&Path>,
    shape: Shape,
    out: &mut dyn Write,
) -> Result<Ending, CommandError> {
    let text = String::from_utf8(read_capped(file)?)
        .map_err(|_| CommandError::Config(format!("{} is not text", file.display())))?;
    let named = |error| CommandError::Config(format!("{}: {error}", file.display()));
    let proof: Fork = text.parse().map_err(named)?;
    let (shorter, longer) = proof.check(&verifies).map_err(named)?;
    if log.is_some_and(|log| log != proof.key().to_string()) {
        return Err(CommandError::Config(format!(
            "the file proves that {} forked, which is not the log named",
            proof.key()
        )));
    }
    let keys: Vec<CosignerKey> = match witnesses {
        Some(path) => TrustPolicy::parse(&read_capped(path)?)
            .map_err(|error| CommandError::Config(format!("{}: {error}", path.display())))?
            .witnesses()
            .iter()
            .map(|line| line.key.clone())
            .collect(),
        None => Vec::new(),
    };
    let cosigned = proof.cosigners(&keys, &verifies);
    let result = Compared {
        schema: SCHEMA,
        result: "forked",
        log: proof.key().to_string(),
        heads: [Head::from(&shorter), Head::from(&longer)],
        proof: Some(file.display().to_string()),
        cosigned_both: cosigned.iter().map(|key| key.name().to_owned()).collect(),
    };
    result.say(shape, out)?;
    Ok(Ending::Violated)
}

/// A head and, from a bundle, what it is a head of.
struct Source {
    note: Note,
    tree: Option<Tree>,
    key: Option<NoteKey>,
}

impl Source {
    fn read(path: &Path, trust: Option<&Trust>) -> Result<Self, CommandError> {
        let named = |error: String| CommandError::Config(format!("{}: {error}", path.display()));
        let mut magic = Vec::new();
        open(path)?
            .take(MAGIC.len() as u64)
            .read_to_end(&mut magic)
            .map_err(|error| named(error.to_string()))?;
        if magic != MAGIC {
            let note = Note::parse(&read_capped(path)?).map_err(|error| named(error.to_string()))?;
            return Ok(Self {
                note,
                tree: None,
                key: None,
            });
        }
        let mut reader =
            BundleReader::new(BufReader::new(open(path)?)).map_err(|error| named(error.to_string()))?;
        let Part::Head(head) = reader.part().map_err(|error| named(error.to_string()))? else {
            return Err(named("it does not begin with a signed head".to_owned()));
        };
        let (note, _) = parse_head(&head).map_err(|error| named(error.to_string()))?;
        let log = read_entries(&mut reader, &mut |_| ()).map_err(|error| named(error.to_string()))?;
        let key = match trust {
            None => None,
            Some(trust) => {
                let federation = federation_digest(&trust.authority, &trust.name);
                let mut report = Report::default();
                let found = charter(&log.records, trust, federation, &mut report);
                if let Some(charter) = &found {
                    // The policy names the server's key: its signature and the members' must be the authority's.
                    let founding = log
                        .records
                        .iter()
                        .position(|record| record.leaf == charter.policy_leaf)
                        .and_then(|place| log.records.get(..=place));
                    roster::signatures(founding.unwrap_or_default(), &charter.book, &mut report);
                }
                let Some(charter) = found.filter(|_| !report.is_violated()) else {
                    return Err(named(
                        "its log does not begin with members and a policy signed by the authority".to_owned(),
                    ));
                };
                Some(NoteKey::new(&log_name(&federation), charter.policy.server.0).map_err(config)?)
            }
        };
        Ok(Self {
            note,
            tree: Some(log.tree),
            key,
        })
    }
}

#[derive(Serialize)]
struct Compared {
    schema: &'static str,
    result: &'static str,
    log: String,
    heads: [Head; 2],
    proof: Option<String>,
    cosigned_both: Vec<String>,
}

#[derive(Serialize)]
struct Head {
    size: u64,
    root: String,
}

impl From<&Checkpoint> for Head {
    fn from(head: &Checkpoint) -> Self {
        Self {
            size: head.size(),
            root: veilsum_crypto::Digest(*head.root()).to_hex(),
        }
    }
}

impl Compared {
    fn say(&self, shape: Shape, out: &mut dyn Write) -> Result<(), CommandError> {
        use std::fmt::Write as _;
        if shape == Shape::Json {
            return print_json(out, self);
        }
        let [first, second] = &self.heads;
        let meaning = match self.result {
            "same" => "the heads are the same",
            "extends" => "the longer log extends the shorter",
            _ => "FORKED: one key signed two histories",
        };
        let mut text = format!(
            "{meaning}\nlog    {}\nfirst  {} entries, root {}\nsecond {} entries, root {}",
            self.log, first.size, first.root, second.size, second.root
        );
        for name in &self.cosigned_both {
            let _ = write!(text, "\nwitness {name} cosigned both");
        }
        if let Some(path) = &self.proof {
            let _ = write!(text, "\nproof  {path}");
        }
        print(out, &text)
    }
}

fn head(note: &Note) -> Result<Head, CommandError> {
    let head: Checkpoint = note.text().parse().map_err(config)?;
    Ok(Head::from(&head))
}

fn verifies(public: &[u8; 32], text: &[u8], signature: &[u8; 64]) -> bool {
    PublicIdentity(*public).verifies_raw(text, &Signature(*signature))
}

/// A small file: a note or a fork file, whose size is bounded by that of its notes.
fn read_capped(path: &Path) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::Config(format!("cannot read {}: {error}", path.display())))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(CommandError::Config(format!(
            "{} is neither a bundle nor a signed head nor a fork file: it is too long",
            path.display()
        )));
    }
    Ok(bytes)
}

const MAGIC: &[u8] = b"veilsum-bundle/1\n";
const MAX_FILE: u64 = 4 << 20;
const SCHEMA: &str = "veilsum-fork/1";
