//! Planted cheats, each signed anew by everybody whose signature it takes: the named check must find it.

use crate::export::with_a_withheld_cluster;
use crate::forge::Forge;
use crate::run::{Run, audit, try_audit, two_clusters};
use crate::world::{Death, Federation, Setup};
use veilsum_aggregation::Client;
use veilsum_attestation::Head;
use veilsum_attestation::audit::{CheckName, Finding, Status, Verdict};
use veilsum_attestation::statement::*;
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

/// Two rounds: client 3 uploads nothing in the first, everybody stays in the second.
fn honest() -> Run {
    Run::of(two_clusters(), 21, &[&[(3, 2)], &[]])
}

/// The entries of a kind in the first round.
fn first(forge: &Forge, kind: Kind) -> Vec<usize> {
    let end = forge.all(Kind::Sums)[0];
    forge
        .all(kind)
        .into_iter()
        .filter(|index| *index <= end)
        .collect()
}

pub(crate) fn names(verdict: &Verdict) -> Vec<CheckName> {
    let mut names: Vec<_> = verdict.violations().map(|finding| finding.check).collect();
    names.sort();
    names.dedup();
    names
}

/// Checks that violations are of exactly these checks.
fn only(federation: &Federation, forge: &Forge, want: &[CheckName]) -> Verdict {
    let verdict = audit(federation, &forge.bundle());
    assert_eq!(names(&verdict), want, "{verdict}");
    for finding in verdict.violations() {
        println!("{}: {}", finding.check, finding.status.reason().unwrap());
    }
    verdict
}

/// Checks that violations are of this check among others, for cheats whose traces spread.
fn among(federation: &Federation, forge: &Forge, want: CheckName) -> Verdict {
    let verdict = audit(federation, &forge.bundle());
    assert!(names(&verdict).contains(&want), "{verdict}");
    for finding in verdict.violations().filter(|finding| finding.check == want) {
        println!("{}: {}", finding.check, finding.status.reason().unwrap());
    }
    verdict
}

/// The forge holds round one only, so that no later head shows the edit.
fn one_round() -> (Run, Forge) {
    let run = Run::of(two_clusters(), 22, &[&[(3, 2)]]);
    let forge = Forge::of(&run);
    assert!(audit(run.federation(), &forge.bundle()).is_verified());
    (run, forge)
}

#[test]
fn a_sum_altered() {
    let (run, mut forge) = one_round();
    let sums = forge.all(Kind::Sums)[0];
    forge.edit::<Sums>(sums, |sums| edit_result(sums, 0, |result| result.sum.0[0] ^= 1));
    only(run.federation(), &forge, &[CheckName::Sums]);
    let (run, mut forge) = one_round();
    forge.edit::<Sums>(sums, |sums| edit_result(sums, 1, |result| result.weight += 1));
    only(run.federation(), &forge, &[CheckName::Sums]);
    let (run, mut forge) = one_round();
    forge.edit::<Sums>(sums, |sums| edit_result(sums, 1, |result| result.model.0[9] ^= 4));
    only(run.federation(), &forge, &[CheckName::Models]);
}

#[test]
fn a_contributor_left_out() {
    // Of the sum only: the server says so many are in it, and its sum is theirs.
    let (run, mut forge) = one_round();
    let sums = forge.all(Kind::Sums)[0];
    let modulus = run.federation().policy.update.modulus;
    let without: ClientSet = run
        .world
        .outcome
        .as_ref()
        .unwrap()
        .survivors
        .iter()
        .copied()
        .filter(|client| client.0 != 1)
        .collect();
    let words = run.world.expected(ClusterId(0), &without);
    forge.edit::<Sums>(sums, |sums| {
        edit_result(sums, 0, |result| {
            result.sum = chunk::Chunking::new(modulus, words.len()).root_of(&words);
            result.weight = u64::from(*words.last().unwrap());
            result.contributors -= 1;
        });
    });
    // The model published is still that of everybody, so the sum alone is at odds.
    only(run.federation(), &forge, &[CheckName::Sums]);

    // Of the survivors: all t clients collude and sign a set without it.
    let (run, mut forge) = one_round();
    forge.reagree(|agree| {
        agree.survivors = agree
            .survivors
            .iter()
            .copied()
            .filter(|client| client.0 != 1)
            .collect()
    });
    forge
        .parts
        .retain(|(tag, payload)| *tag != b'V' || payload[12..16] != [1, 0, 0, 0]);
    among(run.federation(), &forge, CheckName::Agreement);
}

