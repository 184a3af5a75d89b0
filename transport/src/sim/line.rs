//! One simulated link: two directions of two lanes, and what has happened to them.

use crate::error::TransportError;
use crate::frame::{Frame, Lane};
use crate::link::PeerId;
use chacha20::ChaCha20Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl End {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

pub(super) struct LinkState {
    pub(super) client: PeerId,
    pub(super) up: Direction,
    pub(super) down: Direction,
    /// Whose process was killed.
    pub(super) killed: Option<End>,
    /// Since when nothing passes any more, for good.
    pub(super) cut: Option<Instant>,
    /// Since when nothing passes for the time being.
    pub(super) stalled: Option<Instant>,
    /// Before this moment nothing that waited can arrive.
    pub(super) resumed: Instant,
    /// Closed for a reason that was said.
    pub(super) closed: Option<TransportError>,
    /// Halves that still exist on each end.
    pub(super) halves: [u8; 2],
    pub(super) changed: Arc<Notify>,
}

pub(super) struct Direction {
    pub(super) lanes: [LaneState; 2],
    /// When the line is free for the next byte (bandwidth).
    pub(super) free: Instant,
    /// The sender let go without closing; the news arrives then.
    pub(super) reset: Option<Instant>,
    pub(super) finished: bool,
    pub(super) receiver_gone: bool,
    /// The lane that is asked first.
    pub(super) first: Lane,
}

pub(super) struct LaneState {
    pub(super) rng: ChaCha20Rng,
    pub(super) queue: VecDeque<(Instant, Item)>,
    pub(super) last_due: Instant,
    /// Bytes sent and not yet taken: what the window bounds.
    pub(super) held: u64,
}

pub(super) enum Item {
    Frame(Frame),
    End,
}

impl LinkState {
    pub(super) fn direction(&mut self, from: End) -> &mut Direction {
        match from {
            End::Client => &mut self.up,
            End::Server => &mut self.down,
        }
    }

    pub(super) fn incoming(&self, end: End) -> &Direction {
        match end {
            End::Client => &self.down,
            End::Server => &self.up,
        }
    }

    pub(super) fn peer_of(&self, end: End, server: PeerId) -> PeerId {
        match end {
            End::Client => server,
            End::Server => self.client,
        }
    }

    pub(super) fn halves_of(&self, end: End) -> u8 {
        self.halves.get(end as usize).copied().unwrap_or_default()
    }

    /// Nothing passes from now on. Frames from the client that were sent before still arrive, unless they were taken away.
    pub(super) fn cut_now(&mut self, at: Instant) {
        self.cut.get_or_insert(at);
        self.down.lose_in_flight(at);
        self.changed.notify_waiters();
    }

    pub(super) fn close(&mut self, why: TransportError) {
        let arrived = self.stalled.unwrap_or_else(Instant::now);
        self.closed.get_or_insert(why);
        for direction in [&mut self.up, &mut self.down] {
            direction.lose_in_flight(arrived);
        }
        self.changed.notify_waiters();
    }
}

impl Direction {
    pub(super) fn lane(&mut self, lane: Lane) -> &mut LaneState {
        let [control, bulk] = &mut self.lanes;
        match lane {
            Lane::Control => control,
            Lane::Bulk => bulk,
        }
    }

    /// The next frame that has arrived by `horizon`; the lanes take turns. What waited out a partition arrives at `resumed`.
    pub(super) fn take_arrived(&mut self, resumed: Instant, horizon: Instant) -> Option<Frame> {
        for lane in [self.first, self.first.other()] {
            let state = self.lane(lane);
            let arrived =
                matches!(state.queue.front(), Some((due, Item::Frame(_))) if (*due).max(resumed) <= horizon);
            if arrived && let Some((_, Item::Frame(frame))) = state.queue.pop_front() {
                state.held = state.held.saturating_sub(frame.wire_len());
                self.first = lane.other();
                return Some(frame);
            }
        }
        None
    }

    /// Whether both lanes are at their end. The marks stay: the end stays the end.
    pub(super) fn has_ended(&self, resumed: Instant, horizon: Instant) -> bool {
        self.lanes.iter().all(
            |lane| matches!(lane.queue.front(), Some((due, Item::End)) if (*due).max(resumed) <= horizon),
        )
    }

    /// When something arrives that has not yet.
    pub(super) fn next_arrival(&self, resumed: Instant, horizon: Instant) -> Option<Instant> {
        let fronts = self.lanes.iter().filter_map(|lane| lane.queue.front());
        fronts
            .map(|(due, _)| (*due).max(resumed))
            .filter(|at| *at > horizon)
            .min()
    }

    /// Drops what has not arrived by `at`.
    pub(super) fn lose_in_flight(&mut self, at: Instant) {
        for lane in &mut self.lanes {
            lane.queue.retain(|(due, _)| *due <= at);
        }
    }
}
