//! Files of the four tiers: each holds what it must, is refused the rest by name, and both verifiers say the same of it.

use crate::cheats::names;
use crate::export::writer;
use crate::forge::{parts, put};
use crate::run::{Run, auditor, try_audit, two_clusters};
use crate::second::compare_with;
use crate::world::{Death, identity};
use veilsum_attestation::audit::{CheckName, Status, Verdict};
use veilsum_attestation::bundle::subset::{NoisedDescriptor, SubsetWriter};
use veilsum_attestation::bundle::tier::{Tier, salted_client};
use veilsum_attestation::bundle::{BundleError, Due, sign_head};
use veilsum_attestation::statement::{Entry, Kind, Party};
use veilsum_crypto::*;

/// An aborted attempt, a round that client 7 drops out of, a round with everybody.
fn run() -> Run {
    let mut run = Run::new(two_clusters(), 81);
    let gone = Death {
        after_sends: 2,
        noticed: true,
        in_flight_lost: true,
    };
    run.attempt(1, 0, &[(0, gone), (1, gone), (2, gone), (3, gone)]);
    run.attempt(1, 1, &[(7, gone)]);
    run.attempt(2, 0, &[]);
    run
}

fn begin(run: &Run, tier: Tier) -> SubsetWriter<'_, Vec<u8>> {
    let federation = *run.federation().book.federation();
    let head = sign_head(&run.log.head(), &federation, &identity(2, 0)).unwrap();
    SubsetWriter::new(Vec::new(), tier, &federation, &head, None, &run.log).unwrap()
}

fn file(run: &Run, tier: Tier) -> Vec<u8> {
    let mut writer = begin(run, tier);
    writer.statements().unwrap();
    if tier == Tier::Plan {
        let values: Vec<f32> = (0..6).map(|value| value as f32 / 4.0).collect();
        for client in 0..8 {
            let number = salted_client(&[5; 32], tier, ClientId(client));
            writer.descriptor(number, &descriptor(&values)).unwrap();
        }
    }
    writer.finish().unwrap()
}

fn descriptor(values: &[f32]) -> NoisedDescriptor<'_> {
    NoisedDescriptor {
        source: [4; 32],
        mean_sd: 0.25,
        log_variance_sd: 0.5,
        means: &values[..3],
        variances: &values[3..],
    }
}

const TIERS: [Tier; 4] = [
    Tier::Public,
    Tier::Member(ClientId(3)),
    Tier::Member(ClientId(7)),
    Tier::Plan,
];

fn kinds(bytes: &[u8]) -> Vec<(Kind, Party)> {
    let proven = parts(bytes).into_iter().filter(|part| part.0 == b'P');
    proven
        .map(|(_, payload)| {
            let entry: Entry = wire::decode(&payload[9 + 32 * usize::from(payload[8])..]).unwrap();
            (entry.kind, entry.signer)
        })
        .collect()
}

#[test]
fn every_tier_is_verified_and_holds_its_own_only() {
    let run = run();
    for tier in TIERS {
        let bytes = file(&run, tier);
        let verdict = try_audit(run.federation(), &bytes).unwrap();
        assert!(verdict.is_verified(), "{tier}: {verdict}");
        for check in CheckName::ALL {
            assert!(
                verdict.findings.iter().any(|finding| finding.check == *check),
                "{check}"
            );
        }
        assert!(
            verdict
                .findings
                .iter()
                .filter(|finding| [CheckName::Sums, CheckName::Vectors].contains(&finding.check))
                .all(|finding| finding.status != Status::Verified)
        );
        println!(
            "{tier}: {} bytes, {} statements",
            bytes.len(),
            kinds(&bytes).len()
        );
    }
    assert_eq!(
        kinds(&file(&run, Tier::Public)),
        [(Kind::Policy, Party::Authority)]
    );
    let leaves = parts(&file(&run, Tier::Public));
    assert_eq!(leaves.iter().filter(|part| part.0 == b'L').count(), 2);
    let plan = kinds(&file(&run, Tier::Plan));
    assert!(
        plan.iter()
            .all(|(kind, _)| [Kind::Policy, Kind::Plan].contains(kind))
    );
    assert_eq!(plan.len(), 4);
    let own = Party::Client(ClientId(3));
    let member = kinds(&file(&run, Tier::Member(ClientId(3))));
    for (kind, signer) in &member {
        let shared = [
            Kind::Policy,
            Kind::Plan,
            Kind::Agree,
            Kind::Sums,
            Kind::Aborted,
            Kind::Member,
        ];
        assert!(*signer == own || shared.contains(kind), "{kind:?} of {signer}");
    }
    assert_eq!(member.iter().filter(|(kind, _)| *kind == Kind::Member).count(), 1);
    for kind in [Kind::Keys, Kind::Shares, Kind::Masked, Kind::Agree] {
        assert!(member.contains(&(kind, own)), "{kind:?}");
    }
    // The member's file says what became of its rounds.
    let verdict = try_audit(run.federation(), &file(&run, Tier::Member(ClientId(7)))).unwrap();
    let told: Vec<_> = verdict.rounds.iter().map(|round| round.survivors.len()).collect();
    assert_eq!(told, [0, 7, 8]);
    // Another salt, another number.
    assert_ne!(
        salted_client(&[5; 32], Tier::Plan, ClientId(1)),
        salted_client(&[6; 32], Tier::Plan, ClientId(1))
    );
}

