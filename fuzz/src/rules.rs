//! What holds of an honest server whatever its clients do, checked from outside.

use crate::forge::{body, key};
use crate::tape::{Message, Tape, setup};
use crate::world::{Contribution, Federation, World};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use veilsum_aggregation::{Outcome, ToServer};
use veilsum_attestation::evidence::{Evidence, EvidenceFile, judge};
use veilsum_attestation::statement::*;
use veilsum_crypto::*;

/// What every script of the target `server` begins with.
pub(crate) struct Known {
    pub(crate) federation: Federation,
    pub(crate) contributions: Vec<Contribution>,
    pub(crate) model: Arc<[f32]>,
    /// What clients said in other rounds.
    pub(crate) old: Vec<ToServer>,
}

pub(crate) fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let tape = Tape::record(9, 2);
        let old = tape.said.into_iter().filter_map(|message| match message {
            Message::Up(message) => Some(message),
            Message::Down(..) => None,
        });
        let old = old.collect();
        let World {
            federation,
            contributions,
            ..
        } = tape.world;
        Known {
            model: Arc::from(vec![0.5f32; setup().entries]),
            contributions: contributions.into_values().collect(),
            federation,
            old,
        }
    })
}

/// Every opened sum is the plain sum of the survivors, modulo 2^m, with the weights in the last place.
pub(crate) fn check_sums(known: &Known, outcome: &Outcome) {
    assert!(outcome.survivors.len() >= setup().threshold as usize && !outcome.opened.is_empty());
    let modulus = 1i64 << known.federation.policy.update.modulus.bits();
    for opened in &outcome.opened {
        let mut sum = vec![0i64; setup().entries + 1];
        for client in outcome.survivors.iter() {
            let contribution = &known.contributions[client.0 as usize];
            let weight = i64::from(contribution.weight);
            let values = contribution.values.iter().map(|value| i64::from(*value) * weight);
            for (total, value) in sum.iter_mut().zip(values.chain([weight])) {
                *total += value;
            }
        }
        let sum: Vec<u32> = sum
            .into_iter()
            .map(|total| total.rem_euclid(modulus) as u32)
            .collect();
        assert_eq!(opened.sum, sum, "survivors {:?}", outcome.survivors);
    }
}

/// In every attempt of the log one statement of a kind and client, one kind of share for each client, one ending.
pub(crate) fn check_log(log: &[Vec<u8>]) {
    let mut said = BTreeSet::new();
    let (mut seeds, mut masks) = (BTreeSet::new(), BTreeSet::new());
    let mut attempt = 0;
    for bytes in log {
        let entry: Entry = wire::decode(bytes).expect("an entry");
        let kind = match entry.kind {
            Kind::Plan => {
                attempt += 1;
                continue;
            }
            Kind::Aborted => Kind::Sums,
            Kind::Late | Kind::Complaint | Kind::Descriptor => continue,
            kind => kind,
        };
        assert!(
            said.insert((attempt, kind, entry.signer)),
            "{} of {} twice",
            kind.name(),
            entry.signer
        );
        if let Some(reveal) = (kind == Kind::Reveal).then(|| body::<Reveal>(bytes)).flatten() {
            seeds.extend(reveal.self_shares.iter().map(|share| (attempt, share.owner)));
            masks.extend(reveal.mask_shares.iter().map(|share| (attempt, share.owner)));
        }
    }
    assert!(seeds.is_disjoint(&masks), "both kinds");
}

/// Judges what a client kept of the server. The server is honest, so nothing convicts it; and nobody accuses it, unless that is
/// tolerated.
pub(crate) fn check_accusation(known: &Known, tolerated: bool, evidence: Evidence) {
    let reason = String::from_utf8_lossy(&evidence.reason).into_owned();
    assert!(tolerated, "an honest server is accused: {reason}");
    let genesis = known.federation.genesis.iter();
    let genesis = genesis.map(|entry| BoundedVec::new(entry.clone()).expect("an entry"));
    let file = EvidenceFile {
        genesis: BoundedVec::new(genesis.collect()).expect("few"),
        evidence,
    };
    let authority = key(Party::Authority).public();
    let proofs = judge(&[file], *known.federation.book.federation(), authority).expect("its own genesis");
    assert!(
        !proofs.iter().any(|proof| proof.party == Party::Server),
        "{proofs:?}"
    );
}
