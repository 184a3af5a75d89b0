//! The catalogue of planted cheats: each changes one thing in a bundle of real rounds, everybody whose signature it takes
//! signs anew, and the check named beside it must find it. The page for auditors lists the same.

use crate::cheats::{edit_result, names};
use crate::export::with_a_withheld_cluster;
use crate::forge::Forge;
use crate::run::{Run, auditor, two_clusters};
use crate::second::{compare, compare_with};
use crate::witnessed::{cosigned, policy};
use crate::world::{Death, Setup, identity};
use veilsum_aggregation::Client;
use veilsum_attestation::Head;
use veilsum_attestation::audit::CheckName;
use veilsum_attestation::statement::*;
use veilsum_attestation::tlog::TrustPolicy;
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

/// One row: what is done, to which run, and the check that must find it.
struct Cheat {
    what: &'static str,
    check: CheckName,
    run: fn() -> Run,
    plant: fn(&mut Forge),
    /// The auditor asks for the witnesses' quorum.
    witnessed: bool,
}

const fn cheat(what: &'static str, check: CheckName, run: fn() -> Run, plant: fn(&mut Forge)) -> Cheat {
    Cheat {
        what,
        check,
        run,
        plant,
        witnessed: false,
    }
}

/// One round that client 3 drops out of after it dealt its shares.
fn one() -> Run {
    Run::of(two_clusters(), 22, &[&[(3, 2)]])
}

/// The same, and a round with everybody.
fn two() -> Run {
    Run::of(two_clusters(), 21, &[&[(3, 2)], &[]])
}

/// A plan and a policy signed for a larger crowd than the clients went by: their build leaves the rule out.
fn careless() -> Run {
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
        let member = run.world.federation.member(id.0);
        *client = Client::new(member, Head::empty(), rng(u64::from(id.0))).unwrap();
    }
    run.attempt(1, 0, &[]);
    run
}

/// A round summed twice over other survivors, by clients that forgot the first time.
fn repeated() -> Run {
    let mut run = Run::of(two_clusters(), 24, &[&[]]);
    let heads: Vec<_> = run
        .world
        .clients
        .iter()
        .map(|(id, client)| (*id, client.head()))
        .collect();
    for (id, head) in heads {
        let fresh = Client::new(run.world.federation.member(id.0), head, rng(u64::from(id.0))).unwrap();
        run.world.clients.insert(id, fresh);
    }
    let gone = Death {
        after_sends: 0,
        noticed: true,
        in_flight_lost: false,
    };
    run.attempt(1, 1, &[(0, gone)]);
    run
}

fn sums(forge: &Forge) -> usize {
    forge.all(Kind::Sums)[0]
}

fn result(forge: &mut Forge, at: usize, change: impl FnOnce(&mut ClusterResult)) {
    let index = sums(forge);
    forge.edit::<Sums>(index, |sums| edit_result(sums, at, change));
}

fn vectors(forge: &Forge) -> Vec<usize> {
    (0..forge.parts.len())
        .filter(|at| forge.parts[*at].0 == b'V')
        .collect()
}

/// A statement put into the log.
fn insert<S: Statement>(forge: &mut Forge, at: usize, body: S, signer: Party) {
    let entry = forge.sign(body, signer);
    forge.entries.insert(at, entry);
}

fn push<S: Statement>(forge: &mut Forge, body: S, signer: Party) {
    let end = forge.entries.len();
    insert(forge, end, body, signer);
}

fn without(set: &ClientSet, client: u32) -> ClientSet {
    set.iter().copied().filter(|other| other.0 != client).collect()
}

fn abort(reason: &str, culprit: Option<u32>) -> Aborted {
    Aborted {
        round: RoundId(1),
        attempt: Attempt(0),
        phase: Phase::Unmask,
        reason: BoundedVec::new(reason.as_bytes().to_vec()).unwrap(),
        culprits: culprit.into_iter().map(ClientId).collect(),
    }
}

