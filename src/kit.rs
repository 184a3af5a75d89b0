//! A federation from nothing: keys, certificates, the signed policy, and a folder per party.
//!
//! ```text
//! <dir>/authority/        authority.key ca.pem ca.key          stays with the consortium's office
//! <dir>/server/           server.toml + keys, certificate, policy, initial model
//! <dir>/clients/client-NN client.toml + keys, certificate, policy
//! <dir>/auditor/          auditor.toml; the server writes bundle.veil here
//! ```
//!
//! Each folder is all its party needs and nothing another party may not see; carry it to its machine.

mod data;
mod parties;

use crate::config::{ClusterList, LearnerKind};
use crate::describe;
use crate::genesis::{Genesis, Trust};
use crate::network::{self, NetworkError, initial_weights};
use crate::store::{StoreError, model_bytes, write_atomic};
use chacha20::ChaCha20Rng;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use veilsum_aggregation::cluster::too_few_alike;
use veilsum_attestation::disclosure::{self, Membership, Verdict};
use veilsum_attestation::release::planning_rule;
use veilsum_attestation::statement::{ClientSet, ClusteringRule, Member, Policy, PolicyError, UpdateRule};
use veilsum_crypto::{
    BoundedVec, ClientId, Digest, Identity, IdentityError, Modulus, OrgId, ResidueError, SuiteId, WireError,
};
use veilsum_learner::bev::PersonalPart;
use veilsum_learner::demo::DemoDefaults;
use veilsum_transport::{ConsortiumCa, IssueKind, PkiError};

pub use data::DataFolderError;

/// What to set up.
#[derive(Clone, Debug)]
pub struct KitRequest {
    /// Folder to make; refused when it exists and is not empty.
    pub dir: PathBuf,
    /// The federation's name.
    pub name: String,
    /// Organisations; clients are dealt to them in order.
    pub orgs: u32,
    /// Clients.
    pub clients: u32,
    /// Members of each cluster; `None` for two that overlap in a quarter of the clients.
    pub clusters: Option<ClusterList>,
    /// How clients are clustered by their data, instead of `clusters`.
    pub clustering: Option<ClusteringRule>,
    /// Least clients that count together; 0 for each by itself.
    pub blocks: u32,
    /// Published rounds for which masked vectors are kept; 0 for no window.
    pub keep_rounds: u64,
    /// Rounds.
    pub rounds: u64,
    /// The server's UDP address.
    pub addr: SocketAddr,
    /// Names and addresses in the server's certificate.
    pub server_names: Vec<String>,
    /// The network.
    pub learner: LearnerKind,
    /// What bird's-eye-view clients keep to themselves.
    pub personal: PersonalPart,
    /// Where it runs.
    pub device: String,
    /// A folder with `clients/<name>/{train,test}/…`; `None` for the built-in generator.
    pub data: Option<PathBuf>,
    /// Optimiser steps a round.
    pub steps: u32,
    /// Learning rate.
    pub learning_rate: f64,
    /// Factor on the learning rate from round to round.
    pub decay: f64,
    /// Frames a step.
    pub batch: usize,
    /// Frames a generated client trains on and is tested on.
    pub frames: (usize, usize),
    /// Seed of the common start, the training and the generated frames. Keys never come from it.
    pub seed: u64,
    /// Shamir threshold; `None` for the smallest safe one.
    pub threshold: Option<u32>,
    /// Colluding clients assumed.
    pub colluders: u32,
    /// Dropouts planned for.
    pub dropouts: u32,
    /// Fewest clients a released combination covers.
    pub crowd: u32,
    /// Fewest organisations it covers.
    pub crowd_orgs: u32,
    /// Bits a client's value takes.
    pub value_bits: u8,
    /// Largest magnitude of an update's entry, in millionths.
    pub range_micros: u32,
}

