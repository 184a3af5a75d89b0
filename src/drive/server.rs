//! The server's driver: accepts clients, pumps one round machine after another, keeps log, models and vectors.

mod clustering;
mod error;
mod link;
mod links;
mod publish;
mod quorum;

pub use error::ServeError;

use super::{Clock, frame};
use crate::events::{LogHead, ServerEvent, Sink};
use crate::store::{Resume, ServerStore};
use crate::witness::Quorum;
use chacha20::ChaCha20Rng;
use link::{Connected, Event, Outgoing, accept};
use links::{Step, Traffic};
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use veilsum_aggregation::server::{RoundRequest, Server, ServerOutput, ServerSetup};
use veilsum_aggregation::{Abort, Outcome, Refusal, ToClient};
use veilsum_attestation::disclosure::Window;
use veilsum_attestation::statement::{ClientSet, Phase};
use veilsum_attestation::{Head, Log};
use veilsum_crypto::{Attempt, ClientId, ClusterId, RoundId};
use veilsum_transport::{Listener, PeerId};

/// How the server runs its federation.
pub struct ServePlan {
    /// Identity, keys, policy, deadlines.
    pub setup: Arc<ServerSetup>,
    /// Members of each cluster; not used where the policy clusters by descriptors.
    pub clusters: Vec<ClientSet>,
    /// The model all clusters start from.
    pub initial: Arc<[f32]>,
    /// A round starts once so many clients are connected,
    pub wait_for: usize,
    /// or after this long, if at least the threshold is connected.
    pub start_after: Duration,
    /// How long a clustering waits for descriptors, where the policy clusters clients by their data.
    pub describe_within: Duration,
    /// Attempts at one round before giving up.
    pub attempts: u32,
    /// Who must have cosigned the log's head before a round starts; nobody without it.
    pub witnesses: Option<Quorum>,
    /// Die at this step, for tests of what a crash leaves behind. A step is anything kept or sent.
    pub crash_at_step: Option<u64>,
    /// Seed of all randomness of this run, from the system's generator in production.
    pub seed: [u8; 32],
}

/// Runs all rounds of the policy.
///
/// # Errors
/// [`ServeError`]: a round failed too often, storage failed, or the driver was told to stop.
pub async fn serve<L: Listener>(
    listener: L,
    plan: ServePlan,
    store: &mut ServerStore,
    resume: Resume,
    sink: &mut dyn Sink<ServerEvent>,
    stop: impl Future<Output = ()>,
) -> Result<Log, ServeError> {
    let policy = &plan.setup.policy;
    if policy.blocks > 0
        && policy.clustering.is_none()
        && resume.planned.is_some()
        && resume.clusters != plan.clusters
    {
        return Err(ServeError::Regrouped);
    }
    let (events, inbox) = mpsc::channel(256);
    let members = plan
        .setup
        .book
        .members()
        .values()
        .map(|member| (PeerId(member.tls.0), member.client))
        .collect();
    let door = tokio::spawn(accept(listener, members, events));
    let mut driver = Driver {
        clock: Clock::start(),
        rng: ChaCha20Rng::from_seed(plan.seed),
        models: Vec::new(),
        clusters: Vec::new(),
        clustering: None,
        window: Window::new(plan.setup.policy.clients as usize, WINDOW),
        plan,
        store,
        sink,
        inbox,
        links: BTreeMap::new(),
        heads: BTreeMap::new(),
        retired: Traffic::default(),
        round_base: Traffic::default(),
        next_link: 0,
        ending: None,
        excluded: BTreeSet::new(),
        shown: None,
        steps: 0,
    };
    driver.stand(resume.planned, resume.clusters, resume.models);
    driver.store.keep_model(&driver.plan.initial)?;
    let result = tokio::select! {
        biased;
        () = stop => Err(ServeError::Stopped),
        result = driver.all(resume.log, resume.round, resume.attempt) => result,
    };
    driver.close().await;
    door.abort();
    result
}

