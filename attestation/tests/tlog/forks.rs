//! Forks: what proves one, what does not, and that no changed file proves anything.

use super::common::{Signer, strict, tree};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use veilsum_attestation::tlog::{Fork, ForkError, Relation, compare};

const ORIGIN: &str = "veilsum/test";

/// A fork file written by hand.
fn fork_file(key: &str, prefix: [u8; 32], proof: &[[u8; 32]], notes: &[String; 2]) -> String {
    let mut text = format!("veilsum-fork/1\nlog {key}\nprefix {}\n", STANDARD.encode(prefix));
    for hash in proof {
        let _ = writeln!(text, "proof {}", STANDARD.encode(hash));
    }
    for note in notes {
        let _ = write!(text, "note {}\n{note}", note.len());
    }
    text
}

/// Two trees that share their first `same` entries.
fn pair(same: u64, left: u64, right: u64) -> [veilsum_attestation::merkle::Tree; 2] {
    [("left", left), ("right", right)].map(|(side, size)| {
        let mut tree = tree(same.min(size), "same");
        for index in tree.size()..size {
            tree.append(format!("{side} {index}").as_bytes());
        }
        tree
    })
}

#[test]
fn heads_that_do_not_fit_are_a_fork_for_every_pair_of_sizes() {
    let signer = Signer::new(1);
    let key = signer.log_key(ORIGIN);
    let (mut forks, mut fits) = (0, 0);
    for (same, left, right) in
        (0..7).flat_map(|same| (1..10).flat_map(move |left| (1..10).map(move |right| (same, left, right))))
    {
        let [a, b] = pair(same, left, right);
        let heads = [signer.head_of(ORIGIN, &a), signer.head_of(ORIGIN, &b)];
        let relation = compare(&key, (&heads[0], Some(&a)), (&heads[1], Some(&b)), &strict).unwrap();
        // They fit when the shorter has nothing of its own.
        let fit = left.min(right) <= same;
        match relation {
            Relation::Same => assert!(fit && left == right),
            Relation::Extends => assert!(fit && left != right),
            Relation::Forked(fork) => {
                assert!(!fit, "{same} {left} {right}");
                forks += 1;
                let read: Fork = fork.to_string().parse().unwrap();
                assert_eq!(read, *fork);
                let (short, long) = read.check(&strict).unwrap();
                assert_eq!((short.size(), long.size()), (left.min(right), left.max(right)));
            }
            Relation::Undecided { .. } => panic!("both trees were given"),
        }
        fits += u32::from(fit);
        // Without the longer tree two sizes cannot be told apart.
        let blind = compare(&key, (&heads[0], None), (&heads[1], None), &strict).unwrap();
        if left == right {
            assert_eq!(matches!(blind, Relation::Same), fit);
        } else {
            assert_eq!(
                blind,
                Relation::Undecided {
                    longer: left.max(right)
                }
            );
        }
    }
    // For each shared length s, pairs of sizes that are both above it: the sum of (9 - s)^2 over s from 0 to 6.
    assert_eq!((forks, fits), (280, 7 * 81 - 280));
}

#[test]
fn honest_heads_make_no_fork_file() {
    // A file made by hand from two heads that fit: every prefix that is not the shorter head's fails the proof.
    let signer = Signer::new(1);
    let key = signer.log_key(ORIGIN);
    let [short, long] = pair(9, 5, 9);
    let notes = [signer.head_of(ORIGIN, &short), signer.head_of(ORIGIN, &long)];
    let texts = notes.each_ref().map(ToString::to_string);
    let proof = long.consistency_proof(5, 9).unwrap();
    let file = |prefix, proof: &[_]| fork_file(&key.to_string(), prefix, proof, &texts);
    let check = |text: String| text.parse::<Fork>().unwrap().check(&strict);
    assert!(matches!(
        check(file(short.root(), &proof)),
        Err(ForkError::NoFork(_))
    ));
    assert!(matches!(check(file([7; 32], &proof)), Err(ForkError::NoFork(_))));
    assert!(matches!(check(file([7; 32], &[])), Err(ForkError::NoFork(_))));
    // A power of two: the prefix itself is the first node of the proof.
    let [short, long] = pair(9, 4, 9);
    let texts = [signer.head_of(ORIGIN, &short), signer.head_of(ORIGIN, &long)].map(|note| note.to_string());
    let proof = long.consistency_proof(4, 9).unwrap();
    let text = fork_file(&key.to_string(), [7; 32], &proof, &texts);
    assert!(matches!(check(text), Err(ForkError::NoFork(_))));
}

