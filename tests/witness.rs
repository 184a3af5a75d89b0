//! Witnesses over real sockets on loopback: retries, refusals, one that is down, and one that lies.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use veilsum::witness::{
    AskError, Collected, Desk, DeskEvent, DeskStore, DeskStoreError, Quorum, QuorumSetupError,
};
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::merkle::Tree;
use veilsum_attestation::note::{Note, NoteKey};
use veilsum_attestation::tlog::{CosignerKey, Fork, Relation, TrustPolicy, Witness, WitnessFault, compare};
use veilsum_crypto::{Identity, PublicIdentity, Signature};

const ORIGIN: &str = "veilsum/0123456789abcdef";

fn strict(public: &[u8; 32], text: &[u8], signature: &[u8; 64]) -> bool {
    PublicIdentity(*public).verifies_raw(text, &Signature(*signature))
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(&[seed; 32]).unwrap()
}

fn log_key() -> NoteKey {
    NoteKey::new(ORIGIN, identity(1).public().0).unwrap()
}

fn head(tree: &Tree) -> Note {
    let text = Checkpoint::new(ORIGIN, tree.size(), tree.root())
        .unwrap()
        .to_string();
    let mut note = Note::new(text).unwrap();
    note.sign(&log_key(), &|text| identity(1).sign_raw(text).0)
        .unwrap();
    note
}

fn tree(size: u64, side: &str) -> Tree {
    let mut tree = Tree::new();
    for index in 0..size {
        let side = if index < 3 { "same" } else { side };
        tree.append(format!("{side} {index}").as_bytes());
    }
    tree
}

/// A witness in the background.
struct Running {
    name: String,
    addr: SocketAddr,
    key: CosignerKey,
    events: mpsc::UnboundedReceiver<DeskEvent>,
    stop: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn start(seed: u8, folder: &Path) -> Self {
        let name = format!("w{seed}.example/1");
        let key = CosignerKey::new(&name, identity(seed).public().0).unwrap();
        let mut witness = Witness::new(key.clone(), [log_key()]);
        let store = DeskStore::open(folder, &mut witness).unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let desk = Desk::new(witness, vec![log_key()], store, identity(seed), sender);
        let listener = Desk::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let done = tokio::spawn(desk.serve(listener, async {
            let _ = stopped.await;
        }));
        Self {
            name: format!("w{seed}"),
            addr,
            key,
            events,
            stop,
            done,
        }
    }

    fn line(&self) -> String {
        format!("witness {} {} http://{}/\n", self.name, self.key, self.addr)
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.done.await.unwrap();
    }
}

fn quorum(lines: &[String], rule: &str) -> Quorum {
    let text = format!("log {}\n{}{rule}", log_key(), lines.concat());
    let policy = TrustPolicy::parse(text.as_bytes()).unwrap();
    Quorum::new(policy, Duration::from_secs(5)).unwrap()
}

async fn collect(quorum: &Quorum, tree: &Tree) -> Collected {
    let (note, size, tree) = (head(tree), tree.size(), tree.clone());
    let prove = Arc::new(move |old| tree.consistency_proof(old, size));
    quorum.collect(&note, prove).await.unwrap()
}

#[tokio::test]
async fn heads_come_back_with_the_quorum_whatever_the_witnesses_hold() {
    let folders: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut desks = Vec::new();
    for (seed, folder) in (10..).zip(&folders) {
        desks.push(Running::start(seed, folder.path()).await);
    }
    let lines: Vec<String> = desks.iter().map(Running::line).collect();
    let all = "group orgs all w10 w11 w12\nquorum orgs\n";
    let asked = quorum(&lines, all);
    let found = collect(&asked, &tree(5, "a")).await;
    assert!(found.quorum.is_ok(), "{found:?}");
    assert_eq!(found.note.signatures().len(), 4);
    assert!(
        asked
            .policy()
            .accept(&Note::parse(found.note.to_string().as_bytes()).unwrap(), &strict)
            .is_ok()
    );
    // One witness alone sees the next head; the others lag behind, and a log that knows nothing finds all their sizes.
    let one = quorum(&lines[..1], "quorum w10\n");
    assert!(collect(&one, &tree(9, "a")).await.quorum.is_ok());
    let fresh = quorum(&lines, all);
    let found = collect(&fresh, &tree(12, "a")).await;
    assert!(found.quorum.is_ok(), "{found:?}");
    // The first ask of each was a conflict, answered with its size.
    for desk in &mut desks {
        let mut seen = Vec::new();
        while let Ok(event) = desk.events.try_recv() {
            seen.push(event);
        }
        assert!(seen.contains(&DeskEvent::Refused {
            status: 409,
            evidence: None
        }));
        assert!(matches!(seen.last(), Some(DeskEvent::Cosigned { size: 12, .. })));
    }
    for desk in desks {
        desk.stop().await;
    }
}

