//! Every byte of a bundle changed: never `verified`, never a panic. What each kind of change is called is printed.

use crate::forge::{Forge, MAGIC, parts};
use crate::run::{Run, auditor};
use crate::world::Setup;
use rand_core::Rng;
use std::collections::BTreeMap;
use veilsum_attestation::audit::{Auditor, Status};
use veilsum_attestation::statement::Entry;
use veilsum_crypto::testing::rng;
use veilsum_crypto::wire;

/// Four clients, one cluster, one that drops: every kind of statement and every kind of part, as small as can be.
fn small() -> Run {
    let setup = Setup {
        clients: 4,
        threshold: 3,
        clusters: vec![vec![0, 1, 2, 3]],
        entries: 5,
        crowd: 2,
        orgs: 2,
    };
    Run::of(setup, 31, &[&[(2, 2)]])
}

/// What the audit calls a changed bundle: the error's name, or the checks that were violated.
fn called(auditor: &Auditor, bundle: &[u8]) -> String {
    match auditor.audit(bundle, &mut |_| {}) {
        Err(error) => format!("error {}", error.name()),
        Ok(verdict) => {
            let mut names: Vec<&str> = verdict
                .findings
                .iter()
                .filter(|finding| matches!(finding.status, Status::Violated(_)))
                .map(|finding| finding.check.name())
                .collect();
            names.dedup();
            assert_eq!(names.is_empty(), verdict.is_verified());
            if names.is_empty() {
                "verified".to_owned()
            } else {
                names.join(", ")
            }
        }
    }
}

/// The name of the field each byte of a bundle belongs to.
fn fields(bundle: &[u8]) -> Vec<String> {
    let mut fields = vec!["magic".to_owned(); MAGIC.len()];
    for (tag, payload) in parts(bundle) {
        let part = match tag {
            b'C' => "head".to_owned(),
            b'E' => format!("entry {}", wire::decode::<Entry>(&payload).unwrap().kind.name()),
            b'M' => "model".to_owned(),
            b'H' => "chunk hashes".to_owned(),
            b'V' => "vector".to_owned(),
            _ => "end".to_owned(),
        };
        let mut add = |what: &str, count: usize| {
            fields.extend(std::iter::repeat_n(format!("{part}: {what}"), count));
        };
        add("tag", 1);
        add("length", 8);
        match tag {
            b'C' => {
                let text = payload.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
                add("text", text);
                add("signature line", payload.len() - text);
            }
            b'E' => {
                let client = usize::from(payload[36] == 2) * 4;
                add("blinder", 32);
                add("kind", 4);
                add("signer", 4 + client);
                add("body length", 8);
                add("body", payload.len() - 48 - client - 64);
                add("signature", 64);
            }
            b'M' => {
                add("digest", 32);
                add("entries", payload.len() - 32);
            }
            b'H' => {
                add("name", 18);
                add("hashes", payload.len() - 18);
            }
            b'V' => {
                add("name", 18);
                add("entries", payload.len() - 18);
            }
            _ => {}
        }
    }
    assert_eq!(fields.len(), bundle.len());
    fields
}

/// How often each field's change was called what.
#[derive(Default)]
struct Table(BTreeMap<String, BTreeMap<String, usize>>);

impl Table {
    fn add(&mut self, field: &str, called: String) {
        assert_ne!(called, "verified", "{field}");
        *self
            .0
            .entry(field.to_owned())
            .or_default()
            .entry(called)
            .or_insert(0) += 1;
    }

    fn print(&self, title: &str) {
        let total: usize = self.0.values().flat_map(BTreeMap::values).sum();
        println!("\n{title}: {total} changes, none verified");
        for (field, outcomes) in &self.0 {
            let mut outcomes: Vec<_> = outcomes.iter().collect();
            outcomes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let shown: Vec<String> = outcomes
                .iter()
                .take(4)
                .map(|(called, count)| format!("{called} ×{count}"))
                .collect();
            let rest = if outcomes.len() > 4 {
                format!(" | {} more", outcomes.len() - 4)
            } else {
                String::new()
            };
            println!("  {field:<26} {}{rest}", shown.join(" | "));
        }
    }
}

/// Every byte once, by a random nonzero change.
#[test]
fn no_changed_byte_is_verified() {
    let run = small();
    let (auditor, bundle) = (auditor(run.federation()), run.bundle());
    assert_eq!(called(&auditor, &bundle), "verified");
    let (fields, mut dice, mut table) = (fields(&bundle), rng(32), Table::default());
    for at in 0..bundle.len() {
        let mut bent = bundle.clone();
        bent[at] ^= 1 + (dice.next_u32() % 255) as u8;
        table.add(&fields[at], called(&auditor, &bent));
    }
    table.print(&format!("bundle of {} bytes, each changed once", bundle.len()));
}