#[test]
fn no_changed_byte_still_proves_a_fork() {
    let signer = Signer::new(1);
    let key = signer.log_key(ORIGIN);
    let [a, b] = pair(3, 5, 9);
    let heads = [signer.head_of(ORIGIN, &a), signer.head_of(ORIGIN, &b)];
    let Relation::Forked(fork) = compare(&key, (&heads[1], Some(&b)), (&heads[0], None), &strict).unwrap()
    else {
        panic!("they share three entries")
    };
    let text = fork.to_string();
    assert!(fork.check(&strict).is_ok());
    let mut refused = 0;
    for at in 0..text.len() {
        for change in [1u8, 2, 0x20] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= change;
            let proved = String::from_utf8(bytes)
                .ok()
                .and_then(|text| text.parse::<Fork>().ok())
                .is_some_and(|fork| fork.check(&strict).is_ok());
            assert!(!proved, "byte {at}, change {change}");
            refused += 1;
        }
    }
    assert_eq!(refused, 3 * text.len());
    for cut in 0..text.len() {
        if let Some(text) = text.get(..cut) {
            assert!(text.parse::<Fork>().is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn heads_of_two_logs_or_keys_are_not_compared() {
    let (signer, other) = (Signer::new(1), Signer::new(2));
    let key = signer.log_key(ORIGIN);
    let (a, b) = (tree(3, "a"), tree(3, "b"));
    let head = signer.head_of(ORIGIN, &a);
    let foreign = other.head_of(ORIGIN, &b);
    assert!(matches!(
        compare(&key, (&head, None), (&foreign, None), &strict),
        Err(ForkError::Note {
            which: "the second",
            ..
        })
    ));
    // Signed by the right key under the right name, but a head of another log.
    let mut renamed = signer.head_of("veilsum/other", &b);
    renamed.sign(&key, &|text| signer.sign(text)).unwrap();
    assert!(matches!(
        compare(&key, (&head, None), (&renamed, None), &strict),
        Err(ForkError::Origins(..))
    ));
    // A tree that is not the head's.
    assert!(matches!(
        compare(&key, (&head, Some(&b)), (&head, None), &strict),
        Err(ForkError::Entries(3))
    ));
}

#[test]
fn a_witness_that_cosigned_both_sides_is_named() {
    let (log, honest, liar) = (Signer::new(1), Signer::new(2), Signer::new(3));
    let keys = [
        honest.cosigner("w.example/honest"),
        liar.cosigner("w.example/liar"),
    ];
    let (a, b) = (tree(4, "a"), tree(4, "b"));
    let mut heads = [log.head_of(ORIGIN, &a), log.head_of(ORIGIN, &b)];
    for (head, signers) in heads.iter_mut().zip([&[0, 1][..], &[1]]) {
        for number in signers {
            let signer = [&honest, &liar][*number];
            let line = keys[*number].cosign(head.text(), 5, &|text| signer.sign(text));
            head.add(line).unwrap();
        }
    }
    let key = log.log_key(ORIGIN);
    let Relation::Forked(fork) = compare(&key, (&heads[0], None), (&heads[1], None), &strict).unwrap() else {
        panic!("two roots of one size")
    };
    let fork: Fork = fork.to_string().parse().unwrap();
    assert_eq!(fork.cosigners(&keys, &strict), [&keys[1]]);
}
