//! Several rounds on top of each other, for clients whose updates hardly change.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use super::membership::{Membership, MembershipError};
use super::{CrowdRule, Verdict, check, crowd};

/// The sums that were opened in the last rounds.
///
/// Each round obeys the rule by itself; the rounds together need not. If every client sent the same update in each, a
/// dropout would give it away: the difference of two rounds' sums is what the missing client sent. Real updates differ,
/// so [`Window::crowd`] is the worst case, and it is printed, not enforced. Clients counted in whole groups keep it up.
#[derive(Clone, Debug)]
pub struct Window {
    clients: usize,
    length: NonZeroUsize,
    rounds: VecDeque<Membership>,
}

impl Window {
    /// Remembers so many rounds over so many clients.
    #[must_use]
    pub fn new(clients: usize, length: NonZeroUsize) -> Self {
        Self {
            clients,
            length,
            rounds: VecDeque::new(),
        }
    }

    /// Adds a round: its plan restricted to the survivors and the released clusters. The oldest beyond the length goes.
    ///
    /// # Errors
    /// [`MembershipError::Ragged`] for a round over another number of clients; nothing changes.
    pub fn push(&mut self, round: Membership) -> Result<(), MembershipError> {
        if round.clients() != self.clients {
            return Err(MembershipError::Ragged {
                cluster: 0,
                got: round.clients(),
                expected: self.clients,
            });
        }
        while self.rounds.len() >= self.length.get() {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
        Ok(())
    }

    /// Rounds remembered.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// All remembered sums as one matrix.
    #[must_use]
    pub fn stacked(&self) -> Membership {
        Membership::stacked(self.clients, &self.rounds)
    }

    /// The effective crowd of the worst-placed client if no update changed within the window. Infinity without rounds.
    #[must_use]
    pub fn crowd(&self) -> f64 {
        crowd(&self.stacked())
    }

    /// The rule on all remembered sums together: what would be exposed if no update changed.
    pub fn check(&self, orgs: &[u32], rule: &CrowdRule) -> Verdict {
        check(&self.stacked(), orgs, rule)
    }
}