impl KitRequest {
    /// A request with defaults that fit a demo on one machine.
    #[must_use]
    pub fn new(dir: PathBuf, addr: SocketAddr) -> Self {
        Self {
            dir,
            name: "demo consortium".into(),
            orgs: 4,
            clients: 8,
            clusters: None,
            clustering: None,
            blocks: 0,
            keep_rounds: 0,
            rounds: 6,
            addr,
            server_names: vec!["localhost".into(), "127.0.0.1".into()],
            learner: LearnerKind::Linear,
            personal: PersonalPart::default(),
            device: "auto".into(),
            data: None,
            steps: DemoDefaults::TOY.steps,
            learning_rate: DemoDefaults::TOY.learning_rate,
            decay: DemoDefaults::TOY.decay,
            batch: DemoDefaults::TOY.batch,
            frames: (DemoDefaults::TOY.train, DemoDefaults::TOY.test),
            seed: 1,
            threshold: None,
            colluders: 1,
            dropouts: 1,
            crowd: 3,
            crowd_orgs: 2,
            value_bits: 16,
            range_micros: 200_000,
        }
    }

    /// The same with training settings that fit the network.
    #[must_use]
    pub fn for_learner(dir: PathBuf, addr: SocketAddr, learner: LearnerKind) -> Self {
        let base = Self::new(dir, addr);
        let demo = match learner {
            LearnerKind::Linear => DemoDefaults::TOY,
            LearnerKind::Depth | LearnerKind::Bev => DemoDefaults::TORCH,
        };
        if learner == LearnerKind::Bev {
            return Self {
                learner,
                rounds: 25,
                steps: 20,
                learning_rate: 6e-3,
                decay: 0.94,
                batch: 8,
                frames: (256, 32),
                ..base
            };
        }
        // Recorded frames need more steps than the generator's: with 12 a round one cluster of four recorded robots fell by
        // 21 % in six rounds, with 30 by 56 %.
        let steps = if learner == LearnerKind::Depth {
            30
        } else {
            demo.steps
        };
        Self {
            learner,
            steps,
            learning_rate: demo.learning_rate,
            decay: demo.decay,
            batch: demo.batch,
            frames: (demo.train, demo.test),
            ..base
        }
    }

    /// The members of each cluster.
    #[must_use]
    pub fn cluster_list(&self) -> ClusterList {
        self.clusters.clone().unwrap_or_else(|| {
            let size = (self.clients * 5).div_ceil(8);
            vec![(0..size).collect(), (self.clients - size..self.clients).collect()]
        })
    }

    fn check(&self) -> Result<(), KitError> {
        let wrong = |what: String| Err(KitError::Request(what));
        if self.clients < 3 || self.clients > ClientSet::MAX_CLIENTS {
            return wrong(format!(
                "{} clients; between 3 and {} can take part",
                self.clients,
                ClientSet::MAX_CLIENTS
            ));
        }
        if self.orgs == 0 || self.orgs > self.clients {
            return wrong(format!(
                "{} organisations for {} clients; each needs at least one client",
                self.orgs, self.clients
            ));
        }
        if self.name.is_empty() || self.name.len() > 64 {
            return wrong("the federation's name must have 1 to 64 bytes".into());
        }
        if self.server_names.is_empty() {
            return wrong("the server needs a name or address clients know it by".into());
        }
        if self.rounds == 0 {
            return wrong("a federation of no rounds sums nothing; ask for at least 1".into());
        }
        if let Some(rule) = &self.clustering {
            let features = network::feature_channels(self.learner).map_or(0, |channels| channels as usize);
            if let Err(reason) = describe::possible(rule, features) {
                return wrong(format!("clustering by data: {reason}"));
            }
        }
        if self.learner == LearnerKind::Bev && self.data.is_some() {
            return wrong("--data deals out depth frames; for bird's-eye views set `[data] kind = \"fleet-folder\"` in each client.toml".into());
        }
        if self.addr.ip().is_unspecified() {
            return wrong(format!(
                "{} is an address to listen on, not one clients can reach; give the server's own address",
                self.addr
            ));
        }
        for (number, members) in self.cluster_list().iter().enumerate() {
            if let Some(stranger) = members.iter().find(|member| **member >= self.clients) {
                return wrong(format!(
                    "cluster {number} names client {stranger}; there are clients 0 to {}",
                    self.clients.saturating_sub(1)
                ));
            }
        }
        let occupied = std::fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            return Err(KitError::NotEmpty(self.dir.clone()));
        }
        Ok(())
    }
}