struct Driver<'a> {
    clock: Clock,
    rng: ChaCha20Rng,
    /// The clusters now, and the model of each.
    clusters: Vec<ClientSet>,
    models: Vec<Arc<[f32]>>,
    /// The clustering they come from, where the policy has one.
    clustering: Option<u64>,
    /// The sums opened in the last rounds.
    window: Window,
    plan: ServePlan,
    store: &'a mut ServerStore,
    sink: &'a mut dyn Sink<ServerEvent>,
    inbox: mpsc::Receiver<Event>,
    links: BTreeMap<ClientId, Connected>,
    heads: BTreeMap<ClientId, Head>,
    /// Bytes of links that have ended.
    retired: Traffic,
    /// Bytes of all links when the round began.
    round_base: Traffic,
    next_link: u64,
    /// The last attempt's end, for clients that were away.
    ending: Option<((RoundId, Attempt), veilsum_transport::Frame)>,
    /// Clients that dealt bad shares: not asked again until the operator starts the server anew.
    excluded: BTreeSet<ClientId>,
    /// The progress shown last.
    shown: Option<(RoundId, Attempt, Phase, usize, usize)>,
    /// Things kept or sent so far.
    steps: u64,
}

impl Driver<'_> {
    async fn all(&mut self, log: Log, round: RoundId, attempt: Attempt) -> Result<Log, ServeError> {
        let (log, round, attempt) = self.recover(log, round, attempt)?;
        if round.0 > self.plan.setup.policy.rounds {
            self.linger().await?;
        }
        self.rounds(log, round, attempt).await
    }

    /// Goes on with the clusters and models of the log, or begins with the operator's.
    fn stand(
        &mut self,
        planned: Option<RoundId>,
        clusters: Vec<ClientSet>,
        models: BTreeMap<ClusterId, Arc<[f32]>>,
    ) {
        if let Some(rule) = self.plan.setup.policy.clustering {
            self.clustering = planned.map(|round| rule.number(round));
            self.clusters = clusters;
        } else {
            self.clusters.clone_from(&self.plan.clusters);
        }
        self.models = self
            .clusters
            .iter()
            .map(|_| Arc::clone(&self.plan.initial))
            .collect();
        for (cluster, model) in models {
            if let Some(slot) = self.models.get_mut(usize::from(cluster.0)) {
                *slot = model;
            }
        }
    }

    /// Counts steps, and dies at the one it was told to: for tests of what a crash leaves behind.
    fn step(&mut self) {
        self.steps += 1;
        if self.plan.crash_at_step == Some(self.steps) {
            std::process::abort();
        }
    }

    /// All rounds were over when this server started: the one before it may have died before it told its clients. They
    /// notice within seconds, come back, and are told by the connection's end.
    async fn linger(&mut self) -> Result<(), ServeError> {
        let until = Instant::now() + LINGER;
        while self.links.len() < self.plan.setup.book.members().len() {
            match tokio::time::timeout_at(until, self.inbox.recv()).await {
                Ok(Some(event)) => {
                    self.take(event)?;
                }
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Ends the attempt that the log leaves open, if it does: a server before this one stopped in the middle.
    fn recover(
        &mut self,
        log: Log,
        next: RoundId,
        attempt: Attempt,
    ) -> Result<(Log, RoundId, Attempt), ServeError> {
        let rng = ChaCha20Rng::from_seed(self.draw());
        let setup = Arc::clone(&self.plan.setup);
        let mut server = match Server::recover(setup, log, &*self.store, self.clock.now(), rng) {
            Ok(server) => server,
            Err(log) => return Ok((log, next, attempt)),
        };
        let (round, tried) = server.attempt();
        let mut result = None;
        self.drain(&mut server, round, tried, &mut result)?;
        let revealed = server.asked_to_reveal();
        let (log, _) = server.into_parts();
        match result {
            Some(Ok(outcome)) => {
                self.finish_round(&outcome, tried, log.head())?;
                Ok((log, RoundId(round.0 + 1), Attempt(0)))
            }
            Some(Err(abort)) => {
                self.fail_round(round, tried, &abort, log.head())?;
                Ok(if revealed {
                    (log, RoundId(round.0 + 1), Attempt(0))
                } else {
                    (log, round, Attempt(tried.0 + 1))
                })
            }
            None => Err(ServeError::Internal("a lost attempt has no end")),
        }
    }

    async fn rounds(
        &mut self,
        mut log: Log,
        first: RoundId,
        mut attempt: Attempt,
    ) -> Result<Log, ServeError> {
        let mut tried = 0;
        let mut round = first;
        while round.0 <= self.plan.setup.policy.rounds {
            self.gather().await?;
            log = self.clustered(log, round).await?;
            self.witnessed(&log).await?;
            let request = RoundRequest {
                round,
                attempt,
                clusters: self
                    .clusters
                    .iter()
                    .cloned()
                    .zip(self.models.iter().cloned())
                    .collect(),
                graph_seed: self.draw(),
                present: self
                    .links
                    .keys()
                    .filter(|client| !self.excluded.contains(client))
                    .map(|client| (*client, self.head_of(*client)))
                    .collect(),
            };
            let Ended {
                result,
                log: rest,
                revealed,
            } = self.attempt(log, request).await?;
            log = rest;
            match result {
                Ok(outcome) => {
                    self.finish_round(&outcome, attempt, log.head())?;
                    round = RoundId(round.0 + 1);
                    attempt = Attempt(0);
                    tried = 0;
                }
                Err(abort) => {
                    self.fail_round(round, attempt, &abort, log.head())?;
                    let failed = round;
                    // Clients that revealed answer nothing more of this round: it is over, without a sum.
                    if revealed {
                        round = RoundId(round.0 + 1);
                        attempt = Attempt(0);
                    } else {
                        attempt = Attempt(attempt.0 + 1);
                    }
                    tried += 1;
                    let hopeless = matches!(
                        abort,
                        Abort::PlanLeaks { .. } | Abort::SmallBlock { .. } | Abort::BadPlan(_)
                    );
                    if hopeless || tried >= self.plan.attempts {
                        return Err(ServeError::Round {
                            round: failed,
                            attempts: tried,
                            abort,
                        });
                    }
                }
            }
        }
        Ok(log)
    }

    /// Waits until enough clients are connected.
    async fn gather(&mut self) -> Result<(), ServeError> {
        let deadline = Instant::now() + self.plan.start_after;
        let threshold = self.plan.setup.policy.threshold as usize;
        let members = self.plan.setup.book.members().len();
        let wait_for = self.plan.wait_for.min(members - self.excluded.len());
        loop {
            if self.usable() >= wait_for {
                return Ok(());
            }
            match tokio::time::timeout_at(deadline, self.inbox.recv()).await {
                Ok(Some(event)) => {
                    self.take(event)?;
                }
                Ok(None) => return Err(ServeError::ListenerClosed),
                Err(_) if self.usable() >= threshold => return Ok(()),
                Err(_) => {
                    return Err(ServeError::TooFewClients {
                        have: self.usable(),
                        need: threshold,
                    });
                }
            }
        }
    }

    /// Runs one attempt to its end.
    async fn attempt(&mut self, log: Log, request: RoundRequest) -> Result<Ended, ServeError> {
        let (round, attempt) = (request.round, request.attempt);
        self.round_base = self.traffic();
        self.emit(&ServerEvent::Round {
            round: round.0,
            attempt: attempt.0,
            clusters: request
                .clusters
                .iter()
                .map(|(set, _)| numbers(set.iter()))
                .collect(),
            bytes_in: self.round_base.received,
            bytes_out: self.round_base.sent,
        })?;
        let rng = ChaCha20Rng::from_seed(self.draw());
        let now = self.clock.now();
        let mut server = match Server::start(Arc::clone(&self.plan.setup), log, request, now, rng) {
            Ok(server) => server,
            Err((abort, log)) => {
                return Ok(Ended {
                    result: Err(abort),
                    log,
                    revealed: false,
                });
            }
        };
        let mut result = None;
        loop {
            self.drain(&mut server, round, attempt, &mut result)?;
            if let Some(result) = result.take_if(|_| server.is_over()) {
                let revealed = server.asked_to_reveal();
                let (log, heads) = server.into_parts();
                self.heads.extend(heads);
                return Ok(Ended {
                    result,
                    log,
                    revealed,
                });
            }
            let Some(deadline) = server.poll_deadline() else {
                return Err(ServeError::Internal("a round ended without a result"));
            };
            tokio::select! {
                biased;
                event = self.inbox.recv() => {
                    let event = event.ok_or(ServeError::ListenerClosed)?;
                    let step = self.take(event)?;
                    let now = self.clock.now();
                    match step {
                        Step::Joined(client, hello) if !self.excluded.contains(&client) => {
                            server.join(client, &hello, now);
                        }
                        Step::Left(client) => server.gone(client, now),
                        Step::Said(client, message) => server.handle(client, message, now),
                        // Somebody who is left out may wait and watch.
                        Step::Joined(..) | Step::Nothing => {}
                    }
                    // However many messages there are, time passes.
                    server.handle_deadline(now);
                }
                () = tokio::time::sleep_until(self.clock.instant(deadline)) => server.handle_deadline(self.clock.now()),
            }
        }
    }

    /// Does what the machine asks for, in its order: what must be stored is stored before what follows is sent.
    fn drain(
        &mut self,
        server: &mut Server<ChaCha20Rng>,
        round: RoundId,
        attempt: Attempt,
        result: &mut Option<Result<Outcome, Abort>>,
    ) -> Result<(), ServeError> {
        while let Some(output) = server.poll_output() {
            self.step();
            match output {
                ServerOutput::Send(to, message) => {
                    let ends = matches!(message, ToClient::Published(_) | ToClient::Aborted(_));
                    let message = frame(
                        message
                            .encode()
                            .map_err(|_| ServeError::Internal("a message is too long"))?,
                    );
                    if ends {
                        self.ending = Some(((round, attempt), message.clone()));
                    }
                    self.post(to, Outgoing::Frame(message));
                }
                ServerOutput::Record(entry) => self.store.append(&entry)?,
                ServerOutput::Store {
                    client,
                    cluster,
                    bytes,
                } => {
                    self.store.keep_vector(round, attempt, client, cluster, &bytes)?;
                }
                ServerOutput::Refused(client, refusal) => {
                    if refusal == (Refusal::BadShare { dealer: client }) {
                        self.exclude(client)?;
                    }
                    self.emit(&ServerEvent::Refused {
                        client: client.0,
                        reason: refusal.to_string(),
                    })?;
                }
                ServerOutput::Progress { phase, have, want } => {
                    let shown = (round, attempt, phase, have, want);
                    if self.shown.replace(shown) == Some(shown) {
                        continue;
                    }
                    let now = self.clock.now();
                    let left = server
                        .poll_deadline()
                        .map_or(0, |deadline| deadline.0.saturating_sub(now.0));
                    let traffic = self.round_traffic();
                    self.emit(&ServerEvent::Phase {
                        round: round.0,
                        phase: phase.name().to_owned(),
                        have: small(have),
                        want: small(want),
                        deadline_ms: left,
                        bytes_in: traffic.received,
                        bytes_out: traffic.sent,
                    })?;
                }
                ServerOutput::Done(outcome) => {
                    for opened in &outcome.opened {
                        self.store.keep_model(&opened.model)?;
                    }
                    *result = Some(Ok(outcome));
                }
                ServerOutput::Aborted(abort) => {
                    if let Abort::BadDealer { client } = abort {
                        self.exclude(client)?;
                    }
                    *result = Some(Err(abort));
                }
            }
        }
        Ok(())
    }

    fn head_of(&self, client: ClientId) -> Head {
        self.heads.get(&client).copied().unwrap_or_else(Head::empty)
    }

    fn draw(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    fn emit(&mut self, event: &ServerEvent) -> Result<(), ServeError> {
        self.sink
            .emit(self.clock.now().0, event)
            .map_err(|_| ServeError::NobodyListens)
    }
}

/// How an attempt ended.
struct Ended {
    result: Result<Outcome, Abort>,
    log: Log,
    /// Clients were asked to reveal: the round is over for those that did.
    revealed: bool,
}

fn numbers<'a>(clients: impl Iterator<Item = &'a ClientId>) -> Vec<u32> {
    clients.map(|client| client.0).collect()
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A head as events print it.
#[must_use]
pub fn log_head(head: Head) -> LogHead {
    LogHead {
        size: head.size,
        root: head.root.to_hex(),
    }
}

/// Rounds of the window.
const WINDOW: NonZeroUsize = NonZeroUsize::new(10).expect("above zero");
/// A client notices a dead server after 5 s and waits at most 4 s between two tries.
const LINGER: Duration = Duration::from_secs(15);
