//! The client's driver: connects, pumps the machine, hands work to the learner, comes back after a lost connection.

mod describe;
mod error;
mod upload;
mod work;

pub use error::JoinError;
pub use work::{Work, WorkError};

use super::{Clock, frame, model};
use crate::events::{ClientEvent, Sink};
use crate::private;
use crate::store::ClientStore;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use veilsum_aggregation::client::Membership;
use veilsum_aggregation::{Client, ClientOutput, Refusal, ToClient, ToServer};
use veilsum_crypto::{ClusterId, Digest, RoundId, wire};
use veilsum_learner::Scores;
use veilsum_transport::{Connector, FrameReceiver, FrameSender, Link, LinkStats, Meter, TransportError};
use work::{Job, JobResult, Trained};

/// How a client takes part.
pub struct JoinPlan {
    /// Who it is and what it signed up to.
    pub member: Arc<Membership>,
    /// The members and the policy as the authority signed them, for evidence files.
    pub genesis: Vec<Vec<u8>>,
    /// The server's address, for events.
    pub addr: String,
    /// Give up when the server cannot be reached for this long.
    pub give_up_after: Duration,
    /// Stop in the middle of this round's upload, for demos and tests of dropouts.
    pub stall_upload_in_round: Option<u64>,
    /// Die at this step, for tests of what a crash leaves behind. A step is anything kept or sent.
    pub crash_at_step: Option<u64>,
}

/// Takes part until the policy's rounds are over.
///
/// # Errors
/// [`JoinError`].
pub async fn join<C: Connector>(
    connector: &C,
    plan: JoinPlan,
    work: Work,
    store: ClientStore,
    sink: &mut dyn Sink<ClientEvent>,
    rng: ChaCha20Rng,
) -> Result<(), JoinError> {
    let member = Arc::clone(&plan.member);
    let mut rng = rng;
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let noise = ChaCha20Rng::from_seed(seed);
    let mut work = work;
    if let Some(sealed) = store.private()? {
        work.restore(&private::open(&sealed, &plan.member)?)?;
    }
    let machine = match store.journal()? {
        Some(journal) => Client::restore(member, store.head()?, &journal, rng)?,
        None => Client::new(member, store.head()?, rng)?,
    };
    let mut driver = Driver {
        clock: Clock::start(),
        machine,
        plan,
        store,
        sink,
        shelf: model::Shelf::default(),
        work: Some(work),
        queue: VecDeque::new(),
        running: None,
        wanted: None,
        describing: None,
        drawing: BTreeSet::new(),
        noise,
        scored: BTreeMap::new(),
        announced: BTreeMap::new(),
        round: RoundId(0),
        over: RoundId(0),
        base: LinkStats::default(),
        generation: 0,
        heard: false,
        steps: 0,
    };
    driver.run(connector).await
}

struct Driver<'a> {
    clock: Clock,
    machine: Client<ChaCha20Rng>,
    plan: JoinPlan,
    store: ClientStore,
    sink: &'a mut dyn Sink<ClientEvent>,
    shelf: model::Shelf,
    /// The learner, while no job runs.
    work: Option<Work>,
    queue: VecDeque<Job>,
    running: Option<JoinHandle<(Work, JobResult)>>,
    /// The round that waits for its models to arrive before it can be trained for.
    wanted: Option<(RoundId, Vec<(ClusterId, Digest)>)>,
    /// The clustering whose descriptor waits for the model it is made with.
    describing: Option<u64>,
    /// The clusterings whose descriptors are being made: asked for again, in whatever order, none is made twice.
    drawing: BTreeSet<u64>,
    /// Salts, and seeds of the descriptors' noise.
    noise: ChaCha20Rng,
    /// The last model of each cluster that was scored.
    scored: BTreeMap<ClusterId, Digest>,
    /// New models that were announced, to be scored as soon as they are here.
    announced: BTreeMap<ClusterId, (RoundId, Digest)>,
    /// The round this client works on.
    round: RoundId,
    /// The last round that is over for this client, one way or the other.
    over: RoundId,
    base: LinkStats,
    /// Counts rounds begun and ended: work begun for one is never sent in another.
    generation: u64,
    /// The server has said something on this connection.
    heard: bool,
    /// Things kept or sent so far.
    steps: u64,
}

/// How a connection ended.
enum Ended {
    /// In order, by the server.
    InOrder,
    Lost(TransportError),
}

