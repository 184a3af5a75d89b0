//! A federation of eight linear learners over the simulated network.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use veilsum::config::{LearnerKind, TrainingConfig};
use veilsum::drive::client::{JoinError, JoinPlan, Work, join};
use veilsum::drive::server::{ServePlan, serve};
use veilsum::events::{ClientEvent, ServerEvent, Stamped};
use veilsum::genesis::Genesis;
use veilsum::kit::{self, Kit, KitRequest};
use veilsum::store::{ClientStore, ServerStore, model_from_bytes};
use veilsum_aggregation::client::{Floors, Membership};
use veilsum_aggregation::server::{Deadlines, ServerSetup};
use veilsum_attestation::audit::{Auditor, Overall, Trust};
use veilsum_attestation::statement::ClientSet;
use veilsum_crypto::{ClientId, Identity};
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::descriptor::Features;
use veilsum_learner::toy::ToyDepth;
use veilsum_learner::{Evaluation, LearnError, Learner, TrainPlan, TrainReport, Weights};
use veilsum_transport::{
    Connector, Frame, FrameSender, Link, Meter, PeerId, SimConfig, SimNet, TransportError,
};

/// Every frame a client sent, as it went onto the wire.
pub(crate) type Tape = Arc<Mutex<Vec<Vec<u8>>>>;

/// The frames of that kind that a client means to send do not leave it.
type Mute = Option<u8>;

struct TapedConnector<C>(C, Tape, Mute);
struct TapedLink<L>(L, Tape, Mute);
struct TapedSender<S>(S, Tape, Mute);

impl<C: Connector> Connector for TapedConnector<C> {
    type Link = TapedLink<C::Link>;
    async fn connect(&self) -> Result<Self::Link, TransportError> {
        Ok(TapedLink(self.0.connect().await?, Arc::clone(&self.1), self.2))
    }
}

impl<L: Link> Link for TapedLink<L> {
    type Sender = TapedSender<L::Sender>;
    type Receiver = L::Receiver;
    fn peer(&self) -> PeerId {
        self.0.peer()
    }
    fn channel_binding(&self) -> [u8; 32] {
        self.0.channel_binding()
    }
    fn meter(&self) -> Meter {
        self.0.meter()
    }
    fn split(self) -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = self.0.split();
        (TapedSender(sender, self.1, self.2), receiver)
    }
}

impl<S: FrameSender> FrameSender for TapedSender<S> {
    async fn send(&mut self, frame: Frame) -> Result<(), TransportError> {
        if self.2 == Some(frame.kind) {
            return Ok(());
        }
        self.1.lock().unwrap().push(frame.body.to_vec());
        self.0.send(frame).await
    }
    async fn finish(&mut self) -> Result<(), TransportError> {
        self.0.finish().await
    }
}

/// A learner that remembers what it must not give away.
struct Remembering {
    inner: ToyDepth,
    start: Option<Weights>,
    secrets: Arc<Mutex<Vec<Vec<f32>>>>,
}

impl Learner for Remembering {
    fn layout(&self) -> &veilsum_learner::Layout {
        self.inner.layout()
    }
    fn weights(&self) -> Result<Weights, LearnError> {
        self.inner.weights()
    }
    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.start = Some(weights.clone());
        self.inner.load(weights)
    }
    fn train(&mut self, plan: &TrainPlan) -> Result<TrainReport, LearnError> {
        let report = self.inner.train(plan)?;
        let trained = self.inner.weights()?;
        let delta = trained.minus(self.start.as_ref().unwrap())?;
        let mut secrets = self.secrets.lock().unwrap();
        secrets.push(trained.values().to_vec());
        secrets.push(delta.values().to_vec());
        secrets.push(self.inner.private().values().to_vec());
        Ok(report)
    }
    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        self.inner.evaluate()
    }
    fn sample_count(&self) -> u32 {
        self.inner.sample_count()
    }
    fn features(&mut self, frame: u32) -> Result<Features, LearnError> {
        self.inner.features(frame)
    }
}