#[test]
fn two_survivor_sets() {
    let (run, mut forge) = one_round();
    let last = *forge.all(Kind::Agree).last().unwrap();
    forge.edit::<Agree>(last, |agree| {
        agree.survivors = agree.survivors.iter().copied().skip(1).collect()
    });
    among(run.federation(), &forge, CheckName::Agreement);
}

#[test]
fn an_agreement_short_of_signatures() {
    let (run, mut forge) = one_round();
    let agrees = forge.all(Kind::Agree);
    let revealers: Vec<_> = forge
        .all(Kind::Reveal)
        .iter()
        .map(|index| forge.entry(*index).signer)
        .collect();
    // Take signatures away until t - 1 are left; the revealers' among them stay as long as possible.
    let mut spare: Vec<usize> = agrees.clone();
    spare.sort_by_key(|index| revealers.contains(&forge.entry(*index).signer));
    let mut gone = spare[..agrees.len() - 4].to_vec();
    gone.sort();
    for index in gone.into_iter().rev() {
        forge.entries.remove(index);
    }
    let verdict = among(run.federation(), &forge, CheckName::Agreement);
    assert!(names(&verdict).contains(&CheckName::Threshold));
}

#[test]
fn both_kinds_of_share_of_one_client() {
    let (run, mut forge) = one_round();
    let reveal = forge.all(Kind::Reveal)[0];
    forge.edit::<Reveal>(reveal, |reveal| {
        let mut shares = reveal.mask_shares.to_vec();
        shares.insert(
            0,
            MaskShare {
                owner: ClientId(0),
                share: [1; 32],
            },
        );
        reveal.mask_shares = BoundedVec::new(shares).unwrap();
    });
    among(run.federation(), &forge, CheckName::OneKind);
    // And when it stands after the end of the round, or in a second statement.
    let (run, mut forge) = one_round();
    let body = Reveal {
        agreement: forge.body::<Sums>(forge.all(Kind::Sums)[0]).agreement,
        self_shares: BoundedVec::default(),
        mask_shares: BoundedVec::new(vec![MaskShare {
            owner: ClientId(0),
            share: [1; 32],
        }])
        .unwrap(),
    };
    let entry = forge.sign(body, Party::Client(ClientId(0)));
    forge.entries.push(entry);
    among(run.federation(), &forge, CheckName::OneKind);
}

#[test]
fn a_share_of_a_withheld_cluster() {
    let run = with_a_withheld_cluster();
    let mut forge = Forge::of(&run);
    let reveal = forge.all(Kind::Reveal)[1];
    forge.edit::<Reveal>(reveal, |reveal| {
        let mut shares = reveal.self_shares.to_vec();
        shares.push(SelfShare {
            owner: ClientId(8),
            cluster: ClusterId(2),
            share: [1; 32],
        });
        reveal.self_shares = BoundedVec::new(shares).unwrap();
    });
    among(run.federation(), &forge, CheckName::Reveals);
}

