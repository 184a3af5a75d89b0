//! A client's generator that can be listened to: what a colluding client knows, the server knows too.

use super::EngineError;
use chacha20::ChaCha20Rng;
use rand_core::{TryCryptoRng, TryRng};
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use veilsum_crypto::{BoxPublic, BoxSecret, MaskPublic, MaskSecret};

/// Everything a generator gave, draw by draw.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Rc<RefCell<Vec<Vec<u8>>>>);

/// A generator, with somebody listening or not.
pub(super) struct Tap {
    inner: ChaCha20Rng,
    heard: Option<Heard>,
}

impl Tap {
    pub(super) fn new(inner: ChaCha20Rng, heard: Option<Heard>) -> Self {
        Self { inner, heard }
    }

    fn note(&self, bytes: &[u8]) {
        if let Some(heard) = &self.heard {
            heard.0.borrow_mut().push(bytes.to_vec());
        }
    }
}

impl TryRng for Tap {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let value = self.inner.try_next_u32()?;
        self.note(&value.to_le_bytes());
        Ok(value)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let value = self.inner.try_next_u64()?;
        self.note(&value.to_le_bytes());
        Ok(value)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.inner.try_fill_bytes(bytes)?;
        self.note(bytes);
        Ok(())
    }
}

impl TryCryptoRng for Tap {}

impl Heard {
    /// The box secret of a public key, made again from what was drawn for it.
    pub(super) fn box_secret(&self, public: &BoxPublic) -> Result<BoxSecret, EngineError> {
        self.find(
            |draws| BoxSecret::generate(draws),
            |secret| secret.public() == *public,
        )
    }

    /// The mask secret of a public key.
    pub(super) fn mask_secret(&self, public: &MaskPublic) -> Result<MaskSecret, EngineError> {
        self.find(
            |draws| MaskSecret::generate(draws),
            |secret| secret.matches(public),
        )
    }

    fn find<S>(
        &self,
        make: impl Fn(&mut Replay<'_>) -> S,
        is: impl Fn(&S) -> bool,
    ) -> Result<S, EngineError> {
        let draws = self.0.borrow();
        // The newest first: secrets are fresh in every attempt.
        (0..draws.len())
            .rev()
            .map(|start| {
                make(&mut Replay {
                    draws: draws.get(start..).unwrap_or_default(),
                })
            })
            .find(is)
            .ok_or(EngineError::Internal(
                "a secret was not drawn from the tapped generator",
            ))
    }
}

/// Gives old draws again, then zeros.
struct Replay<'a> {
    draws: &'a [Vec<u8>],
}

impl TryRng for Replay<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(0);
        if let Some((first, rest)) = self.draws.split_first() {
            for (slot, byte) in bytes.iter_mut().zip(first) {
                *slot = *byte;
            }
            self.draws = rest;
        }
        Ok(())
    }
}

impl TryCryptoRng for Replay<'_> {}
