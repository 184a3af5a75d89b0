//! The simulator's faces towards a driver.

use super::line::End;
use super::world::{Outcome, Step, World};
use crate::error::TransportError;
use crate::frame::Frame;
use crate::limits::Limits;
use crate::link::{Connector, FrameReceiver, FrameSender, Link, Listener, PeerId};
use crate::meter::Meter;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// The server's end of a [`SimNet`](super::SimNet).
pub struct SimListener {
    links: mpsc::UnboundedReceiver<SimLink>,
}

impl SimListener {
    pub(super) fn new(links: mpsc::UnboundedReceiver<SimLink>) -> Self {
        Self { links }
    }
}

impl Listener for SimListener {
    type Link = SimLink;

    async fn accept(&mut self) -> Result<SimLink, TransportError> {
        self.links.recv().await.ok_or(TransportError::ListenerClosed)
    }
}

/// A client's end of a [`SimNet`](super::SimNet).
pub struct SimConnector {
    world: Arc<World>,
    peer: PeerId,
    limits: Limits,
}

impl SimConnector {
    pub(super) fn new(world: Arc<World>, peer: PeerId) -> Self {
        let limits = world.config.limits.clone();
        Self { world, peer, limits }
    }

    /// The same client, sending by limits of its own: a client that does not keep to the server's caps.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Connector for SimConnector {
    type Link = SimLink;

    async fn connect(&self) -> Result<SimLink, TransportError> {
        let deadline = Instant::now() + self.limits.handshake_timeout;
        let unreachable = || TransportError::Unreachable {
            addr: "the simulated server".into(),
        };
        let arrives = Instant::now() + self.world.handshake_delay(self.peer);
        tokio::time::sleep_until(arrives.min(deadline)).await;
        loop {
            let mut topology = pin!(self.world.topology.notified());
            topology.as_mut().enable();
            if self.world.is_dead(self.peer) {
                return Err(unreachable());
            }
            if arrives > deadline {
                return Err(TransportError::HandshakeTimeout {
                    addr: "the simulated server".into(),
                });
            }
            if self.world.reachable(self.peer) {
                return self.world.open(self.peer, &self.limits);
            }
            if tokio::time::timeout_at(deadline, topology).await.is_err() {
                return Err(unreachable());
            }
        }
    }
}

/// One end of a simulated link.
pub struct SimLink {
    sender: SimSender,
    receiver: SimReceiver,
}

impl SimLink {
    pub(super) fn new(
        world: Arc<World>,
        id: u64,
        end: End,
        peer: PeerId,
        changed: Arc<Notify>,
        limits: &Limits,
    ) -> Self {
        let meter = Meter::default();
        let (world2, changed2, meter2) = (Arc::clone(&world), Arc::clone(&changed), meter.clone());
        Self {
            sender: SimSender {
                half: Half {
                    world,
                    id,
                    end,
                    peer,
                    changed,
                    meter,
                },
                limits: limits.clone(),
                finishing: false,
                delivered: false,
            },
            receiver: SimReceiver {
                half: Half {
                    world: world2,
                    id,
                    end,
                    peer,
                    changed: changed2,
                    meter: meter2,
                },
                failed: None,
            },
        }
    }
}

impl Link for SimLink {
    type Sender = SimSender;
    type Receiver = SimReceiver;

    fn peer(&self) -> PeerId {
        self.sender.half.peer
    }

    fn channel_binding(&self) -> [u8; 32] {
        self.sender.half.world.channel_binding(self.sender.half.id)
    }

    fn meter(&self) -> Meter {
        self.sender.half.meter.clone()
    }

    fn split(self) -> (SimSender, SimReceiver) {
        (self.sender, self.receiver)
    }
}

/// The sending half of a [`SimLink`].
pub struct SimSender {
    half: Half,
    limits: Limits,
    finishing: bool,
    delivered: bool,
}

impl FrameSender for SimSender {
    async fn send(&mut self, frame: Frame) -> Result<(), TransportError> {
        let half = &self.half;
        if self.finishing {
            return Err(TransportError::SendAfterFinish { peer: half.peer });
        }
        self.limits
            .check(&frame)
            .map_err(|error| TransportError::from_frame(error, half.peer))?;
        let size = frame.wire_len();
        let mut frame = Some(frame);
        half.until_done(|| half.world.send(half.id, half.end, &mut frame))
            .await?;
        half.meter.sent(size);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.finishing = true;
        if !self.delivered {
            let half = &self.half;
            half.until_done(|| half.world.finish(half.id, half.end)).await?;
            self.delivered = true;
        }
        Ok(())
    }
}

impl Drop for SimSender {
    fn drop(&mut self) {
        self.half.world.drop_half(self.half.id, self.half.end, true);
    }
}

/// The receiving half of a [`SimLink`].
pub struct SimReceiver {
    half: Half,
    failed: Option<TransportError>,
}

impl FrameReceiver for SimReceiver {
    async fn recv(&mut self) -> Result<Option<Frame>, TransportError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let half = &self.half;
        let got = half.until_done(|| half.world.recv(half.id, half.end)).await;
        match &got {
            Ok(Some(frame)) => half.meter.received(frame.wire_len()),
            Ok(None) => {}
            Err(error) => self.failed = Some(error.clone()),
        }
        got
    }
}

impl Drop for SimReceiver {
    fn drop(&mut self) {
        self.half.world.drop_half(self.half.id, self.half.end, false);
    }
}

struct Half {
    world: Arc<World>,
    id: u64,
    end: End,
    peer: PeerId,
    changed: Arc<Notify>,
    meter: Meter,
}

impl Half {
    /// Asks the world until it is done; between two questions waits for a change of the link or for the time the world gave.
    async fn until_done<T>(&self, mut ask: impl FnMut() -> Outcome<T>) -> Result<T, TransportError> {
        loop {
            // Registered before the question, so that a change between question and wait is not missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match ask()? {
                Step::Done(value) => return Ok(value),
                Step::Wait(None) => changed.await,
                Step::Wait(Some(until)) => {
                    // Either way, ask again.
                    let _ = tokio::time::timeout_at(until, changed).await;
                }
            }
        }
    }
}
