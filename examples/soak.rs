//! Does anything grow? A thousand rounds of eight clients through the real drivers over the simulated network, with links
//! cut in the middle of what they carry and clients killed and started again from their disks.
//!
//! `cargo run --release --example soak [ROUNDS]`. Every fiftieth round it prints memory, open files, threads and what lies on
//! disk. It fails when memory beyond what the server's log accounts for, or open files, are higher in the last quarter than in
//! the second. Needs Linux: it reads `/proc/self`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench: a panic is the failure report"
)]

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::mpsc;
use veilsum::config::{LearnerKind, TrainingConfig};
use veilsum::drive::client::{JoinPlan, Work, join};
use veilsum::drive::server::{ServePlan, serve};
use veilsum::events::{ClientEvent, ServerEvent, Sink};
use veilsum::genesis::Genesis;
use veilsum::kit::{self, KitRequest};
use veilsum::store::{ClientStore, ServerStore, model_from_bytes};
use veilsum_aggregation::client::{Floors, Membership};
use veilsum_aggregation::server::{Deadlines, ServerSetup};
use veilsum_crypto::{ClientId, Identity};
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::toy::ToyDepth;
use veilsum_transport::{Fault, PeerId, SimConfig, SimNet};

/// One line of the table.
struct Sample {
    round: u64,
    memory_kib: u64,
    files: usize,
    threads: usize,
    log_kib: u64,
    server_kib: u64,
    clients_kib: u64,
}

/// Watches the rounds go by, and makes trouble between them.
struct Watch {
    net: SimNet,
    peers: Vec<PeerId>,
    kill: Vec<mpsc::UnboundedSender<()>>,
    dice: ChaCha20Rng,
    state: PathBuf,
    samples: Vec<Sample>,
    cuts: u32,
    kills: u32,
    aborted: u32,
    dropped: usize,
}

/// Client events go nowhere.
struct Nowhere;

impl Sink<ClientEvent> for Nowhere {
    fn emit(&mut self, _: u64, _: &ClientEvent) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink<ServerEvent> for Watch {
    fn emit(&mut self, _: u64, event: &ServerEvent) -> std::io::Result<()> {
        match event {
            ServerEvent::RoundDone { round, survivors, .. } => {
                self.dropped += self.peers.len() - survivors.len();
                if round % 50 == 0 {
                    self.sample(*round);
                }
                self.trouble();
            }
            ServerEvent::RoundAborted { .. } => {
                self.aborted += 1;
                self.trouble();
            }
            _ => {}
        }
        Ok(())
    }
}

impl Watch {
    /// In half of the rounds one client's link is cut after a few frames; in a quarter one client's process dies.
    fn trouble(&mut self) {
        let [cut, peer, frames, kill] = [2, 8, 12, 4].map(|sides| self.dice.next_u32() % sides);
        if cut == 0 {
            self.cuts += 1;
            self.net.inject(Fault::CutAfterFrames {
                peer: self.peers[peer as usize],
                frames: u64::from(frames),
            });
        }
        if kill == 0 {
            self.kills += 1;
            let victim = self.dice.next_u32() as usize % self.kill.len();
            // Nobody listens any more once that client has finished.
            let _ = self.kill[victim].send(());
        }
    }

    fn sample(&mut self, round: u64) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let sample = Sample {
            round,
            memory_kib: field("VmRSS:"),
            files: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            threads: usize::try_from(field("Threads:")).unwrap(),
            log_kib: kib(&self.state.join("server/log.veil")),
            server_kib: kib(&self.state.join("server")),
            clients_kib: kib(&self.state.join("clients")),
        };
        println!("{sample}");
        self.samples.push(sample);
    }

    /// Flat: the means of the last quarter against those of the second. The log is in memory too, by design: its entries and
    /// a few hashes for each.
    fn judge(&self) -> bool {
        let quarter = self.samples.len() / 4;
        if quarter == 0 {
            println!("too few rounds to judge");
            return true;
        }
        let second = &self.samples[quarter..2 * quarter];
        let last = &self.samples[3 * quarter..];
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let mean = |samples: &[Sample], of: fn(&Sample) -> u64| {
            samples.iter().map(of).sum::<u64>() as f64 / samples.len() as f64
        };
        let grown = |of: fn(&Sample) -> u64| mean(last, of) - mean(second, of);
        let rounds = grown(|sample| sample.round).max(1.0);
        let (memory, log) = (grown(|sample| sample.memory_kib), grown(|sample| sample.log_kib));
        let files = grown(|sample| sample.files as u64);
        println!(
            "second to last quarter, {rounds} rounds: memory {memory:+.0} KiB ({:+.2} KiB a round), log {log:+.0} KiB \
             ({:+.2} KiB a round), files {files:+.1}, clients' disks {:+.0} KiB",
            memory / rounds,
            log / rounds,
            grown(|sample| sample.clients_kib),
        );
        memory <= 2.0 * log + 0.05 * mean(second, |sample| sample.memory_kib) && files <= 4.0
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>6} {:>11} {:>6} {:>8} {:>9} {:>11} {:>12}",
            self.round,
            self.memory_kib,
            self.files,
            self.threads,
            self.log_kib,
            self.server_kib,
            self.clients_kib
        )
    }
}

/// What lies under a path, in KiB. Files may vanish while it looks.
fn kib(path: &Path) -> u64 {
    fn bytes(path: &Path) -> u64 {
        match std::fs::read_dir(path) {
            Ok(entries) => entries.flatten().map(|entry| bytes(&entry.path())).sum(),
            Err(_) => std::fs::metadata(path).map_or(0, |data| data.len()),
        }
    }
    bytes(path).div_ceil(1024)
}

