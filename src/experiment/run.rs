//! One seed: the data, the common start, every arm, the scores.

use super::averaging::{Averaging, Plain};
use super::config::{Aggregation, ExperimentConfig};
use super::federation::Federation;
use super::masked::Masked;
use super::profile::{Profile, ProfileKind};
use super::results::{ArmResult, Score, SeedResult};
use super::scenario::{Drawn, Sequence, pooled, relative};
use super::strategy::{Arm, Form, Group, IMAGES};
use super::{Bend, ExperimentError, Schedule};
use std::sync::Arc;
use std::time::Instant;
use veilsum_aggregation::cluster::{
    Closeness, Divergences, Linkage, Membership, Moves, Repair, hard, multi_membership, repair, route,
    sharing, soft,
};
use veilsum_attestation::disclosure::CrowdRule;
use veilsum_attestation::statement::Plan;
use veilsum_learner::{DepthMetrics, LearnError, Learner, TrainLength, TrainPlan, Weights};

/// Tells how far an experiment is.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// Everything of one seed that all arms share.
struct Bench<'a> {
    config: &'a ExperimentConfig,
    seed: u64,
    drawn: Drawn,
    start: Weights,
    /// Scores unseen sequences; never trained.
    unseen: Vec<Box<dyn Learner>>,
    /// Scores clients' own test frames where no client trains.
    own: Vec<Box<dyn Learner>>,
    profiles: Vec<(ProfileKind, Arc<Profiles>)>,
    done: Vec<(Bend, Setup, ArmResult)>,
}

/// Of one kind.
struct Profiles {
    clients: Vec<Profile>,
    unseen: Vec<Profile>,
    matrix: Divergences,
}

/// Clusters, and how an unseen sequence finds its own.
#[derive(Clone, PartialEq)]
struct Setup {
    clusters: Membership,
    by: Option<ProfileKind>,
    /// Clusters within it serve an unseen sequence; below 0 the nearest alone does.
    tau: f64,
    overlap: f64,
    jump: Option<f64>,
    repairs: usize,
}

/// Runs all arms on one seed.
///
/// # Errors
/// [`ExperimentError`]: whatever stops an arm.
pub fn run_seed(
    config: &ExperimentConfig,
    arms: &[Arm],
    seed: u64,
    progress: Progress<'_>,
) -> Result<SeedResult, ExperimentError> {
    let begin = Instant::now();
    progress(&format!(
        "seed {seed}: drawing frames and training the common start"
    ));
    let mut bench = Bench::new(config, seed, progress)?;
    let prepared_s = begin.elapsed().as_secs_f64();
    let mut results = Vec::with_capacity(arms.len());
    for arm in arms {
        let result = bench.arm(arm)?;
        progress(&format!(
            "seed {seed}: {:<12} AbsRel {:.4} in {:.1} s",
            result.label,
            result.mean(|score| score.metrics.abs_rel),
            result.wall_s
        ));
        results.push(result);
    }
    Ok(SeedResult {
        seed,
        config: config.digest(),
        clients: bench
            .drawn
            .clients
            .iter()
            .map(|client| client.domain.clone())
            .collect(),
        start: hex::encode(bench.start.fingerprint()),
        prepared_s,
        wall_s: begin.elapsed().as_secs_f64(),
        arms: results,
    })
}

