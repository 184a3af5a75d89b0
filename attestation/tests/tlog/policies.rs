//! Policy files: the cases of transparency-dev/formats (`policy/tlog_policy_test.go`, Apache-2.0).

use super::common::{Signer, strict};
use std::collections::BTreeSet;
use veilsum_attestation::note::Note;
use veilsum_attestation::tlog::{CosignerKey, Fault, PolicyFault, QuorumError, TrustPolicy};

const SKEYS: [(&str, &str); 3] = [
    (
        "Wit1",
        "PRIVATE+KEY+Wit1+55ee4561+AeadRiG7XM4XiieCHzD8lxysXMwcViy5nYsoXURWGrlE",
    ),
    (
        "Wit2",
        "PRIVATE+KEY+Wit2+85ecc407+AfPTvxw5eUcqSgivo2vaiC7JPOMUZ/9baHPSDrWqgdGm",
    ),
    (
        "Wit3",
        "PRIVATE+KEY+Wit3+d3ed3be7+AR2Kg8k6ccBr5QXz5SHtnkOS4UGQGEQaWi6Gfr6Mm3X5",
    ),
];
const PLAIN: &str = "Wit1+55ee4561+AVhZSmQj9+SoL+p/nN0Hh76xXmF7QcHfytUrI1XfSClk";

fn signer(number: usize) -> Signer {
    match SKEYS.get(number - 1) {
        Some((_, skey)) => Signer::from_skey(skey),
        None => Signer::new(u8::try_from(number).unwrap()),
    }
}

fn key(number: usize) -> CosignerKey {
    signer(number).cosigner(&format!("Wit{number}"))
}

/// Puts keys in the place of `L` and `$1` to `$6`.
fn filled(text: &str) -> String {
    let log = Signer::new(99).log_key("example.com/log").to_string();
    (1..=6).fold(text.replace("$L", &log), |text, number| {
        text.replace(&format!("${number}"), &key(number).to_string())
    })
}

fn read(text: &str) -> TrustPolicy {
    TrustPolicy::parse(filled(text).as_bytes()).unwrap()
}

#[test]
fn published_keys_are_read_from_their_private_form() {
    assert_eq!(signer(1).log_key("Wit1").to_string(), PLAIN);
}

#[test]
fn published_policies_are_read() {
    let example = "log $L\n\nwitness X1 $1\nwitness X2 $2\nwitness X3 $3\ngroup X-witnesses 2 X1 X2 X3\n\n\
        witness Y1 $4\nwitness Y2 $5\nwitness Y3 $6\ngroup Y-witnesses any Y1 Y2 Y3\n\n\
        group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n";
    let policy = read(example);
    let groups: Vec<(&[u8], usize, usize)> = policy
        .groups()
        .iter()
        .map(|group| (group.name.as_slice(), group.threshold, group.members.len()))
        .collect();
    assert_eq!(
        groups,
        [
            (&b"X-witnesses"[..], 2, 3),
            (b"Y-witnesses", 1, 3),
            (b"X-and-Y", 2, 2)
        ]
    );
    assert_eq!((policy.logs().len(), policy.witnesses().len()), (1, 6));
    // What the text says of the example: two of X and one of Y.
    let satisfied = |names: &[&str]| {
        let names: BTreeSet<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        policy.satisfied(&names)
    };
    for set in 0..64usize {
        let names: Vec<&str> = ["X1", "X2", "X3", "Y1", "Y2", "Y3"]
            .into_iter()
            .enumerate()
            .filter_map(|(bit, name)| (set >> bit & 1 == 1).then_some(name))
            .collect();
        let want = (set & 7).count_ones() >= 2 && set >> 3 != 0;
        assert_eq!(satisfied(&names), want, "{names:?}");
    }
    assert!(read("quorum none\n").needs_none());
    let spaced = read(
        "\n# comment\n\t # another comment\n\twitness \t w1  $1   https://w1.example.com/  \n\n  quorum\tw1",
    );
    assert_eq!(
        spaced.witnesses()[0].url.as_deref(),
        Some("https://w1.example.com/")
    );
    assert_eq!(
        read("log $L https://log.example.com/\nquorum none\n").logs()[0]
            .url
            .as_deref(),
        Some("https://log.example.com/")
    );
    let octets = [
        b"witness K\xe2\x84\xaalvin-w\x80 ".as_slice(),
        key(1).to_string().as_bytes(),
        b"\nquorum K\xe2\x84\xaalvin-w\x80\n",
    ]
    .concat();
    let policy = TrustPolicy::parse(&octets).unwrap();
    assert_eq!(policy.witnesses()[0].name, b"K\xe2\x84\xaalvin-w\x80");
    let words = read("witness all $1\nwitness any $2\ngroup group 2 all any\nquorum group\n");
    assert_eq!(words.groups()[0].members, [b"all", b"any"]);
}

#[test]
fn what_is_written_is_read_again() {
    let policy = read(
        "# A policy.\nlog $L https://log.example.com/\nwitness w1 $1 https://w1.example.com/\nwitness w2 $2\ngroup g1 any w1 w2\nquorum g1\n",
    );
    let text = policy.to_string();
    assert_eq!(
        text,
        filled(
            "log $L https://log.example.com/\nwitness w1 $1 https://w1.example.com/\nwitness w2 $2\ngroup g1 1 w1 w2\nquorum g1\n"
        )
    );
    assert_eq!(TrustPolicy::parse(text.as_bytes()), Ok(policy));
}

