//! How much one link has moved, for progress lines and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A handle on a link's counters. Cheap to clone; outlives the link, so that totals can be read after it closed.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Counters>);

impl Meter {
    /// The counts at this moment.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        LinkStats {
            sent_bytes: self.0.sent_bytes.load(Ordering::Relaxed),
            sent_frames: self.0.sent_frames.load(Ordering::Relaxed),
            received_bytes: self.0.received_bytes.load(Ordering::Relaxed),
            received_frames: self.0.received_frames.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn sent(&self, frame_bytes: u64) {
        self.0.sent_bytes.fetch_add(frame_bytes, Ordering::Relaxed);
        self.0.sent_frames.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, frame_bytes: u64) {
        self.0.received_bytes.fetch_add(frame_bytes, Ordering::Relaxed);
        self.0.received_frames.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a link has moved. Bytes are frame bytes, headers included, before encryption and packet overhead, so both networks agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Bytes of the frames handed to the network.
    pub sent_bytes: u64,
    /// Frames handed to the network.
    pub sent_frames: u64,
    /// Bytes of the frames the driver has taken.
    pub received_bytes: u64,
    /// Frames the driver has taken.
    pub received_frames: u64,
}

#[derive(Debug, Default)]
struct Counters {
    sent_bytes: AtomicU64,
    sent_frames: AtomicU64,
    received_bytes: AtomicU64,
    received_frames: AtomicU64,
}
