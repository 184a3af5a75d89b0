//! An auditor handed a bundle that somebody changed: no panic, and `verified` only for what was verified before.

use crate::forge::forge;
use crate::parts::{Export, Parts, export, split};
use crate::script::Script;
use crate::world::identity;
use std::sync::OnceLock;
use veilsum_attestation::audit::Verdict;
use veilsum_attestation::{Auditor, Trust};
use veilsum_crypto::BoundedVec;

/// How the rest is meant, then a bundle's bytes or a script of changes to a real one.
///
/// # Panics
/// When a rule is broken.
pub fn run(data: &[u8]) {
    let known = known();
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let mut script = Script::new(rest);
    match how % 4 {
        0 => known.never_verified(rest),
        1 => {
            let mut bytes = known.export.bundle.clone();
            while !script.is_over() {
                script.bend(&mut bytes);
            }
            known.never_verified(&bytes);
        }
        2 => {
            // The server signs a head over changed entries; nobody else signs.
            let mut forged = known.parts.clone();
            let at = script.below(forged.entries.len());
            while !script.is_over() {
                script.bend(&mut forged.entries[at]);
            }
            known.never_verified(&forged.bundle());
        }
        _ => {
            // Everybody signs whatever they like, in any order: only no panic.
            let mut forged = known.parts.clone();
            while !script.is_over() {
                known.disorder(&mut forged, &mut script);
            }
            known.audit(&forged.bundle());
        }
    }
}

/// An honest run and its bundle: four clients of which one drops, and a second round.
struct Known {
    auditor: Auditor,
    export: Export,
    parts: Parts,
}

impl Known {
    fn audit(&self, bytes: &[u8]) -> Option<Verdict> {
        let verdict = self.auditor.audit(bytes, &mut |_| ()).ok()?;
        assert!(!verdict.to_string().is_empty());
        Some(verdict)
    }

    fn never_verified(&self, bytes: &[u8]) {
        if self.audit(bytes).is_some_and(|verdict| verdict.is_verified()) {
            assert_eq!(bytes, self.export.bundle, "a changed bundle is verified");
        }
    }

    fn disorder(&self, forged: &mut Parts, script: &mut Script<'_>) {
        let (how, at) = (script.byte(), script.below(forged.entries.len()));
        let to = script.below(forged.entries.len());
        let part = script.below(forged.payloads.len());
        match how % 8 {
            0 if forged.entries.len() > 1 => {
                forged.entries.remove(at);
            }
            1 if forged.entries.len() < 100 => forged.entries.insert(to, forged.entries[at].clone()),
            2 => forged.entries.swap(at, to),
            3 if !forged.payloads.is_empty() => {
                forged.payloads.remove(part);
            }
            4 if !forged.payloads.is_empty() => script.bend(&mut forged.payloads[part].1),
            _ => {
                if let Ok(entry) = BoundedVec::new(forged.entries[at].clone()) {
                    forged.entries[at] = forge(&self.export.federation, &entry, None, script).to_vec();
                }
            }
        }
    }
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let export = export();
        let trust = Trust {
            name: "test federation".to_owned(),
            authority: identity(1, 0).public(),
        };
        Known {
            auditor: Auditor::new(trust).expect("a good key"),
            parts: Parts::of(&export),
            export,
        }
    })
}

/// The bundle itself, and a few changes of each kind.
///
/// # Panics
/// When the unchanged bundle is not verified: the target would test nothing.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let known = known();
    assert!(
        known
            .audit(&known.export.bundle)
            .is_some_and(|verdict| verdict.is_verified())
    );
    let resealed = known.audit(&known.parts.bundle());
    assert!(resealed.is_some_and(|verdict| verdict.is_verified()));
    let mut seeds = vec![
        [&[0], known.export.bundle.as_slice()].concat(),
        vec![1],
        vec![2, 0],
        vec![3],
    ];
    let mut at = 0u16;
    for (_, payload) in split(&known.export.bundle) {
        seeds.push([&[1, 5], at.to_be_bytes().as_slice(), &[1]].concat());
        at += 9 + payload.len() as u16;
    }
    for entry in 0..known.parts.entries.len() as u8 {
        seeds.push(vec![2, entry, 5, 0, 40, 1]);
        for how in 0..8 {
            seeds.push(vec![3, how, entry, 3, 0, 5, 10, 1]);
        }
    }
    seeds
}
