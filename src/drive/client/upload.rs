//! Sends masked vectors, from where the server has them.

use super::super::frame;
use super::{Driver, JoinError};
use crate::events::ClientEvent;
use veilsum_aggregation::ToServer;
use veilsum_aggregation::message::Chunk;
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::{Attempt, ClusterId, RoundId};
use veilsum_transport::{FrameSender, TransportError};

impl Driver<'_> {
    /// Sends the chunks of the kept vectors that the server does not have.
    pub(super) async fn upload<S: FrameSender>(
        &mut self,
        sender: &mut S,
        (round, attempt): (RoundId, Attempt),
        from: &[(ClusterId, u32)],
    ) -> Result<Option<TransportError>, JoinError> {
        let rule = self.plan.member.policy.update;
        let entries = usize::try_from(rule.entries)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let chunking = Chunking::new(rule.modulus, entries);
        let before = |first: u32| -> u64 {
            (0..first as usize)
                .filter_map(|index| chunking.bytes(index))
                .map(|bytes| bytes as u64)
                .sum()
        };
        let each = chunking.total_bytes().unwrap_or_default() as u64;
        let total_bytes = each.saturating_mul(from.len() as u64);
        let mut sent_bytes: u64 = from.iter().map(|(_, first)| before(*first)).sum();
        for (cluster, first) in from {
            let packed = self.store.upload(round, attempt, *cluster)?;
            for chunk in Chunk::cut((round, attempt), *cluster, &packed, chunking, *first) {
                let bytes = chunk.bytes.len() as u64;
                if self.plan.stall_upload_in_round == Some(round.0) && (sent_bytes + bytes) * 2 > total_bytes
                {
                    self.emit(&ClientEvent::Stalled {
                        round: round.0,
                        sent_bytes,
                        total_bytes,
                    })?;
                    std::future::pending::<()>().await;
                }
                self.step();
                if let Err(error) = sender.send(frame(ToServer::Chunk(chunk).encode()?)).await {
                    return Ok(Some(error));
                }
                sent_bytes += bytes;
                self.emit(&ClientEvent::Upload {
                    round: round.0,
                    sent_bytes,
                    total_bytes,
                })?;
            }
        }
        Ok(None)
    }
}
