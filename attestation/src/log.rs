//! The log of a federation: entries in order under an RFC 6962 tree.

use crate::merkle;
use crate::statement::{Agree, Entry, Keys, Kind, Plan, leaf_hash};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use veilsum_crypto::{Digest, wire};

/// The state of a log: how many entries, and the root over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Entries.
    pub size: u64,
    /// RFC 6962 root.
    pub root: Digest,
}

impl Head {
    /// The head of a log without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            size: 0,
            root: Digest(merkle::empty_root()),
        }
    }

    /// Whether the entry with leaf hash `leaf` is number `index` of this log.
    #[must_use]
    pub fn includes(&self, leaf: &Digest, index: u64, proof: &[Digest]) -> bool {
        merkle::verify_inclusion(
            leaf.as_bytes(),
            index,
            self.size,
            &raw(proof),
            self.root.as_bytes(),
        )
        .is_ok()
    }

    /// Whether this log is `old` with entries appended. Everything extends the empty log.
    #[must_use]
    pub fn extends(&self, old: &Self, proof: &[Digest]) -> bool {
        if old.size == 0 {
            return proof.is_empty() && *old == Self::empty();
        }
        merkle::verify_consistency(
            old.size,
            self.size,
            &raw(proof),
            old.root.as_bytes(),
            self.root.as_bytes(),
        )
        .is_ok()
    }
}

/// Entries in order, with what is needed to prove things about them.
#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<Vec<u8>>,
    tree: merkle::Tree,
    known: Box<Known>,
}

/// What later entries must not repeat, or may refer to.
#[derive(Debug, Default)]
struct Known {
    /// Every round key in a `keys` entry.
    round_keys: HashSet<[u8; 32]>,
    /// Leaf hashes of the plans.
    plans: HashSet<[u8; 32]>,
    /// The heads that plans and agreements name, and the one after each attempt's last vector, ascending: what clients may
    /// have kept.
    heads: Vec<Head>,
    /// Kind of the last entry.
    last: Option<Kind>,
}

impl Log {
    /// A log of the given entries.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut log = Self::default();
        for entry in entries {
            log.append(entry);
        }
        log
    }

    /// Appends an entry and returns its index.
    pub fn append(&mut self, entry: Vec<u8>) -> u64 {
        let index = self.entries.len() as u64;
        self.note(&entry);
        self.tree.append(&entry);
        self.entries.push(entry);
        index
    }

    /// Takes note of an entry that is about to be appended.
    fn note(&mut self, bytes: &[u8]) {
        let Ok(entry) = wire::decode::<Entry>(bytes) else {
            return;
        };
        // A proposal shows the log as it is when the last vector is in; its head stands in the log only once somebody's
        // agreement does.
        let uploads_end =
            matches!(self.known.last, Some(Kind::Masked | Kind::Late)) && entry.kind != Kind::Masked;
        if uploads_end {
            self.note_head(self.head());
        }
        self.known.last = Some(entry.kind);
        match entry.kind {
            Kind::Plan => {
                self.known.plans.insert(leaf_hash(bytes).0);
                if let Ok(plan) = wire::decode::<Plan>(&entry.body) {
                    self.note_head(plan.head);
                }
            }
            Kind::Agree => {
                if let Ok(agree) = wire::decode::<Agree>(&entry.body) {
                    self.note_head(agree.head);
                }
            }
            Kind::Keys => {
                if let Ok(keys) = wire::decode::<Keys>(&entry.body) {
                    self.known.round_keys.extend([keys.box_key.0, keys.mask_key.0]);
                }
            }
            _ => {}
        }
    }

    fn note_head(&mut self, head: Head) {
        if self.known.heads.last().is_none_or(|last| last.size < head.size) {
            self.known.heads.push(head);
        }
    }

    /// The last `most` heads beyond `size` that plans and agreements of this log name, or proposals named: what a client that held `size`
    /// when it was last heard of may hold by now.
    pub fn heads_beyond(&self, size: u64, most: usize) -> impl Iterator<Item = Head> + '_ {
        self.known
            .heads
            .iter()
            .rev()
            .take(most)
            .take_while(move |head| head.size > size)
            .copied()
    }

    /// Whether a plan of that leaf hash is in the log.
    #[must_use]
    pub fn has_plan(&self, leaf: &Digest) -> bool {
        self.known.plans.contains(&leaf.0)
    }

    /// Whether a client used this key in some round already. Keys are fresh in every attempt.
    #[must_use]
    pub fn has_round_key(&self, key: &[u8; 32]) -> bool {
        self.known.round_keys.contains(key)
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// The tree over the entries: for proofs that outlive a borrow of the log.
    #[must_use]
    pub fn tree(&self) -> &merkle::Tree {
        &self.tree
    }

    /// The current head.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            size: self.entries.len() as u64,
            root: Digest(self.tree.root()),
        }
    }

    /// The head when the log had `size` entries; `None` beyond its end.
    #[must_use]
    pub fn head_at(&self, size: u64) -> Option<Head> {
        self.tree.root_at(size).ok().map(|root| Head {
            size,
            root: Digest(root),
        })
    }

    /// The proof that entry `index` is in the log at `size`; `None` where there is none.
    #[must_use]
    pub fn inclusion(&self, index: u64, size: u64) -> Option<Vec<Digest>> {
        self.tree.inclusion_proof(index, size).ok().map(typed)
    }

    /// The proof that the log at `new` extends the log at `old`; empty from the empty log, `None` where there is none.
    #[must_use]
    pub fn consistency(&self, old: u64, new: u64) -> Option<Vec<Digest>> {
        if old == 0 {
            return Some(Vec::new());
        }
        self.tree.consistency_proof(old, new).ok().map(typed)
    }
}

fn raw(proof: &[Digest]) -> Vec<[u8; 32]> {
    proof.iter().map(|digest| digest.0).collect()
}

fn typed(proof: Vec<[u8; 32]>) -> Vec<Digest> {
    proof.into_iter().map(Digest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_prove_what_they_extend() {
        let mut log = Log::default();
        let mut heads = vec![log.head()];
        assert_eq!(heads[0], Head::empty());
        for i in 0..20u8 {
            assert_eq!(log.append(vec![i]), u64::from(i));
            heads.push(log.head());
        }
        for (old_size, old) in heads.iter().enumerate() {
            assert_eq!(log.head_at(old_size as u64), Some(*old));
            for new in &heads[old_size..] {
                let proof = log.consistency(old.size, new.size).unwrap();
                assert!(new.extends(old, &proof));
                if old.size > 0 {
                    let forked = Head {
                        root: Digest([1; 32]),
                        ..*old
                    };
                    assert!(!new.extends(&forked, &proof));
                }
            }
        }
        let head = log.head();
        let leaf = Digest(merkle::leaf_hash(&[7]));
        let proof = log.inclusion(7, head.size).unwrap();
        assert!(head.includes(&leaf, 7, &proof));
        assert!(!head.includes(&leaf, 8, &proof));
        assert_eq!(log.inclusion(20, head.size), None);
    }
}