/// Round one was opened, and its sums are kept back; `body` stands there instead.
fn instead_of_sums(forge: &mut Forge, body: Option<Aborted>) {
    forge.entries.pop();
    forge.parts.clear();
    if let Some(body) = body {
        push(forge, body, Party::Server);
    }
}

fn mask_share(forge: &Forge) -> Reveal {
    Reveal {
        agreement: forge.body::<Sums>(sums(forge)).agreement,
        self_shares: BoundedVec::default(),
        mask_shares: BoundedVec::new(vec![MaskShare {
            owner: ClientId(0),
            share: [1; 32],
        }])
        .unwrap(),
    }
}

fn edit_reveal(
    forge: &mut Forge,
    number: usize,
    change: impl FnOnce(&mut Vec<SelfShare>, &mut Vec<MaskShare>),
) {
    let index = forge.all(Kind::Reveal)[number];
    forge.edit::<Reveal>(index, |reveal| {
        let (mut own, mut pairs) = (reveal.self_shares.to_vec(), reveal.mask_shares.to_vec());
        change(&mut own, &mut pairs);
        reveal.self_shares = BoundedVec::new(own).unwrap();
        reveal.mask_shares = BoundedVec::new(pairs).unwrap();
    });
}

fn edit_clusters(forge: &mut Forge, plan: usize, change: impl FnOnce(&mut Vec<ClusterPlan>)) {
    let index = forge.all(Kind::Plan)[plan];
    forge.edit::<Plan>(index, |plan| {
        let mut clusters = plan.clusters.to_vec();
        change(&mut clusters);
        plan.clusters = BoundedVec::new(clusters).unwrap();
    });
}

fn witness(forge: &mut Forge, head: Head, witnesses: &[(u32, u64)]) {
    forge.cosigned = Some(cosigned(&forge.federation, 0, head, witnesses));
}

use CheckName as C;