fn identity(path: &Path) -> Identity {
    let text = std::fs::read_to_string(path).unwrap();
    Identity::from_seed(&hex::decode(text.trim()).unwrap().try_into().unwrap()).unwrap()
}

/// A client that is started again from its disk whenever it is killed.
async fn lives(
    net: SimNet,
    peer: PeerId,
    number: u32,
    folder: PathBuf,
    state: PathBuf,
    genesis: Arc<Genesis>,
    mut killed: mpsc::UnboundedReceiver<()>,
) {
    for life in 0u64.. {
        let member = Arc::new(Membership {
            me: ClientId(number),
            identity: identity(&folder.join("client.key")),
            book: genesis.book.clone(),
            policy: genesis.policy.clone(),
            policy_leaf: genesis.policy_leaf,
            floors: Floors::default(),
        });
        let data = Generator {
            platform: Platform::ALL[number as usize % 4],
            place: Place::Street,
            light: Light::Day,
            width: 32,
            height: 24,
            train: 2,
            test: 1,
            seed: u64::from(number),
        };
        let training = TrainingConfig {
            steps: 1,
            learning_rate: 0.01,
            decay: 1.0,
            batch: 1,
            seed: u64::from(number),
        };
        let learner = ToyDepth::new(data.dataset().unwrap()).unwrap();
        let work = Work::new(Box::new(learner), training, false);
        let plan = JoinPlan {
            member,
            genesis: genesis.entries.clone(),
            addr: "simulated".into(),
            give_up_after: Duration::from_mins(10),
            stall_upload_in_round: None,
            crash_at_step: None,
        };
        let store = ClientStore::open(&state).unwrap();
        let rng = ChaCha20Rng::seed_from_u64(life << 32 | u64::from(number));
        let connector = net.connector(peer);
        let mut sink = Nowhere;
        tokio::select! {
            result = join(&connector, plan, work, store, &mut sink, rng) => return result.unwrap(),
            Some(()) = killed.recv() => net.kill(peer),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        net.revive(peer);
    }
}

async fn soak(rounds: u64) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let request = KitRequest {
        rounds,
        learner: LearnerKind::Linear,
        ..KitRequest::new(dir.path().join("kit"), "127.0.0.1:1".parse().unwrap())
    };
    let now = UNIX_EPOCH + Duration::from_hours(500_000);
    let kit = kit::create(&request, now, &mut ChaCha20Rng::seed_from_u64(5)).unwrap();
    let genesis = Arc::new(Genesis::read(&request.dir.join("server/policy.veil"), &kit.trust).unwrap());
    let members = genesis.book.members().values();
    let peers: Vec<PeerId> = members.map(|member| PeerId(member.tls.0)).collect();
    let state = dir.path().join("state");
    let net = SimNet::new(7, SimConfig::default());
    let listener = net.listener();
    let (mut tasks, mut kill) = (Vec::new(), Vec::new());
    for (number, peer) in (0u32..).zip(&peers) {
        let (sender, killed) = mpsc::unbounded_channel();
        kill.push(sender);
        tasks.push(tokio::spawn(lives(
            net.clone(),
            *peer,
            number,
            request.dir.join(format!("clients/client-{number:02}")),
            state.join(format!("clients/{number}")),
            Arc::clone(&genesis),
            killed,
        )));
    }
    let initial = std::fs::read(request.dir.join("server/initial.f32")).unwrap();
    let plan = ServePlan {
        setup: Arc::new(ServerSetup {
            identity: identity(&request.dir.join("server/server.key")),
            book: genesis.book.clone(),
            policy: genesis.policy.clone(),
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
        clusters: request
            .cluster_list()
            .into_iter()
            .map(|members| members.into_iter().map(ClientId).collect())
            .collect(),
        initial: Arc::from(model_from_bytes(&initial).unwrap()),
        wait_for: 8,
        start_after: Duration::from_secs(30),
        describe_within: Duration::from_mins(1),
        attempts: 100,
        witnesses: None,
        crash_at_step: None,
        seed: [7; 32],
    };
    let mut watch = Watch {
        net,
        peers,
        kill,
        dice: ChaCha20Rng::seed_from_u64(11),
        state: state.clone(),
        samples: Vec::new(),
        cuts: 0,
        kills: 0,
        aborted: 0,
        dropped: 0,
    };
    println!(" round memory(KiB)  files  threads  log(KiB) server(KiB) clients(KiB)");
    let (mut store, resume) = ServerStore::open(&state.join("server"), &genesis.entries).unwrap();
    let log = serve(
        listener,
        plan,
        &mut store,
        resume,
        &mut watch,
        std::future::pending(),
    )
    .await
    .unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let bytes: usize = log.entries().iter().map(Vec::len).sum();
    println!(
        "{rounds} rounds: {} links cut, {} clients killed, {} attempts aborted, {} times a client was missing from a sum; \
         {} log entries of {bytes} bytes, {} bytes a round",
        watch.cuts,
        watch.kills,
        watch.aborted,
        watch.dropped,
        log.entries().len(),
        bytes as u64 / rounds,
    );
    watch.judge()
}

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(1000, |rounds| rounds.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    if !runtime.block_on(soak(rounds)) {
        println!("something grows");
        std::process::exit(1);
    }
}