#[test]
fn a_wrong_share() {
    let (run, mut forge) = one_round();
    let reveal = forge.all(Kind::Reveal)[2];
    forge.edit::<Reveal>(reveal, |reveal| {
        let mut shares = reveal.self_shares.to_vec();
        shares[1].share[0] ^= 1;
        reveal.self_shares = BoundedVec::new(shares).unwrap();
    });
    let who = forge.entry(reveal).signer.to_string();
    let verdict = among(run.federation(), &forge, CheckName::Shares);
    let named = verdict
        .violations()
        .find(|finding| finding.check == CheckName::Shares)
        .unwrap();
    assert!(
        named.status.reason().unwrap().starts_with(&who),
        "the revealer is named"
    );
}

#[test]
fn a_reveal_missing() {
    let (run, mut forge) = one_round();
    let reveal = forge.all(Kind::Reveal)[0];
    forge.entries.remove(reveal);
    // Four reveals open nothing, so the sums cannot be recomputed either: two words about one cheat.
    let verdict = only(run.federation(), &forge, &[CheckName::Threshold]);
    let open = |finding: &&Finding| {
        matches!(finding.status, Status::NotCheckable(_)) && finding.check == CheckName::Sums
    };
    assert_eq!(verdict.findings.iter().filter(open).count(), 2);

    // All of t revealed, and one of them kept back its share of one seed.
    let (run, mut forge) = one_round();
    forge.edit::<Reveal>(reveal, |reveal| {
        reveal.self_shares = BoundedVec::new(reveal.self_shares[1..].to_vec()).unwrap();
    });
    only(
        run.federation(),
        &forge,
        &[CheckName::Reveals, CheckName::SelfSeeds],
    );
}

#[test]
fn a_late_client_counted() {
    let (run, mut forge) = one_round();
    let masked = forge.all(Kind::Masked)[0];
    let Party::Client(client) = forge.entry(masked).signer else {
        panic!()
    };
    let late = Late {
        round: RoundId(1),
        attempt: Attempt(0),
        client,
        digest: leaf_hash(&forge.entries[masked]),
    };
    let entry = forge.sign(late.clone(), Party::Server);
    let agree = forge.all(Kind::Agree)[0];
    forge.entries.insert(agree + 1, entry);
    only(run.federation(), &forge, &[CheckName::Ending]);

    // A late statement of another upload is in order.
    let (run, mut forge) = one_round();
    let entry = forge.sign(
        Late {
            digest: Digest([9; 32]),
            client: ClientId(3),
            ..late
        },
        Party::Server,
    );
    forge.entries.insert(agree + 1, entry);
    only(run.federation(), &forge, &[]);

    // An upload logged after the agreement and counted: the survivors are not who the head agreed on shows.
    let (run, mut forge) = one_round();
    let masked = *forge.all(Kind::Masked).last().unwrap();
    let entry = forge.entries.remove(masked);
    let agree = *forge.all(Kind::Agree).last().unwrap();
    forge.entries.insert(agree + 1, entry);
    let verdict = among(run.federation(), &forge, CheckName::Agreement);
    assert!(names(&verdict).contains(&CheckName::Phases));
}

#[test]
fn a_forked_log() {
    let run = honest();
    let mut forge = Forge::of(&run);
    let plan = forge.all(Kind::Plan)[1];
    forge.edit::<Plan>(plan, |plan| plan.head.root.0[0] ^= 1);
    among(run.federation(), &forge, CheckName::Heads);
    let mut forge = Forge::of(&run);
    let early = Head {
        size: 0,
        ..Head::empty()
    };
    forge.edit::<Plan>(plan, |plan| plan.head = early);
    among(run.federation(), &forge, CheckName::Heads);
    // A statement taken out of the first round, after which the second was planned on another log.
    let mut forge = Forge::of(&run);
    let agree = first(&forge, Kind::Agree)[0];
    forge.entries.remove(agree);
    among(run.federation(), &forge, CheckName::Heads);
}

