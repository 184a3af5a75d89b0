//! The spot check: of each sum only some chunks are recomputed, drawn by a seed that the server could not know.
//!
//! A vector's chunk hashes stand before it, so a chunk is checked alone against the committed root, and the rest of the
//! vector is never read. A recomputed chunk of a sum cannot be held against the sum's root, of which nobody keeps the
//! other chunks' hashes; it is held against what the sum is for: the new model's entries there. The last chunk holds the
//! weight and is always drawn.

use super::Progress;
use super::lanes;
use super::model::mean_update;
use super::report::Report;
use super::sample::Sample;
use super::sum::{Case, Replay};
use super::unmask;
use super::verdict::CheckName;
use crate::bundle::{BundleError, BundleReader, Part, VectorName};
use crate::statement::ClusterResult;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use veilsum_crypto::chunk;
use veilsum_crypto::{ClientId, ClusterId, Digest};

/// What was recomputed of one sum.
struct Piece {
    /// Entries of the chunks drawn, by chunk.
    words: BTreeMap<usize, Vec<u32>>,
    clients: BTreeSet<ClientId>,
}

/// A model that is still to come, and what its entries must be.
struct Awaited {
    place: super::report::Where,
    cluster: ClusterId,
    entries: BTreeMap<usize, Vec<f32>>,
}

/// The spot check of all vectors of a bundle.
pub(super) struct Spot<'a, 's> {
    replay: Replay<'a>,
    sample: &'s Sample,
    pieces: BTreeMap<ClusterId, Piece>,
    awaited: BTreeMap<Digest, Vec<Awaited>>,
}

impl<'a, 's> Spot<'a, 's> {
    pub(super) fn new(replay: Replay<'a>, sample: &'s Sample) -> Self {
        Self {
            replay,
            sample,
            pieces: BTreeMap::new(),
            awaited: BTreeMap::new(),
        }
    }

