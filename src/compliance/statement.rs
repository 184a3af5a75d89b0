//! Results as an in-toto statement (Statement v1, predicate test-result v0.1) in a signed DSSE envelope.
//!
//! `PASSED`: everything that was run went as expected and nothing is missing. `WARNED`: the same, with scenarios that cannot
//! be run yet. `FAILED`: the rest.

use super::catalog;
use super::run::Results;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use veilsum_crypto::Identity;

/// What was tested: the program.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its bytes' SHA-256, hexadecimal.
    pub sha256: String,
}

impl Subject {
    /// The program of these bytes.
    #[must_use]
    pub fn of(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            sha256: sha256(bytes),
        }
    }
}

/// The statement. `configuration` lists the scenario files by digest; names of tests are `scenario-NN/nN/kK`.
#[must_use]
pub fn statement(results: &Results, subject: &Subject) -> Value {
    let name = |id: u32, n: u32, k: u32, over: &str| format!("scenario-{id:02}/n{n}/k{k}/{over}");
    let tests = |ok: bool| -> Vec<String> {
        results
            .rows
            .iter()
            .filter(|row| row.ok == ok)
            .map(|row| name(row.id, row.n, row.k, row.over))
            .collect()
    };
    let mut warned: Vec<String> = results
        .not_built
        .iter()
        .map(|gap| match &gap.case {
            Some(case) => format!("scenario-{:02} not built: {case}: {}", gap.id, gap.reason),
            None => format!("scenario-{:02} not built: {}", gap.id, gap.reason),
        })
        .collect();
    warned.extend(
        results
            .gate
            .only_not_built
            .iter()
            .map(|cell| format!("coverage: {cell}: not built")),
    );
    let result = match (results.passed(), warned.is_empty()) {
        (false, _) => "FAILED",
        (true, false) => "WARNED",
        (true, true) => "PASSED",
    };
    let configuration: Vec<Value> = catalog::FILES
        .iter()
        .map(|(file, text)| {
            json!({
                "name": format!("configs/scenarios/{file}"),
                "digest": { "sha256": sha256(text.as_bytes()) },
            })
        })
        .collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": subject.name, "digest": { "sha256": subject.sha256 } }],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": result,
            "configuration": configuration,
            "passedTests": tests(true),
            "warnedTests": warned,
            "failedTests": tests(false),
        },
    })
}

/// The statement in a DSSE envelope, signed with Ed25519 over the pre-authentication encoding. The key id is the public key in
/// hexadecimal.
///
/// # Errors
/// None for a statement of [`statement`]; the JSON writer's otherwise.
pub fn envelope(statement: &Value, key: &Identity) -> Result<Value, serde_json::Error> {
    let payload = serde_json::to_vec(statement)?;
    let signature = key.sign_raw(&pre_authentication(&payload));
    Ok(json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": STANDARD.encode(&payload),
        "signatures": [{
            "keyid": hex::encode(key.public().0),
            "sig": STANDARD.encode(signature.0),
        }],
    }))
}

/// `DSSEv1 LEN(type) type LEN(payload) payload` (DSSE protocol, v1.0.2).
fn pre_authentication(payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compliance::run::{NotBuilt, Row};
    use veilsum_crypto::Signature;

    fn results(ok: bool) -> Results {
        let row = Row {
            id: 7,
            title: "t".into(),
            n: 5,
            k: 1,
            seed: 1,
            over: "sim",
            expected: String::new(),
            observed: String::new(),
            ok,
            transcript: String::new(),
            cases: Vec::new(),
            took_ms: 0,
        };
        Results {
            rows: vec![row],
            ..Results::default()
        }
    }

    #[test]
    fn the_encoding_is_the_one_of_the_specification() {
        // The example of the DSSE protocol text, with our payload type in place of its own.
        assert_eq!(
            pre_authentication(b"hello world"),
            b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"
        );
    }

    #[test]
    fn a_changed_payload_does_not_verify() {
        let key = Identity::from_seed(&[7; 32]).unwrap();
        let subject = Subject::of("veilsum", b"abc");
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            subject.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let envelope = envelope(&statement(&results(true), &subject), &key).unwrap();
        let mut payload = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
        let sig = STANDARD
            .decode(envelope["signatures"][0]["sig"].as_str().unwrap())
            .unwrap();
        let signature = Signature(sig.try_into().unwrap());
        assert!(
            key.public()
                .verifies_raw(&pre_authentication(&payload), &signature)
        );
        payload[10] ^= 1;
        assert!(
            !key.public()
                .verifies_raw(&pre_authentication(&payload), &signature)
        );
    }

    #[test]
    fn what_is_not_built_is_never_passed() {
        let subject = Subject::of("veilsum", b"");
        let mut results = results(true);
        assert_eq!(statement(&results, &subject)["predicate"]["result"], "PASSED");
        results.not_built.push(NotBuilt {
            id: 45,
            title: "t".into(),
            case: None,
            reason: "r".into(),
        });
        let said = statement(&results, &subject);
        assert_eq!(said["predicate"]["result"], "WARNED");
        assert_eq!(said["predicate"]["passedTests"].as_array().unwrap().len(), 1);
        results.rows[0].ok = false;
        assert_eq!(statement(&results, &subject)["predicate"]["result"], "FAILED");
    }
}