pub(crate) struct Federation {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) kit: Kit,
    pub(crate) genesis: Genesis,
    pub(crate) request: KitRequest,
    /// A client whose frames of a kind do not leave it.
    pub(crate) mute: Option<(u32, u8)>,
}

pub(crate) fn federation(rounds: u64) -> Federation {
    founded(|request| request.rounds = rounds)
}

/// A federation whose request is changed before it is founded.
pub(crate) fn founded(change: impl FnOnce(&mut KitRequest)) -> Federation {
    let dir = tempfile::tempdir().unwrap();
    let mut request = KitRequest {
        learner: LearnerKind::Linear,
        ..KitRequest::new(dir.path().join("kit"), "127.0.0.1:1".parse().unwrap())
    };
    change(&mut request);
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let kit = kit::create(&request, now, &mut ChaCha20Rng::seed_from_u64(5)).unwrap();
    let genesis = Genesis::read(&request.dir.join("server/policy.veil"), &kit.trust).unwrap();
    Federation {
        dir,
        kit,
        genesis,
        request,
        mute: None,
    }
}

pub(crate) fn identity(path: &Path) -> Identity {
    let text = std::fs::read_to_string(path).unwrap();
    Identity::from_seed(&hex::decode(text.trim()).unwrap().try_into().unwrap()).unwrap()
}

/// What a client said, and how it ended.
pub(crate) type Ending = (Vec<Stamped<ClientEvent>>, Result<(), JoinError>);

pub(crate) struct Run {
    pub(crate) server: Vec<Stamped<ServerEvent>>,
    pub(crate) clients: Vec<Ending>,
    pub(crate) tapes: Vec<Tape>,
    pub(crate) secrets: Vec<Arc<Mutex<Vec<Vec<f32>>>>>,
}

/// Runs a federation over the simulator. `fault` may prepare the network.
pub(crate) async fn run(
    federation: &Federation,
    seed: u64,
    mask_ms: u64,
    fault: impl FnOnce(&SimNet, &[PeerId]),
) -> Run {
    let net = SimNet::new(seed, SimConfig::default());
    let genesis = &federation.genesis;
    let peers: Vec<PeerId> = genesis
        .book
        .members()
        .values()
        .map(|member| PeerId(member.tls.0))
        .collect();
    let dir = &federation.request.dir;
    let listener = net.listener();
    fault(&net, &peers);

    let initial = model_from_bytes(&std::fs::read(dir.join("server/initial.f32")).unwrap()).unwrap();
    let plan = ServePlan {
        setup: Arc::new(ServerSetup {
            identity: identity(&dir.join("server/server.key")),
            book: genesis.book.clone(),
            policy: genesis.policy.clone(),
            policy_leaf: genesis.policy_leaf,
            deadlines: Deadlines {
                advertise: 60_000,
                share: 5_000,
                mask: mask_ms,
                agree: 5_000,
                unmask: 5_000,
                reconnect: 500,
            },
        }),
        clusters: if federation.request.clustering.is_some() {
            Vec::new()
        } else {
            federation
                .request
                .cluster_list()
                .into_iter()
                .map(|members| members.into_iter().map(ClientId).collect::<ClientSet>())
                .collect()
        },
        initial: Arc::from(initial),
        wait_for: 8,
        start_after: Duration::from_secs(30),
        describe_within: Duration::from_mins(1),
        attempts: 2,
        witnesses: None,
        crash_at_step: None,
        seed: [seed as u8; 32],
    };
    let mut tapes = Vec::new();
    let mut secrets = Vec::new();
    let mut tasks = Vec::new();
    for (number, peer) in (0u32..).zip(&peers) {
        let tape = Tape::default();
        let secret = Arc::new(Mutex::new(Vec::new()));
        let connector = TapedConnector(
            net.connector(*peer),
            Arc::clone(&tape),
            federation
                .mute
                .filter(|(mute, _)| *mute == number)
                .map(|(_, kind)| kind),
        );
        let folder = dir.join(format!("clients/client-{number:02}"));
        let member = Arc::new(Membership {
            me: ClientId(number),
            identity: identity(&folder.join("client.key")),
            book: genesis.book.clone(),
            policy: genesis.policy.clone(),
            policy_leaf: genesis.policy_leaf,
            floors: Floors {
                clients: 3,
                threshold: 2,
                crowd: 2,
                crowd_orgs: 2,
                ..Floors::default()
            },
        });
        let data = Generator {
            platform: Platform::ALL[number as usize % 4],
            place: if number < 4 { Place::Indoor } else { Place::Street },
            light: if number < 4 { Light::Day } else { Light::Night },
            width: 64,
            height: 48,
            train: frames(number),
            test: 2,
            seed: u64::from(number),
        }
        .dataset()
        .unwrap();
        let learner = Remembering {
            inner: ToyDepth::new(data).unwrap(),
            start: None,
            secrets: Arc::clone(&secret),
        };
        let training = TrainingConfig {
            steps: 4,
            learning_rate: 0.01,
            decay: 1.0,
            batch: 2,
            seed: u64::from(number),
        };
        let work = Work::new(Box::new(learner), training, true);
        let plan = JoinPlan {
            member,
            genesis: genesis.entries.clone(),
            addr: "simulated".into(),
            give_up_after: Duration::from_secs(60),
            stall_upload_in_round: None,
            crash_at_step: None,
        };
        let store = ClientStore::open(&federation.dir.path().join(format!("state-{seed}-{number}"))).unwrap();
        let rng = ChaCha20Rng::seed_from_u64(seed * 100 + u64::from(number));
        tasks.push(tokio::spawn(async move {
            let mut events = Vec::new();
            let result = join(&connector, plan, work, store, &mut events, rng).await;
            (events, result)
        }));
        tapes.push(tape);
        secrets.push(secret);
    }
    let setup = Arc::clone(&plan.setup);
    let (mut store, resume) = ServerStore::open(
        &federation.dir.path().join(format!("server-{seed}")),
        &genesis.entries,
    )
    .unwrap();
    let mut server = Vec::new();
    let log = serve(
        listener,
        plan,
        &mut store,
        resume,
        &mut server,
        std::future::pending(),
    )
    .await
    .unwrap();
    veilsum::bundle::export(&federation.kit.bundle, &log, &store, &setup).unwrap();
    let mut clients = Vec::new();
    for task in tasks {
        clients.push(task.await.unwrap());
    }
    Run {
        server,
        clients,
        tapes,
        secrets,
    }
}

