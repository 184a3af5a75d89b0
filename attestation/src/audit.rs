//! The auditor: a bundle in, a verdict out, and nobody is believed on the way but the authority's key.
//!
//! It shares the vocabulary of the round (statements, labelled hashes, mask streams) with the machines that ran it and
//! nothing else: what a client adds and a server removes is written here a second time. One file per family of checks,
//! in the order they are made:
//!
//! | file | asks |
//! | --- | --- |
//! | `log` | do the entries hash to the head the server signed, and name only heads of this log? |
//! | `enrolment` | did the authority enrol everybody and sign a safe policy? |
//! | `clustering` | do descriptors come as the policy says, and does a clustering hold until the next? |
//! | `plan` | do plans follow the policy, come in turn, and start from the last models? |
//! | `disclosure` | does the plan expose nobody, and is the release what the rule gives? |
//! | `roster` | one signed statement per client and kind, about this plan and roster, with fresh keys? |
//! | `phases` | `U1 ⊇ U2 ⊇ U3 ⊇ U4`, in order, at least t at each step? |
//! | `agreement` | did t survivors sign one survivor set, head and release? |
//! | `complaint` | does every complaint convict its dealer? |
//! | `reveal` | were exactly the agreed shares opened, each as dealt, and do they give the committed secrets? |
//! | `ending` | did the attempt end as its statements say? |
//! | `sum`, `unmask` | are the vectors the committed ones, and the sums theirs bit for bit? |
//! | `spot`, `sample` | the same of some chunks, drawn by a seed |
//! | `model` | is each new model the old one plus the mean update? |
//! | `witness` | did a quorum of witnesses cosign a head of this log? |
//! | `limits` | what no bundle can show |
//! | `course`, `page` | how far each client came; the verdict as a page for people |
//! | `subset` | the same of single statements with proofs, for those who see less than the log |
//!
//! Memory: the entries, and O(d) per cluster. Vectors are read once, chunk by chunk.

mod agreement;
mod clustering;
pub mod command;
mod complaint;
mod course;
mod disclosure;
mod ending;
mod enrolment;
mod lanes;
mod limits;
mod log;
mod model;
pub mod page;
mod phases;
mod plan;
mod report;
mod reveal;
mod roster;
mod sample;
mod scene;
mod spot;
mod subset;
mod sum;
mod unmask;
mod verdict;
mod witness;

pub use sample::{Sample, Share, detection};
pub use verdict::{
    About, CheckName, Closed, Course, Finding, HeadSummary, Overall, ReleasedCluster, RoundSummary, Status,
    Step, Verdict,
};

use crate::bundle::{Attempt, BundleError, BundleReader, DueList, Part, Record, Transcript, parse_head};
use crate::merkle::Tree;
use crate::statement::{StatementError, federation_digest};
use crate::tlog::TrustPolicy;
use report::Report;
use scene::Scene;
use std::io::{Read, Seek};
use veilsum_crypto::{Digest, IdentityError, PublicIdentity, RoundId};
use witness::Witnessed;

/// What an auditor takes for granted: which federation, and whose signature founds it.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The federation's name, as in its policy.
    pub name: String,
    /// The authority's key.
    pub authority: PublicIdentity,
}

/// How far an audit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Log entries read.
    Entries(u64),
    /// The statements are being checked.
    Statements,
    /// Masked vectors read and checked.
    Vectors {
        /// The round they belong to.
        round: RoundId,
        /// So far.
        done: u64,
        /// In the whole bundle.
        total: u64,
    },
}

/// An auditor of one federation.
#[derive(Clone, Debug)]
pub struct Auditor {
    trust: Trust,
    federation: Digest,
    witnesses: Option<witness::Demand>,
    manner: sum::Manner,
}

impl Auditor {
    /// An auditor that trusts an authority's key and nobody else's.
    ///
    /// # Errors
    /// [`AuditError::Trust`] for a key under which anything could be signed.
    pub fn new(trust: Trust) -> Result<Self, AuditError> {
        PublicIdentity::checked(trust.authority.0)?;
        let federation = federation_digest(&trust.authority, &trust.name);
        Ok(Self {
            trust,
            federation,
            witnesses: None,
            manner: sum::Manner {
                keep: None,
                threads: 1,
            },
        })
    }