#[test]
fn another_policy() {
    let run = honest();
    let mut forge = Forge::of(&run);
    let policy = forge.all(Kind::Policy)[0];
    forge.edit::<Policy>(policy, |policy| policy.crowd = 2);
    among(run.federation(), &forge, CheckName::Plan);
    // Signed by somebody else.
    let mut forge = Forge::of(&run);
    let body = forge.body::<Policy>(policy);
    forge.entries[policy] = forge.sign(body, Party::Server);
    let verdict = try_audit(run.federation(), &forge.bundle()).unwrap();
    assert!(
        verdict.to_string().contains("the policy is signed by the server"),
        "{verdict}"
    );
    // A second policy on the way.
    let mut forge = Forge::of(&run);
    let body = forge.body::<Policy>(policy);
    let entry = forge.sign(body, Party::Authority);
    forge.entries.push(entry);
    among(run.federation(), &forge, CheckName::Enrolment);
    // A member more than the policy is for.
    let mut forge = Forge::of(&run);
    let member = forge.body::<Member>(0);
    let entry = forge.sign(
        Member {
            client: ClientId(8),
            ..member
        },
        Party::Authority,
    );
    forge.entries.insert(8, entry);
    among(run.federation(), &forge, CheckName::Enrolment);
}

#[test]
fn a_wrong_model() {
    let run = honest();
    let mut forge = Forge::of(&run);
    let plan = forge.all(Kind::Plan)[1];
    let stale = forge.body::<Plan>(forge.all(Kind::Plan)[0]).clusters[0].model;
    forge.edit::<Plan>(plan, |plan| {
        let mut clusters = plan.clusters.to_vec();
        assert_ne!(clusters[0].model, stale);
        clusters[0].model = stale;
        plan.clusters = BoundedVec::new(clusters).unwrap();
    });
    among(run.federation(), &forge, CheckName::Models);
}

#[test]
fn a_plan_that_leaks() {
    // Everybody but the auditor goes by a crowd of 2, while the signed policy asks for 4.
    let setup = Setup {
        crowd: 4,
        clusters: vec![
            vec![0, 1, 2, 3, 4],
            vec![3, 4, 5, 6, 7],
            vec![0, 1, 2, 3, 4, 5, 6],
        ],
        ..two_clusters()
    };
    let mut run = Run::new(setup, 23);
    run.world.federation.policy.crowd = 2;
    for (id, client) in &mut run.world.clients {
        *client = Client::new(
            run.world.federation.member(id.0),
            Head::empty(),
            rng(u64::from(id.0)),
        )
        .unwrap();
    }
    run.attempt(1, 0, &[]);
    assert_eq!(run.world.outcome.as_ref().unwrap().opened.len(), 3);
    let forge = Forge::of(&run);
    only(run.federation(), &forge, &[CheckName::Disclosure]);
}

#[test]
fn vectors_swapped_between_clients() {
    let (run, mut forge) = one_round();
    let vectors: Vec<usize> = (0..forge.parts.len())
        .filter(|at| forge.parts[*at].0 == b'V')
        .collect();
    let (one, other) = (vectors[0], vectors[1]);
    assert_eq!(
        forge.parts[one].1[16..18],
        forge.parts[other].1[16..18],
        "the same cluster"
    );
    let kept = forge.parts[one].1[18..].to_vec();
    let moved = forge.parts[other].1[18..].to_vec();
    forge.parts[one].1.truncate(18);
    forge.parts[one].1.extend(moved);
    forge.parts[other].1.truncate(18);
    forge.parts[other].1.extend(kept);
    // Addition does not mind; the commitments do.
    only(run.federation(), &forge, &[CheckName::Vectors]);
}

#[test]
fn models_that_are_others() {
    let (run, mut forge) = one_round();
    let model = forge.parts.iter().position(|part| part.0 == b'M').unwrap();
    forge.parts[model].1[40] ^= 1;
    only(run.federation(), &forge, &[CheckName::Models]);
    let (run, mut forge) = one_round();
    forge.parts[model].1[0] ^= 1;
    assert_eq!(
        try_audit(run.federation(), &forge.bundle()).unwrap_err().name(),
        "SurplusModel"
    );
}

