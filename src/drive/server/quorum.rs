//! Before a round: the witnesses' word that the log is the one they know.

use super::{Driver, ServeError};
use crate::events::{ServerEvent, WitnessWord};
use std::sync::Arc;
use std::time::Duration;
use veilsum_attestation::Log;
use veilsum_attestation::bundle::sign_head;
use veilsum_attestation::note::Note;

impl Driver<'_> {
    /// Has the log's head cosigned. A server with two histories gets no quorum for the second, and no round starts on it.
    pub(super) async fn witnessed(&mut self, log: &Log) -> Result<(), ServeError> {
        if self.plan.witnesses.is_none() {
            return Ok(());
        }
        let setup = &self.plan.setup;
        let head = sign_head(&log.head(), setup.book.federation(), &setup.identity)
            .ok()
            .and_then(|text| Note::parse(text.as_bytes()).ok())
            .ok_or(ServeError::Internal("the head cannot be signed"))?;
        let size = log.head().size;
        let tree = Arc::new(log.tree().clone());
        let mut missing = String::new();
        for attempt in 0..WITNESS_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(WITNESS_WAIT).await;
            }
            let Some(quorum) = &self.plan.witnesses else {
                return Ok(());
            };
            let tree = Arc::clone(&tree);
            let collected = quorum
                .collect(&head, Arc::new(move |old| tree.consistency_proof(old, size)))
                .await
                .map_err(|_| ServeError::Internal("the signed head is no checkpoint"))?;
            let reasons: Vec<String> = collected
                .answers
                .iter()
                .filter_map(|answer| Some(format!("{}: {}", answer.name, answer.result.as_ref().err()?)))
                .collect();
            for reason in &reasons {
                tracing::warn!("a witness did not cosign: {reason}");
            }
            self.emit(&ServerEvent::Witnessed {
                entries: size,
                quorum: collected.quorum.is_ok(),
                witnesses: collected
                    .answers
                    .iter()
                    .map(|answer| WitnessWord {
                        name: answer.name.clone(),
                        cosigned_at: answer.result.as_ref().ok().copied(),
                        reason: answer.result.as_ref().err().map(ToString::to_string),
                    })
                    .collect(),
            })?;
            match collected.quorum {
                Ok(()) => {
                    let note = collected.note.to_string();
                    return Ok(self.store.keep_head(note.as_bytes())?);
                }
                Err(error) => missing = format!("{error}; {}", reasons.join("; ")),
            }
        }
        Err(ServeError::NoQuorum(missing))
    }
}

const WITNESS_ATTEMPTS: u32 = 3;
const WITNESS_WAIT: Duration = Duration::from_secs(2);