impl<'a> Bench<'a> {
    fn new(config: &'a ExperimentConfig, seed: u64, progress: Progress<'_>) -> Result<Self, ExperimentError> {
        let drawn = config
            .scenario
            .draw(seed, config.learner.picture(), &config.base)?;
        for note in &drawn.notes {
            progress(note);
        }
        let public = drawn.public.iter().map(relative).collect::<Result<Vec<_>, _>>()?;
        let mut start = config.learner.initial(seed)?;
        let warm = config.warm_start;
        if warm.steps > 0 {
            let mut learner = config.learner.learner(seed, pooled("public", &public)?)?;
            learner.load(&start)?;
            learner.train(&TrainPlan {
                round: 1,
                length: TrainLength::Steps(warm.steps),
                learning_rate: warm.learning_rate,
                batch: warm.batch,
                seed,
            })?;
            start = learner.weights()?;
        }
        let learners = |all: &[Sequence]| {
            all.iter()
                .map(|sequence| config.learner.learner(seed, sequence.data.clone()))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            unseen: learners(&drawn.unseen)?,
            own: learners(&drawn.clients)?,
            config,
            seed,
            drawn,
            start,
            profiles: Vec::new(),
            done: Vec::new(),
        })
    }

    fn arm(&mut self, arm: &Arm) -> Result<ArmResult, ExperimentError> {
        let begin = Instant::now();
        if arm.group == Group::Pooled {
            return self.pooled(arm, begin);
        }
        let setup = self.setup(arm)?;
        // The same clusters train the same models; only routing may differ.
        let same = self
            .done
            .iter()
            .find(|(bend, other, _)| *bend == arm.bend && *other == setup);
        if let Some((_, _, result)) = same {
            let mut result = result.clone();
            result.same_as = Some(std::mem::replace(&mut result.label, arm.label.clone()));
            return Ok(result);
        }
        let clients = self
            .drawn
            .clients
            .iter()
            .map(|sequence| self.config.learner.learner(self.seed, sequence.data.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let mut federation = Federation::new(
            clients,
            setup.clusters.clone(),
            arm.bend,
            self.config.buffers,
            &self.start,
        )?;
        // Clients on their own hand nothing to anybody.
        let masked = self.config.aggregation == Aggregation::Masked && arm.group != Group::Alone;
        let mut averaging: Box<dyn Averaging> = if masked {
            Box::new(Masked::new(self.config.masks(self.seed)))
        } else {
            Box::new(Plain)
        };
        for _ in 0..self.config.training.rounds {
            federation.round(&self.config.training, self.seed, averaging.as_mut())?;
        }
        let scores = if self.config.routes() {
            self.routed(&setup, federation.served())?
        } else {
            self.own(&mut federation)?
        };
        let result = ArmResult {
            label: arm.label.clone(),
            same_as: None,
            masked,
            clusters: members(&setup.clusters),
            tau: setup.tau,
            overlap: setup.overlap,
            jump: setup.jump,
            sharing: sharing(&setup.clusters),
            multi_membership: multi_membership(&setup.clusters),
            donors: federation.donors(),
            repairs: setup.repairs,
            failures: federation.failures(),
            wall_s: begin.elapsed().as_secs_f64(),
            scores,
        };
        self.done.push((arm.bend, setup, result.clone()));
        Ok(result)
    }

    /// All frames in one place: as many steps as all clients together.
    fn pooled(&mut self, arm: &Arm, begin: Instant) -> Result<ArmResult, ExperimentError> {
        let clients = self.drawn.clients.len();
        let data = pooled(
            "all clients",
            self.drawn.clients.iter().map(|client| &client.data),
        )?;
        let learner = self.config.learner.learner(self.seed, data)?;
        let one =
            Membership::from_members(1, &[vec![0]]).map_err(|_| ExperimentError::Clusters("no client"))?;
        let mut federation = Federation::new(
            vec![learner],
            one.clone(),
            arm.bend,
            self.config.buffers,
            &self.start,
        )?;
        let schedule = Schedule {
            steps: self
                .config
                .training
                .steps
                .saturating_mul(u32::try_from(clients).unwrap_or(u32::MAX)),
            ..self.config.training
        };
        for _ in 0..schedule.rounds {
            federation.round(&schedule, self.seed, &mut Plain)?;
        }
        let model = federation
            .served()
            .first()
            .cloned()
            .unwrap_or_else(|| self.start.clone());
        let routes = self.config.routes();
        let (learners, sequences) = if routes {
            (&mut self.unseen, &self.drawn.unseen)
        } else {
            (&mut self.own, &self.drawn.clients)
        };
        let mut scores = Vec::new();
        for (learner, sequence) in learners.iter_mut().zip(sequences) {
            scores.push(score(learner.as_mut(), &model, sequence, vec![0], false)?);
        }
        Ok(ArmResult {
            label: arm.label.clone(),
            same_as: None,
            masked: false,
            clusters: vec![(0..clients).collect()],
            tau: f64::MAX,
            overlap: 1.0,
            jump: None,
            sharing: 1.0,
            multi_membership: 0.0,
            donors: super::statistics::number(clients),
            repairs: 0,
            failures: federation.failures(),
            wall_s: begin.elapsed().as_secs_f64(),
            scores,
        })
    }

    fn setup(&mut self, arm: &Arm) -> Result<Setup, ExperimentError> {
        let clients = self.drawn.clients.len();
        let of = |lists: &[Vec<usize>]| {
            Membership::from_members(clients, lists).map_err(|_| ExperimentError::Clusters("no such client"))
        };
        let plain = |clusters, by, overlap| Setup {
            clusters,
            by,
            tau: -1.0,
            overlap,
            jump: None,
            repairs: 0,
        };
        match &arm.group {
            Group::All | Group::Pooled => Ok(plain(of(&[(0..clients).collect()])?, None, 1.0)),
            Group::Alone => {
                let singles: Vec<Vec<usize>> = (0..clients).map(|client| vec![client]).collect();
                let by = self
                    .config
                    .routes()
                    .then_some(ProfileKind::Descriptor { images: IMAGES });
                Ok(plain(of(&singles)?, by, 0.0))
            }
            Group::Alike { by, form, threshold } => {
                let profiles = self.profiles(by)?;
                let matrix = &profiles.matrix;
                let tau = threshold
                    .choose(matrix)
                    .map_err(|error| ExperimentError::Set(error.to_string()))?;
                let wanted = match form {
                    Form::Soft => soft(matrix, tau.tau),
                    Form::Hard => hard(matrix, tau.tau, Linkage::Average),
                };
                let (clusters, repairs) = match self.config.crowd {
                    Some(crowd) => repaired(&wanted, matrix, tau.tau, crowd)?,
                    None => (wanted, 0),
                };
                Ok(Setup {
                    clusters,
                    by: Some(by.clone()),
                    // FedClust's and PACFL's newcomers join the nearest cluster.
                    tau: if matches!(by, ProfileKind::Descriptor { .. }) {
                        tau.tau
                    } else {
                        -1.0
                    },
                    overlap: tau.overlap,
                    jump: tau.jump,
                    repairs,
                })
            }
        }
    }

    /// Profiles of a kind, made once a seed by learners that are used for nothing else.
    fn profiles(&mut self, kind: &ProfileKind) -> Result<Arc<Profiles>, ExperimentError> {
        if let Some((_, made)) = self.profiles.iter().find(|(other, _)| other == kind) {
            return Ok(Arc::clone(made));
        }
        let of = |all: &[Sequence]| {
            all.iter()
                .map(|sequence| {
                    let shown = sequence.shown()?;
                    let mut learner = self.config.learner.learner(self.seed, shown.clone())?;
                    kind.of(
                        learner.as_mut(),
                        &shown,
                        &self.start,
                        &self.config.training,
                        self.seed,
                    )
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let (clients, unseen) = (of(&self.drawn.clients)?, of(&self.drawn.unseen)?);
        let made = Arc::new(Profiles {
            matrix: Profile::matrix(&clients)?,
            clients,
            unseen,
        });
        self.profiles.push((kind.clone(), Arc::clone(&made)));
        Ok(made)
    }

    /// Unseen sequences by the clusters they are near to.
    fn routed(&mut self, setup: &Setup, models: &[Weights]) -> Result<Vec<Score>, ExperimentError> {
        let profiles = match &setup.by {
            Some(by) => Some(self.profiles(by)?),
            None => None,
        };
        let mut routed = Vec::new();
        for (at, (learner, sequence)) in self.unseen.iter_mut().zip(&self.drawn.unseen).enumerate() {
            let own = profiles.as_ref().and_then(|all| Some((all, all.unseen.get(at)?)));
            let (clusters, fallback) = match own {
                None => (vec![0], false),
                Some((all, own)) => {
                    let distances: Vec<f64> = all.clients.iter().map(|client| own.distance(client)).collect();
                    let route = route(&distances, &setup.clusters, setup.tau);
                    (route.clusters, !route.within)
                }
            };
            let model = Weights::mean(clusters.iter().filter_map(|cluster| models.get(*cluster)))?;
            routed.push(score(learner.as_mut(), &model, sequence, clusters, fallback)?);
        }
        Ok(routed)
    }

    /// Every client's own test frames with the model it is served.
    fn own(&self, federation: &mut Federation) -> Result<Vec<Score>, ExperimentError> {
        let mut scores = Vec::new();
        for (client, sequence) in self.drawn.clients.iter().enumerate() {
            let clusters = federation.clusters();
            let mine = (0..clusters.clusters()).filter(|cluster| clusters.contains(*cluster, client));
            let mine: Vec<usize> = mine.collect();
            let learner = federation.serve(client)?;
            scores.push(Score {
                sequence: sequence.name.clone(),
                domain: sequence.domain.clone(),
                clusters: mine,
                fallback: false,
                metrics: depth(learner)?,
            });
        }
        Ok(scores)
    }
}

fn score(
    learner: &mut dyn Learner,
    model: &Weights,
    sequence: &Sequence,
    clusters: Vec<usize>,
    fallback: bool,
) -> Result<Score, ExperimentError> {
    learner.load(model)?;
    Ok(Score {
        sequence: sequence.name.clone(),
        domain: sequence.domain.clone(),
        clusters,
        fallback,
        metrics: depth(learner)?,
    })
}

fn depth(learner: &mut dyn Learner) -> Result<DepthMetrics, ExperimentError> {
    let evaluation = learner.evaluate()?;
    let wanted = LearnError::Task { wanted: "depth" };
    Ok(*evaluation.depth().ok_or(wanted)?)
}

fn members(clusters: &Membership) -> Vec<Vec<usize>> {
    (0..clusters.clusters())
        .map(|cluster| clusters.members(cluster).collect())
        .collect()
}

/// Clusters that give nobody away, and in how many steps.
fn repaired(
    wanted: &Membership,
    divergences: &Divergences,
    tau: f64,
    crowd: u32,
) -> Result<(Membership, usize), ExperimentError> {
    let orgs: Vec<u32> = (0..wanted.clients())
        .map(|client| u32::try_from(client).unwrap_or(u32::MAX))
        .collect();
    let done = repair(&Repair {
        clusters: wanted,
        orgs: &orgs,
        rule: CrowdRule { crowd, crowd_orgs: 1 },
        alike: 0,
        most: Plan::MOST_CLUSTERS,
        closeness: Some(Closeness { divergences, tau }),
        moves: Moves::default(),
    });
    if !done.verdict.is_safe() || done.clusters.clusters() == 0 {
        return Err(ExperimentError::Clusters(
            "no repair of these clusters hides everybody",
        ));
    }
    Ok((done.clusters, done.steps.len()))
}
