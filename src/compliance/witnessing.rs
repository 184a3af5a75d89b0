//! Witnesses: a quorum that is missing, one that refuses, one that holds another size, and one that cosigns a fork.

use super::EngineError;
use super::federation::{Federation, identity};
use super::scenario::Check;
use crate::witness::verifies;
use std::fmt::Write as _;
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::merkle::Tree;
use veilsum_attestation::note::{Note, NoteKey};
use veilsum_attestation::tlog::{
    Asked, CosignerKey, Exchange, Relation, TrustPolicy, Witness, WitnessFault, compare,
};
use veilsum_crypto::Identity;

/// Makes the check; gives the name with which the server or two members stop, and nothing when they go on.
pub(super) fn refused(check: Check, federation: &Federation) -> Result<Vec<&'static str>, EngineError> {
    let scene = Scene::new(federation)?;
    match check {
        Check::QuorumMissing => scene.missing(),
        Check::WitnessRefuses => scene.refuses(),
        Check::WitnessBehind => scene.behind(),
        Check::WitnessCosignsFork => scene.cosigns_fork(),
        _ => Err(EngineError::Internal("this check is not about witnesses")),
    }
}

/// A log, its server's key, and three witnesses of which two must cosign.
struct Scene {
    server: Identity,
    key: NoteKey,
    witnesses: Vec<(Identity, CosignerKey)>,
    policy: TrustPolicy,
}

impl Scene {
    fn new(federation: &Federation) -> Result<Self, EngineError> {
        let server = federation.server_identity()?;
        let key = NoteKey::new(ORIGIN, server.public().0).map_err(|_| WRONG)?;
        let witnesses = (0..3)
            .map(|number| {
                let own = identity(federation.tag, WITNESS, number)?;
                let key =
                    CosignerKey::new(&format!("w{number}.example"), own.public().0).map_err(|_| WRONG)?;
                Ok((own, key))
            })
            .collect::<Result<Vec<_>, EngineError>>()?;
        let mut text = format!("log {key}\n");
        for (number, (_, key)) in witnesses.iter().enumerate() {
            let _ = writeln!(text, "witness w{number} {key}");
        }
        text += "group makers 2 w0 w1 w2\nquorum makers\n";
        let policy = TrustPolicy::parse(text.as_bytes()).map_err(|_| WRONG)?;
        Ok(Self {
            server,
            key,
            witnesses,
            policy,
        })
    }

    fn head(&self, tree: &Tree) -> Result<Note, EngineError> {
        let text = Checkpoint::new(ORIGIN, tree.size(), tree.root()).map_err(|_| WRONG)?;
        let mut note = Note::new(text.to_string()).map_err(|_| WRONG)?;
        note.sign(&self.key, &|text| self.server.sign_raw(text).0)
            .map_err(|_| WRONG)?;
        Ok(note)
    }

    /// Asks one witness as the server does, over no network. Counts the requests.
    fn ask(
        &self,
        place: usize,
        witness: &mut Witness,
        tree: &Tree,
        note: &mut Note,
    ) -> Result<(usize, Result<(), WitnessFault>), EngineError> {
        let (own, key) = self.witnesses.get(place).ok_or(WRONG)?;
        let mut exchange = Exchange::new(self.head(tree)?, key.clone(), 0).map_err(|_| WRONG)?;
        for requests in 1.. {
            let body = match exchange.request(&|old| tree.consistency_proof(old, tree.size())) {
                Ok(body) => body,
                Err(fault) => return Ok((requests - 1, Err(fault))),
            };
            let answer = match witness.consider(body.as_bytes(), &verifies) {
                Ok(pending) => match pending.store(|_| Ok::<_, ()>(())) {
                    Ok(stored) => stored.cosign(TIME, &|text| own.sign_raw(text).0),
                    Err(()) => return Err(WRONG),
                },
                Err(refused) => refused.answer,
            };
            match exchange.answer(
                answer.status,
                Some(answer.content_type),
                answer.body.as_bytes(),
                &verifies,
            ) {
                Ok(Asked::Cosigned(line, _)) => {
                    note.add(line).map_err(|_| WRONG)?;
                    return Ok((requests, Ok(())));
                }
                Ok(Asked::Again) => {}
                Err(fault) => return Ok((requests, Err(fault))),
            }
        }
        Err(WRONG)
    }

    fn witness(&self, place: usize) -> Result<Witness, EngineError> {
        let (_, key) = self.witnesses.get(place).ok_or(WRONG)?;
        Ok(Witness::new(key.clone(), [self.key.clone()]))
    }