#[tokio::test]
async fn a_fork_is_refused_and_kept_and_a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Running::start(10, folder.path()).await;
    let asked = quorum(&[desk.line()], "quorum w10\n");
    assert!(collect(&asked, &tree(6, "a")).await.quorum.is_ok());
    // Another process on the same folder would be a second history.
    let mut second = Witness::new(desk.key.clone(), [log_key()]);
    assert!(matches!(
        DeskStore::open(folder.path(), &mut second),
        Err(DeskStoreError::Locked(_))
    ));
    desk.stop().await;
    let mut desk = Running::start(10, folder.path()).await;
    let asked = quorum(&[desk.line()], "quorum w10\n");
    // A longer fork fails its proof, one of the same size its root.
    for (size, status) in [(9, 422), (6, 409)] {
        let found = collect(&asked, &tree(size, "b")).await;
        assert!(found.quorum.is_err());
        assert_eq!(found.contradictions().count(), 1);
        assert!(
            matches!(
                found.answers[0].result,
                Err(AskError::Fault(WitnessFault::Inconsistent { status: got })) if got == status
            ),
            "{found:?}"
        );
    }
    let mut kept = Vec::new();
    while let Ok(event) = desk.events.try_recv() {
        if let DeskEvent::Refused {
            evidence: Some(path), ..
        } = event
        {
            kept.push(path);
        }
    }
    assert_eq!(kept.len(), 2);
    let fork: Fork = std::fs::read_to_string(&kept[1]).unwrap().parse().unwrap();
    assert!(fork.check(&strict).is_ok());
    // A log that was rolled back.
    let found = collect(&asked, &tree(4, "a")).await;
    assert!(matches!(
        found.answers[0].result,
        Err(AskError::Fault(WitnessFault::Ahead { witness: 6, ours: 4 }))
    ));
    desk.stop().await;
    // A damaged head stops the witness rather than let it begin anew.
    let heads = folder.path().join("heads");
    let file = std::fs::read_dir(&heads).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\n6\n", "\n5\n")).unwrap();
    let mut witness = Witness::new(
        CosignerKey::new("w10.example/1", identity(10).public().0).unwrap(),
        [log_key()],
    );
    assert!(matches!(
        DeskStore::open(folder.path(), &mut witness),
        Err(DeskStoreError::Damaged { .. })
    ));
}