/// What was made.
#[derive(Clone, Debug)]
pub struct Kit {
    /// The server's configuration file.
    pub server: PathBuf,
    /// Each client's configuration file.
    pub clients: Vec<PathBuf>,
    /// The auditor's configuration file.
    pub auditor: PathBuf,
    /// Where the server will write the auditor's bundle.
    pub bundle: PathBuf,
    /// The signed policy.
    pub policy: Policy,
    /// Whom the parties trust.
    pub trust: Trust,
}

/// Makes a federation's folders.
///
/// # Errors
/// [`KitError`]. The request is checked before anything is written.
pub fn create(request: &KitRequest, now: SystemTime, rng: &mut ChaCha20Rng) -> Result<Kit, KitError> {
    request.check()?;
    let learner = parties::learner_config(request);
    let initial = initial_weights(&learner)?;
    let shards = request
        .data
        .as_deref()
        .map(|data| data::shards(data, request.clients))
        .transpose()?;

    let authority = Identity::generate(rng)?;
    let server = Identity::generate(rng)?;
    let clients = (0..request.clients)
        .map(|_| Identity::generate(rng))
        .collect::<Result<Vec<_>, _>>()?;
    let ca = ConsortiumCa::generate(&request.name, VALIDITY, now)?;
    let server_tls = ca.issue(
        &IssueKind::Server {
            names: request.server_names.clone(),
        },
        VALIDITY,
        now,
    )?;
    let client_tls = (0..request.clients)
        .map(|client| {
            ca.issue(
                &IssueKind::Client {
                    name: format!("client-{client:02}"),
                },
                VALIDITY,
                now,
            )
        })
        .collect::<Result<Vec<_>, _>>()?;

    let members = (0u32..)
        .zip(&clients)
        .zip(&client_tls)
        .map(|((number, identity), tls)| Member {
            client: ClientId(number),
            org: OrgId(org_of(number, request)),
            key: identity.public(),
            tls: Digest(tls.peer_id.0),
        })
        .collect();
    let tls = Digest(server_tls.peer_id.0);
    let safe = |members| {
        let policy = policy(request, &server, tls, members, &initial)?;
        policy.check()?;
        if policy.clustering.is_none() {
            check_clusters(request, &policy)?;
        }
        Ok::<_, KitError>(policy)
    };
    let Genesis { entries, policy, .. } = Genesis::found(&authority, &request.name, members, safe, rng)?;

    let trust = Trust {
        federation: request.name.clone(),
        authority: authority.public(),
    };
    let policy_file = Genesis::file(&entries);
    let writer = parties::Writer {
        request,
        trust: &trust,
        policy_file: &policy_file,
        authority_pem: ca.cert_pem(),
    };
    let dir = &request.dir;
    parties::secret(
        &dir.join("authority/authority.key"),
        key_text(&authority).as_bytes(),
    )?;
    parties::secret(&dir.join("authority/ca.key"), ca.key_pem().as_bytes())?;
    write_atomic(&dir.join("authority/ca.pem"), ca.cert_pem().as_bytes())?;
    let server_config = writer.server(&server, &server_tls, &model_bytes(initial.values()))?;
    let mut configs = Vec::new();
    for ((number, identity), tls) in (0u32..).zip(&clients).zip(&client_tls) {
        let folder = dir.join(format!("clients/client-{number:02}"));
        let data = match &shards {
            Some(shards) => data::link(shards.get(number as usize), &folder.join("frames"))?,
            None => data::generated(number, request),
        };
        configs.push(writer.client(number, &folder, identity, tls, &learner, data)?);
    }
    let auditor = writer.auditor()?;
    Ok(Kit {
        server: server_config,
        clients: configs,
        auditor,
        bundle: dir.join("auditor/bundle.veil"),
        policy,
        trust,
    })
}

/// The organisation of a client: equal runs of clients in order.
fn org_of(client: u32, request: &KitRequest) -> u32 {
    u32::try_from(u64::from(client) * u64::from(request.orgs) / u64::from(request.clients.max(1)))
        .unwrap_or(0)
}

