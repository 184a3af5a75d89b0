//! The rows marked `quic`, with the real drivers over QUIC on loopback: every client is behind a relay of its own, and the
//! server's own events say when a line is cut.
//!
//! Time is real here, so a run is not the same twice; what must happen is.

mod learner;
mod relay;
mod watch;

use super::EngineError;
use super::coverage::Phase;
use super::fault::{Cast, Deed, Part, When};
use super::federation::{Contribution, Federation, Founding};
use super::grid::Size;
use super::invariant::attempts;
use super::run::{CaseRow, Row};
use super::scenario::{Case, Layout, Scenario};
use crate::config::TrainingConfig;
use crate::drive::client::{JoinPlan, Work, join};
use crate::drive::server::{ServeError, ServePlan, serve};
use crate::store::{ClientStore, ServerStore};
use chacha20::ChaCha20Rng;
use learner::Known;
use rand_core::{Rng, SeedableRng};
use relay::{Line, Relay};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use veilsum_aggregation::server::{Deadlines, ServerSetup};
use veilsum_attestation::audit::{Auditor, Trust};
use veilsum_attestation::model_digest;
use veilsum_crypto::{ClientId, ClusterId, Digest};
use veilsum_transport::{
    ConsortiumCa, IssueKind, Issued, Limits, QuicConnector, QuicListener, TlsIdentity, TrustRoots,
};
use watch::{Stall, Watch};

/// Why a case of a row is not run over QUIC, if it is not.
#[must_use]
pub fn not_over_quic(case: &Case) -> Option<&'static str> {
    let known = case.faults.iter().all(|fault| {
        match fault.does {
            Deed::Crash => fault.at == Some(Phase::P3) && fault.part == Some(Part::Half),
            // What is published is on its way at once; a line cannot be cut before it.
            Deed::Partition | Deed::Straggle => fault.at != Some(Phase::P6),
            Deed::Reorder => true,
            _ => false,
        }
    });
    match (known, case.check, case.rounds) {
        (true, None, 1) => None,
        _ => Some("this case needs the scheduler of the simulation"),
    }
}

/// Runs the cases of a row over QUIC at one size.
#[must_use]
pub fn run_row(scenario: &Scenario, n: u32, k: u32, seed: u64) -> Option<Row> {
    let start = Instant::now();
    let mut cases = Vec::new();
    let runs = |case: &&Case| {
        case.not_built.is_none() && case.runs_at(scenario, n, k) && not_over_quic(case).is_none()
    };
    for (number, case) in (0u64..).zip(scenario.cases.iter().filter(runs)) {
        let own = seed.wrapping_mul(1000).wrapping_add(number);
        let mut row = CaseRow {
            name: case.name.clone(),
            expected: case.expect.to_string(),
            observed: String::new(),
            ok: false,
            wrong: Vec::new(),
            seed: own,
        };
        match run_case(scenario, case, n, k, own) {
            Ok((observed, wrong)) => (row.observed, row.wrong) = (observed, wrong),
            Err(error) => row.wrong.push(format!("the engine stopped: {error}")),
        }
        row.ok = row.wrong.is_empty();
        cases.push(row);
    }
    let expected = joined(&cases, |case| &case.expected);
    let observed = joined(&cases, |case| &case.observed);
    (!cases.is_empty()).then(|| Row {
        id: scenario.id,
        title: scenario.title.clone(),
        n,
        k,
        seed,
        over: "quic",
        expected,
        observed,
        ok: cases.iter().all(|case| case.ok),
        transcript: String::new(),
        took_ms: start.elapsed().as_millis(),
        cases,
    })
}

fn joined(cases: &[CaseRow], of: fn(&CaseRow) -> &str) -> String {
    let distinct: BTreeSet<&str> = cases.iter().map(of).collect();
    distinct.into_iter().collect::<Vec<_>>().join(" | ")
}

/// What was seen, and what of it is wrong.
type Seen = (String, Vec<String>);

fn run_case(scenario: &Scenario, case: &Case, n: u32, k: u32, seed: u64) -> Result<Seen, EngineError> {
    let folder = Folder::new(seed)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|_| EngineError::Internal("no runtime"))?
        .block_on(Bed::set(scenario, case, n, k, seed, &folder.0)?.run(case))
}

/// A folder that goes when it is no longer needed.
struct Folder(PathBuf);

