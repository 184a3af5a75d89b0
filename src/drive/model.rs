//! Models on their way to a client: cut into parts, put together again, believed only under their digest.
//!
//! A part is a bulk frame of kind 64: `u16` cluster, `u64` total bytes, `u64` offset, bytes. Parts of one model come in order.

use std::collections::BTreeMap;
use veilsum_attestation::model_digest;
use veilsum_crypto::{ClusterId, Digest};
use veilsum_transport::Frame;

/// The frame kind of a model part.
pub const MODEL_PART: u8 = 64;

/// Stands for a cluster's number where the model is the policy's initial one, which no cluster has to start from any more
/// when clients look at their data with its encoder.
pub const FROZEN: ClusterId = ClusterId(u16::MAX);

/// Bytes of a model in one part.
const PART_BYTES: usize = 64 << 10;
const HEADER: usize = 18;
/// Clusters of a plan.
const MAX_CLUSTERS: usize = 64;

/// The frames of a model.
pub fn parts(cluster: ClusterId, model: &[f32]) -> impl Iterator<Item = Frame> {
    let entries = PART_BYTES / 4;
    let total = (model.len() * 4) as u64;
    model.chunks(entries).enumerate().map(move |(index, stretch)| {
        let mut body = Vec::with_capacity(HEADER + stretch.len() * 4);
        body.extend_from_slice(&cluster.0.to_le_bytes());
        body.extend_from_slice(&total.to_le_bytes());
        body.extend_from_slice(&((index * PART_BYTES) as u64).to_le_bytes());
        body.extend(stretch.iter().flat_map(|entry| entry.to_le_bytes()));
        Frame::bulk(MODEL_PART, body)
    })
}

/// The models a client holds and those on their way.
#[derive(Debug, Default)]
pub struct Shelf {
    open: BTreeMap<ClusterId, Vec<f32>>,
    whole: BTreeMap<ClusterId, (Digest, Vec<f32>)>,
}

impl Shelf {
    /// Takes a part; `Some` when it completed its cluster's model. `entries` is what the policy says a model has.
    ///
    /// # Errors
    /// [`ModelError`] for a part that does not follow the one before it or does not fit the policy.
    pub fn take(&mut self, body: &[u8], entries: u64) -> Result<Option<ClusterId>, ModelError> {
        let (header, bytes) = body.split_first_chunk::<HEADER>().ok_or(ModelError::Short)?;
        let [c0, c1, rest @ ..] = *header;
        let cluster = ClusterId(u16::from_le_bytes([c0, c1]));
        let (numbers, _) = rest.as_chunks::<8>();
        let [total, offset] = *numbers else {
            return Err(ModelError::Short);
        };
        let (total, offset) = (u64::from_le_bytes(total), u64::from_le_bytes(offset));
        if Some(total) != entries.checked_mul(4) {
            return Err(ModelError::Size { got: total, entries });
        }
        let (values, left) = bytes.as_chunks::<4>();
        if offset == 0 {
            // Plans have at most 64 clusters; a server that sends models of more only fills this client's memory.
            if cluster != FROZEN && usize::from(cluster.0) >= MAX_CLUSTERS {
                return Err(ModelError::Cluster(cluster));
            }
            self.open.insert(cluster, Vec::new());
        }
        let model = self.open.get_mut(&cluster).ok_or(ModelError::Order)?;
        let end = offset + bytes.len() as u64;
        if model.len() as u64 * 4 != offset || end > total || !left.is_empty() || values.is_empty() {
            return Err(ModelError::Order);
        }
        model.extend(values.iter().map(|value| f32::from_le_bytes(*value)));
        if end < total {
            return Ok(None);
        }
        let model = self.open.remove(&cluster).unwrap_or_default();
        self.whole.insert(cluster, (model_digest(&model), model));
        Ok(Some(cluster))
    }

    /// The model of a cluster, if it is held and has that digest.
    #[must_use]
    pub fn get(&self, cluster: ClusterId, digest: &Digest) -> Option<&[f32]> {
        self.whole
            .get(&cluster)
            .filter(|(own, _)| own == digest)
            .map(|(_, model)| model.as_slice())
    }
}

/// A part of a model that does not fit. The server is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A cluster no plan can have.
    #[error("the server sends a model of {0}, and a plan has at most 64 clusters; the server is at fault")]
    Cluster(ClusterId),
    /// Shorter than its header.
    #[error("a model part is shorter than its header")]
    Short,
    /// Not the policy's size.
    #[error("the server sends a model of {got} bytes where the policy says {entries} entries of 4 bytes")]
    Size {
        /// Bytes announced.
        got: u64,
        /// Entries of the policy.
        entries: u64,
    },
    /// Out of order.
    #[error("model parts are out of order or overlap")]
    Order,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_come_whole_and_only_under_their_digest() {
        let model: Vec<f32> = (0..40_000u16).map(f32::from).collect();
        let frames: Vec<_> = parts(ClusterId(3), &model).collect();
        assert_eq!(frames.len(), 3);
        let mut shelf = Shelf::default();
        assert_eq!(shelf.take(&frames[0].body, 40_000), Ok(None));
        assert_eq!(shelf.take(&frames[2].body, 40_000), Err(ModelError::Order));
        assert_eq!(shelf.take(&frames[1].body, 40_000), Ok(None));
        assert_eq!(shelf.take(&frames[1].body, 40_000), Err(ModelError::Order));
        assert_eq!(shelf.take(&frames[2].body, 40_000), Ok(Some(ClusterId(3))));
        assert_eq!(
            shelf.get(ClusterId(3), &model_digest(&model)),
            Some(model.as_slice())
        );
        assert_eq!(shelf.get(ClusterId(3), &Digest([0; 32])), None);
        assert_eq!(
            shelf.take(&frames[0].body, 39_999),
            Err(ModelError::Size {
                got: 160_000,
                entries: 39_999
            })
        );
        assert_eq!(shelf.take(&[0; 17], 40_000), Err(ModelError::Short));
    }
}