/// Every bit of everything. Minutes: run with `--ignored`.
#[test]
#[ignore = "every single bit takes minutes; the test above changes every byte"]
fn no_flipped_bit_is_verified() {
    let run = small();
    let (auditor, bundle) = (auditor(run.federation()), run.bundle());
    let (fields, mut table) = (fields(&bundle), Table::default());
    for bit in 0..bundle.len() * 8 {
        let mut bent = bundle.clone();
        bent[bit / 8] ^= 1 << (bit % 8);
        table.add(&fields[bit / 8], called(&auditor, &bent));
    }
    table.print(&format!("bundle of {} bytes, every bit flipped", bundle.len()));
}

/// The same by a server that signs its head over the changed entries: each entry's own signature still speaks.
#[test]
fn no_changed_entry_is_verified_under_a_head_signed_anew() {
    let run = small();
    let (auditor, forge) = (auditor(run.federation()), Forge::of(&run));
    let (mut dice, mut table) = (rng(33), Table::default());
    for index in 0..forge.entries.len() {
        let kind = format!("entry {}", forge.entry(index).kind.name());
        for at in 0..forge.entries[index].len() {
            if dice.next_u32() % 4 > 0 {
                continue;
            }
            let mut bent = forge.clone();
            bent.entries[index][at] ^= 1 << (dice.next_u32() % 8);
            table.add(&kind, called(&auditor, &bent.bundle()));
        }
    }
    table.print("entries changed under a head signed anew, a quarter of all bytes");
}

/// Entries taken out, doubled or moved, under a head signed anew.
#[test]
fn no_missing_doubled_or_moved_entry_is_verified() {
    let run = small();
    let (auditor, forge) = (auditor(run.federation()), Forge::of(&run));
    let mut table = Table::default();
    let count = forge.entries.len();
    for index in 0..count {
        let kind = forge.entry(index).kind.name();
        let mut without = forge.clone();
        without.entries.remove(index);
        table.add(&format!("{kind} taken out"), called(&auditor, &without.bundle()));
        let mut twice = forge.clone();
        twice.entries.insert(index, forge.entries[index].clone());
        table.add(&format!("{kind} doubled"), called(&auditor, &twice.bundle()));
        for to in (0..count).filter(|to| forge.entry(*to).kind != forge.entry(index).kind) {
            let mut moved = forge.clone();
            let entry = moved.entries.remove(index);
            moved.entries.insert(to, entry);
            // Within its phase an entry may stand anywhere; only moves over another kind are surely wrong.
            table.add(&format!("{kind} moved"), called(&auditor, &moved.bundle()));
        }
    }
    table.print("entries taken out, doubled and moved under a head signed anew");
}

#[test]
fn no_cut_or_lengthened_bundle_is_verified() {
    let run = small();
    let (auditor, bundle) = (auditor(run.federation()), run.bundle());
    let mut table = Table::default();
    for end in (0..bundle.len()).step_by(7).chain([bundle.len() - 1]) {
        table.add("cut", called(&auditor, &bundle[..end]));
    }
    for extra in [&[0][..], &[b'Z'; 9], MAGIC] {
        table.add("lengthened", called(&auditor, &[&bundle, extra].concat()));
    }
    table.print("bundle cut and lengthened");
}

/// Long vectors of several chunks: sampled bytes.
#[test]
fn no_changed_byte_of_a_long_vector_is_verified() {
    let setup = Setup {
        clients: 4,
        threshold: 3,
        clusters: vec![vec![0, 1, 2, 3]],
        entries: 60_000,
        crowd: 2,
        orgs: 2,
    };
    let run = Run::of(setup, 34, &[&[(2, 2)]]);
    let (auditor, bundle) = (auditor(run.federation()), run.bundle());
    assert_eq!(called(&auditor, &bundle), "verified");
    let (fields, mut dice, mut table) = (fields(&bundle), rng(35), Table::default());
    let vectors: Vec<usize> = (0..bundle.len())
        .filter(|at| fields[*at] == "vector: entries")
        .collect();
    for _ in 0..60 {
        let at = vectors[dice.next_u32() as usize % vectors.len()];
        let mut bent = bundle.clone();
        bent[at] ^= 1 << (dice.next_u32() % 8);
        table.add(&fields[at], called(&auditor, &bent));
    }
    table.print("sampled bytes of long vectors");
}