#[test]
fn statements_of_others_are_refused_by_name() {
    let run = run();
    let entries: Vec<Entry> = run
        .log
        .entries()
        .iter()
        .map(|entry| wire::decode(entry).unwrap())
        .collect();
    for tier in TIERS {
        let mut writer = begin(&run, tier);
        let (mut let_in, mut refused) = (0, 0);
        for (index, entry) in entries.iter().enumerate() {
            match writer.statement(index) {
                Ok(()) => let_in += 1,
                Err(BundleError::Tier(refusal)) => {
                    refused += 1;
                    assert_eq!(refusal.name(), "Statement");
                    let words = refusal.to_string();
                    assert!(words.contains(entry.kind.name()), "{words}");
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(let_in > 0 && refused > 0, "{tier}");
    }
    // The reader refuses them, too: a file that says it is of another tier, or of another member, is none.
    let member = file(&run, Tier::Member(ClientId(3)));
    let at = crate::forge::MAGIC.len() + 9;
    for (tier, client) in [(0, 0), (3, 0), (1, 4), (2, 0), (1, 0xff)] {
        let mut other = member.clone();
        other[at] = tier;
        other[at + 1] = client;
        let error = try_audit(run.federation(), &other).unwrap_err();
        assert!(["Statement", "OutOfPlace"].contains(&error.name()), "{error}");
    }
    // Descriptors: without noise, or in another tier's file.
    let values = [0.5; 6];
    let mut raw = descriptor(&values);
    raw.mean_sd = 0.0;
    let refused = |tier, descriptor: &NoisedDescriptor<'_>| {
        begin(&run, tier)
            .descriptor([0; 16], descriptor)
            .unwrap_err()
            .name()
    };
    assert_eq!(refused(Tier::Plan, &raw), "RawDescriptor");
    raw.mean_sd = f64::NAN;
    assert_eq!(refused(Tier::Plan, &raw), "RawDescriptor");
    assert_eq!(refused(Tier::Public, &descriptor(&values)), "NoisedDescriptor");
}

/// Neither verifier takes a changed byte. What no signature covers (what descriptors say) is left out.
#[test]
fn a_changed_byte_is_never_verified() {
    let run = run();
    for tier in TIERS {
        let bytes = file(&run, tier);
        let covered = match parts(&bytes).iter().position(|part| part.0 == b'N') {
            None => bytes.len(),
            Some(_) => bytes.len() - 9 - 8 * (9 + 68 + 24),
        };
        for at in (0..covered).step_by(if tier == Tier::Public { 1 } else { 37 }) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            let verdict = auditor(run.federation()).audit(changed.as_slice(), &mut |_| {});
            assert!(
                !verdict.is_ok_and(|verdict| verdict.is_verified()),
                "{tier}: byte {at}"
            );
        }
        for at in (0..covered).step_by(311) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            crate::second::never_verified(&changed);
        }
    }
}

/// Parts edited by hand; both verifiers, one check.
fn tampered(run: &Run, tier: Tier, change: impl FnOnce(&mut Vec<(u8, Vec<u8>)>)) -> Vec<CheckName> {
    let bytes = file(run, tier);
    let mut all = parts(&bytes);
    change(&mut all);
    let mut out = b"veilsum-subset/1\n".to_vec();
    all.iter().for_each(|(tag, payload)| put(&mut out, *tag, payload));
    names(&try_audit(run.federation(), &out).unwrap())
}

#[test]
fn what_is_not_in_the_log_or_does_not_fit_is_found() {
    let run = run();
    let member = Tier::Member(ClientId(3));
    // A proof of another place.
    let moved = tampered(&run, member, |parts| {
        let at = parts.iter().rposition(|part| part.0 == b'P').unwrap();
        parts[at].1[20] ^= 1;
    });
    assert_eq!(moved, [CheckName::Entries]);
    let leaf = tampered(&run, Tier::Public, |parts| {
        let at = parts.iter().position(|part| part.0 == b'L').unwrap();
        parts[at].1[8] ^= 1;
    });
    assert_eq!(leaf, [CheckName::Entries]);
    // A statement left out: what follows it does not fit.
    let kind = |payload: &[u8]| {
        let entry: Entry = wire::decode(&payload[9 + 32 * usize::from(payload[8])..]).unwrap();
        entry.kind
    };
    let without = |wanted: Kind| {
        tampered(&run, member, |parts| {
            parts.retain(|(tag, payload)| *tag != b'P' || kind(payload) != wanted);
        })
    };
    assert_eq!(without(Kind::Plan), [CheckName::Plan]);
    assert!(without(Kind::Agree).contains(&CheckName::Agreement));
    assert_eq!(without(Kind::Member), [CheckName::Enrolment]);
    assert_eq!(without(Kind::Policy), [CheckName::Enrolment]);
    // What it may lack: nobody can see that it does.
    assert_eq!(without(Kind::Keys), []);
}

