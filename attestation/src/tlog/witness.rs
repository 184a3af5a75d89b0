//! The witness protocol (C2SP tlog-witness): `add-checkpoint`, both ends, without sockets, clock or files.
//!
//! A witness keeps one head per log. It cosigns a head that extends the one it keeps and no other, and it must have
//! written the new one down before it answers. The types hold it to that: [`Witness::consider`] borrows the witness until
//! the decision is stored or dropped, so two requests cannot interleave, and only a [`Stored`] decision can be cosigned.

mod client;
mod request;

pub use client::{Asked, Exchange, WitnessFault};
pub use request::{AddCheckpoint, RequestError};

use super::cosignature::CosignerKey;
use crate::checkpoint::Checkpoint;
use crate::merkle::{empty_root, verify_consistency};
use crate::note::{Note, NoteError, NoteKey, VerifyEd25519};
use std::collections::BTreeMap;

/// A witness: its key, the logs it knows, and the last head of each that it cosigned.
#[derive(Debug)]
pub struct Witness {
    key: CosignerKey,
    logs: BTreeMap<String, Vec<NoteKey>>,
    latest: BTreeMap<String, WitnessState>,
}

/// What a witness must remember of one log: the last head it cosigned, as the log signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessState {
    note: Note,
    checkpoint: Checkpoint,
}

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Content type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

/// A request that is not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What to answer.
    pub answer: Answer,
    /// The head held and the head sent, when both are signed by the log and the second was not shown to extend the first:
    /// keep them, they may be one half of a fork.
    pub evidence: Option<Box<(Note, Note)>>,
}

/// A head that may be cosigned once it is written down. Dropping it leaves the witness as it was.
#[must_use]
pub struct Pending<'w> {
    witness: &'w mut Witness,
    state: WitnessState,
}

/// A head that is written down.
#[must_use]
pub struct Stored<'w> {
    witness: &'w mut Witness,
    state: WitnessState,
}

impl Witness {
    /// A witness of the logs with these keys. A key's name is its log's origin; a log may have several keys.
    #[must_use]
    pub fn new(key: CosignerKey, logs: impl IntoIterator<Item = NoteKey>) -> Self {
        let mut known: BTreeMap<String, Vec<NoteKey>> = BTreeMap::new();
        for log in logs {
            known.entry(log.name().to_owned()).or_default().push(log);
        }
        Self {
            key,
            logs: known,
            latest: BTreeMap::new(),
        }
    }

    /// The witness's own key.
    #[must_use]
    pub fn key(&self) -> &CosignerKey {
        &self.key
    }

    /// The origins of the logs it knows.
    pub fn origins(&self) -> impl Iterator<Item = &str> {
        self.logs.keys().map(String::as_str)
    }

    /// The last head of a log that was cosigned.
    #[must_use]
    pub fn latest(&self, origin: &str) -> Option<&WitnessState> {
        self.latest.get(origin)
    }

    /// Takes back a head that was stored before a restart.
    ///
    /// # Errors
    /// [`RequestError`] when it is no head of a known log with that log's signature: the store is damaged, and going on
    /// would forget what was cosigned.
    pub fn restore(&mut self, note: Note, check: &VerifyEd25519<'_>) -> Result<(), RequestError> {
        let checkpoint: Checkpoint = note.text().parse()?;
        let keys = self
            .logs
            .get(checkpoint.origin())
            .ok_or_else(|| RequestError::Origin(checkpoint.origin().to_owned()))?;
        note.verify(keys, check)?;
        self.latest
            .insert(checkpoint.origin().to_owned(), WitnessState { note, checkpoint });
        Ok(())
    }