#[rustfmt::skip]
const CATALOGUE: &[Cheat] = &[
    // The log and its beginning.
    cheat("the head is signed by another key", C::SignedHead, one, |f| f.server = 1),
    cheat("the head is signed over an entry more", C::SignedHead, one, |f| {
        let head = f.head();
        f.other_head = Some(Head { size: head.size + 1, ..head });
    }),
    cheat("the head is of another tree", C::SignedHead, one, |f| {
        let head = f.head();
        f.other_head = Some(Head { root: Digest([7; 32]), ..head });
    }),
    cheat("an entry is taken out after the head was signed", C::SignedHead, two, |f| {
        f.other_head = Some(f.head());
        f.entries.pop();
        f.parts.clear();
    }),
    cheat("the plan names a head of a forked log", C::Heads, two, |f| {
        let plan = f.all(Kind::Plan)[1];
        f.edit::<Plan>(plan, |plan| plan.head.root.0[0] ^= 1);
    }),
    cheat("the plan goes back to an earlier head", C::Heads, two, |f| {
        let plan = f.all(Kind::Plan)[1];
        f.edit::<Plan>(plan, |plan| plan.head = Head::empty());
    }),
    cheat("a statement is dropped after the next round was planned", C::Heads, two, |f| {
        let agree = f.all(Kind::Agree)[0];
        f.entries.remove(agree);
    }),
    cheat("a client joined on another head", C::Heads, one, |f| {
        let keys = f.all(Kind::Keys)[2];
        f.edit::<Keys>(keys, |keys| keys.head.root.0[3] ^= 1);
    }),
    cheat("an entry has a byte too many", C::Entries, one, |f| f.entries[4].push(0)),
    cheat("the log begins without a policy", C::Enrolment, one, |f| f.entries.clear()),
    cheat("the server signs the policy", C::Enrolment, two, |f| {
        let policy = f.all(Kind::Policy)[0];
        let body = f.body::<Policy>(policy);
        f.entries[policy] = f.sign(body, Party::Server);
    }),
    cheat("a second policy is signed later", C::Enrolment, two, |f| {
        let body = f.body::<Policy>(f.all(Kind::Policy)[0]);
        push(f, body, Party::Authority);
    }),
    cheat("a member is enrolled that the policy is not for", C::Enrolment, two, |f| {
        let member = f.body::<Member>(0);
        insert(f, 8, Member { client: ClientId(8), ..member }, Party::Authority);
    }),
    cheat("two members share one key", C::Enrolment, two, |f| {
        let key = f.body::<Member>(0).key;
        f.edit::<Member>(5, |member| member.key = key);
    }),
    cheat("a threshold below which two sets can be opened", C::Enrolment, one, |f| {
        let policy = f.all(Kind::Policy)[0];
        f.edit::<Policy>(policy, |policy| policy.threshold = 4);
    }),
    cheat("the rules are changed after the fact", C::Plan, two, |f| {
        let policy = f.all(Kind::Policy)[0];
        f.edit::<Policy>(policy, |policy| policy.crowd = 2);
    }),
    cheat("a signature is of somebody else", C::Signatures, one, |f| {
        let (one, other) = (f.all(Kind::Keys)[0], f.all(Kind::Keys)[1]);
        let mut entry = f.entry(one);
        entry.signature = f.entry(other).signature;
        f.entries[one] = wire::encode(&entry).unwrap();
    }),
    cheat("a stranger signs the agreement", C::Signatures, one, |f| {
        let index = f.all(Kind::Agree)[0];
        let body = f.body::<Agree>(index);
        insert(f, index + 1, body, Party::Client(ClientId(77)));
    }),
    // Plans and models.
    cheat("the plan invites somebody who is not enrolled", C::Plan, one, |f| {
        edit_clusters(f, 0, |clusters| {
            clusters[0].members = clusters[0].members.iter().copied().chain([ClientId(40)]).collect();
        });
    }),
    cheat("a round beyond the policy's last", C::Plan, one, |f| {
        let plan = f.all(Kind::Plan)[0];
        f.edit::<Plan>(plan, |plan| plan.round = RoundId(1 << 40));
    }),
    cheat("a round is planned again under its old number", C::Plan, two, |f| {
        let plan = f.all(Kind::Plan)[1];
        f.edit::<Plan>(plan, |plan| plan.round = RoundId(1));
    }),
    cheat("a round is summed again over other survivors", C::Plan, repeated, |_| {}),
    cheat("a plan that leaves a client alone in a difference", C::Disclosure, careless, |_| {}),
    cheat("a cluster starts from an older model", C::Models, two, |f| {
        let stale = f.body::<Plan>(f.all(Kind::Plan)[0]).clusters[0].model;
        edit_clusters(f, 1, |clusters| clusters[0].model = stale);
    }),
    cheat("another model is published than the sum makes", C::Models, one, |f| result(f, 1, |r| r.model.0[9] ^= 4)),
    cheat("the model handed over is another", C::Models, one, |f| {
        let model = f.parts.iter().position(|part| part.0 == b'M').unwrap();
        f.parts[model].1[40] ^= 1;
    }),
    // Who took part.
    cheat("keys for clusters the client is not in", C::Roster, one, |f| {
        let keys = f.all(Kind::Keys)[0];
        f.edit::<Keys>(keys, |keys| {
            let mut all = keys.commitments.to_vec();
            all[0].cluster = ClusterId(1);
            keys.commitments = BoundedVec::new(all).unwrap();
        });
    }),
    cheat("a round key is used again", C::Roster, two, |f| {
        let all = f.all(Kind::Keys);
        let old = f.body::<Keys>(all[0]).mask_key;
        f.edit::<Keys>(all[10], |keys| keys.mask_key = old);
    }),
    cheat("shares for another roster", C::Roster, one, |f| {
        let shares = f.all(Kind::Shares)[1];
        f.edit::<Shares>(shares, |shares| shares.roster.0[0] ^= 1);
    }),
    cheat("a client masks against fewer dealers", C::Roster, one, |f| {
        let masked = f.all(Kind::Masked)[1];
        f.edit::<Masked>(masked, |masked| masked.sharers = without(&masked.sharers, 3));
    }),
    cheat("a client signs a statement of the server", C::Roster, one, |f| {
        let index = sums(f);
        let body = f.body::<Sums>(index);
        insert(f, index, body, Party::Client(ClientId(0)));
    }),
    cheat("a client uploads twice", C::Roster, one, |f| {
        let index = *f.all(Kind::Masked).last().unwrap();
        let (body, signer) = (f.body::<Masked>(index), f.entry(index).signer);
        insert(f, index + 1, body, signer);
    }),
    cheat("the sums are published twice", C::Phases, one, |f| {
        let body = f.body::<Sums>(sums(f));
        push(f, body, Party::Server);
    }),
    cheat("an abort follows the sums", C::Phases, one, |f| push(f, abort("TooFewReveal", None), Party::Server)),
    cheat("a statement stands before any plan", C::Phases, one, |f| insert(f, 9, abort("Internal", None), Party::Server)),
    cheat("a client reveals that did not sign", C::Phases, one, |f| {
        let body = f.body::<Reveal>(f.all(Kind::Reveal)[0]);
        let end = sums(f);
        insert(f, end, body, Party::Client(ClientId(3)));
    }),
    cheat("an upload is counted that came after the agreement", C::Phases, one, |f| {
        let entry = f.entries.remove(*f.all(Kind::Masked).last().unwrap());
        let agree = *f.all(Kind::Agree).last().unwrap();
        f.entries.insert(agree + 1, entry);
    }),
    cheat("fewer than t sign the agreement", C::Threshold, one, |f| {
        for index in f.all(Kind::Agree).into_iter().skip(4).rev() {
            f.entries.remove(index);
        }
    }),
    cheat("fewer than t reveal", C::Threshold, one, |f| {
        let reveal = f.all(Kind::Reveal)[0];
        f.entries.remove(reveal);
    }),
    // The agreement.
    cheat("two survivor sets", C::Agreement, one, |f| {
        let last = *f.all(Kind::Agree).last().unwrap();
        f.edit::<Agree>(last, |agree| agree.survivors = agree.survivors.iter().copied().skip(1).collect());
    }),
    cheat("all sign a set that leaves an upload out", C::Agreement, one, |f| {
        f.reagree(|agree| agree.survivors = without(&agree.survivors, 1));
        f.parts.retain(|(tag, payload)| *tag != b'V' || payload[12..16] != [1, 0, 0, 0]);
    }),
    cheat("the agreement is on another head", C::Agreement, one, |f| f.reagree(|agree| agree.head.root.0[0] ^= 1)),
    cheat("an agreement the server did not propose", C::Agreement, one, |f| {
        for index in f.all(Kind::Agree) {
            f.edit::<Agree>(index, |agree| agree.server = identity(3, 0).sign_raw(b"something"));
        }
    }),
    cheat("sums of another agreement", C::Agreement, one, |f| {
        let index = sums(f);
        f.edit::<Sums>(index, |sums| sums.agreement.0[0] ^= 1);
    }),
    cheat("a cluster is released that the rule withholds", C::Disclosure, with_a_withheld_cluster, |f| {
        f.reagree(|agree| {
            let all = agree.release.iter().copied().chain([ClusterId(2)]).collect();
            agree.release = BoundedVec::new(all).unwrap();
        });
    }),
    cheat("a cluster is withheld that the rule releases", C::Disclosure, one, |f| {
        f.reagree(|agree| agree.release = BoundedVec::new(vec![ClusterId(0)]).unwrap());
    }),
    // Shares and secrets.
    cheat("both kinds of share of one client", C::OneKind, one, |f| {
        edit_reveal(f, 0, |_, pairs| pairs.insert(0, MaskShare { owner: ClientId(0), share: [1; 32] }));
    }),
    cheat("the other kind of share, after the end", C::OneKind, one, |f| {
        let body = mask_share(f);
        push(f, body, Party::Client(ClientId(0)));
    }),
    cheat("a share of a withheld cluster", C::Reveals, with_a_withheld_cluster, |f| {
        edit_reveal(f, 1, |own, _| {
            own.push(SelfShare { owner: ClientId(8), cluster: ClusterId(2), share: [1; 32] });
        });
    }),
    cheat("a share is kept back", C::Reveals, one, |f| edit_reveal(f, 0, |own, _| { own.remove(0); })),
    cheat("a revealer changes a share", C::Shares, one, |f| edit_reveal(f, 2, |own, _| own[1].share[0] ^= 1)),
    cheat("a revealer changes a share of the dropped client", C::Shares, one, |f| {
        edit_reveal(f, 2, |_, pairs| pairs[0].share[0] ^= 1);
    }),
    cheat("a dealer states another share than it dealt", C::Shares, one, |f| {
        let shares = f.all(Kind::Shares)[0];
        f.edit::<Shares>(shares, |shares| {
            let mut all = shares.digests.to_vec();
            all.iter_mut().for_each(|digest| digest.0[0] ^= 1);
            shares.digests = BoundedVec::new(all).unwrap();
        });
    }),
    cheat("a self-mask seed that was not committed to", C::SelfSeeds, one, |f| {
        let keys = f.all(Kind::Keys)[0];
        f.edit::<Keys>(keys, |keys| {
            let mut all = keys.commitments.to_vec();
            all[0].digest.0[0] ^= 1;
            keys.commitments = BoundedVec::new(all).unwrap();
        });
    }),
    cheat("a complaint about an honest dealer", C::Complaints, one, |f| {
        let masked = f.all(Kind::Masked)[0];
        let body = f.body::<Masked>(masked);
        // The canonical bytes of a complaint, with an opening that opens nothing.
        let mut bytes = [body.plan.0, body.roster.0].concat();
        bytes.extend(0u32.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend([0; 96]);
        let complaint: Complaint = wire::decode(&bytes).unwrap();
        insert(f, masked, complaint, Party::Client(ClientId(1)));
    }),
    // Vectors and sums.
    cheat("vectors swapped between two clients", C::Vectors, one, |f| {
        let all = vectors(f);
        let (one, other) = (f.parts[all[0]].1[18..].to_vec(), f.parts[all[1]].1[18..].to_vec());
        f.parts[all[0]].1.splice(18.., other);
        f.parts[all[1]].1.splice(18.., one);
    }),
    cheat("one entry of a vector is changed", C::Vectors, one, |f| {
        let first = vectors(f)[0];
        f.parts[first].1[18] ^= 1;
    }),
    cheat("a client commits to another vector", C::Vectors, one, |f| {
        let masked = f.all(Kind::Masked)[0];
        f.edit::<Masked>(masked, |masked| {
            let mut all = masked.vectors.to_vec();
            all[0].root.0[0] ^= 1;
            masked.vectors = BoundedVec::new(all).unwrap();
        });
    }),
    cheat("chunk hashes of another vector", C::Vectors, one, |f| {
        let first = vectors(f)[0];
        let hashes = [&f.parts[first].1[..18], [7; 32].as_slice()].concat();
        f.parts.insert(first, (b'H', hashes));
    }),
    cheat("vectors are said to be gone and are not to be", C::Vectors, one, |f| {
        let first = vectors(f)[0];
        let name = f.parts[first].1[..12].to_vec();
        f.parts.insert(first, (b'G', name));
        f.parts.retain(|part| part.0 != b'V');
    }),
    cheat("the sum is another", C::Sums, one, |f| result(f, 0, |r| r.sum.0[0] ^= 1)),
    cheat("the weight is another", C::Sums, one, |f| result(f, 1, |r| r.weight += 1)),
    cheat("a contributor is counted twice", C::Sums, one, |f| result(f, 0, |r| r.contributors += 1)),
    // Endings.
    cheat("sums are opened and never published", C::Ending, one, |f| instead_of_sums(f, None)),
    cheat("an opened round is called short of reveals", C::Ending, one, |f| {
        instead_of_sums(f, Some(abort("TooFewReveal", None)));
    }),
    cheat("an honest dealer is blamed for an abort", C::Ending, one, |f| {
        instead_of_sums(f, Some(abort("BadDealer", Some(0))));
    }),
    cheat("an opened round ends in an internal error", C::Ending, one, |f| {
        instead_of_sums(f, Some(abort("Internal", None)));
    }),
    cheat("an upload is called late and counted", C::Ending, one, |f| {
        let masked = f.all(Kind::Masked)[0];
        let Party::Client(client) = f.entry(masked).signer else { panic!() };
        let digest = leaf_hash(&f.entries[masked]);
        let agree = f.all(Kind::Agree)[0];
        insert(f, agree + 1, Late { round: RoundId(1), attempt: Attempt(0), client, digest }, Party::Server);
    }),
    // Witnesses.
    Cheat { witnessed: true, ..cheat("no head is cosigned", C::Witnesses, one, |_| {}) },
    Cheat { witnessed: true, ..cheat("one witness of the two that it takes", C::Witnesses, one, |f| {
        let head = f.head();
        witness(f, head, &[(1, 5)]);
    }) },
    Cheat { witnessed: true, ..cheat("a witness of the server's own", C::Witnesses, one, |f| {
        let head = f.head();
        witness(f, head, &[(1, 5), (9, 5)]);
    }) },
    Cheat { witnessed: true, ..cheat("witnesses were shown another log", C::Witnesses, one, |f| {
        let head = f.head();
        witness(f, Head { root: Digest([1; 32]), ..head }, &[(0, 5), (1, 5)]);
    }) },
];

#[test]
fn every_cheat_of_the_catalogue_is_found_by_the_check_named() {
    let trusted = TrustPolicy::parse(policy().as_bytes()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy()).unwrap();
    let mut found = 0;
    for cheat in CATALOGUE {
        let run = (cheat.run)();
        let mut forge = Forge::of(&run);
        let mut auditor = auditor(run.federation());
        if cheat.witnessed {
            auditor = auditor.witnessed_by(trusted.clone(), 0);
        }
        (cheat.plant)(&mut forge);
        let bundle = forge.bundle();
        let verdict = auditor.audit(bundle.as_slice(), &mut |_| {});
        if cheat.witnessed {
            compare_with(&bundle, &["--witnesses", file.path().to_str().unwrap()], &verdict);
        } else {
            compare(&bundle, &verdict);
        }
        let verdict = verdict.unwrap_or_else(|error| panic!("{}: {error}", cheat.what));
        assert!(
            names(&verdict).contains(&cheat.check),
            "{}: {verdict}",
            cheat.what
        );
        let reason = verdict.violations().find(|finding| finding.check == cheat.check);
        println!(
            "| {} | {} | {} |",
            cheat.what,
            cheat.check,
            reason
                .and_then(|finding| finding.status.reason())
                .unwrap_or_default()
        );
        found += 1;
    }
    println!(
        "{found} of {} planted cheats found by the check named",
        CATALOGUE.len()
    );
    assert!(found >= 40);
}

/// The page for auditors lists every cheat with its check.
#[test]
fn the_page_lists_the_catalogue() {
    let page = include_str!("../../../docs/audit.md");
    for cheat in CATALOGUE {
        let row = format!("| {} | {} |", cheat.what, cheat.check);
        assert!(page.contains(&row), "docs/audit.md lacks the row\n{row}");
    }
}