fn policy(
    request: &KitRequest,
    server: &Identity,
    server_tls: Digest,
    members: Digest,
    initial: &veilsum_learner::Weights,
) -> Result<Policy, KitError> {
    let bits = UpdateRule::modulus_bits(request.value_bits, MAX_WEIGHT, request.clients);
    let modulus = Modulus::new(u8::try_from(bits).unwrap_or(u8::MAX))?;
    Ok(Policy {
        suite: SuiteId::SUITE_1,
        name: BoundedVec::new(request.name.clone().into_bytes())
            .map_err(|_| KitError::Request("the federation's name has more than 64 bytes".into()))?,
        server: server.public(),
        server_tls,
        clients: request.clients,
        members,
        // The smallest t with 2t > N + m.
        threshold: request
            .threshold
            .unwrap_or(u32::midpoint(request.clients, request.colluders) + 1),
        colluders: request.colluders,
        dropouts: request.dropouts,
        crowd: request.crowd,
        crowd_orgs: request.crowd_orgs,
        update: UpdateRule {
            entries: initial.values().len() as u64,
            schema: Digest(initial.layout_digest()),
            value_bits: request.value_bits,
            modulus,
            range_micros: request.range_micros,
            max_weight: MAX_WEIGHT,
        },
        initial: veilsum_attestation::model_digest(initial.values()),
        rounds: request.rounds,
        clustering: request.clustering,
        blocks: request.blocks,
        keep_rounds: request.keep_rounds,
    })
}

/// Whether the first plan will pass the disclosure rule, before anybody carries a folder away.
fn check_clusters(request: &KitRequest, policy: &Policy) -> Result<(), KitError> {
    let orgs: Vec<u32> = (0..request.clients)
        .map(|client| org_of(client, request))
        .collect();
    let rows: Vec<Vec<usize>> = request
        .cluster_list()
        .iter()
        .map(|members| members.iter().map(|client| *client as usize).collect())
        .collect();
    let wrong = |what: String| Err(KitError::Request(what));
    let matrix = match Membership::from_members(orgs.len(), &rows) {
        Ok(matrix) => matrix,
        Err(error) => return wrong(format!("the clusters: {error}")),
    };
    if let Some(clients) = too_few_alike(&matrix, policy.blocks) {
        return wrong(format!(
            "only clients {clients:?} are in the same clusters, and groups of {} are to be counted together; cut second memberships or merge clusters (`veilsum plan check --blocks` explains)",
            policy.blocks
        ));
    }
    let rule = planning_rule(policy);
    match disclosure::check(&matrix, &orgs, &rule) {
        Verdict::Safe(_) => Ok(()),
        Verdict::Exposed(exposure) => wrong(format!(
            "these clusters would expose clients {:?}: a combination of the sums covers only them, and {} clients of {} organisations are asked for; merge clusters or cut second memberships (`veilsum plan check` explains)",
            exposure.clients, rule.crowd, rule.crowd_orgs
        )),
        Verdict::Undecided(_) => wrong("the clusters are too tangled to decide; use fewer of them".into()),
    }
}

/// A signing key file's text.
fn key_text(identity: &Identity) -> zeroize::Zeroizing<String> {
    let mut text = zeroize::Zeroizing::new(hex::encode(identity.expose_seed()));
    text.push('\n');
    text
}

/// Why nothing, or not everything, was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// The request makes no sense.
    #[error("{0}")]
    Request(String),
    /// The folder is in use.
    #[error("{} exists and is not empty; name another folder or remove it", .0.display())]
    NotEmpty(PathBuf),
    /// The policy that follows is unsafe.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The data folder.
    #[error(transparent)]
    Data(#[from] DataFolderError),
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// Keys.
    #[error(transparent)]
    Key(#[from] IdentityError),
    /// Too many bits.
    #[error(transparent)]
    Residue(#[from] ResidueError),
    /// A statement that is too long.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A configuration that cannot be written.
    #[error("a configuration cannot be written: {0}")]
    Toml(#[from] toml::ser::Error),
}

/// Relative path of a file inside a party's folder.
fn inside(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

const VALIDITY: Duration = Duration::from_hours(24 * 365);
const MAX_WEIGHT: u32 = 1024;