/// Training frames of a client: the last has few.
fn frames(client: u32) -> usize {
    if client == 7 { 9 } else { 12 }
}

pub(crate) fn survivors(run: &Run) -> Vec<Vec<u32>> {
    run.server
        .iter()
        .filter_map(|stamped| match &stamped.event {
            ServerEvent::RoundDone { survivors, .. } => Some(survivors.clone()),
            _ => None,
        })
        .collect()
}

pub(crate) fn audit(federation: &Federation) -> Overall {
    let trust = Trust {
        name: federation.kit.trust.federation.clone(),
        authority: federation.kit.trust.authority,
    };
    let file = std::fs::File::open(&federation.kit.bundle).unwrap();
    let verdict = Auditor::new(trust)
        .unwrap()
        .audit(std::io::BufReader::new(file), &mut |_| ())
        .unwrap();
    assert_eq!(verdict.overall, Overall::Verified, "{verdict}");
    second_opinion(federation);
    verdict.overall
}

/// The second verifier says the same, where Python can run it.
fn second_opinion(federation: &Federation) {
    let python = |args: &[&str]| std::process::Command::new("python3").args(args).output();
    if !python(&["-c", "import cryptography"]).is_ok_and(|probe| probe.status.success()) {
        println!("second verifier skipped: it needs python3 and its package `cryptography`");
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/second-verifier/verify.py");
    let trust = &federation.kit.trust;
    let authority = hex::encode(trust.authority.0);
    let bundle = federation.kit.bundle.to_str().unwrap();
    let ran = python(&[
        program,
        "--federation",
        &trust.federation,
        "--authority",
        &authority,
        bundle,
    ])
    .unwrap();
    let said = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(ran.status.code(), Some(0), "{said:?}");
}

pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
