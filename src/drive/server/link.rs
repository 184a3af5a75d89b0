//! One task a link: a hello first, then messages to the driver; and one that writes what the driver sends.

use super::super::model;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use veilsum_aggregation::message::Hello;
use veilsum_aggregation::{MessageError, ToServer};
use veilsum_crypto::{ClientId, ClusterId};
use veilsum_transport::{FrameReceiver, FrameSender, Link, Listener, Meter, PeerId};

/// What link tasks tell the driver.
pub(super) enum Event {
    /// A client said hello.
    Hello {
        link: u64,
        client: ClientId,
        hello: Hello,
        out: mpsc::Sender<Outgoing>,
        meter: Meter,
        writer: JoinHandle<()>,
    },
    /// A message came.
    Message {
        link: u64,
        client: ClientId,
        message: ToServer,
    },
    /// A link is gone.
    Gone { link: u64, client: ClientId },
}

/// What the driver tells a link's writer.
pub(super) enum Outgoing {
    Frame(veilsum_transport::Frame),
    Model(ClusterId, Arc<[f32]>),
}

pub(super) struct Connected {
    pub(super) link: u64,
    pub(super) out: mpsc::Sender<Outgoing>,
    pub(super) meter: Meter,
    pub(super) writer: JoinHandle<()>,
}

/// Accepts links for as long as the driver listens.
pub(super) async fn accept<L: Listener>(
    mut listener: L,
    members: BTreeMap<PeerId, ClientId>,
    events: mpsc::Sender<Event>,
) {
    let mut number = 0u64;
    while let Ok(link) = listener.accept().await {
        match members.get(&link.peer()) {
            Some(client) => {
                number += 1;
                tokio::spawn(read(link, number, *client, events.clone()));
            }
            None => {
                tracing::warn!(peer = %link.peer(), "a certificate of the consortium that the policy does not name was turned away");
            }
        }
    }
}

/// Reads one link: a hello first, then messages until it ends.
async fn read<K: Link>(link: K, number: u64, client: ClientId, events: mpsc::Sender<Event>) {
    let meter = link.meter();
    let (sender, mut receiver) = link.split();
    let (out, queue) = mpsc::channel(OUT_QUEUE);
    let Ok(Ok(Some(first))) = tokio::time::timeout(HELLO_WAIT, receiver.recv()).await else {
        return;
    };
    let Ok(ToServer::Hello(hello)) = ToServer::decode(first.kind, &first.body) else {
        return;
    };
    let writer = tokio::spawn(write(sender, queue));
    let hello = Event::Hello {
        link: number,
        client,
        hello,
        out,
        meter,
        writer,
    };
    if events.send(hello).await.is_err() {
        return;
    }
    // A full queue makes this task wait, the window fill and the client slow down: that is the back-pressure.
    while let Ok(Some(frame)) = receiver.recv().await {
        let message = match ToServer::decode(frame.kind, &frame.body) {
            Ok(ToServer::Hello(_)) => {
                tracing::warn!(%client, "a second hello on one connection; the connection is closed");
                break;
            }
            Ok(message) => message,
            Err(error) => {
                report_malformed(client, &error);
                break;
            }
        };
        if events
            .send(Event::Message {
                link: number,
                client,
                message,
            })
            .await
            .is_err()
        {
            return;
        }
    }
    let _ = events.send(Event::Gone { link: number, client }).await;
}

fn report_malformed(client: ClientId, error: &MessageError) {
    tracing::warn!(%client, %error, "a malformed message; the connection is closed");
}

/// Writes one link until the driver drops its queue, then ends it in order.
async fn write<S: FrameSender>(mut sender: S, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(outgoing) = queue.recv().await {
        let sent = match outgoing {
            Outgoing::Frame(frame) => sender.send(frame).await,
            Outgoing::Model(cluster, model) => {
                let mut sent = Ok(());
                for part in model::parts(cluster, &model) {
                    sent = sender.send(part).await;
                    if sent.is_err() {
                        break;
                    }
                }
                sent
            }
        };
        if sent.is_err() {
            return;
        }
    }
    let _ = sender.finish().await;
}

/// Messages waiting for one client, most of them a round's. One that reads none of them is not waited for.
const OUT_QUEUE: usize = 256;
const HELLO_WAIT: Duration = Duration::from_secs(10);
