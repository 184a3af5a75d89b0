//! The witness protocol without sockets: every status the text names, and both ends against each other.

use super::common::{Signer, strict, tree};
use proptest::prelude::*;
use veilsum_attestation::merkle::{Hash, MerkleError, Tree, empty_root};
use veilsum_attestation::note::Note;
use veilsum_attestation::tlog::{
    AddCheckpoint, Answer, Asked, Exchange, RequestError, Witness, WitnessFault,
};

const ORIGIN: &str = "example.com/behind-the-sofa";
const TIME: u64 = 1_679_315_147;

/// The request of C2SP tlog-witness, in full.
const EXAMPLE: &str = "old 20852014\n\
    PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n\
    jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=\n\
    5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=\n\
    /6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=\n\
    \n\
    example.com/behind-the-sofa\n\
    20852163\n\
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\
    \n\
    \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
    \u{2014} example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=\n";

struct Desk {
    log: Signer,
    key: Signer,
    witness: Witness,
}

impl Desk {
    fn new() -> Self {
        let (log, key) = (Signer::new(1), Signer::new(2));
        let witness = Witness::new(key.cosigner("w.example/1"), [log.log_key(ORIGIN)]);
        Self { log, key, witness }
    }

    fn ask(&mut self, body: &str) -> Answer {
        match self.witness.consider(body.as_bytes(), &strict) {
            Err(refused) => refused.answer,
            Ok(pending) => {
                let stored = pending.store(|_| Ok::<(), ()>(())).unwrap();
                stored.cosign(TIME, &|text| self.key.sign(text))
            }
        }
    }

    fn submit(&mut self, old: u64, proof: Vec<Hash>, note: Note) -> Answer {
        self.ask(&AddCheckpoint::new(old, proof, note).unwrap().to_string())
    }

    fn grow(&mut self, tree: &Tree, old: u64) -> Answer {
        let proof = if old == 0 {
            Vec::new()
        } else {
            tree.consistency_proof(old, tree.size()).unwrap()
        };
        let head = self.log.head_of(ORIGIN, tree);
        self.submit(old, proof, head)
    }

    fn size(&self) -> u64 {
        self.witness
            .latest(ORIGIN)
            .map_or(0, |state| state.checkpoint().size())
    }
}

#[test]
fn the_example_request_is_read_and_written_back() {
    let request = AddCheckpoint::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(request.to_string(), EXAMPLE);
}

#[test]
fn malformed_requests_are_named() {
    let read = |body: &str| AddCheckpoint::parse(body.as_bytes()).unwrap_err();
    for old in [
        "",
        "old",
        "old ",
        "old 01",
        "old -1",
        "old +1",
        "old  1",
        "old 1 ",
        "Old 1",
        "old 18446744073709551616",
    ] {
        assert_eq!(
            read(&EXAMPLE.replacen("old 20852014", old, 1)),
            RequestError::Old,
            "{old:?}"
        );
    }
    assert_eq!(
        read(&EXAMPLE.replacen("jrJZ", "jr!Z", 1)),
        RequestError::ProofLine(2)
    );
    assert_eq!(
        read(&EXAMPLE.replacen("swk=\n", "swk\n", 1)),
        RequestError::ProofLine(2)
    );
    let many = "PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n".repeat(60);
    assert_eq!(
        read(&EXAMPLE.replacen("PlRN", &format!("{many}PlRN"), 1)),
        RequestError::TooManyHashes
    );
    assert_eq!(read("old 1\n"), RequestError::NoCheckpoint);
    assert!(matches!(read("old 1\n\nnothing\n"), RequestError::Note(_)));
    assert!(matches!(
        read("old 1\n\nnothing\n\n\u{2014} k AQIDBAU=\n"),
        RequestError::Checkpoint(_)
    ));
    assert_eq!(AddCheckpoint::parse(b"\xff").unwrap_err(), RequestError::NotText);
    assert_eq!(Desk::new().ask("old 1\n").status, 400);
}