    /// Goes through the rest of a bundle, to its end.
    pub(super) fn run<R: Read + Seek>(
        mut self,
        reader: &mut BundleReader<R>,
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<(), BundleError> {
        let total = self.replay.due.vectors() as u64;
        loop {
            match reader.part()? {
                Part::Model { digest, bytes } => {
                    let wanted = self.replay.shelf.expects(&digest) || self.awaited.contains_key(&digest);
                    if let Some(model) = self.replay.read_model(reader, digest, bytes, wanted, report)? {
                        self.arrived(digest, &model, report);
                        self.replay.shelf.keep(digest, model);
                    }
                }
                Part::Chunks { name, leaves } => self.replay.hold(name, leaves)?,
                Part::Vector { name, bytes } => {
                    self.replay.due.take_vector(name)?;
                    self.begin(Some((name.round, name.attempt)), report);
                    self.vector(reader, name, bytes)?;
                    progress(Progress::Vectors {
                        round: name.round,
                        done: total - self.replay.due.vectors() as u64,
                        total,
                    });
                }
                Part::Gone { round, attempt } => {
                    self.replay.due.take_gone(round, attempt)?;
                    self.begin(Some((round, attempt)), report);
                    self.replay.gone((round, attempt), report);
                }
                Part::End => {
                    self.replay.finish()?;
                    self.begin(None, report);
                    for (digest, awaited) in std::mem::take(&mut self.awaited) {
                        for one in awaited {
                            report.not_checkable(
                                CheckName::Models,
                                one.place,
                                &format!("the new model {digest:?} of {} is not in the bundle", one.cluster),
                            );
                        }
                    }
                    return Ok(());
                }
                Part::Head(_) | Part::Cosigned(_) | Part::Entry(_) => {
                    return Err(BundleError::OutOfPlace("a head or entry"));
                }
            }
            if self.replay.is_over(!self.pieces.is_empty())
                && let Some(case) = self.replay.cases.pop_front()
            {
                self.close(case, report);
            }
        }
    }

    /// Closes the attempts before one; `None` for all.
    fn begin(&mut self, place: super::report::Where, report: &mut Report) {
        while self
            .replay
            .cases
            .front()
            .is_some_and(|case| place.is_none() || case.scene.place != place)
        {
            if let Some(case) = self.replay.cases.pop_front() {
                self.close(case, report);
            }
        }
    }

    fn vector<R: Read + Seek>(
        &mut self,
        reader: &mut BundleReader<R>,
        name: VectorName,
        bytes: u64,
    ) -> Result<(), BundleError> {
        self.replay.expect_length(bytes)?;
        let leaves = self.replay.claim(name)?.ok_or(BundleError::OutOfPlace(
            "a vector without its chunk hashes, which a spot check needs,",
        ))?;
        let chunking = self.replay.chunking;
        let drawn = self
            .sample
            .draw((name.round.0, name.attempt.0, name.cluster.0), chunking.count());
        let piece = self.pieces.entry(name.cluster).or_insert_with(|| Piece {
            words: drawn
                .iter()
                .map(|index| {
                    (
                        *index,
                        vec![0; chunking.range(*index).map_or(0, |range| range.len())],
                    )
                })
                .collect(),
            clients: BTreeSet::new(),
        });
        piece.clients.insert(name.client);
        let committed = self.replay.cases.front().and_then(|case| case.committed(name));
        let mut faults = Vec::new();
        if committed != Some(chunk::root(&leaves)) || leaves.len() != chunking.count() {
            faults.push("is not the one it committed to");
        }
        for index in 0..chunking.count() {
            let size = chunking.bytes(index).unwrap_or(0);
            let Some(words) = piece.words.get_mut(&index) else {
                reader.skip(size as u64)?;
                continue;
            };
            let buffer = self.replay.buffer.get_mut(..size).unwrap_or_default();
            reader.read(buffer)?;
            if leaves.get(index) != Some(&chunk::leaf(index, buffer)) {
                faults.push("has a chunk that is not the one it committed to");
            }
            if lanes::add(chunking.modulus(), buffer, words).is_err() {
                faults.push("has bits set beyond its last entry");
            }
        }
        if let Some(case) = self.replay.cases.front_mut() {
            for fault in faults {
                case.faults.push(format!(
                    "the vector of {} for {} {fault}",
                    name.client, name.cluster
                ));
            }
        }
        Ok(())
    }

    fn close(&mut self, mut case: Case<'a>, report: &mut Report) {
        let worth = self.sample.worth(self.replay.chunking.count());
        let mut check = report.check(CheckName::Vectors, case.scene.place);
        for fault in std::mem::take(&mut case.faults) {
            check.violated(|| fault);
        }
        check.not_checkable(worth.clone());
        check.done();

        let pieces = std::mem::take(&mut self.pieces);
        let mut check = report.check(CheckName::Sums, case.scene.place);
        let mut opened = Vec::new();
        for result in &case.sums.body.results {
            let piece = pieces.get(&result.cluster);
            let masks = unmask::accounted(&mut check, &case, result, piece.map(|piece| &piece.clients));
            let words = masks.zip(piece).map(|(masks, piece)| {
                let mut words = piece.words.clone();
                for (index, words) in &mut words {
                    let start = self.replay.chunking.range(*index).unwrap_or_default().start;
                    let modulus = self.replay.chunking.modulus();
                    unmask::take_off(&masks, start as u64, words, modulus, 1);
                }
                words
            });
            if let Some(last) = words.as_ref().and_then(|words| words.last_key_value()) {
                unmask::weight(&mut check, &case, result, last.1);
            }
            opened.push((result, words));
        }
        check.not_checkable(worth.clone());
        check.done();

        let mut check = report.check(CheckName::Models, case.scene.place);
        check.not_checkable(worth);
        for (result, words) in opened {
            if let Some(Err(reason)) = words.map(|words| self.follow(&case, result, &words)) {
                check.violated(|| reason);
            }
        }
        check.done();
    }

    /// What the chunks drawn make of the model; held against the new model when that comes.
    fn follow(
        &mut self,
        case: &Case<'_>,
        result: &ClusterResult,
        words: &BTreeMap<usize, Vec<u32>>,
    ) -> Result<(), String> {
        let Some(cluster) = case.cluster(result) else {
            return Ok(());
        };
        let weight = words
            .last_key_value()
            .and_then(|(_, last)| last.last())
            .copied()
            .unwrap_or(0);
        let old = self.replay.shelf.get(&cluster.model);
        let entries = old.map(|old| {
            let mut entries = BTreeMap::new();
            for (index, words) in words {
                let range = self.replay.chunking.range(*index).unwrap_or_default();
                let model = old.get(range.start..range.end.min(old.len())).unwrap_or_default();
                let sum = words.get(..model.len()).unwrap_or_default();
                let moved = mean_update(model, sum, weight, result.contributors, &self.replay.rule);
                entries.insert(*index, moved);
            }
            entries
        });
        self.replay.shelf.done_with(cluster.model);
        let Some(entries) = entries else {
            return Err(format!(
                "the model {:?} that {} starts from is not in the bundle, so that nobody can check the new one",
                cluster.model, result.cluster
            ));
        };
        // A model that stayed as it was is not given again.
        if let Some(model) = self.replay.shelf.get(&result.model) {
            return self
                .fits(&entries, model)
                .then_some(())
                .ok_or_else(|| not_the_mean(result.cluster));
        }
        self.awaited.entry(result.model).or_default().push(Awaited {
            place: case.scene.place,
            cluster: result.cluster,
            entries,
        });
        Ok(())
    }

    fn arrived(&mut self, digest: Digest, model: &[f32], report: &mut Report) {
        for one in self.awaited.remove(&digest).unwrap_or_default() {
            if !self.fits(&one.entries, model) {
                let mut check = report.check(CheckName::Models, one.place);
                check.violated(|| not_the_mean(one.cluster));
                check.done();
            }
        }
    }

    fn fits(&self, entries: &BTreeMap<usize, Vec<f32>>, model: &[f32]) -> bool {
        entries.iter().all(|(index, want)| {
            let range = self.replay.chunking.range(*index).unwrap_or_default();
            let there = model
                .get(range.start..range.end.min(model.len()))
                .unwrap_or_default();
            // As a digest would: bit for bit.
            there.len() == want.len()
                && there
                    .iter()
                    .zip(want)
                    .all(|(one, other)| one.to_bits() == other.to_bits())
        })
    }
}

fn not_the_mean(cluster: ClusterId) -> String {
    format!("the new model of {cluster} is not its old one plus the mean update")
}
