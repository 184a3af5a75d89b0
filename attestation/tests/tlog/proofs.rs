//! Proof files: the cases of transparency-dev/formats (`proof/tlog_proof_test.go`, Apache-2.0), and a whole log.

use super::common::{TESSERA_ENTRIES, tessera_heads};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use veilsum_attestation::merkle::{Tree, leaf_hash};
use veilsum_attestation::note::Note;
use veilsum_attestation::tlog::{LogProof, ProofError};

/// The published cases end in texts that are no checkpoints, which Go does not look at; this stands in for them.
const HEAD: &str = "o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\u{2014} k AQIDBAU=\n";

fn note() -> Note {
    Note::parse(HEAD.as_bytes()).unwrap()
}

#[test]
fn published_proofs_are_written_so() {
    let hash = |text: &str| <[u8; 32]>::from(Sha256::digest(text));
    let (first, second) = (hash("hash1"), hash("hash2"));
    let base64 = |bytes: &[u8]| STANDARD.encode(bytes);
    let extra = b"extra information".to_vec();
    for (proof, text) in [
        (
            LogProof::new(5, vec![first, second], note(), None),
            format!(
                "c2sp.org/tlog-proof@v1\nindex 5\n{}\n{}\n\n{HEAD}",
                base64(&first),
                base64(&second)
            ),
        ),
        (
            LogProof::new(10, vec![first], note(), Some(extra.clone())),
            format!(
                "c2sp.org/tlog-proof@v1\nextra {}\nindex 10\n{}\n\n{HEAD}",
                base64(&extra),
                base64(&first)
            ),
        ),
        (
            LogProof::new(0, Vec::new(), note(), None),
            format!("c2sp.org/tlog-proof@v1\nindex 0\n\n{HEAD}"),
        ),
    ] {
        let proof = proof.unwrap();
        assert_eq!(proof.to_string(), text);
        assert_eq!(text.parse(), Ok(proof));
    }
}

#[test]
fn published_malformed_proofs_are_refused_for_their_reason() {
    let read = |text: &str| text.parse::<LogProof>().unwrap_err();
    let with = |middle: &str| read(&format!("c2sp.org/tlog-proof@v1\n{middle}\n\n{HEAD}"));
    assert_eq!(
        read(&format!("wrong-header\nindex 0\n\n{HEAD}")),
        ProofError::Header
    );
    assert_eq!(with("extra !!notbase64!!\nindex 0"), ProofError::Extra);
    for index in [
        "",
        "index notanumber",
        "index -5",
        "index 00",
        "index +1",
        "index 18446744073709551616",
    ] {
        assert_eq!(with(index), ProofError::Index, "{index:?}");
    }
    assert_eq!(with("index 0\n!!notbase64!!"), ProofError::HashLine(1));
    let long = STANDARD.encode([0; 64]);
    assert_eq!(with(&format!("index 0\n{long}")), ProofError::HashLine(1));
    let endless = "a".repeat(65 * 1024);
    assert_eq!(
        read(&format!("c2sp.org/tlog-proof@v1\nindex 0\n{endless}\n")),
        ProofError::NoCheckpoint
    );
    let hashes = format!("index 0{}", format!("\n{}", STANDARD.encode([0; 32])).repeat(65));
    assert_eq!(with(&hashes), ProofError::TooManyHashes);
    // Extra data only before the index.
    assert_eq!(with("index 0\nextra AAAA"), ProofError::HashLine(1));
    assert!(matches!(
        read("c2sp.org/tlog-proof@v1\nindex 0\n\ncheckpoint\n"),
        ProofError::Note(_)
    ));
}

#[test]
fn every_entry_of_a_published_log_has_a_proof_and_no_other_has() {
    let mut tree = Tree::new();
    for entry in TESSERA_ENTRIES {
        tree.append(entry.as_bytes());
    }
    for head in tessera_heads().into_iter().skip(1) {
        let checkpoint: veilsum_attestation::checkpoint::Checkpoint = head.text().parse().unwrap();
        for index in 0..checkpoint.size() {
            let hashes = tree.inclusion_proof(index, checkpoint.size()).unwrap();
            let proof = LogProof::new(index, hashes, head.clone(), None).unwrap();
            let proof: LogProof = proof.to_string().parse().unwrap();
            for (number, entry) in (0u64..).zip(TESSERA_ENTRIES) {
                let found = proof.check(&leaf_hash(entry.as_bytes()));
                assert_eq!(found.is_ok(), number == index);
            }
        }
    }
}