#[test]
fn every_status_of_the_text() {
    let mut desk = Desk::new();
    let trees: Vec<Tree> = (0..20).map(|size| tree(size, "a")).collect();
    // 404: another origin; 403: the origin's name under another key.
    let stranger = Signer::new(9);
    let head = stranger.head_of("example.com/other", &trees[5]);
    assert_eq!(desk.submit(0, Vec::new(), head).status, 404);
    let head = stranger.head_of(ORIGIN, &trees[5]);
    assert_eq!(desk.submit(0, Vec::new(), head).status, 403);
    // A line of an unknown key beside the right one is ignored.
    let mut head = desk.log.head_of(ORIGIN, &trees[5]);
    head.sign(&stranger.log_key("somebody"), &|text| stranger.sign(text))
        .unwrap();
    // 400: an old size beyond the new. 409: a size the witness does not hold, which it tells.
    assert_eq!(desk.submit(6, Vec::new(), head.clone()).status, 400);
    let conflict = desk.submit(3, trees[5].consistency_proof(3, 5).unwrap(), head.clone());
    assert_eq!(
        (conflict.status, conflict.content_type, conflict.body.as_str()),
        (409, "text/x.tlog.size", "0\n")
    );
    // 422: the first head comes without a proof.
    assert_eq!(desk.submit(0, vec![[0; 32]], head.clone()).status, 422);
    assert_eq!(desk.size(), 0);
    let first = desk.submit(0, Vec::new(), head);
    assert_eq!((first.status, desk.size()), (200, 5));
    // What is kept is the log's own line.
    assert_eq!(desk.witness.latest(ORIGIN).unwrap().note().signatures().len(), 1);
    let conflict = desk.grow(&trees[9], 4);
    assert_eq!((conflict.status, conflict.body.as_str()), (409, "5\n"));
    // 422: a proof of other sizes, a bent one, and one of another tree.
    let head = desk.log.head_of(ORIGIN, &trees[9]);
    let good = trees[9].consistency_proof(5, 9).unwrap();
    let mut bent = good.clone();
    bent[1][7] ^= 1;
    for proof in [
        trees[9].consistency_proof(4, 9).unwrap(),
        bent,
        Vec::new(),
        [good.clone(), vec![[0; 32]]].concat(),
    ] {
        assert_eq!(desk.submit(5, proof, head.clone()).status, 422);
    }
    let fork = tree(9, "b");
    assert_eq!(desk.grow(&fork, 5).status, 422);
    assert_eq!(desk.size(), 5);
    assert_eq!(desk.submit(5, good, head).status, 200);
    // Again at the same size: a newer time. Another root at that size: 409 without a size.
    assert_eq!(desk.grow(&trees[9], 9).status, 200);
    let fork = desk.grow(&fork, 9);
    assert_eq!(fork.status, 409);
    assert_ne!(fork.content_type, "text/x.tlog.size");
    // A shorter log.
    assert_eq!(desk.grow(&trees[8], 8).body, "9\n");
    assert_eq!(desk.size(), 9);
}

#[test]
fn the_empty_log_has_one_root() {
    let mut desk = Desk::new();
    let wrong = desk.log.head(ORIGIN, 0, [1; 32]);
    assert_eq!(desk.submit(0, Vec::new(), wrong.clone()).status, 422);
    let right = desk.log.head(ORIGIN, 0, empty_root());
    assert_eq!(desk.submit(0, Vec::new(), right.clone()).status, 200);
    // Held at 0 now: the same rules.
    assert_eq!(desk.submit(0, Vec::new(), wrong).status, 422);
    assert_eq!(desk.submit(0, Vec::new(), right).status, 200);
    assert_eq!(desk.grow(&tree(3, "a"), 0).status, 200);
    assert_eq!(desk.size(), 3);
}

