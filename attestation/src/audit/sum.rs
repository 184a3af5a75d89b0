//! Are the vectors the ones their clients committed to, and is every released sum theirs, bit for bit?
//!
//! Vectors stream through: a chunk is hashed into its tree and added to its cluster's running sum, then forgotten. After a
//! round's last vector the masks come off (`unmask`) and the sums are compared.

use super::Progress;
use super::agreement::Agreed;
use super::lanes;
use super::model::{Moved, Shelf};
use super::report::{Check, Report, Where};
use super::reveal::Opening;
use super::scene::Scene;
use super::unmask;
use super::verdict::CheckName;
use crate::bundle::{BundleError, BundleReader, Due, DueList, Part, Said, VectorName};
use crate::model::ModelHasher;
use crate::statement::{ClusterPlan, ClusterResult, Policy, Sums, UpdateRule};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId};

/// A published attempt whose sums are to be recomputed.
pub(super) struct Case<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) agreed: Option<Agreed<'a>>,
    pub(super) opening: Opening,
    pub(super) sums: &'a Said<Sums>,
    running: BTreeMap<ClusterId, Running>,
    /// What is wrong with single vectors.
    pub(super) faults: Vec<String>,
    /// The vectors are gone by retention.
    gone: bool,
}

/// A cluster's sum so far, and whose vectors are in it.
pub(super) struct Running {
    pub(super) words: Vec<u32>,
    pub(super) clients: BTreeSet<ClientId>,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        scene: &'a Scene<'a>,
        sums: &'a Said<Sums>,
        agreed: Option<Agreed<'a>>,
        opening: Opening,
    ) -> Self {
        Self {
            scene,
            sums,
            agreed,
            opening,
            running: BTreeMap::new(),
            faults: Vec::new(),
            gone: false,
        }
    }

    fn is(&self, name: VectorName) -> bool {
        self.scene.place == Some((name.round, name.attempt))
    }

    /// The root a client committed to.
    pub(super) fn committed(&self, name: VectorName) -> Option<Digest> {
        let masked = &self.scene.attempt.masked.get(&name.client)?.body;
        let mut vectors = masked.vectors.iter();
        vectors
            .find(|vector| vector.cluster == name.cluster)
            .map(|vector| vector.root)
    }

    /// The cluster a result is about.
    pub(super) fn cluster(&self, result: &ClusterResult) -> Option<&'a ClusterPlan> {
        self.scene.plan().cluster(result.cluster)
    }
}

/// How vectors are replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Rounds that must be published after one before its vectors may be gone.
    pub(super) keep: Option<u64>,
    /// Threads that hash, add and unmask. They change nothing in the verdict.
    pub(super) threads: usize,
}

/// The replay of all vectors of a bundle.
pub(super) struct Replay<'a> {
    pub(super) rule: UpdateRule,
    pub(super) chunking: Chunking,
    pub(super) due: DueList,
    pub(super) cases: std::collections::VecDeque<Case<'a>>,
    pub(super) shelf: Shelf,
    pub(super) buffer: Vec<u8>,
    threads: usize,
    /// Chunk hashes whose vector comes next.
    claimed: Option<(VectorName, Vec<Digest>)>,
    /// Rounds that must be published after one before its vectors may be gone.
    keep: Option<u64>,
    last_published: u64,
}

impl<'a> Replay<'a> {
    pub(super) fn new(rule: UpdateRule, cases: Vec<Case<'a>>, due: DueList, manner: Manner) -> Self {
        let entries = usize::try_from(rule.entries)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let last_published = due.last_published().map_or(0, |round| round.0);
        let mut shelf = Shelf::default();
        for case in &cases {
            for result in &case.sums.body.results {
                if let Some(cluster) = case.cluster(result) {
                    shelf.expect(cluster.model);
                }
            }
        }
        Self {
            rule,
            chunking: Chunking::new(rule.modulus, entries),
            due,
            cases: cases.into(),
            shelf,
            buffer: vec![0; batch(manner.threads) * chunk::CHUNK_BYTES],
            threads: manner.threads.max(1),
            claimed: None,
            keep: manner.keep,
            last_published,
        }
    }