    /// Decides on the body of an `add-checkpoint` request.
    ///
    /// # Errors
    /// [`Refused`] with the answer: 400 malformed or an old size beyond the new, 403 not signed by a known key, 404 unknown
    /// log, 409 another size than the one held (which is the body), or another root at that size (no size in the body), 422
    /// a proof that does not hold.
    pub fn consider(&mut self, body: &[u8], check: &VerifyEd25519<'_>) -> Result<Pending<'_>, Refused> {
        let request = AddCheckpoint::parse(body).map_err(|error| Refused::plain(400, &error.to_string()))?;
        let (old, proof, note, checkpoint) = request.into_parts();
        let origin = checkpoint.origin();
        let Some(keys) = self.logs.get(origin) else {
            return Err(Refused::plain(404, "this witness does not know the log"));
        };
        match note.verify(keys, check) {
            Ok(_) => {}
            Err(NoteError::AmbiguousKey(_)) => {
                return Err(Refused::plain(500, "the witness's list of keys is broken"));
            }
            Err(error) => return Err(Refused::plain(403, &error.to_string())),
        }
        if old > checkpoint.size() {
            return Err(Refused::plain(400, "the old size is beyond the new one"));
        }
        let held = self.latest.get(origin);
        let size = held.map_or(0, |state| state.checkpoint.size());
        if old != size {
            return Err(Refused {
                answer: Answer {
                    status: 409,
                    content_type: "text/x.tlog.size",
                    body: format!("{size}\n"),
                },
                evidence: None,
            });
        }
        let fits = match held {
            // Any first head is taken, on its word but for the two things that can be checked.
            None if checkpoint.size() == 0 => proof.is_empty() && *checkpoint.root() == empty_root(),
            None => proof.is_empty(),
            Some(held) if held.checkpoint.size() == 0 => {
                proof.is_empty() && (checkpoint.size() > 0 || *checkpoint.root() == empty_root())
            }
            Some(held) if checkpoint.size() == size && checkpoint.root() != held.checkpoint.root() => {
                let mut refused = Refused::plain(409, "the root of this size is another one");
                refused.evidence = Some(Box::new((held.note.clone(), note)));
                return Err(refused);
            }
            Some(held) => verify_consistency(
                size,
                checkpoint.size(),
                &proof,
                held.checkpoint.root(),
                checkpoint.root(),
            )
            .is_ok(),
        };
        if !fits {
            let mut refused = Refused::plain(422, "the proof does not hold");
            refused.evidence = held.map(|held| Box::new((held.note.clone(), note)));
            return Err(refused);
        }
        // What is kept is what the log signed, not what anybody else added.
        let note = own_lines(note, keys);
        Ok(Pending {
            witness: self,
            state: WitnessState { note, checkpoint },
        })
    }
}

impl WitnessState {
    /// The head as the log signed it: what to store.
    #[must_use]
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// The head's numbers.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }
}

impl<'w> Pending<'w> {
    /// What must be stored.
    #[must_use]
    pub fn state(&self) -> &WitnessState {
        &self.state
    }

    /// Stores it.
    ///
    /// # Errors
    /// Those of `write`; the witness has not changed then.
    pub fn store<E>(self, write: impl FnOnce(&WitnessState) -> Result<(), E>) -> Result<Stored<'w>, E> {
        write(&self.state)?;
        Ok(Stored {
            witness: self.witness,
            state: self.state,
        })
    }
}

impl Stored<'_> {
    /// Cosigns it at `time`, POSIX seconds, and keeps it as the log's latest head.
    pub fn cosign(self, time: u64, sign: &dyn Fn(&[u8]) -> [u8; 64]) -> Answer {
        let line = self.witness.key.cosign(self.state.note.text(), time, sign);
        self.witness
            .latest
            .insert(self.state.checkpoint.origin().to_owned(), self.state);
        Answer {
            status: 200,
            content_type: "text/plain; charset=utf-8",
            body: format!("{line}\n"),
        }
    }
}

impl Refused {
    fn plain(status: u16, reason: &str) -> Self {
        Self {
            answer: Answer {
                status,
                content_type: "text/plain; charset=utf-8",
                body: format!("{reason}\n"),
            },
            evidence: None,
        }
    }
}

/// The note with the lines of these keys only.
fn own_lines(note: Note, keys: &[NoteKey]) -> Note {
    let Ok(mut own) = Note::new(note.text()) else {
        return note;
    };
    for line in note.signatures() {
        if keys
            .iter()
            .any(|key| key.name() == line.name && key.id() == line.key_id)
            && own.add(line.clone()).is_err()
        {
            return note;
        }
    }
    own
}