#[test]
fn nothing_is_answered_before_it_is_stored() {
    let mut desk = Desk::new();
    let head = desk.log.head_of(ORIGIN, &tree(4, "a"));
    let body = AddCheckpoint::new(0, Vec::new(), head.clone())
        .unwrap()
        .to_string();
    // A store that fails, and a decision that is dropped, leave the witness as it was.
    let pending = desk.witness.consider(body.as_bytes(), &strict).unwrap();
    assert_eq!(pending.state().checkpoint().size(), 4);
    assert!(pending.store(|_| Err("disk full")).is_err());
    assert_eq!(desk.size(), 0);
    drop(desk.witness.consider(body.as_bytes(), &strict).unwrap());
    assert_eq!(desk.size(), 0);
    assert_eq!(desk.ask(&body).status, 200);
    // After a restart the state comes back from what was stored, and only if the log signed it.
    let stored = desk.witness.latest(ORIGIN).unwrap().note().clone();
    let mut again = Desk::new();
    again.witness.restore(stored, &strict).unwrap();
    assert_eq!(again.size(), 4);
    assert_eq!(again.grow(&tree(4, "b"), 4).status, 409);
    let forged = Signer::new(9).head_of(ORIGIN, &tree(2, "a"));
    assert!(matches!(
        again.witness.restore(forged, &strict),
        Err(RequestError::Note(_))
    ));
    let other = Signer::new(1).head_of("other", &tree(2, "a"));
    assert!(matches!(
        again.witness.restore(other, &strict),
        Err(RequestError::Origin(_))
    ));
}

#[test]
fn a_refused_head_is_kept_as_evidence_when_the_log_signed_it() {
    let mut desk = Desk::new();
    desk.grow(&tree(4, "a"), 0);
    let head = desk.log.head_of(ORIGIN, &tree(4, "b"));
    let body = AddCheckpoint::new(4, Vec::new(), head.clone())
        .unwrap()
        .to_string();
    let refused = desk.witness.consider(body.as_bytes(), &strict).err().unwrap();
    let (earlier, second) = *refused.evidence.unwrap();
    assert_eq!(second, head);
    let key = desk.log.log_key(ORIGIN);
    let relation =
        veilsum_attestation::tlog::compare(&key, (&earlier, None), (&second, None), &strict).unwrap();
    assert!(matches!(relation, veilsum_attestation::tlog::Relation::Forked(_)));
    // Not signed by the log: evidence of nothing.
    let forged = Signer::new(9).head_of(ORIGIN, &tree(4, "b"));
    let body = AddCheckpoint::new(4, Vec::new(), forged).unwrap().to_string();
    let refused = desk.witness.consider(body.as_bytes(), &strict).err().unwrap();
    assert_eq!((refused.answer.status, refused.evidence), (403, None));
}

/// Runs the client against the witness until it has an answer.
fn collect(desk: &mut Desk, tree: &Tree, known: u64) -> Result<(u64, usize), WitnessFault> {
    let key = desk.key.cosigner("w.example/1");
    let mut exchange = Exchange::new(desk.log.head_of(ORIGIN, tree), key, known)?;
    let prove = |old| -> Result<Vec<Hash>, MerkleError> { tree.consistency_proof(old, tree.size()) };
    for asked in 1.. {
        let body = exchange.request(&prove)?;
        let answer = desk.ask(&body);
        let asked_again = exchange.answer(
            answer.status,
            Some(answer.content_type),
            answer.body.as_bytes(),
            &strict,
        )?;
        if let Asked::Cosigned(_, time) = asked_again {
            return Ok((time, asked));
        }
    }
    unreachable!()
}

#[test]
fn a_client_finds_the_witness_s_size_and_names_what_it_meets() {
    let mut desk = Desk::new();
    assert_eq!(collect(&mut desk, &tree(5, "a"), 0), Ok((TIME, 1)));
    assert_eq!(collect(&mut desk, &tree(9, "a"), 5), Ok((TIME, 1)));
    // Known too small, too large, and not at all.
    assert_eq!(collect(&mut desk, &tree(12, "a"), 7), Ok((TIME, 2)));
    assert_eq!(collect(&mut desk, &tree(13, "a"), 500), Ok((TIME, 2)));
    assert_eq!(collect(&mut desk, &tree(14, "a"), 0), Ok((TIME, 2)));
    // A log that was rolled back, and one that was forked.
    assert_eq!(
        collect(&mut desk, &tree(10, "a"), 14),
        Err(WitnessFault::Ahead {
            witness: 14,
            ours: 10
        })
    );
    for size in [14, 20] {
        let fault = collect(&mut desk, &tree(size, "b"), 14).unwrap_err();
        assert!(matches!(fault, WitnessFault::Inconsistent { .. }));
    }
}