impl Driver<'_> {
    async fn run<C: Connector>(&mut self, connector: &C) -> Result<(), JoinError> {
        let mut lost_since: Option<Instant> = None;
        let mut wait = FIRST_WAIT;
        loop {
            let ended = match connector.connect().await {
                Ok(link) => {
                    let addr = self.plan.addr.clone();
                    self.emit(&ClientEvent::Joined {
                        client: self.plan.member.me.0,
                        addr,
                    })?;
                    let ended = self.connected(link).await?;
                    // A server that takes the connection and says nothing is as good as none.
                    if self.heard {
                        lost_since = None;
                        wait = FIRST_WAIT;
                    }
                    ended
                }
                Err(error) if !error.retry() => return Err(JoinError::Transport(error)),
                Err(error) => Ended::Lost(error),
            };
            let reason = match ended {
                Ended::InOrder if self.over.0.max(self.round.0) >= self.plan.member.policy.rounds => {
                    self.finish_work().await?;
                    self.emit(&ClientEvent::Finished)?;
                    return Ok(());
                }
                Ended::InOrder => "the server closed the connection before the last round".to_owned(),
                Ended::Lost(error) if !error.retry() => return Err(JoinError::Transport(error)),
                Ended::Lost(error) => error.to_string(),
            };
            let since = *lost_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.plan.give_up_after {
                return Err(JoinError::ServerLost {
                    seconds: self.plan.give_up_after.as_secs(),
                    reason,
                });
            }
            let retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            self.emit(&ClientEvent::Disconnected { reason, retry_ms })?;
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST_WAIT);
        }
    }

    /// Pumps one connection until it ends.
    async fn connected<L: Link>(&mut self, link: L) -> Result<Ended, JoinError> {
        let meter = link.meter();
        let (mut sender, mut receiver) = link.split();
        self.base = meter.stats();
        self.heard = false;
        self.machine.connected();
        loop {
            if let Err(ended) = self.outputs(&mut sender, &meter).await? {
                return Ok(ended);
            }
            self.start_work();
            tokio::select! {
                biased;
                incoming = receiver.recv() => match incoming {
                    Ok(Some(frame)) => self.received(&frame)?,
                    Ok(None) => return Ok(Ended::InOrder),
                    Err(error) => return Ok(Ended::Lost(error)),
                },
                finished = next_result(&mut self.running) => {
                    let (work, result) = finished?;
                    self.running = None;
                    self.work = Some(work);
                    self.worked(result)?;
                }
            }
        }
    }

    /// Does what the machine asks for, in its order: what must be kept is on disk before what follows is sent. When the
    /// connection is lost on the way, what is left is kept and nothing more is sent.
    async fn outputs<S: FrameSender>(
        &mut self,
        sender: &mut S,
        meter: &Meter,
    ) -> Result<Result<(), Ended>, JoinError> {
        let mut lost = None;
        while let Some(output) = self.machine.poll_output() {
            self.step();
            match output {
                ClientOutput::Send(message) => {
                    if lost.is_none() {
                        lost = sender.send(frame(message.encode()?)).await.err();
                    }
                }
                ClientOutput::Upload { round, attempt, from } => {
                    if lost.is_none() {
                        lost = self.upload(sender, (round, attempt), &from).await?;
                    }
                }
                ClientOutput::Spool {
                    round,
                    attempt,
                    cluster,
                    packed,
                } => self.store.keep_upload(round, attempt, cluster, &packed)?,
                ClientOutput::Evidence(evidence) => {
                    let path = self
                        .store
                        .keep_evidence(self.round, &self.plan.genesis, *evidence)?;
                    tracing::error!(path = %path.display(), "the server showed what it must not; the evidence is kept: `veilsum evidence` says what it proves");
                }
                ClientOutput::Describe { clustering } => match self.store.descriptor(clustering)? {
                    Some(answer) => {
                        let answer = ToServer::Described(wire::decode(&answer)?);
                        if lost.is_none() {
                            lost = sender.send(frame(answer.encode()?)).await.err();
                        }
                    }
                    None if self.drawing.contains(&clustering) => {}
                    None => self.describing = Some(clustering),
                },
                ClientOutput::KeepDescriptor {
                    clustering,
                    described,
                } => self
                    .store
                    .keep_descriptor(clustering, &wire::encode(&described)?)?,
                ClientOutput::Journal(journal) => self.store.write_journal(&journal)?,
                ClientOutput::Train { round, clusters } => {
                    self.round = round;
                    self.generation += 1;
                    self.wanted = Some((round, clusters));
                }
                ClientOutput::Keep(head) => self.store.keep(head)?,
                ClientOutput::Progress { doing } => {
                    self.emit(&ClientEvent::Phase {
                        round: self.round.0,
                        doing: doing.to_owned(),
                    })?;
                }
                ClientOutput::Done {
                    round,
                    models,
                    withheld,
                } => {
                    self.over = round;
                    self.store.forget_uploads()?;
                    let stats = meter.stats();
                    self.emit(&ClientEvent::RoundDone {
                        round: round.0,
                        released: models.iter().map(|(cluster, _)| u32::from(cluster.0)).collect(),
                        withheld: withheld.iter().map(|cluster| u32::from(cluster.0)).collect(),
                        bytes_sent: stats.sent_bytes.saturating_sub(self.base.sent_bytes),
                        bytes_received: stats.received_bytes.saturating_sub(self.base.received_bytes),
                    })?;
                    self.base = stats;
                    self.announced.extend(
                        models
                            .into_iter()
                            .map(|(cluster, digest)| (cluster, (round, digest))),
                    );
                    self.score_announced();
                }
                ClientOutput::Ended { round, reason } => self.round_ended(round, reason)?,
            }
        }
        Ok(match lost {
            Some(error) => Err(Ended::Lost(error)),
            None => Ok(()),
        })
    }

    /// Counts steps, and dies at the one it was told to: for tests of what a crash leaves behind.
    fn step(&mut self) {
        self.steps += 1;
        if self.plan.crash_at_step == Some(self.steps) {
            std::process::abort();
        }
    }

    fn received(&mut self, frame: &veilsum_transport::Frame) -> Result<(), JoinError> {
        self.heard = true;
        if frame.kind == model::MODEL_PART {
            if self
                .shelf
                .take(&frame.body, self.plan.member.policy.update.entries)?
                .is_some()
            {
                self.score_announced();
            }
            return Ok(());
        }
        let message = ToClient::decode(frame.kind, &frame.body).map_err(Refusal::from)?;
        match self.machine.handle(message, self.clock.now()) {
            Ok(()) => Ok(()),
            // A refusal ends this round for this client and no more: the next plan may be a good one.
            Err(refusal) => self.round_ended(self.round, format!("{}: {refusal}", refusal.name())),
        }
    }

    fn round_ended(&mut self, round: RoundId, reason: String) -> Result<(), JoinError> {
        self.over = self.over.max(round);
        self.store.forget_uploads()?;
        self.generation += 1;
        self.wanted = None;
        self.queue.retain(|job| !matches!(job, Job::Train { .. }));
        self.emit(&ClientEvent::RoundEnded {
            round: round.0,
            reason,
        })
    }

    /// Begins the next job, if the learner is free.
    fn start_work(&mut self) {
        self.queue_descriptor();
        if let Some((round, clusters)) = &self.wanted {
            let models: Option<Vec<_>> = clusters
                .iter()
                .map(|(cluster, digest)| {
                    Some((*cluster, *digest, self.shelf.get(*cluster, digest)?.to_vec()))
                })
                .collect();
            if let Some(models) = models {
                let round = *round;
                self.wanted = None;
                // A model nobody scored yet is the one this round starts from.
                for (cluster, digest, model) in &models {
                    if self.scored.get(cluster) != Some(digest) {
                        self.scored.insert(*cluster, *digest);
                        let before = RoundId(round.0.saturating_sub(1));
                        self.queue.push_back(Job::Score {
                            round: before,
                            cluster: *cluster,
                            model: model.clone(),
                        });
                    }
                }
                self.queue.push_back(Job::Train {
                    round,
                    generation: self.generation,
                    models,
                });
            }
        }
        if self.running.is_none()
            && let Some(job) = self.queue.pop_front()
        {
            if let Some(mut work) = self.work.take() {
                if let Job::Train { round, .. } = &job {
                    // Losing this line only costs the display; the round goes on.
                    let _ = self.emit(&ClientEvent::Training { round: round.0 });
                }
                self.running = Some(tokio::task::spawn_blocking(move || {
                    let result = work.run(job);
                    (work, result)
                }));
            } else {
                self.queue.push_front(job);
            }
        }
    }

    fn worked(&mut self, result: JobResult) -> Result<(), JoinError> {
        match result {
            JobResult::Scored {
                round,
                cluster,
                evaluation: Ok(Some(score)),
            } => {
                let path = self.store.example_path(round.0, cluster.0);
                let example = match score.example {
                    Some(picture) => {
                        crate::store::write_atomic(&path, &picture)?;
                        Some(path.display().to_string())
                    }
                    None => None,
                };
                let (round, cluster) = (round.0, u32::from(cluster.0));
                self.emit(&match score.scores {
                    Scores::Depth(metrics) => ClientEvent::Evaluated {
                        round,
                        cluster,
                        images: score.images,
                        loss: score.loss,
                        metrics: metrics.into(),
                        example,
                    },
                    Scores::Bev(metrics) => ClientEvent::EvaluatedBev {
                        round,
                        cluster,
                        images: score.images,
                        loss: score.loss,
                        metrics: metrics.into(),
                        alarm: metrics.alarm().map(str::to_owned),
                        example,
                    },
                })
            }
            JobResult::Scored {
                evaluation: Ok(None), ..
            } => Ok(()),
            JobResult::Scored {
                evaluation: Err(error),
                ..
            } => Err(JoinError::Work(error)),
            JobResult::Described { clustering, outcome } => {
                self.drawing.remove(&clustering);
                match outcome {
                    Ok(descriptor) => self.described(clustering, descriptor),
                    Err(error) => self.not_described(clustering, "LearnerFailed", &error),
                }
            }
            JobResult::Trained { generation, .. } if generation != self.generation => Ok(()),
            JobResult::Trained {
                round,
                outcome: Ok(trained),
                ..
            } => {
                // What stays is on disk before what travels leaves: both are of one training.
                if let Some(state) = &trained.private {
                    let sealed = private::seal(state, &self.plan.member, &mut self.noise)?;
                    self.store.keep_private(&sealed)?;
                }
                self.trained(round, &trained)
            }
            JobResult::Trained {
                round,
                outcome: Err(error),
                ..
            } => {
                self.machine.leave("TrainingFailed");
                self.round_ended(round, format!("TrainingFailed: {error}"))
            }
        }
    }

    fn trained(&mut self, round: RoundId, trained: &Trained) -> Result<(), JoinError> {
        let report = &trained.report;
        self.emit(&ClientEvent::Trained {
            round: round.0,
            steps: report.steps,
            samples: report.samples,
            loss_first: report.loss_first,
            loss_last: report.loss_last,
            skipped: report.skipped_frames,
        })?;
        let weight = trained.weight.min(self.plan.member.policy.update.max_weight);
        match self.machine.update(&trained.updates, weight, self.clock.now()) {
            Ok(()) => Ok(()),
            Err(refusal) => self.round_ended(round, format!("{}: {refusal}", refusal.name())),
        }
    }

    /// Queues the scoring of announced models that have arrived.
    fn score_announced(&mut self) {
        let here: Vec<_> = self
            .announced
            .iter()
            .filter_map(|(cluster, (round, digest))| {
                self.shelf
                    .get(*cluster, digest)
                    .map(|model| (*cluster, *round, *digest, model.to_vec()))
            })
            .collect();
        for (cluster, round, digest, model) in here {
            self.announced.remove(&cluster);
            self.scored.insert(cluster, digest);
            self.queue.push_back(Job::Score {
                round,
                cluster,
                model,
            });
        }
    }

    /// Lets the learner score what is left.
    async fn finish_work(&mut self) -> Result<(), JoinError> {
        loop {
            self.start_work();
            if self.running.is_none() {
                return Ok(());
            }
            let (work, result) = next_result(&mut self.running).await?;
            self.running = None;
            self.work = Some(work);
            self.worked(result)?;
        }
    }

    fn emit(&mut self, event: &ClientEvent) -> Result<(), JoinError> {
        self.sink
            .emit(self.clock.now().0, event)
            .map_err(|_| JoinError::NobodyListens)
    }
}

/// The result of the running job; never, while none runs.
async fn next_result(
    running: &mut Option<JoinHandle<(Work, JobResult)>>,
) -> Result<(Work, JobResult), JoinError> {
    match running {
        Some(handle) => handle
            .await
            .map_err(|_| JoinError::Internal("the learner panicked")),
        None => std::future::pending().await,
    }
}

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LAST_WAIT: Duration = Duration::from_secs(4);