    fn quorum(&self, note: &Note) -> Vec<&'static str> {
        match self.policy.accept(note, &verifies) {
            Ok(_) => Vec::new(),
            Err(_) => vec!["NoQuorum"],
        }
    }

    /// One of the two that are needed answers.
    fn missing(&self) -> Result<Vec<&'static str>, EngineError> {
        let tree = tree(9, "log");
        let mut note = self.head(&tree)?;
        self.ask(0, &mut self.witness(0)?, &tree, &mut note)?
            .1
            .map_err(|_| WRONG)?;
        Ok(self.quorum(&note))
    }

    /// Two answer, and one of them has seen another history of the log: 422.
    fn refuses(&self) -> Result<Vec<&'static str>, EngineError> {
        let (ours, other) = (tree(9, "log"), tree(7, "another log"));
        let mut note = self.head(&ours)?;
        self.ask(0, &mut self.witness(0)?, &ours, &mut note)?
            .1
            .map_err(|_| WRONG)?;
        let mut second = self.witness(1)?;
        let mut elsewhere = self.head(&other)?;
        self.ask(1, &mut second, &other, &mut elsewhere)?
            .1
            .map_err(|_| WRONG)?;
        match self.ask(1, &mut second, &ours, &mut note)?.1 {
            Err(WitnessFault::Inconsistent { status: 422 }) => Ok(self.quorum(&note)),
            _ => Ok(vec!["AnotherAnswer"]),
        }
    }

    /// A witness that holds an earlier size says so with 409, is asked again from there, and cosigns.
    fn behind(&self) -> Result<Vec<&'static str>, EngineError> {
        let (before, now) = (tree(4, "log"), tree(9, "log"));
        let mut note = self.head(&now)?;
        let mut first = self.witness(0)?;
        let mut earlier = self.head(&before)?;
        self.ask(0, &mut first, &before, &mut earlier)?
            .1
            .map_err(|_| WRONG)?;
        let (requests, asked) = self.ask(0, &mut first, &now, &mut note)?;
        self.ask(1, &mut self.witness(1)?, &now, &mut note)?
            .1
            .map_err(|_| WRONG)?;
        let again = requests == 2 && asked.is_ok() && self.quorum(&note).is_empty();
        Ok(vec![if again { "AskedAgain" } else { "NotAskedAgain" }])
    }

    /// A witness with two memories cosigns both histories; two members that compare their heads have the proof, and it names
    /// the witness beside the server.
    fn cosigns_fork(&self) -> Result<Vec<&'static str>, EngineError> {
        let (one, other) = (tree(9, "log"), tree(8, "another log"));
        let mut heads = Vec::new();
        for (tree, honest) in [(&one, 0), (&other, 1)] {
            let mut note = self.head(tree)?;
            self.ask(2, &mut self.witness(2)?, tree, &mut note)?
                .1
                .map_err(|_| WRONG)?;
            self.ask(honest, &mut self.witness(honest)?, tree, &mut note)?
                .1
                .map_err(|_| WRONG)?;
            if !self.quorum(&note).is_empty() {
                return Ok(vec!["NoQuorum"]);
            }
            heads.push(note);
        }
        let [first, second] = heads.as_slice() else {
            return Err(WRONG);
        };
        let relation = compare(&self.key, (first, Some(&one)), (second, Some(&other)), &verifies);
        let Ok(Relation::Forked(fork)) = relation else {
            return Ok(Vec::new());
        };
        let keys: Vec<CosignerKey> = self.witnesses.iter().map(|(_, key)| key.clone()).collect();
        let both: Vec<&str> = fork
            .cosigners(&keys, &verifies)
            .into_iter()
            .map(CosignerKey::name)
            .collect();
        Ok(if fork.check(&verifies).is_ok() && both == ["w2.example"] {
            vec!["Forked"]
        } else {
            vec!["WrongProof"]
        })
    }
}

/// A log whose first entries are the same on all sides.
fn tree(size: u64, history: &str) -> Tree {
    let mut log = Tree::new();
    for index in 0..size {
        let of = if index < 3 { "same" } else { history };
        log.append(format!("{of} {index}").as_bytes());
    }
    log
}

const ORIGIN: &str = "veilsum/0123456789abcdef";
/// The role of a witness's key.
const WITNESS: u8 = 7;
/// POSIX seconds.
const TIME: u64 = 1_800_000_000;
const WRONG: EngineError = EngineError::Internal("the witnesses cannot be set up");