    /// Reads the rest of a bundle, to its end.
    pub(super) fn run<R: Read>(
        mut self,
        reader: &mut BundleReader<R>,
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<(), BundleError> {
        let total = self.due.vectors() as u64;
        loop {
            match reader.part()? {
                Part::Model { digest, bytes } => {
                    let wanted = self.shelf.expects(&digest);
                    if let Some(model) = self.read_model(reader, digest, bytes, wanted, report)? {
                        self.shelf.keep(digest, model);
                    }
                }
                Part::Vector { name, bytes } => {
                    self.due.take_vector(name)?;
                    self.begin(Some((name.round, name.attempt)), report);
                    self.vector(reader, name, bytes)?;
                    progress(Progress::Vectors {
                        round: name.round,
                        done: total - self.due.vectors() as u64,
                        total,
                    });
                }
                Part::End => {
                    self.finish()?;
                    while let Some(case) = self.cases.pop_front() {
                        self.close(case, report);
                    }
                    return Ok(());
                }
                Part::Chunks { name, leaves } => self.hold(name, leaves)?,
                Part::Gone { round, attempt } => {
                    self.due.take_gone(round, attempt)?;
                    self.gone((round, attempt), report);
                }
                Part::Head(_) | Part::Cosigned(_) | Part::Entry(_) => {
                    return Err(BundleError::OutOfPlace("a head or entry"));
                }
            }
            // A round is closed as soon as its last vector is in: its sums need not wait for the next round's.
            self.close_finished(report);
        }
    }

    /// Closes the rounds before the one a vector belongs to.
    fn begin(&mut self, place: Where, report: &mut Report) {
        while self.cases.front().is_some_and(|case| case.scene.place != place) {
            if let Some(case) = self.cases.pop_front() {
                self.close(case, report);
            }
        }
    }

    /// An attempt without its vectors: in order when the window is over, else somebody keeps them back.
    pub(super) fn gone(&mut self, place: (RoundId, Attempt), report: &mut Report) {
        self.begin(Some(place), report);
        let Some(mut case) = self.cases.pop_front() else {
            return;
        };
        case.gone = true;
        let over = |keep: u64| Policy::is_over(keep, place.0, RoundId(self.last_published));
        match self.keep {
            Some(keep) if over(keep) => {}
            Some(keep) => case.faults.push(format!(
                "the vectors are said to be gone, and are kept until {keep} more rounds are published"
            )),
            None => case.faults.push(
                "the vectors are said to be gone, and no retention was agreed that the auditor knows of"
                    .to_owned(),
            ),
        }
        self.close(case, report);
    }

    fn close_finished(&mut self, report: &mut Report) {
        let begun = self.cases.front().is_some_and(|case| !case.running.is_empty());
        if self.is_over(begun)
            && let Some(case) = self.cases.pop_front()
        {
            self.close(case, report);
        }
    }

    /// Whether the first attempt, if vectors of it were read, has no more to come.
    pub(super) fn is_over(&self, begun: bool) -> bool {
        let goes_on = match self.due.next() {
            Some(Due::Vector(next)) => self.cases.front().is_some_and(|case| case.is(next)),
            Some(Due::Model(_)) | None => false,
        };
        begun && !goes_on
    }

    /// Reads a model; `None` when it is not wanted, or not the one of its digest, which is reported.
    pub(super) fn read_model<R: Read>(
        &mut self,
        reader: &mut BundleReader<R>,
        digest: Digest,
        bytes: u64,
        wanted: bool,
        report: &mut Report,
    ) -> Result<Option<Vec<f32>>, BundleError> {
        self.due.take_model(digest)?;
        let want = self.rule.entries.saturating_mul(4);
        if bytes != want {
            return Err(BundleError::Length {
                part: "a model",
                got: bytes,
                want,
            });
        }
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut hasher = ModelHasher::new(left / 4);
        let mut model = Vec::new();
        while left > 0 {
            let size = left.min(self.buffer.len());
            let buffer = self.buffer.get_mut(..size).unwrap_or_default();
            reader.read(buffer)?;
            hasher.bytes(buffer);
            if wanted {
                let quads = buffer.as_chunks::<4>().0.iter();
                model.extend(quads.map(|quad| f32::from_le_bytes(*quad)));
            }
            left -= size;
        }
        if hasher.finish() == digest {
            return Ok(wanted.then_some(model));
        }
        let mut check = report.check(CheckName::Models, None);
        check.violated(|| format!("the model given as {digest:?} is another"));
        check.done();
        Ok(None)
    }

    /// Holds chunk hashes until their vector comes.
    pub(super) fn hold(&mut self, name: VectorName, leaves: Vec<Digest>) -> Result<(), BundleError> {
        match self.claimed.replace((name, leaves)) {
            None => Ok(()),
            Some(_) => Err(BundleError::OutOfPlace("chunk hashes")),
        }
    }

    /// Nothing may be due any more.
    pub(super) fn finish(&mut self) -> Result<(), BundleError> {
        if self.claimed.is_some() {
            return Err(BundleError::OutOfPlace("chunk hashes"));
        }
        self.due.finish()
    }

    fn vector<R: Read>(
        &mut self,
        reader: &mut BundleReader<R>,
        name: VectorName,
        bytes: u64,
    ) -> Result<(), BundleError> {
        self.expect_length(bytes)?;
        let claimed = self.claim(name)?;
        let chunking = self.chunking;
        // The list of what is due is made of the same attempts, so there is a case; without one the bytes are only read.
        let mut case = self.cases.front_mut();
        let mut leaves = vec![Digest([0; 32]); chunking.count()];
        let mut sound = true;
        let mut idle = Vec::new();
        let words = if let Some(case) = case.as_deref_mut() {
            let running = case.running.entry(name.cluster).or_insert_with(|| Running {
                words: vec![0; chunking.entries()],
                clients: BTreeSet::new(),
            });
            running.clients.insert(name.client);
            &mut running.words
        } else {
            idle.resize(chunking.entries(), 0);
            &mut idle
        };
        let batch = batch(self.threads);
        let batches = leaves
            .chunks_mut(batch)
            .zip(words.chunks_mut(batch * chunking.entries_per_chunk().max(1)));
        for (first, (leaves, words)) in (0..).step_by(batch).zip(batches) {
            let size = (first..first + leaves.len())
                .filter_map(|index| chunking.bytes(index))
                .sum();
            let buffer = self.buffer.get_mut(..size).unwrap_or_default();
            reader.read(buffer)?;
            sound &= lanes::absorb(chunking, first, buffer, words, leaves, self.threads);
        }
        let Some(case) = case else { return Ok(()) };
        if case.committed(name) != Some(chunk::root(&leaves)) {
            case.faults.push(format!(
                "the vector of {} for {} is not the one it committed to",
                name.client, name.cluster
            ));
        } else if !sound {
            case.faults.push(format!(
                "the vector of {} for {} has bits set beyond its last entry",
                name.client, name.cluster
            ));
        } else if claimed.is_some_and(|claimed| claimed != leaves) {
            case.faults.push(format!(
                "the chunk hashes given for the vector of {} for {} are not its",
                name.client, name.cluster
            ));
        }
        Ok(())
    }

    /// The chunk hashes that stood before a vector.
    pub(super) fn claim(&mut self, name: VectorName) -> Result<Option<Vec<Digest>>, BundleError> {
        match self.claimed.take() {
            Some((claimed, leaves)) if claimed == name => Ok(Some(leaves)),
            Some(_) => Err(BundleError::OutOfPlace("chunk hashes of another vector")),
            None => Ok(None),
        }
    }

    pub(super) fn expect_length(&self, bytes: u64) -> Result<(), BundleError> {
        let want = self.chunking.total_bytes().unwrap_or(usize::MAX) as u64;
        if bytes == want {
            return Ok(());
        }
        Err(BundleError::Length {
            part: "a masked vector",
            got: bytes,
            want,
        })
    }

    /// A round's vectors are all in: are its sums theirs, and its models what follows?
    fn close(&mut self, mut case: Case<'a>, report: &mut Report) {
        let mut check = report.check(CheckName::Vectors, case.scene.place);
        let faults = std::mem::take(&mut case.faults);
        if case.gone && faults.is_empty() {
            check.not_checkable(GONE.to_owned());
        }
        for fault in faults {
            check.violated(|| fault);
        }
        check.done();
        if case.gone {
            for name in [CheckName::Sums, CheckName::Models] {
                let mut check = report.check(name, case.scene.place);
                check.not_checkable(GONE.to_owned());
                check.done();
            }
            for result in &case.sums.body.results {
                if let Some(cluster) = case.cluster(result) {
                    self.shelf.done_with(cluster.model);
                }
            }
            return;
        }

        let mut check = report.check(CheckName::Sums, case.scene.place);
        let mut opened = Vec::new();
        for result in &case.sums.body.results {
            let sum = case.running.remove(&result.cluster);
            opened.push((
                result,
                unmask::recompute(&mut check, &case, result, sum, self.chunking, self.threads),
            ));
        }
        check.done();

        let mut check = report.check(CheckName::Models, case.scene.place);
        for (result, sum) in opened {
            self.follow(&mut check, &case, result, sum.as_deref());
        }
        check.done();
    }

    fn follow(
        &mut self,
        check: &mut Check<'_>,
        case: &Case<'_>,
        result: &ClusterResult,
        sum: Option<&[u32]>,
    ) {
        let Some(cluster) = case.cluster(result) else {
            return;
        };
        // Called for every result, so that the shelf forgets what no later sum starts from.
        let moved = self.shelf.moved(
            cluster.model,
            result.model,
            sum.unwrap_or_default(),
            result.contributors,
            &self.rule,
        );
        if sum.is_none() {
            return check.not_checkable(format!("the sum of {} could not be recomputed", result.cluster));
        }
        match moved {
            // A server that could leave the old model out could publish any new one.
            Moved::NotHere => check.violated(|| {
                format!(
                    "the model {:?} that {} starts from is not in the bundle, so that nobody can check the new one",
                    cluster.model, result.cluster
                )
            }),
            Moved::NoFit => check.violated(|| format!("the sum of {} is no sum for its model", result.cluster)),
            Moved::Other => check.violated(|| {
                format!(
                    "the new model of {} is not its old one plus the mean update",
                    result.cluster
                )
            }),
            Moved::AsSaid => {}
        }
    }
}

/// Chunks read and worked on at a time. One thread hashes what it has just read from the second-level cache; several need
/// enough to share.
fn batch(threads: usize) -> usize {
    if threads > 1 { 64 } else { 4 }
}

/// Why sums of long ago are not recomputed.
const GONE: &str = "vectors gone by retention";
