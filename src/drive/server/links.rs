//! Who is connected: books what the link tasks say, and puts on a client's way what is for it.

use super::link::{Connected, Event, Outgoing};
use super::{Driver, ServeError, small};
use crate::events::ServerEvent;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use veilsum_aggregation::ToServer;
use veilsum_aggregation::message::Hello;
use veilsum_crypto::ClientId;

#[derive(Clone, Copy, Default)]
pub(super) struct Traffic {
    pub(super) received: u64,
    pub(super) sent: u64,
}

/// What a link event means for the round.
pub(super) enum Step {
    Joined(ClientId, Hello),
    Left(ClientId),
    Said(ClientId, ToServer),
    Nothing,
}

impl Driver<'_> {
    /// Books a link event.
    pub(super) fn take(&mut self, event: Event) -> Result<Step, ServeError> {
        match event {
            Event::Hello {
                link,
                client,
                hello,
                out,
                meter,
                writer,
            } => {
                // The newest connection is the client: an old one is a dead process the network has not given up on.
                self.drop_link(client);
                self.next_link = self.next_link.max(link);
                self.links.insert(
                    client,
                    Connected {
                        link,
                        out,
                        meter,
                        writer,
                    },
                );
                self.post_models(client);
                self.heads.insert(client, hello.head);
                self.emit(&ServerEvent::Connected {
                    client: client.0,
                    connected: small(self.links.len()),
                    expected: self.plan.setup.policy.clients,
                })?;
                let standing = hello.at.map(|at| (at.round, at.attempt));
                if let Some((at, ending)) = self.ending.clone()
                    && standing == Some(at)
                {
                    self.post(client, Outgoing::Frame(ending));
                }
                Ok(Step::Joined(client, hello))
            }
            Event::Message {
                link,
                client,
                message,
            } => {
                let current = self.links.get(&client).is_some_and(|known| known.link == link);
                Ok(if current {
                    Step::Said(client, message)
                } else {
                    Step::Nothing
                })
            }
            Event::Gone { link, client } => {
                if self.links.get(&client).is_none_or(|known| known.link != link) {
                    return Ok(Step::Nothing);
                }
                self.drop_link(client);
                self.emit(&ServerEvent::Disconnected { client: client.0 })?;
                Ok(Step::Left(client))
            }
        }
    }

    /// Puts something on a client's way. A client that has let hundreds of messages lie reads nothing: its link is dropped,
    /// and the reader's end says so to the round.
    pub(super) fn post(&mut self, to: ClientId, outgoing: Outgoing) {
        if let Some(link) = self.links.get(&to)
            && let Err(mpsc::error::TrySendError::Full(_)) = link.out.try_send(outgoing)
        {
            tracing::warn!(client = %to, "it reads nothing of what it is sent; the connection is closed");
            link.writer.abort();
        }
    }

    pub(super) fn drop_link(&mut self, client: ClientId) {
        if let Some(link) = self.links.remove(&client) {
            let stats = link.meter.stats();
            self.retired.received += stats.received_bytes;
            self.retired.sent += stats.sent_bytes;
            link.writer.abort();
        }
    }

    /// Lets every client have everything that was sent, then the end.
    pub(super) async fn close(&mut self) {
        // All at once: one that reads slowly does not keep the others waiting.
        let writers: Vec<_> = std::mem::take(&mut self.links)
            .into_values()
            .map(|link| link.writer)
            .collect();
        let until = Instant::now() + CLOSE_WAIT;
        for writer in writers {
            let _ = tokio::time::timeout_at(until, writer).await;
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.links
            .values()
            .map(|link| link.meter.stats())
            .fold(self.retired, |sum, stats| Traffic {
                received: sum.received + stats.received_bytes,
                sent: sum.sent + stats.sent_bytes,
            })
    }

    /// Bytes of the attempt under way.
    pub(super) fn round_traffic(&self) -> Traffic {
        let all = self.traffic();
        Traffic {
            received: all.received.saturating_sub(self.round_base.received),
            sent: all.sent.saturating_sub(self.round_base.sent),
        }
    }

    /// Leaves a client out of everything to come, and says so once.
    pub(super) fn exclude(&mut self, client: ClientId) -> Result<(), ServeError> {
        if self.excluded.insert(client) {
            self.emit(&ServerEvent::Refused {
                client: client.0,
                reason: "left out of all further rounds of this run: it dealt shares that are no good; mend it, then start the server again"
                    .to_owned(),
            })?;
        }
        Ok(())
    }

    /// Connected clients that may take part.
    pub(super) fn usable(&self) -> usize {
        self.links
            .keys()
            .filter(|client| !self.excluded.contains(client))
            .count()
    }
}

const CLOSE_WAIT: Duration = Duration::from_secs(10);