fn keeping(run: &Run, bundle: &[u8], rounds: Option<u64>) -> Verdict {
    let mut auditor = auditor(run.federation());
    let mut options = Vec::new();
    let text = rounds.unwrap_or_default().to_string();
    if let Some(rounds) = rounds {
        auditor = auditor.keeping(rounds);
        options.extend(["--keep-rounds", &text]);
    }
    let verdict = auditor.audit(bundle, &mut |_| {});
    compare_with(bundle, &options, &verdict);
    verdict.unwrap()
}

#[test]
fn vectors_may_be_gone_after_their_window_and_not_before() {
    let run = Run::of(two_clusters(), 82, &[&[], &[(3, 2)], &[]]);
    let export = |gone: &[u64]| {
        let mut writer = writer(&run).unwrap();
        assert_eq!(writer.last_published(), Some(RoundId(3)));
        while let Some(due) = writer.due() {
            match due {
                Due::Vector(name) if gone.contains(&name.round.0) => {
                    writer.gone(name.round, name.attempt).unwrap();
                }
                Due::Vector(name) => writer.vector(name, &run.vectors[&name]).unwrap(),
                Due::Model(digest) => writer.model(&run.models[&digest]).unwrap(),
            }
        }
        writer.finish().unwrap()
    };
    let first = export(&[1]);
    let verdict = keeping(&run, &first, Some(2));
    assert!(verdict.is_verified(), "{verdict}");
    for finding in &verdict.findings {
        let needs = [CheckName::Vectors, CheckName::Sums].contains(&finding.check);
        if needs && finding.round == Some(RoundId(1)) {
            assert_eq!(
                finding.status,
                Status::NotCheckable("vectors gone by retention".to_owned())
            );
        } else if needs {
            assert_eq!(finding.status, Status::Verified);
        }
    }
    // The models of rounds two and three are still checked, from the models in the bundle.
    let models = verdict
        .findings
        .iter()
        .filter(|finding| finding.check == CheckName::Models && finding.status == Status::Verified);
    assert!(models.filter(|finding| finding.round > Some(RoundId(1))).count() >= 2);
    assert!(verdict.to_string().contains("not every sum was recomputed"));
    for (bundle, keep) in [(&first, Some(3)), (&first, None), (&export(&[1, 2, 3]), Some(2))] {
        let verdict = keeping(&run, bundle, keep);
        assert_eq!(names(&verdict), [CheckName::Vectors], "{verdict}");
    }
    assert!(keeping(&run, &export(&[1, 2]), Some(1)).is_verified());
    // Gone means all vectors of an attempt, and only of one that opened a sum.
    let mut writer = writer(&run).unwrap();
    let error = writer.gone(RoundId(2), Attempt(0)).unwrap_err();
    assert_eq!(error.name(), "NotGone");
    let mut writer = crate::export::writer(&run).unwrap();
    while let Some(Due::Model(digest)) = writer.due() {
        writer.model(&run.models[&digest]).unwrap();
    }
    let Some(Due::Vector(name)) = writer.due() else {
        panic!()
    };
    writer.vector(name, &run.vectors[&name]).unwrap();
    assert_eq!(writer.gone(RoundId(1), Attempt(0)).unwrap_err().name(), "NotGone");
    // And a bundle that says so of vectors it also gives, or says it twice, cannot be read.
    let mut twice = parts(&first);
    let at = twice.iter().position(|part| part.0 == b'G').unwrap();
    let again = twice[at].clone();
    twice.insert(at, again);
    let mut out = crate::forge::MAGIC.to_vec();
    twice
        .iter()
        .for_each(|(tag, payload)| put(&mut out, *tag, payload));
    // No retention is agreed here, which is found before the second; with one, it cannot be read.
    let verdict = try_audit(run.federation(), &out).unwrap();
    assert_eq!(names(&verdict), [CheckName::Vectors]);
    let error = auditor(run.federation())
        .keeping(2)
        .audit(out.as_slice(), &mut |_| {})
        .unwrap_err();
    assert_eq!(error.name(), "NotGone");
}
