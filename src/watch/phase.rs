//! The phases of an attempt as they are counted and timed.

/// The phases that wait for clients, in order, by their names in events.
pub(super) const PHASES: [&str; 5] = ["advertise", "share", "mask", "agree", "unmask"];

/// Upper bounds of the buckets of phase durations, in milliseconds; the last bucket has none.
pub(super) const BOUNDS_MS: [u64; 11] = [
    50, 250, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 7_200_000,
];

/// One phase of the attempt under way, or of the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phase {
    pub(super) have: u32,
    pub(super) want: u32,
    pub(super) began_ms: Option<u64>,
    pub(super) took_ms: Option<u64>,
    pub(super) ends_ms: u64,
}

/// Durations of one phase over all attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Durations {
    /// Per bucket, not cumulative.
    pub(super) buckets: [u64; BOUNDS_MS.len() + 1],
    pub(super) sum_ms: u64,
    pub(super) count: u64,
}

impl Durations {
    /// Counts one phase.
    pub(super) fn add(&mut self, took_ms: u64) {
        let place = BOUNDS_MS.iter().position(|bound| took_ms <= *bound);
        if let Some(bucket) = self.buckets.get_mut(place.unwrap_or(BOUNDS_MS.len())) {
            *bucket += 1;
        }
        self.sum_ms += took_ms;
        self.count += 1;
    }
}