#[test]
fn answers_that_are_none_are_refused() {
    let desk = Desk::new();
    let exchange = || {
        let key = desk.key.cosigner("w.example/1");
        Exchange::new(desk.log.head_of(ORIGIN, &tree(5, "a")), key, 0).unwrap()
    };
    let size = Some("text/x.tlog.size");
    let answer = |status, kind, body: &str| exchange().answer(status, kind, body.as_bytes(), &strict);
    for body in ["", "5", "05\n", "-1\n", "5\n\n", "five\n"] {
        assert_eq!(answer(409, size, body), Err(WitnessFault::Size), "{body:?}");
    }
    assert_eq!(answer(409, size, "3\n"), Ok(Asked::Again));
    assert_eq!(
        answer(409, None, "3\n"),
        Err(WitnessFault::Inconsistent { status: 409 })
    );
    assert_eq!(answer(403, None, ""), Err(WitnessFault::UnknownKey));
    assert_eq!(answer(404, None, ""), Err(WitnessFault::UnknownLog));
    assert_eq!(answer(500, None, ""), Err(WitnessFault::Status(500)));
    assert_eq!(answer(204, None, ""), Err(WitnessFault::Status(204)));
    for body in [
        "",
        "nothing\n",
        "\n\u{2014} k AQIDBAU=\n",
        "x\n\n\u{2014} k AQIDBAU=\n",
    ] {
        assert!(
            matches!(answer(200, None, body), Err(WitnessFault::Cosignature(_))),
            "{body:?}"
        );
    }
    assert_eq!(
        answer(200, None, "\u{2014} k AQIDBAU=\n"),
        Err(WitnessFault::NoCosignature)
    );
    // A cosignature of another head.
    let other = desk.log.head_of(ORIGIN, &tree(6, "a"));
    let line = desk
        .key
        .cosigner("w.example/1")
        .cosign(other.text(), TIME, &|text| desk.key.sign(text));
    assert!(matches!(
        answer(200, None, &format!("{line}\n")),
        Err(WitnessFault::Cosignature(_))
    ));
    // A witness that names another size each time is given up.
    let mut exchange = exchange();
    let grown = tree(5, "a");
    let prove = |old| grown.consistency_proof(old, 5);
    for size in ["1\n", "2\n", "3\n", "4\n"] {
        exchange.request(&prove).unwrap();
        assert_eq!(
            exchange.answer(409, Some("text/x.tlog.size"), size.as_bytes(), &strict),
            Ok(Asked::Again)
        );
    }
    assert_eq!(exchange.request(&prove), Err(WitnessFault::Unsteady));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever two histories of one log are offered in whatever order, all a witness ever cosigned is one history.
    #[test]
    fn a_witness_cosigns_one_history(steps in prop::collection::vec((any::<bool>(), 1u64..12, 0u64..12), 1..24)) {
        let mut desk = Desk::new();
        let mut cosigned: Vec<(u64, Hash)> = Vec::new();
        for (side, size, old) in steps {
            // The two histories share four entries.
            let mut history = tree(size.min(4), "same");
            for index in history.size()..size {
                history.append(format!("{side} {index}").as_bytes());
            }
            let old = old.min(size);
            for old in [old, desk.size().min(size)] {
                if desk.grow(&history, old).status == 200 {
                    cosigned.push((size, history.root()));
                    prop_assert_eq!(desk.size(), size);
                }
            }
        }
        for pair in cosigned.windows(2) {
            prop_assert!(pair[0].0 <= pair[1].0);
        }
        for (size, root) in &cosigned {
            let holds = [false, true].iter().any(|side| {
                let fits = |size: u64, root: &Hash| {
                    let mut history = tree(size.min(4), "same");
                    for index in history.size()..size {
                        history.append(format!("{side} {index}").as_bytes());
                    }
                    history.root() == *root
                };
                fits(*size, root) && cosigned.iter().all(|(size, root)| fits(*size, root))
            });
            prop_assert!(holds, "size {} belongs to another history than the rest", size);
        }
    }
}
