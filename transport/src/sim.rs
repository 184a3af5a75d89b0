//! A network in memory: the same traits as QUIC, delays and faults from a seed, time from tokio's clock.
//!
//! Under `#[tokio::test(start_paused = true)]` (or a current-thread runtime with `start_paused`) time jumps from event to event, so
//! minutes of timeouts take milliseconds, and a run is a function of its seed: every link draws its delays from its own stream of
//! the seed, so one peer's traffic does not change another's luck. Without the paused clock it works in real time.
//!
//! What it models: order inside a lane, reordering between lanes, latency, loss (as the delay a retransmission costs), bandwidth,
//! windows (back-pressure), idle timeouts, crashes, cuts and partitions. What it does not: packets, congestion control, TLS.
//!
//! Faults, as seen from the two ends:
//!
//! | fault | the peer itself | the other end |
//! | --- | --- | --- |
//! | [`SimNet::kill`] | its halves fail at once; it cannot connect until [`SimNet::revive`] | what had arrived can be read; `PeerGone` after the idle timeout |
//! | [`Fault::CutAfterFrames`], [`Fault::CutAfterBytes`] | sends are lost, then `PeerGone` after the idle timeout; may connect again | the frames before the cut arrive; then the same |
//! | [`SimNet::partition`], [`SimNet::heal`] | frames wait; if it lasts for the idle timeout, `PeerGone` | the same |

mod half;
mod line;
mod world;

pub use half::{SimConnector, SimLink, SimListener, SimReceiver, SimSender};

use crate::frame::Lane;
use crate::limits::Limits;
use crate::link::PeerId;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::mpsc;
use world::World;

/// The network. Clones are handles on the same one.
#[derive(Clone)]
pub struct SimNet {
    world: Arc<World>,
}

impl SimNet {
    /// A network whose every delay follows from `seed`.
    #[must_use]
    pub fn new(seed: u64, config: SimConfig) -> Self {
        Self {
            world: Arc::new(World::new(seed, config)),
        }
    }

    /// The server's end. A second call replaces the first: its `accept` then returns
    /// [`ListenerClosed`](crate::TransportError::ListenerClosed).
    #[must_use]
    pub fn listener(&self) -> SimListener {
        let (arrivals, links) = mpsc::unbounded_channel();
        self.world.listen(arrivals);
        SimListener::new(links)
    }

    /// A client's end. The id is taken on trust: the simulator has no certificates.
    #[must_use]
    pub fn connector(&self, peer: PeerId) -> SimConnector {
        SimConnector::new(Arc::clone(&self.world), peer)
    }

    /// Kills a client, or the server: both directions of its links are cut now, and what is in flight is lost. A killed server is
    /// back when [`listener`](Self::listener) is called again.
    pub fn kill(&self, peer: PeerId) {
        self.world.kill(peer);
    }

    /// Lets a killed client connect again, as after a restart.
    pub fn revive(&self, peer: PeerId) {
        self.world.revive(peer);
    }

    /// Cuts these clients off from the server until [`heal`](Self::heal). Frames wait rather than vanish, as QUIC would resend them.
    pub fn partition(&self, peers: impl IntoIterator<Item = PeerId>) {
        self.world.partition(peers);
    }

    /// Ends every partition. Links whose idle timeout has passed meanwhile are lost.
    pub fn heal(&self) {
        self.world.heal();
    }

    /// Arms a fault. It fires once; a second one for the same client replaces the first.
    pub fn inject(&self, fault: Fault) {
        self.world.inject(fault);
    }

    /// Delay range in milliseconds for frames from and to this client, from now on.
    pub fn set_delay(&self, peer: PeerId, delay_ms: RangeInclusive<u64>) {
        self.world.set_delay(peer, delay_ms);
    }

    /// Every frame taken by a driver so far, in order. Empty unless [`SimConfig::record`] is set.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.world.deliveries()
    }
}

/// How the simulated network behaves.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// One-way delay of a frame, milliseconds; drawn for each frame.
    pub delay_ms: RangeInclusive<u64>,
    /// Transmissions lost, per mille (at most 900). A loss costs `retransmit_ms`; the frame arrives in the end.
    pub loss_per_mille: u16,
    /// What one loss costs, milliseconds.
    pub retransmit_ms: u64,
    /// Bytes per second of each link and direction; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Enforced on both ends, as QUIC does.
    pub limits: Limits,
    /// Who the server is to its clients.
    pub server: PeerId,
    /// Keep the list behind [`SimNet::deliveries`].
    pub record: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            delay_ms: 1..=20,
            loss_per_mille: 0,
            retransmit_ms: 100,
            bytes_per_second: None,
            limits: Limits::default(),
            server: PeerId::of_spki(b"simulated server"),
            record: false,
        }
    }
}

/// A fault that fires by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The client's link is cut when it has sent this many frames. Those arrive; the other direction loses what is in flight.
    CutAfterFrames {
        /// The client.
        peer: PeerId,
        /// Frames that still pass, counted from now.
        frames: u64,
    },
    /// The client's link is cut in the frame that would pass this many bytes (headers included). Whole frames before it arrive; of
    /// that one nothing does.
    CutAfterBytes {
        /// The client.
        peer: PeerId,
        /// Bytes that still pass, counted from now.
        bytes: u64,
    },
}

/// One frame that a driver took from a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Milliseconds since the network was made.
    pub at_ms: u64,
    /// Who sent it.
    pub from: PeerId,
    /// Who took it.
    pub to: PeerId,
    /// The lane.
    pub lane: Lane,
    /// The frame's kind.
    pub kind: u8,
    /// Its body length, bytes.
    pub len: usize,
}