#[tokio::test]
async fn a_witness_that_is_down_mute_or_rude_costs_its_own_voice_only() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Running::start(10, folder.path()).await;
    // Down: nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    // Mute: accepts and says nothing. Rude: answers with something else than HTTP.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mute_addr, rude_addr) = (mute.local_addr().unwrap(), rude.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = mute.accept().await {
            open.push(stream);
        }
    });
    let shouting = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok((mut stream, _)) = rude.accept().await {
            let _ = stream.write_all(b"SSH-2.0-nothing here\r\n").await;
        }
    });
    let line = |seed: u8, addr: SocketAddr| {
        let key = CosignerKey::new("x", identity(seed).public().0).unwrap();
        format!("witness w{seed} {key} http://{addr}\n")
    };
    let lines = [
        desk.line(),
        line(20, gone),
        line(21, mute_addr),
        line(22, rude_addr),
    ];
    let policy = |rule: &str| {
        let text = format!("log {}\n{}{rule}", log_key(), lines.concat());
        TrustPolicy::parse(text.as_bytes()).unwrap()
    };
    let any = Quorum::new(
        policy("group orgs any w10 w20 w21 w22\nquorum orgs\n"),
        Duration::from_millis(500),
    )
    .unwrap();
    let found = collect(&any, &tree(5, "a")).await;
    assert!(found.quorum.is_ok());
    assert!(matches!(found.answers[1].result, Err(AskError::Connect(_))));
    assert!(matches!(found.answers[2].result, Err(AskError::Timeout)));
    assert!(matches!(found.answers[3].result, Err(AskError::Http(_))));
    assert_eq!(found.contradictions().count(), 0);
    let two = Quorum::new(
        policy("group orgs 2 w10 w20 w21 w22\nquorum orgs\n"),
        Duration::from_millis(500),
    )
    .unwrap();
    assert!(collect(&two, &tree(6, "a")).await.quorum.is_err());
    silent.abort();
    shouting.abort();
    desk.stop().await;
}

#[tokio::test]
async fn a_witness_that_cosigns_a_fork_is_found_by_comparing_heads() {
    // The liar keeps two states and shows each half of the federation its own: two honest desks with one key.
    let folders: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let left = Running::start(66, folders[0].path()).await;
    let right = Running::start(66, folders[1].path()).await;
    let honest = Running::start(10, folders[2].path()).await;
    let heads = [(&left, "a"), (&right, "b")].map(|(liar, side)| {
        let asked = quorum(
            &[liar.line(), honest.line()],
            "group orgs any w66 w10\nquorum orgs\n",
        );
        (asked, tree(7, side))
    });
    let mut notes = Vec::new();
    for (asked, tree) in &heads {
        let found = collect(asked, tree).await;
        assert!(found.quorum.is_ok(), "the liar alone makes this quorum");
        notes.push(found.note);
    }
    // Two members compare what they hold: one log, one size, two roots.
    let Relation::Forked(fork) = compare(&log_key(), (&notes[0], None), (&notes[1], None), &strict).unwrap()
    else {
        panic!("two roots of one size")
    };
    let fork: Fork = fork.to_string().parse().unwrap();
    assert!(fork.check(&strict).is_ok());
    let keys = [left.key.clone(), honest.key.clone()];
    assert_eq!(fork.cosigners(&keys, &strict), [&left.key]);
    for desk in [left, right, honest] {
        desk.stop().await;
    }
}

#[tokio::test]
async fn other_paths_methods_and_sizes_are_refused() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let desk = Running::start(10, folder.path()).await;
    let long = 100_000;
    for (request, status) in [
        (
            "GET /add-checkpoint HTTP/1.1\r\nhost: w\r\n\r\n".to_owned(),
            "405",
        ),
        (
            "POST / HTTP/1.1\r\nhost: w\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "404",
        ),
        (
            "POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 6\r\n\r\nold 1\n".to_owned(),
            "400",
        ),
        (
            format!(
                "POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: {long}\r\n\r\n{}",
                "x".repeat(long)
            ),
            "413",
        ),
        ("nothing\r\n\r\n".to_owned(), "400"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(desk.addr).await.unwrap();
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes());
    }
    desk.stop().await;
}

#[test]
fn a_policy_without_usable_addresses_is_named() {
    let key = CosignerKey::new("x", identity(5).public().0).unwrap();
    let setup = |url: &str| {
        let text = format!("witness w {key} {url}\nquorum w\n");
        let policy = TrustPolicy::parse(text.as_bytes()).unwrap();
        Quorum::new(policy, Duration::from_secs(1)).unwrap_err()
    };
    assert!(matches!(setup(""), QuorumSetupError::NoUrl(_)));
    for url in ["https://w.example", "w.example:80", "http://", "http://a b"] {
        if url.contains(' ') {
            continue;
        }
        assert!(matches!(setup(url), QuorumSetupError::Url { .. }), "{url}");
    }
}