impl Folder {
    fn new(seed: u64) -> Result<Self, EngineError> {
        let path = std::env::temp_dir().join(format!("veilsum-compliance-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| EngineError::Network(error.to_string()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A federation on loopback, ready to run.
struct Bed<'a> {
    federation: Federation,
    ca: ConsortiumCa,
    server: Issued,
    clients: Vec<Issued>,
    contributions: BTreeMap<ClientId, Contribution>,
    cast: Cast,
    faults: Vec<(BTreeSet<ClientId>, super::fault::FaultSpec)>,
    deadlines: Deadlines,
    line: Line,
    seed: u64,
    folder: &'a Path,
}

impl<'a> Bed<'a> {
    fn set(
        scenario: &Scenario,
        case: &Case,
        n: u32,
        k: u32,
        seed: u64,
        folder: &'a Path,
    ) -> Result<Self, EngineError> {
        let now = SystemTime::now();
        let ca = ConsortiumCa::generate("compliance", DAY, now)?;
        let names = vec!["localhost".to_owned()];
        let server = ca.issue(&IssueKind::Server { names }, DAY, now)?;
        let clients = (0..n)
            .map(|client| {
                ca.issue(
                    &IssueKind::Client {
                        name: format!("client-{client}"),
                    },
                    DAY,
                    now,
                )
            })
            .collect::<Result<Vec<_>, _>>()?;
        let spec = case.policy.or(&scenario.policy);
        let size = Size::of(n, k, &spec).map_err(EngineError::Words)?;
        let layout = spec.clusters.unwrap_or(Layout::Overlap);
        let clusters = size.clusters(layout).map_err(EngineError::Words)?;
        let entries = case.entries.unwrap_or(2000);
        let federation = Federation::found(Founding {
            size,
            layout,
            clusters,
            entries,
            bits_short: 0,
            tag: 1,
            rounds: 1,
            tls: clients.iter().map(|issued| Digest(issued.peer_id.0)).collect(),
        })?;
        let mut dice = ChaCha20Rng::seed_from_u64(seed);
        let mut order: Vec<ClientId> = (0..n).map(ClientId).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, dice.next_u32() as usize % (last + 1));
        }
        let mut players = Cast::new(size, &federation.clusters, order);
        let faults = case
            .faults
            .iter()
            .map(|spec| Ok((players.pick(spec).map_err(EngineError::Words)?, spec.clone())))
            .collect::<Result<Vec<_>, EngineError>>()?;
        let bad = case.faults.iter().any(|fault| fault.does == Deed::Reorder);
        let contributions = (0..n)
            .map(ClientId)
            .map(|client| (client, Contribution::random(client, entries, &mut dice)))
            .collect();
        Ok(Self {
            contributions,
            cast: players,
            faults,
            deadlines: if bad {
                deadlines(30_000)
            } else {
                deadlines(PHASE_MS)
            },
            line: if bad { BAD_LINE } else { Line::default() },
            federation,
            ca,
            server,
            clients,
            seed,
            folder,
        })
    }

    async fn run(self, case: &Case) -> Result<Seen, EngineError> {
        let genesis = &self.federation.genesis;
        let listener = QuicListener::bind(
            (Ipv4Addr::LOCALHOST, 0).into(),
            identity(&self.server)?,
            roots(&self.ca)?,
            Limits::default(),
        )?;
        let addr = listener.local_addr();
        let mut relays = BTreeMap::new();
        let mut tasks = Vec::new();
        for (client, issued) in (0u32..).map(ClientId).zip(&self.clients) {
            let relay = Relay::new(addr, self.line, self.seed ^ u64::from(client.0)).await?;
            let connector = QuicConnector::new(
                relay.addr(),
                "localhost",
                identity(issued)?,
                roots(&self.ca)?,
                Some(self.server.peer_id),
                Limits::default(),
            )?;
            tasks.push(self.client(client, connector)?);
            relays.insert(client, relay);
        }
        let mut sink = Watch {
            faults: self.faults.clone(),
            switches: relays
                .iter()
                .map(|(client, relay)| (*client, relay.switch()))
                .collect(),
            phase: None,
            survivors: None,
            released: 0,
            withheld: 0,
            aborted: None,
            moves: self.line.loss_per_mille > 0,
        };
        sink.begin(Phase::P0, PHASE_MS);
        let setup = Arc::new(ServerSetup {
            deadlines: self.deadlines,
            identity: self.federation.server_identity()?,
            book: self.federation.book.clone(),
            policy: self.federation.policy.clone(),
            policy_leaf: self.federation.policy_leaf,
        });
        let plan = ServePlan {
            setup: Arc::clone(&setup),
            clusters: (0u16..)
                .map(ClusterId)
                .take(self.federation.clusters.len())
                .map(|cluster| self.federation.cluster_set(cluster))
                .collect(),
            initial: self.initial(),
            wait_for: self.clients.len() - self.too_late(),
            start_after: Duration::from_secs(10),
            describe_within: Duration::from_secs(10),
            attempts: 1,
            witnesses: None,
            crash_at_step: None,
            seed: [u8::try_from(self.seed % 251).unwrap_or_default(); 32],
        };
        let state = self.folder.join("server");
        let (mut store, resume) = ServerStore::open(&state, genesis).map_err(storage)?;
        let served = serve(
            listener,
            plan,
            &mut store,
            resume,
            &mut sink,
            std::future::pending(),
        )
        .await;
        for task in &tasks {
            task.abort();
        }
        drop(store);
        let (store, resume) = ServerStore::open(&state, genesis).map_err(storage)?;
        let mut seen = self.judge(case, &sink, &served, resume.log.entries())?;
        let bundle = self.folder.join("bundle.veil");
        crate::bundle::export(&bundle, &resume.log, &store, &setup)
            .map_err(|error| EngineError::Bundle(error.to_string()))?;
        self.audit(&bundle, &mut seen)?;
        Ok(seen)
    }

    /// Clients that connect only after the round was to begin: it begins without them.
    fn too_late(&self) -> usize {
        self.faults
            .iter()
            .filter(|(_, spec)| spec.at == Some(Phase::P0) && spec.when != Some(When::Inside))
            .filter(|(_, spec)| matches!(spec.does, Deed::Straggle | Deed::Partition))
            .map(|(who, _)| who.len())
            .sum()
    }

    fn initial(&self) -> Arc<[f32]> {
        let entries = usize::try_from(self.federation.policy.update.entries).unwrap_or_default();
        Arc::from(vec![0.5; entries])
    }

    /// A client with its driver. One that is to die in its upload stops there.
    fn client(&self, client: ClientId, connector: QuicConnector) -> Result<JoinHandle<()>, EngineError> {
        let missing = EngineError::Internal("a client without a contribution");
        let contribution = self.contributions.get(&client).cloned().ok_or(missing)?;
        let learner = Known::new(contribution).map_err(|error| EngineError::Network(error.to_string()))?;
        let training = TrainingConfig {
            steps: 1,
            learning_rate: 1.0,
            decay: 1.0,
            batch: 1,
            seed: 1,
        };
        let dies = self
            .faults
            .iter()
            .any(|(who, spec)| spec.does == Deed::Crash && who.contains(&client));
        let plan = JoinPlan {
            member: self.federation.member(client)?,
            genesis: self.federation.genesis.clone(),
            addr: "loopback".to_owned(),
            give_up_after: Duration::from_secs(20),
            stall_upload_in_round: dies.then_some(1),
            crash_at_step: None,
        };
        let work = Work::new(Box::new(learner), training, false);
        let store = ClientStore::open(&self.folder.join(format!("client-{}", client.0))).map_err(storage)?;
        let rng = ChaCha20Rng::seed_from_u64(self.seed ^ (u64::from(client.0) << 32));
        let stalled = Arc::new(Notify::new());
        let mut sink = Stall(Arc::clone(&stalled));
        Ok(tokio::spawn(async move {
            tokio::select! {
                // Dropping the driver in the middle is as sudden as a death gets within a process.
                () = stalled.notified() => {}
                _ = join(&connector, plan, work, store, &mut sink, rng) => {}
            }
        }))
    }

    fn judge(
        &self,
        case: &Case,
        sink: &Watch,
        served: &Result<veilsum_attestation::Log, ServeError>,
        log: &[Vec<u8>],
    ) -> Result<Seen, EngineError> {
        let expect = &case.expect;
        let mut wrong = Vec::new();
        let observed = match (&sink.survivors, &sink.aborted) {
            (Some(survivors), _) => format!(
                "sum of {} of {} clients, {} opened, {} withheld",
                survivors.len(),
                self.clients.len(),
                sink.released,
                sink.withheld
            ),
            (None, Some(reason)) => format!("abort {reason}"),
            (None, None) => format!(
                "nothing ({})",
                served.as_ref().err().map(ToString::to_string).unwrap_or_default()
            ),
        };
        let attempts = attempts(log)?;
        for logged in &attempts {
            if !logged.self_owners.is_disjoint(&logged.mask_owners) {
                wrong.push("both share kinds of one client are in the log".to_owned());
            }
        }
        let last = attempts.last();
        if expect.sum {
            let out = self.named(&expect.out)?;
            let must: BTreeSet<ClientId> = self
                .contributions
                .keys()
                .copied()
                .filter(|client| !out.contains(client))
                .collect();
            if sink.survivors.as_ref() != Some(&must) {
                wrong.push("other clients survived than must".to_owned());
            }
            if let Some(sums) = last.and_then(|logged| logged.sums.as_ref()) {
                for result in &sums.results {
                    if self.model_after(result.cluster, &must)? != result.model {
                        wrong.push(format!(
                            "the model of {} is not the start plus the mean of the survivors",
                            result.cluster
                        ));
                    }
                }
            }
        } else if last.is_some_and(|logged| logged.sums.is_some()) {
            wrong.push("a sum was opened".to_owned());
        }
        if expect.abort != sink.aborted {
            wrong.push(format!("it ended with {:?}", sink.aborted));
        }
        if let (Some(names), Some(logged)) = (&expect.mask_keys_of, last)
            && self.named(names)? != logged.mask_owners
        {
            wrong.push("the mask keys of other clients were opened".to_owned());
        }
        Ok((observed, wrong))
    }

    /// The digest of a cluster's model after the exact sum of these clients.
    fn model_after(&self, cluster: ClusterId, survivors: &BTreeSet<ClientId>) -> Result<Digest, EngineError> {
        let rule = &self.federation.policy.update;
        let entries = usize::try_from(rule.entries).unwrap_or_default();
        let members = self.federation.cluster_set(cluster);
        let mut sum = vec![0i64; entries + 1];
        let contributors = u32::try_from(members.intersection(survivors).count()).unwrap_or(u32::MAX);
        for client in members.intersection(survivors) {
            if let Some(contribution) = self.contributions.get(client) {
                for (index, total) in sum.iter_mut().enumerate() {
                    *total += contribution.term(index);
                }
            }
        }
        let words: Vec<u32> = sum
            .into_iter()
            .map(|total| u32::try_from(total.rem_euclid(1 << rule.modulus.bits())).unwrap_or_default())
            .collect();
        let model = veilsum_aggregation::update::apply(&self.initial(), &words, contributors, rule)
            .map_err(|_| EngineError::Internal("a sum does not fit its model"))?;
        Ok(model_digest(&model))
    }

    fn named(&self, names: &[String]) -> Result<BTreeSet<ClientId>, EngineError> {
        let mut all = BTreeSet::new();
        for name in names {
            all.extend(self.cast.named(name).map_err(EngineError::Words)?);
        }
        Ok(all)
    }

    fn audit(&self, bundle: &Path, seen: &mut Seen) -> Result<(), EngineError> {
        let trust = self.federation.trust()?;
        let auditor = Auditor::new(Trust {
            name: trust.federation,
            authority: trust.authority,
        })?;
        let file = std::fs::File::open(bundle).map_err(|error| EngineError::Bundle(error.to_string()))?;
        let verdict = auditor.audit(std::io::BufReader::new(file), &mut |_| ())?;
        seen.0 = format!("{}; audit {}", seen.0, verdict.overall);
        for finding in verdict.violations() {
            let reason = finding.status.reason().unwrap_or_default();
            seen.1.push(format!(
                "the auditor's verdict does not fit: {}: {reason}",
                finding.check
            ));
        }
        Ok(())
    }
}

fn deadlines(phase: u64) -> Deadlines {
    Deadlines {
        advertise: phase,
        share: phase,
        mask: phase,
        agree: phase,
        unmask: phase,
        reconnect: phase / 2,
    }
}

fn identity(issued: &Issued) -> Result<TlsIdentity, EngineError> {
    Ok(TlsIdentity::from_pem(
        issued.cert_pem.as_bytes(),
        issued.key_pem.as_bytes(),
    )?)
}

fn roots(ca: &ConsortiumCa) -> Result<TrustRoots, EngineError> {
    Ok(TrustRoots::from_pem(ca.cert_pem().as_bytes())?)
}

#[expect(clippy::needless_pass_by_value, reason = "an error is handed over")]
fn storage(error: crate::store::StoreError) -> EngineError {
    EngineError::Bundle(error.to_string())
}

const DAY: Duration = Duration::from_hours(24);
/// A phase of a round, in milliseconds of real time.
const PHASE_MS: u64 = 4000;
/// 20 % loss, a tenth overtaken, 1 Mbit/s each way.
const BAD_LINE: Line = Line {
    loss_per_mille: 200,
    late_per_mille: 100,
    bits_per_second: 1_000_000,
};