#[test]
fn vectors_missing_surplus_or_out_of_order() {
    let (run, forge) = one_round();
    let error = |forge: &Forge| try_audit(run.federation(), &forge.bundle()).unwrap_err().name();
    let vectors: Vec<usize> = (0..forge.parts.len())
        .filter(|at| forge.parts[*at].0 == b'V')
        .collect();
    let mut cut = forge.clone();
    // What follows the last vector is the models the sums led to.
    cut.parts.truncate(*vectors.last().unwrap());
    assert_eq!(error(&cut), "Missing");
    let mut doubled = forge.clone();
    doubled.parts.push(doubled.parts[vectors[0]].clone());
    assert_eq!(error(&doubled), "ExportForbidden");
    let mut turned = forge.clone();
    turned.parts.swap(vectors[0], vectors[1]);
    assert_eq!(error(&turned), "ExportForbidden");
    // The vector of the client that dropped, which the server may hold.
    let mut dropped = forge.clone();
    let mut vector = dropped.parts[vectors[0]].clone();
    vector.1[12] = 3;
    dropped.parts.push(vector);
    assert_eq!(error(&dropped), "ExportForbidden");
    let mut model = forge.clone();
    model.parts.push(model.parts[0].clone());
    assert_eq!(error(&model), "SurplusModel");
}

#[test]
fn a_head_of_somebody_else_or_over_another_log() {
    let (run, mut forge) = one_round();
    forge.server = 1;
    only(run.federation(), &forge, &[CheckName::SignedHead]);
    // The server's own signature, under a head that is not that of these entries.
    let (run, mut forge) = one_round();
    let head = forge.head();
    let signed_head = |forge: &Forge| {
        let verdict = only(run.federation(), forge, &[CheckName::SignedHead]);
        let reason = verdict
            .violations()
            .next()
            .unwrap()
            .status
            .reason()
            .unwrap()
            .to_owned();
        assert_eq!(verdict.violations().count(), 1);
        reason
    };
    forge.other_head = Some(Head {
        size: head.size + 1,
        ..head
    });
    assert!(signed_head(&forge).contains("entries"));
    forge.other_head = Some(Head {
        root: Digest([7; 32]),
        ..head
    });
    assert!(signed_head(&forge).contains("do not hash"));
}

#[test]
fn a_log_without_a_beginning() {
    let (run, mut forge) = one_round();
    forge.entries.clear();
    let verdict = among(run.federation(), &forge, CheckName::Enrolment);
    assert!(
        verdict
            .to_string()
            .contains("does not begin with members and a policy")
    );
    assert!(verdict.rounds.is_empty());
    // Everything else is open, and the one word at the end is still the right one.
    assert!(
        verdict
            .findings
            .iter()
            .all(|finding| finding.status != Status::Verified || finding.check == CheckName::Entries)
    );
    assert!(!verdict.is_verified());
}

#[test]
fn statements_nobody_asked_for() {
    // A second sums, an abort after the sums, a statement of a stranger, one before the first plan.
    let (run, forge) = one_round();
    let sums = forge.body::<Sums>(forge.all(Kind::Sums)[0]);
    let mut twice = forge.clone();
    let entry = twice.sign(sums, Party::Server);
    twice.entries.push(entry);
    only(run.federation(), &twice, &[CheckName::Phases]);

    let abort = Aborted {
        round: RoundId(1),
        attempt: Attempt(0),
        phase: Phase::Unmask,
        reason: BoundedVec::new(b"TooFewReveal".to_vec()).unwrap(),
        culprits: ClientSet::default(),
    };
    let mut after = forge.clone();
    let entry = after.sign(abort.clone(), Party::Server);
    after.entries.push(entry);
    only(run.federation(), &after, &[CheckName::Phases]);

    let mut stranger = forge.clone();
    let index = stranger.all(Kind::Agree)[0];
    let agree = stranger.body::<Agree>(index);
    let entry = stranger.sign(agree, Party::Client(ClientId(77)));
    stranger.entries.insert(index + 1, entry);
    among(run.federation(), &stranger, CheckName::Signatures);

    let mut early = forge.clone();
    let entry = early.sign(abort, Party::Server);
    early.entries.insert(9, entry);
    among(run.federation(), &early, CheckName::Phases);

    // A server's statement by a client.
    let mut usurper = forge.clone();
    let index = usurper.all(Kind::Sums)[0];
    let sums = usurper.body::<Sums>(index);
    let entry = usurper.sign(sums, Party::Client(ClientId(0)));
    usurper.entries.insert(index, entry);
    among(run.federation(), &usurper, CheckName::Roster);
}

