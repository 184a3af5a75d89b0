//! The pump: frames in, machine, frames out, deadlines. The same over QUIC and over the simulated network.

pub mod client;
pub mod model;
pub mod server;

use std::time::Duration;
use tokio::time::Instant;
use veilsum_aggregation::{Channel, Now};
use veilsum_transport::{Frame, Lane};

/// The driver's clock: milliseconds since it started. Under a paused runtime it is simulated time.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Now {
        Now(u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The instant of a time.
    #[must_use]
    pub fn instant(&self, at: Now) -> Instant {
        // A deadline beyond what the clock can say is as good as none within a year.
        self.0
            .checked_add(Duration::from_millis(at.0))
            .unwrap_or(self.0 + Duration::from_hours(24 * 365))
    }
}

/// The protocol's channels are the transport's lanes.
fn frame((kind, channel, body): (u8, Channel, Vec<u8>)) -> Frame {
    match channel {
        Channel::Control => Frame {
            lane: Lane::Control,
            kind,
            body: body.into(),
        },
        Channel::Bulk => Frame {
            lane: Lane::Bulk,
            kind,
            body: body.into(),
        },
    }
}
