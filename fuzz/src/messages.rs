//! Decoders of every message: whatever is read is written again byte for byte, and in one direction only.

use crate::tape::{Tape, bytes_down, bytes_up};
use veilsum_aggregation::{ToClient, ToServer};

/// Kind byte, then body.
///
/// # Panics
/// When a rule is broken.
pub fn run(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let up = ToServer::decode(*kind, body);
    let down = ToClient::decode(*kind, body);
    assert!(up.is_err() || down.is_err(), "kind {kind} goes both ways");
    if let Ok(message) = &up {
        assert_eq!(bytes_up(message), (*kind, body.to_vec()));
        assert!(!format!("{message:?}").is_empty());
    }
    if let Ok(message) = &down {
        assert_eq!(bytes_down(message), (*kind, body.to_vec()));
    }
    for error in [up.err(), down.err()].into_iter().flatten() {
        assert!(!error.to_string().is_empty());
    }
}

/// Every message of two rounds.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let tape = Tape::record(1, 2);
    tape.all()
        .into_iter()
        .map(|(kind, body)| [&[kind], body.as_slice()].concat())
        .collect()
}
