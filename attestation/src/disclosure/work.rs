//! A cap on arithmetic, so that a hostile matrix cannot keep a client busy.

/// Counts cells touched, not time: every party runs out at the same point.
pub(super) struct Work {
    left: u64,
}

/// The cap was reached.
#[derive(Debug)]
pub(super) struct Exhausted;

impl Work {
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit }
    }

    /// What may still be done.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes `cells` from what is left, or stays empty for good.
    pub(super) fn charge(&mut self, cells: usize) -> Result<(), Exhausted> {
        if let Some(left) = self.left.checked_sub(u64::try_from(cells).unwrap_or(u64::MAX)) {
            self.left = left;
            Ok(())
        } else {
            self.left = 0;
            Err(Exhausted)
        }
    }
}