    /// Asks for the quorum of a witness policy over a head of the log; cosignatures from before `since`, POSIX seconds, do
    /// not count. A log without the quorum is then violated.
    #[must_use]
    pub fn witnessed_by(self, policy: TrustPolicy, since: u64) -> Self {
        Self {
            witnesses: Some(witness::Demand { policy, since }),
            ..self
        }
    }

    /// Where the policy sets no window: lets the masked vectors of a round be gone once `rounds` more rounds are published,
    /// as the consortium told the auditor. What needs them is then not checkable; without a window, or earlier, their
    /// absence is a violation. A window in the policy counts instead.
    #[must_use]
    pub fn keeping(self, rounds: u64) -> Self {
        let manner = sum::Manner {
            keep: Some(rounds),
            ..self.manner
        };
        Self { manner, ..self }
    }

    /// Hashes, adds and unmasks on so many threads; the verdict does not depend on it.
    #[must_use]
    pub fn on_threads(self, threads: usize) -> Self {
        let manner = sum::Manner {
            threads,
            ..self.manner
        };
        Self { manner, ..self }
    }

    /// Replays a bundle.
    ///
    /// # Errors
    /// [`AuditError`] when the bundle cannot be read: no verdict then, and in particular not `verified`.
    pub fn audit(
        &self,
        mut source: impl Read,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verdict, AuditError> {
        let mut magic = [0; crate::bundle::subset::MAGIC.len()];
        match source.read_exact(&mut magic) {
            Ok(()) if magic == *crate::bundle::subset::MAGIC => self.subset(source),
            Ok(()) => {
                let mut reader = BundleReader::new(magic.chain(source))?;
                self.whole_log(&mut reader, progress, |replay, reader, progress, report| {
                    replay.run(reader, progress, report)
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(BundleError::Magic.into()),
            Err(error) => Err(BundleError::Io(error).into()),
        }
    }

    /// Replays a bundle, but of the vectors behind each sum only the chunks of a sample. Everything else is checked as by
    /// [`Auditor::audit`]; what a sample cannot settle is not checkable, with the sample's worth.
    ///
    /// # Errors
    /// As [`Auditor::audit`], and [`BundleError::OutOfPlace`] for a bundle without chunk hashes.
    pub fn spot_check(
        &self,
        source: impl Read + Seek,
        sample: &Sample,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verdict, AuditError> {
        let mut reader = BundleReader::new(source)?;
        self.whole_log(&mut reader, progress, |replay, reader, progress, report| {
            spot::Spot::new(replay, sample).run(reader, progress, report)
        })
    }

    fn whole_log<R: Read>(
        &self,
        reader: &mut BundleReader<R>,
        progress: &mut dyn FnMut(Progress),
        run: impl FnOnce(
            sum::Replay<'_>,
            &mut BundleReader<R>,
            &mut dyn FnMut(Progress),
            &mut Report,
        ) -> Result<(), BundleError>,
    ) -> Result<Verdict, AuditError> {
        let mut report = Report::default();
        let Part::Head(head) = reader.part()? else {
            return Err(BundleError::OutOfPlace("something else than the signed head").into());
        };
        let (note, checkpoint) = parse_head(&head)?;
        let cosigned = reader.cosigned()?;
        let log = read_entries(reader, progress)?;
        progress(Progress::Statements);

        let mut entries = report.check(CheckName::Entries, None);
        for (index, error) in &log.unreadable {
            entries.violated(|| format!("entry {index}: {error}"));
        }
        let readable = log.unreadable.is_empty();
        entries.done();
        let Some(charter) = enrolment::charter(&log.records, &self.trust, self.federation, &mut report)
        else {
            log::signed_head(&note, &checkpoint, &log.tree, self.federation, None, &mut report);
            return Ok(give_up(report, "the log does not begin with a policy"));
        };
        report.about(&charter.policy, &self.trust.name, "auditor", &checkpoint);
        let server = Some(charter.policy.server);
        log::signed_head(
            &note,
            &checkpoint,
            &log.tree,
            self.federation,
            server,
            &mut report,
        );
        roster::signatures(&log.records, &charter.book, &mut report);
        if !readable {
            return Ok(give_up(report, "the log has entries that cannot be read"));
        }

        let mut transcript = Transcript::default();
        log.records.into_iter().for_each(|record| transcript.take(record));
        enrolment::strays(&transcript, &mut report);
        clustering::check(&transcript, &charter, &mut report);
        let scenes: Vec<Scene<'_>> = transcript
            .attempts
            .iter()
            .enumerate()
            .map(|(number, attempt)| Scene::new(&charter, &transcript.strays, number, attempt))
            .collect();
        let mut history = plan::History::default();
        let mut rounds = Vec::with_capacity(scenes.len());
        let mut cases = Vec::new();
        for (number, scene) in scenes.iter().enumerate() {
            history.check(scene, &mut report);
            log::heads(scene, &log.tree, &mut report);
            roster::check(scene, &mut history, &mut report);
            phases::check(scene, &mut report);
            let agreed = agreement::check(scene, &log.tree, &mut report);
            disclosure::check(scene, agreed.as_ref(), &mut report);
            let complaints = complaint::check(scene, &mut report);
            let opening = reveal::check(scene, agreed.as_ref(), &complaints, &mut report);
            ending::check(scene, &opening, &complaints, &mut report);
            let end = scenes
                .get(number + 1)
                .map_or(log.tree.size(), |next| next.attempt.plan.index);
            rounds.push(ending::summary(scene, agreed.as_ref(), &log.tree, end));
            if let Some(sums) = scene.attempt.sums() {
                cases.push(sum::Case::new(scene, sums, agreed, opening));
            }
        }
        let published = transcript.attempts.iter().filter_map(Attempt::sums);
        witness::check(
            self.witnesses.as_ref(),
            cosigned.as_deref(),
            &Witnessed {
                federation: self.federation,
                server,
                size: log.tree.size(),
                published: published.map(|sums| sums.index + 1).max().unwrap_or(0),
                had: &|size, root| log.tree.root_at(size).as_ref() == Ok(root),
            },
            &mut report,
        );
        let due = DueList::of(&transcript);
        // The window everybody signed counts before one that the auditor was told.
        let manner = sum::Manner {
            keep: charter.policy.window().or(self.manner.keep),
            ..self.manner
        };
        let replay = sum::Replay::new(charter.policy.update, cases, due, manner);
        match run(replay, reader, progress, &mut report) {
            Ok(()) => {}
            // A log that was tampered with may call for other vectors than were exported. What it is guilty of stands.
            Err(error) if report.is_violated() && !matches!(error, BundleError::Io(_)) => {
                for check in [CheckName::Vectors, CheckName::Sums, CheckName::Models] {
                    report.not_checkable(check, None, &error.to_string());
                }
            }
            Err(error) => return Err(error.into()),
        }
        limits::state(&mut report);
        Ok(report.verdict(rounds))
    }
}

/// The entries of a bundle, parsed and hashed.
struct ReadLog {
    records: Vec<Record>,
    tree: Tree,
    unreadable: Vec<(u64, StatementError)>,
}

/// Reads the entries. The part after them is left for the caller: it is peeked at by its section only.
fn read_entries<R: Read>(
    reader: &mut BundleReader<R>,
    progress: &mut dyn FnMut(Progress),
) -> Result<ReadLog, AuditError> {
    let mut log = ReadLog {
        records: Vec::new(),
        tree: Tree::new(),
        unreadable: Vec::new(),
    };
    while let Some(bytes) = reader.entry()? {
        let index = log.tree.append(&bytes);
        match Record::parse(index, &bytes) {
            Ok(record) => log.records.push(record),
            Err(error) => log.unreadable.push((index, error)),
        }
        if index.is_multiple_of(256) {
            progress(Progress::Entries(index + 1));
        }
    }
    progress(Progress::Entries(log.tree.size()));
    Ok(log)
}

/// A verdict on a log that cannot be followed further: violated, and the rest is said to be open.
fn give_up(mut report: Report, reason: &str) -> Verdict {
    for check in CheckName::ALL {
        if !report.mentions(*check) {
            report.not_checkable(*check, None, reason);
        }
    }
    report.verdict(Vec::new())
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The authority's key is none.
    #[error("the authority's key: {0}")]
    Trust(#[from] IdentityError),
}

impl From<crate::bundle::HeadError> for AuditError {
    fn from(error: crate::bundle::HeadError) -> Self {
        Self::Bundle(error.into())
    }
}

impl AuditError {
    /// The error's name, for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bundle(error) => error.name(),
            Self::Trust(_) => "Trust",
        }
    }
}