#[test]
fn an_abort_that_opened_enough() {
    // t reveals are in the log and the server says the round was aborted, or says nothing at all.
    let (run, mut forge) = one_round();
    forge.entries.pop();
    forge.parts.clear();
    only(run.federation(), &forge, &[CheckName::Ending]);
    for reason in ["TooFewReveal", "BadDealer", "Internal"] {
        let mut aborted = forge.clone();
        let body = Aborted {
            round: RoundId(1),
            attempt: Attempt(0),
            phase: Phase::Unmask,
            reason: BoundedVec::new(reason.as_bytes().to_vec()).unwrap(),
            culprits: [ClientId(0)]
                .into_iter()
                .filter(|_| reason == "BadDealer")
                .collect(),
        };
        let entry = aborted.sign(body, Party::Server);
        aborted.entries.push(entry);
        only(run.federation(), &aborted, &[CheckName::Ending]);
    }
}

#[test]
fn a_round_published_twice() {
    // Clients that answered refuse it; restarted ones remember nothing yet. Over other survivors its two sums would tell
    // single clients apart.
    let mut run = Run::of(two_clusters(), 24, &[&[]]);
    let heads: Vec<_> = run
        .world
        .clients
        .iter()
        .map(|(id, client)| (*id, client.head()))
        .collect();
    for (id, head) in heads {
        let member = run.world.federation.member(id.0);
        let fresh =
            veilsum_aggregation::Client::new(member, head, veilsum_crypto::testing::rng(u64::from(id.0)))
                .unwrap();
        run.world.clients.insert(id, fresh);
    }
    let gone = Death {
        after_sends: 0,
        noticed: true,
        in_flight_lost: false,
    };
    run.attempt(1, 1, &[(0, gone)]);
    assert!(run.world.outcome.is_some());
    let forge = Forge::of(&run);
    only(run.federation(), &forge, &[CheckName::Plan]);
}

#[test]
fn another_federation_or_authority() {
    let run = honest();
    let bundle = run.bundle();
    let trust = |name: &str, authority| veilsum_attestation::Trust {
        name: name.to_owned(),
        authority,
    };
    let key = |role, number| crate::world::identity(role, number).public();
    for trust in [
        trust("another federation", key(1, 0)),
        trust("test federation", key(1, 1)),
    ] {
        let verdict = veilsum_attestation::Auditor::new(trust)
            .unwrap()
            .audit(bundle.as_slice(), &mut |_| {})
            .unwrap();
        assert!(names(&verdict).contains(&CheckName::Signatures), "{verdict}");
    }
    let weak = veilsum_attestation::Auditor::new(trust("test federation", PublicIdentity([0; 32])));
    assert_eq!(weak.unwrap_err().name(), "Trust");
}

pub(crate) fn edit_result(sums: &mut Sums, at: usize, change: impl FnOnce(&mut ClusterResult)) {
    let mut results = sums.results.to_vec();
    change(&mut results[at]);
    sums.results = BoundedVec::new(results).unwrap();
}
