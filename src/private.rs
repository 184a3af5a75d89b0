//! A client's private tensors on its own disk: sealed under a key that comes from its identity, and sent to nobody.
//!
//! ```text
//! veilsum-private/1\n ‖ salt [32] ‖ sealed (ChaCha20-Poly1305) of the learner's bytes
//! ```

use rand_core::CryptoRng;
use veilsum_aggregation::client::Membership;
use veilsum_crypto::seal::SealKey;
use veilsum_learner::PrivateState;
use zeroize::Zeroizing;

/// Seals the tensors.
///
/// # Errors
/// [`PrivateError::Seal`] for more than the cipher takes.
pub fn seal<R: CryptoRng + ?Sized>(
    state: &PrivateState,
    member: &Membership,
    rng: &mut R,
) -> Result<Vec<u8>, PrivateError> {
    let mut salt = [0; 32];
    rng.fill_bytes(&mut salt);
    // The cipher works in place: what it is given is ciphertext when it comes back.
    let sealed = key(member, &salt)
        .seal(AAD, state.as_bytes().to_vec())
        .map_err(|_| PrivateError::Seal)?;
    Ok([MAGIC, &salt, &sealed].concat())
}

/// Opens what [`seal`] made for the same client.
///
/// # Errors
/// [`PrivateError`]: another version, changed, or of another client, key or federation.
pub fn open(bytes: &[u8], member: &Membership) -> Result<PrivateState, PrivateError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(PrivateError::Version)?;
    let (salt, sealed) = rest.split_first_chunk::<32>().ok_or(PrivateError::Damaged)?;
    let plain = key(member, salt)
        .open(AAD, sealed.to_vec())
        .map_err(|_| PrivateError::Damaged)?;
    Ok(PrivateState::from_bytes(Zeroizing::new(plain)))
}

fn key(member: &Membership, salt: &[u8; 32]) -> SealKey {
    let me = member.me.0.to_le_bytes();
    member
        .identity
        .storage_key(salt, &[b"private tensors", &member.book.federation().0, &me])
}

/// Why private tensors cannot be kept or taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrivateError {
    /// Too long for the cipher.
    #[error("the private tensors are too long to be sealed")]
    Seal,
    /// Written by another version, or something else.
    #[error(
        "state/private.sealed is not of this version; use the version that wrote it, or move it away to begin again from the common start"
    )]
    Version,
    /// Changed, cut, or another client's.
    #[error(
        "state/private.sealed was changed, cut short, or belongs to another client, key or federation; restore it, or move it away to begin again from the common start"
    )]
    Damaged,
}

const MAGIC: &[u8] = b"veilsum-private/1\n";
const AAD: &[u8] = b"veilsum/v1/private";
