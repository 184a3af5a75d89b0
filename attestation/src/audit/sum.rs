//! Are the vectors the ones their clients committed to, and is every released sum theirs, bit for bit?
//!
//! Vectors stream through: a chunk is hashed into its tree and added to its cluster's running sum, then forgotten. After a
//! round's last vector the masks come off (`unmask`) and the sums are compared.

use super::Progress;
use super::agreement::Agreed;
use super::lanes;
use super::model::{Moved, Shelf};
use super::report::{Check, Report};
use super::reveal::Opening;
use super::scene::Scene;
use super::unmask;
use super::verdict::CheckName;
use crate::bundle::{BundleError, BundleReader, Due, DueList, Part, Said, VectorName};
use crate::model_digest;
use crate::statement::{ClusterPlan, ClusterResult, Sums, UpdateRule};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::{ClientId, ClusterId, Digest};

/// A published attempt whose sums are to be recomputed.
pub(super) struct Case<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) agreed: Option<Agreed<'a>>,
    pub(super) opening: Opening,
    sums: &'a Said<Sums>,
    running: BTreeMap<ClusterId, Running>,
    /// What is wrong with single vectors.
    faults: Vec<String>,
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
        }
    }

    fn is(&self, name: VectorName) -> bool {
        self.scene.place == Some((name.round, name.attempt))
    }

    /// The cluster a result is about.
    pub(super) fn cluster(&self, result: &ClusterResult) -> Option<&'a ClusterPlan> {
        self.scene.plan().cluster(result.cluster)
    }
}

/// The replay of all vectors of a bundle.
pub(super) struct Replay<'a> {
    rule: UpdateRule,
    chunking: Chunking,
    due: DueList,
    cases: std::collections::VecDeque<Case<'a>>,
    shelf: Shelf,
    buffer: Vec<u8>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(rule: UpdateRule, cases: Vec<Case<'a>>, due: DueList) -> Self {
        let entries = usize::try_from(rule.entries)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
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
            buffer: vec![0; chunk::CHUNK_BYTES],
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
                Part::Model { digest, bytes } => self.model(reader, digest, bytes, report)?,
                Part::Vector { name, bytes } => {
                    self.due.take_vector(name)?;
                    self.begin(name, report);
                    self.vector(reader, name, bytes)?;
                    progress(Progress::Vectors {
                        round: name.round,
                        done: total - self.due.vectors() as u64,
                        total,
                    });
                }
                Part::End => {
                    self.due.finish()?;
                    while let Some(case) = self.cases.pop_front() {
                        self.close(case, report);
                    }
                    return Ok(());
                }
                Part::Head(_) | Part::Entry(_) => return Err(BundleError::OutOfPlace("a head or entry")),
            }
            // A round is closed as soon as its last vector is in: its sums need not wait for the next round's.
            self.close_finished(report);
        }
    }

    /// Closes the rounds before the one a vector belongs to.
    fn begin(&mut self, name: VectorName, report: &mut Report) {
        while self.cases.front().is_some_and(|case| !case.is(name)) {
            if let Some(case) = self.cases.pop_front() {
                self.close(case, report);
            }
        }
    }

    fn close_finished(&mut self, report: &mut Report) {
        let begun = self.cases.front().is_some_and(|case| !case.running.is_empty());
        let goes_on = match self.due.next() {
            Some(Due::Vector(next)) => self.cases.front().is_some_and(|case| case.is(next)),
            Some(Due::Model(_)) | None => false,
        };
        if begun
            && !goes_on
            && let Some(case) = self.cases.pop_front()
        {
            self.close(case, report);
        }
    }

    fn model<R: Read>(
        &mut self,
        reader: &mut BundleReader<R>,
        digest: Digest,
        bytes: u64,
        report: &mut Report,
    ) -> Result<(), BundleError> {
        self.due.take_model(digest)?;
        let want = self.rule.entries.saturating_mul(4);
        if bytes != want {
            return Err(BundleError::Length {
                part: "a model",
                got: bytes,
                want,
            });
        }
        let mut model = Vec::new();
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let size = left.min(self.buffer.len());
            let buffer = self.buffer.get_mut(..size).unwrap_or_default();
            reader.read(buffer)?;
            model.extend(
                buffer
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|quad| f32::from_le_bytes(*quad)),
            );
            left -= size;
        }
        if model_digest(&model) == digest {
            self.shelf.keep(digest, model);
        } else {
            let mut check = report.check(CheckName::Models, None);
            check.violated(|| format!("the model given as {digest:?} is another"));
            check.done();
        }
        Ok(())
    }

    fn vector<R: Read>(
        &mut self,
        reader: &mut BundleReader<R>,
        name: VectorName,
        bytes: u64,
    ) -> Result<(), BundleError> {
        let want = self.chunking.total_bytes().unwrap_or(usize::MAX) as u64;
        if bytes != want {
            return Err(BundleError::Length {
                part: "a masked vector",
                got: bytes,
                want,
            });
        }
        // The list of what is due is made of the same attempts, so there is a case; without one the bytes are only read.
        let mut case = self.cases.front_mut();
        let mut leaves = Vec::with_capacity(self.chunking.count());
        let mut sound = true;
        for index in 0..self.chunking.count() {
            let size = self.chunking.bytes(index).unwrap_or(0);
            let buffer = self.buffer.get_mut(..size).unwrap_or_default();
            reader.read(buffer)?;
            leaves.push(chunk::leaf(index, buffer));
            let Some(case) = case.as_deref_mut() else { continue };
            let running = case.running.entry(name.cluster).or_insert_with(|| Running {
                words: vec![0; self.chunking.entries()],
                clients: BTreeSet::new(),
            });
            let range = self.chunking.range(index).unwrap_or_default();
            let words = running.words.get_mut(range).unwrap_or_default();
            sound &= lanes::add(self.chunking.modulus(), buffer, words).is_ok();
        }
        let Some(case) = case else { return Ok(()) };
        if let Some(running) = case.running.get_mut(&name.cluster) {
            running.clients.insert(name.client);
        }
        let committed = case.scene.attempt.masked.get(&name.client).and_then(|masked| {
            masked
                .body
                .vectors
                .iter()
                .find(|vector| vector.cluster == name.cluster)
                .map(|vector| vector.root)
        });
        if committed != Some(chunk::root(&leaves)) {
            case.faults.push(format!(
                "the vector of {} for {} is not the one it committed to",
                name.client, name.cluster
            ));
        } else if !sound {
            case.faults.push(format!(
                "the vector of {} for {} has bits set beyond its last entry",
                name.client, name.cluster
            ));
        }
        Ok(())
    }

    /// A round's vectors are all in: are its sums theirs, and its models what follows?
    fn close(&mut self, mut case: Case<'a>, report: &mut Report) {
        let mut check = report.check(CheckName::Vectors, case.scene.place);
        for fault in std::mem::take(&mut case.faults) {
            check.violated(|| fault);
        }
        check.done();

        let mut check = report.check(CheckName::Sums, case.scene.place);
        let mut opened = Vec::new();
        for result in &case.sums.body.results {
            let sum = case.running.remove(&result.cluster);
            opened.push((
                result,
                unmask::recompute(&mut check, &case, result, sum, self.chunking),
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
            Moved::To(model) => {
                if check.demand(model_digest(&model) == result.model, || {
                    format!(
                        "the new model of {} is not its old one plus the mean update",
                        result.cluster
                    )
                }) {
                    self.shelf.keep(result.model, model);
                }
            }
        }
    }
}
