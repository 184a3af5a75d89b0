//! A federation of eight in one process: the real drivers over the simulated network, for any model.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "an example: small numbers"
)]

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use veilsum::config::TrainingConfig;
use veilsum::drive::client::{JoinPlan, Work, join};
use veilsum::drive::server::{ServePlan, serve};
use veilsum::events::Stamped;
use veilsum::genesis::Genesis;
use veilsum::store::{ClientStore, ServerStore};
use veilsum_aggregation::client::Membership;
use veilsum_aggregation::{Deadlines, Floors, ServerSetup};
use veilsum_attestation::audit::{AuditError, Auditor, Trust, Verdict};
use veilsum_attestation::model_digest;
use veilsum_attestation::statement::{Member, Policy, UpdateRule};
use veilsum_crypto::{BoundedVec, ClientId, Digest, Identity, Modulus, OrgId, SuiteId};
use veilsum_learner::{Learner, Weights};
use veilsum_transport::{PeerId, SimConfig, SimNet};

pub(crate) type Fault = Box<dyn Error>;

const NAME: &str = "example";
const CLIENTS: u32 = 8;
const BITS: u8 = 16;
const MAX_WEIGHT: u32 = 64;

/// Everybody's keys, the signed policy, and a folder for what parties keep.
pub(crate) struct Federation {
    setup: Arc<ServerSetup>,
    genesis: Vec<Vec<u8>>,
    initial: Vec<f32>,
    trust: Trust,
    folder: tempfile::TempDir,
}

impl Federation {
    /// Eight clients of four organisations who agree on a model, its start and a number of rounds.
    pub(crate) fn found(initial: &Weights, rounds: u64) -> Result<Self, Fault> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (authority, server) = (identity(1, 0)?, identity(2, 0)?);
        let members = (0..CLIENTS)
            .map(|client| {
                Ok(Member {
                    client: ClientId(client),
                    org: OrgId(client / 2),
                    key: identity(3, client)?.public(),
                    tls: Digest([client as u8; 32]),
                })
            })
            .collect::<Result<_, Box<dyn Error>>>()?;
        let bits = UpdateRule::modulus_bits(BITS, MAX_WEIGHT, CLIENTS);
        let name = BoundedVec::new(NAME.into()).map_err(|_| "the name is too long")?;
        let modulus = Modulus::new(bits as u8)?;
        let policy = |members| Policy {
            suite: SuiteId::SUITE_1,
            name,
            server: server.public(),
            server_tls: Digest([255; 32]),
            clients: CLIENTS,
            members,
            threshold: 5,
            colluders: 0,
            dropouts: 1,
            crowd: 3,
            crowd_orgs: 2,
            update: UpdateRule {
                entries: initial.values().len() as u64,
                schema: Digest(initial.layout_digest()),
                value_bits: BITS,
                modulus,
                // No entry changes by more than 4 in a round.
                range_micros: 4_000_000,
                max_weight: MAX_WEIGHT,
            },
            initial: model_digest(initial.values()),
            rounds,
            clustering: None,
            blocks: 0,
            keep_rounds: 0,
        };
        let found = |members| Ok::<_, Box<dyn Error>>(policy(members));
        let genesis = Genesis::found(&authority, NAME, members, found, &mut rng)?;
        Ok(Self {
            setup: Arc::new(ServerSetup {
                book: genesis.book,
                identity: server,
                policy: genesis.policy,
                policy_leaf: genesis.policy_leaf,
                deadlines: Deadlines {
                    advertise: 60_000,
                    share: 5_000,
                    mask: 5_000,
                    agree: 5_000,
                    unmask: 5_000,
                    reconnect: 500,
                },
            }),
            genesis: genesis.entries,
            initial: initial.values().to_vec(),
            trust: Trust {
                name: NAME.to_owned(),
                authority: authority.public(),
            },
            folder: tempfile::tempdir()?,
        })
    }

    /// Runs all rounds in one cluster, writes the auditor's bundle, and returns the last model. Time is simulated.
    pub(crate) fn run(
        &self,
        learners: Vec<Box<dyn Learner>>,
        steps: u32,
        learning_rate: f64,
    ) -> Result<Vec<f32>, Fault> {
        let training = TrainingConfig {
            steps,
            learning_rate,
            decay: 1.0,
            batch: 1,
            seed: 1,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()?;
        runtime.block_on(self.drive(learners, &training))
    }

    async fn drive(
        &self,
        learners: Vec<Box<dyn Learner>>,
        training: &TrainingConfig,
    ) -> Result<Vec<f32>, Fault> {
        let net = SimNet::new(1, SimConfig::default());
        let mut tasks = Vec::new();
        for (number, learner) in (0..CLIENTS).zip(learners) {
            let member = Membership {
                me: ClientId(number),
                identity: identity(3, number)?,
                book: self.setup.book.clone(),
                policy: self.setup.policy.clone(),
                policy_leaf: self.setup.policy_leaf,
                floors: Floors::default(),
            };
            let plan = JoinPlan {
                member: Arc::new(member),
                genesis: self.genesis.clone(),
                addr: "simulated".to_owned(),
                give_up_after: Duration::from_mins(1),
                stall_upload_in_round: None,
                crash_at_step: None,
            };
            let work = Work::new(learner, training.clone(), false);
            let store = ClientStore::open(&self.folder.path().join(format!("client-{number}")))?;
            let connector = net.connector(PeerId([number as u8; 32]));
            let rng = ChaCha20Rng::seed_from_u64(100 + u64::from(number));
            tasks.push(tokio::spawn(async move {
                let mut events: Vec<Stamped<_>> = Vec::new();
                join(&connector, plan, work, store, &mut events, rng).await
            }));
        }
        let plan = ServePlan {
            setup: Arc::clone(&self.setup),
            clusters: vec![(0..CLIENTS).map(ClientId).collect()],
            initial: Arc::from(self.initial.as_slice()),
            wait_for: CLIENTS as usize,
            start_after: Duration::from_secs(30),
            describe_within: Duration::from_mins(1),
            attempts: 2,
            witnesses: None,
            crash_at_step: None,
            seed: [1; 32],
        };
        let state = self.folder.path().join("server");
        let (mut store, resume) = ServerStore::open(&state, &self.genesis)?;
        let mut events: Vec<Stamped<_>> = Vec::new();
        let forever = std::future::pending();
        let log = serve(net.listener(), plan, &mut store, resume, &mut events, forever).await?;
        for task in tasks {
            task.await??;
        }
        veilsum::bundle::export(&self.bundle(), &log, &store, &self.setup)?;
        drop(store);
        let (_, end) = ServerStore::open(&state, &self.genesis)?;
        let model = end.models.into_values().next().ok_or("no model is left")?;
        Ok(model.to_vec())
    }

    /// Where the bundle is.
    pub(crate) fn bundle(&self) -> PathBuf {
        self.folder.path().join("bundle.veil")
    }

    /// What an auditor says who has the bundle and the authority's key, and nothing else.
    pub(crate) fn audit(&self, bundle: &[u8]) -> Result<Verdict, AuditError> {
        Auditor::new(self.trust.clone())?.audit(bundle, &mut |_| ())
    }
}

fn identity(role: u8, number: u32) -> Result<Identity, Fault> {
    let mut seed = [role; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    Ok(Identity::from_seed(&seed)?)
}