#[test]
fn published_faults_are_named_with_their_line() {
    let fault = |text: &str| TrustPolicy::parse(filled(text).as_bytes()).unwrap_err();
    let at = |text: &str, line, want: Fault| {
        assert_eq!(fault(text), PolicyFault { line, fault: want }, "{text:?}");
    };
    let items = |text: &str| {
        assert!(matches!(fault(text).fault, Fault::Items(_)), "{text:?}");
    };
    let keyed = |text: &str| {
        assert!(matches!(fault(text).fault, Fault::Key(_)), "{text:?}");
    };
    at("quorum none\n\u{1}", 2, Fault::Octet(1));
    at("quorum none\r\n", 1, Fault::Octet(13));
    at("quorum none\u{7f}\n", 1, Fault::Octet(0x7f));
    at("quibble w1\nquorum none\n", 1, Fault::Keyword);
    items("witness w1 $1 https://w1.example.com/ # comment\nquorum w1\n");
    items("log\nquorum none\n");
    keyed("log garbage\nquorum none\n");
    keyed("log unknown.example.com+10b0d7ee+YwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nquorum none\n");
    at(
        "log $L\nlog $L https://log.example.com/\nquorum none\n",
        2,
        Fault::DuplicateKey,
    );
    items("witness w1\nquorum none\n");
    keyed("witness w1 ecdsa.example.com+00000000+AgECAw==\nquorum w1\n");
    keyed(&format!("witness w1 {PLAIN}\nquorum w1\n"));
    at("witness none $1\nquorum none\n", 1, Fault::Name);
    at("witness w1 $1\nwitness w1 $2\nquorum w1\n", 2, Fault::Name);
    at("witness w1 $1\ngroup w1 any w1\nquorum w1\n", 2, Fault::Name);
    items("witness w1 $1\ngroup g1 1\nquorum w1\n");
    at("witness w1 $1\ngroup none any w1\nquorum none\n", 2, Fault::Name);
    for threshold in ["0", "-1", "2", "01", "+1", "x"] {
        let text = format!("witness w1 $1\ngroup g1 {threshold} w1\nquorum g1\n");
        at(&text, 2, Fault::Threshold);
    }
    let unknown = |name: &str| Fault::Unknown(name.into());
    at("witness w1 $1\ngroup g1 any w2\nquorum g1\n", 2, unknown("w2"));
    at("group g1 any w1\nwitness w1 $1\nquorum g1\n", 1, unknown("w1"));
    at("witness w1 $1\ngroup g1 any g1 w1\nquorum g1\n", 2, unknown("g1"));
    at(
        "witness w1 $1\ngroup g1 any none w1\nquorum g1\n",
        2,
        unknown("none"),
    );
    at(
        "witness w1 $1\ngroup g1 all w1 w1\nquorum g1\n",
        2,
        Fault::Again("w1".into()),
    );
    at(
        "witness w1 $1\nwitness w2 $2\ngroup g1 any w1 w2\ngroup g2 any w1\nquorum g1\n",
        4,
        Fault::Again("w1".into()),
    );
    at("witness w1 $1\n", 3, Fault::Quorum);
    at("witness w1 $1\nquorum w1\nquorum w1\n", 3, Fault::Quorum);
    at("quorum unknown\n", 1, unknown("unknown"));
    at("quorum w1\nwitness w1 $1\n", 1, unknown("w1"));
    items("quorum\n");
    // One public key under two names.
    let impostor = signer(1).cosigner("impostor.example.com");
    at(
        &format!("witness w1 $1\nwitness w2 {impostor}\nquorum w1\n"),
        2,
        Fault::DuplicateKey,
    );
}

#[test]
fn a_head_is_accepted_by_the_published_quorums_only() {
    let policy = read(
        "log $L\nwitness w1 $1\nwitness w2 $2\nwitness w3 $3\ngroup inner any w2 w3\ngroup outer all w1 inner\nquorum outer\n",
    );
    let head = |signers: &[usize]| -> Note {
        let mut note = Signer::new(99).head("example.com/log", 42, [0; 32]);
        for number in signers {
            let line = key(*number).cosign(note.text(), 1_000, &|text| signer(*number).sign(text));
            note.add(line).unwrap();
        }
        note
    };
    for (signers, accepted) in [
        (&[1, 2, 3][..], true),
        (&[1, 3], true),
        (&[1], false),
        (&[2, 3], false),
        (&[], false),
        (&[1, 4, 5], false),
    ] {
        let note = head(signers);
        match policy.accept(&note, &strict) {
            Ok(found) => {
                assert!(accepted, "{signers:?}");
                assert_eq!(found.witnesses.len(), signers.len());
                assert!(found.log.is_some());
            }
            Err(error) => {
                assert!(!accepted, "{signers:?}");
                assert!(matches!(error, QuorumError::Quorum { .. }));
            }
        }
    }
    // Another log's head, the right name under another key, and a witness's line that does not hold.
    let other = Signer::new(99).head("example.com/other", 42, [0; 32]);
    assert!(matches!(
        policy.accept(&other, &strict),
        Err(QuorumError::Origin(_))
    ));
    let forged = Signer::new(98).head("example.com/log", 42, [0; 32]);
    assert!(matches!(
        policy.accept(&forged, &strict),
        Err(QuorumError::Note(_))
    ));
    let mut bent = head(&[1, 2]);
    let line = key(3).cosign("another\n1\nAAAA\n", 1_000, &|text| signer(3).sign(text));
    bent.add(line).unwrap();
    assert!(matches!(policy.accept(&bent, &strict), Err(QuorumError::Note(_))));
    // A policy without logs leaves the log's signature to others.
    let policy = read("witness w1 $1\nquorum w1\n");
    assert!(policy.accept(&head(&[1]), &strict).unwrap().log.is_none());
}
