//! Which vectors and models a log calls for, and in which order. The exporter and the auditor use the same list, so what
//! one refuses to write the other refuses to read.

use super::BundleError;
use super::attempt::{Attempt, Transcript};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use veilsum_crypto::{Attempt as AttemptId, ClientId, ClusterId, Digest, RoundId};

/// Names a masked vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VectorName {
    /// Round.
    pub round: RoundId,
    /// Attempt at it.
    pub attempt: AttemptId,
    /// Whose.
    pub client: ClientId,
    /// For which cluster.
    pub cluster: ClusterId,
}

impl fmt::Display for VectorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} for {} in {}, {}",
            self.client, self.cluster, self.round, self.attempt
        )
    }
}

/// The part that comes next in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The model a released cluster starts from. May be left out.
    Model(Digest),
    /// A survivor's vector for a released cluster.
    Vector(VectorName),
}

/// Why a vector must not be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// The log has no published attempt of that number: it was aborted, is not over, or never was.
    NotPublished,
    /// The client is not among the survivors: it dropped, came late or was refused.
    NotSurvivor,
    /// The cluster's sum was withheld, or the client is not in the cluster.
    NotReleased,
    /// It was given before, or another vector comes first.
    OutOfOrder,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPublished => "that attempt opened no sum",
            Self::NotSurvivor => "the client is not among the survivors",
            Self::NotReleased => "the client has no vector in a released cluster of that number",
            Self::OutOfOrder => "it was given before, or another vector comes first",
        })
    }
}

/// The parts still to come, in order.
#[derive(Debug)]
pub(crate) struct DueList {
    parts: VecDeque<Due>,
    /// Vectors among them.
    vectors: usize,
    /// Every published attempt with its survivors that have vectors: for saying why something is not due.
    published: BTreeMap<(RoundId, AttemptId), BTreeMap<ClientId, BTreeSet<ClusterId>>>,
}

impl DueList {
    /// What the log calls for.
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let mut list = Self {
            parts: VecDeque::new(),
            vectors: 0,
            published: BTreeMap::new(),
        };
        let mut named = BTreeSet::new();
        for attempt in &transcript.attempts {
            list.add(attempt, &mut named);
        }
        // What the last sums led to: a spot check compares it with the chunks it recomputes.
        for attempt in &transcript.attempts {
            for result in attempt.sums().iter().flat_map(|sums| sums.body.results.iter()) {
                if named.insert(result.model) {
                    list.parts.push_back(Due::Model(result.model));
                }
            }
        }
        list
    }

    fn add(&mut self, attempt: &Attempt, named: &mut BTreeSet<Digest>) {
        let (Some(sums), Some((_, agree))) = (attempt.sums(), attempt.agrees.first()) else {
            return;
        };
        let plan = &attempt.plan.body;
        for result in &sums.body.results {
            if let Some(cluster) = plan.cluster(result.cluster)
                && named.insert(cluster.model)
            {
                self.parts.push_back(Due::Model(cluster.model));
            }
        }
        let released: BTreeSet<ClusterId> = sums.body.results.iter().map(|result| result.cluster).collect();
        let mut survivors = BTreeMap::new();
        for client in agree.body.survivors.iter().copied() {
            let Some(masked) = attempt.masked.get(&client) else {
                continue;
            };
            let clusters: BTreeSet<ClusterId> = masked
                .body
                .vectors
                .iter()
                .map(|vector| vector.cluster)
                .filter(|cluster| released.contains(cluster))
                .collect();
            self.parts.extend(clusters.iter().map(|cluster| {
                Due::Vector(VectorName {
                    round: plan.round,
                    attempt: plan.attempt,
                    client,
                    cluster: *cluster,
                })
            }));
            self.vectors += clusters.len();
            survivors.insert(client, clusters);
        }
        self.published.insert((plan.round, plan.attempt), survivors);
    }

    /// What comes next.
    pub(crate) fn next(&self) -> Option<Due> {
        self.parts.front().copied()
    }

    /// The number of vectors still to come.
    pub(crate) fn vectors(&self) -> usize {
        self.vectors
    }

    /// Leaves out the model that is next, if one is.
    pub(crate) fn skip_model(&mut self) -> Option<Digest> {
        match self.next() {
            Some(Due::Model(digest)) => {
                self.parts.pop_front();
                Some(digest)
            }
            Some(Due::Vector(_)) | None => None,
        }
    }

    /// Takes a model that has come. Models before it are left out.
    pub(crate) fn take_model(&mut self, digest: Digest) -> Result<(), BundleError> {
        while let Some(next) = self.skip_model() {
            if next == digest {
                return Ok(());
            }
        }
        Err(BundleError::SurplusModel(digest))
    }

    /// Takes a vector that has come. Models before it are left out.
    pub(crate) fn take_vector(&mut self, name: VectorName) -> Result<(), BundleError> {
        let next = self.parts.iter().find_map(|part| match part {
            Due::Vector(next) => Some(*next),
            Due::Model(_) => None,
        });
        if next != Some(name) {
            let why = self.why_not(name);
            return Err(BundleError::ExportForbidden { name, why });
        }
        while self.skip_model().is_some() {}
        self.parts.pop_front();
        self.vectors -= 1;
        Ok(())
    }

    /// Takes an attempt whose vectors are gone, all of them. Models before them are left out.
    pub(crate) fn take_gone(&mut self, round: RoundId, attempt: AttemptId) -> Result<(), BundleError> {
        while self.skip_model().is_some() {}
        let mut gone = 0;
        while let Some(Due::Vector(name)) = self.next()
            && (name.round, name.attempt) == (round, attempt)
        {
            self.parts.pop_front();
            gone += 1;
        }
        self.vectors -= gone;
        // One given before leaves fewer than all.
        let whole = self
            .published
            .get(&(round, attempt))
            .map_or(0, |survivors| survivors.values().map(BTreeSet::len).sum());
        if gone == 0 || gone != whole {
            return Err(BundleError::NotGone(round, attempt));
        }
        Ok(())
    }

    /// The last round the log published; `None` before the first.
    pub(crate) fn last_published(&self) -> Option<RoundId> {
        self.published.keys().map(|(round, _)| *round).max()
    }

    /// Ends the list: no vector may be missing.
    pub(crate) fn finish(&mut self) -> Result<(), BundleError> {
        while self.skip_model().is_some() {}
        match self.next() {
            Some(Due::Vector(name)) => Err(BundleError::Missing(name)),
            Some(Due::Model(_)) | None => Ok(()),
        }
    }

    pub(crate) fn why_not(&self, name: VectorName) -> Forbidden {
        let Some(survivors) = self.published.get(&(name.round, name.attempt)) else {
            return Forbidden::NotPublished;
        };
        match survivors.get(&name.client) {
            None => Forbidden::NotSurvivor,
            Some(clusters) if !clusters.contains(&name.cluster) => Forbidden::NotReleased,
            Some(_) => Forbidden::OutOfOrder,
        }
    }
}
