//! What the server has shown this client in the attempt: kept so that a lie can be proved to others.

use super::Phase;
use crate::message::{EntryBytes, ToClient};
use veilsum_attestation::Head;
use veilsum_attestation::evidence::Evidence;
use veilsum_attestation::statement::{Agree, Plan, Signed};
use veilsum_crypto::{BoundedVec, ClientId};

/// Signed things of the current attempt, as they came.
#[derive(Default)]
pub(super) struct Shown {
    /// The last plan of an earlier attempt that came to a proposal, with it: what a log must not fall behind.
    earlier: Option<(EntryBytes, Agree)>,
    plans: Vec<EntryBytes>,
    proposals: Vec<Agree>,
    entries: Vec<EntryBytes>,
}

impl Shown {
    /// Notes a message before it is judged. Nothing here is checked: whoever judges the evidence checks the signatures.
    pub(super) fn note(&mut self, message: &ToClient, phase: &Phase) {
        match (message, phase) {
            (ToClient::Plan(message), phase) => {
                if phase.plan_entry().is_none() {
                    let earlier = self.plans.pop().zip(self.proposals.pop());
                    *self = Self {
                        earlier: earlier.or(self.earlier.take()),
                        ..Self::default()
                    };
                }
                if self.plans.len() < MOST && !self.plans.contains(&message.entry) {
                    self.plans.push(message.entry.clone());
                }
            }
            (ToClient::Roster(roster), Phase::Advertised(_)) => self.entries.extend_from_slice(&roster.keys),
            (ToClient::Proposal(message), Phase::Uploaded(phase)) => {
                self.proposals.push(phase.proposed(message));
            }
            (ToClient::Agreement(agreement), Phase::Agreed(_)) => {
                self.entries.extend_from_slice(&agreement.agrees);
            }
            _ => {}
        }
    }

    /// Whether a plan is another one for the attempt of a plan that was shown before.
    pub(super) fn is_second(&self, entry: &EntryBytes) -> bool {
        let place = |entry: &EntryBytes| {
            Signed::<Plan>::parse(entry)
                .ok()
                .map(|signed| (signed.peek().body().round, signed.peek().body().attempt))
        };
        let wanted = place(entry);
        wanted.is_some()
            && self
                .plans
                .iter()
                .any(|known| known != entry && place(known) == wanted)
    }

    /// Everything shown, as a file's contents.
    pub(super) fn evidence(&self, client: ClientId, held: Head, reason: &str) -> Evidence {
        let (plan, proposal) = self.earlier.clone().unzip();
        let plans = plan.into_iter().chain(self.plans.iter().cloned()).collect();
        let proposals = proposal
            .into_iter()
            .chain(self.proposals.iter().cloned())
            .collect();
        Evidence {
            client,
            reason: BoundedVec::new(reason.bytes().take(64).collect()).unwrap_or_default(),
            held,
            plans: BoundedVec::new(plans).unwrap_or_default(),
            proposals: BoundedVec::new(proposals).unwrap_or_default(),
            entries: BoundedVec::new(self.entries.clone()).unwrap_or_default(),
        }
    }
}

/// More plans than this for one attempt prove nothing more.
const MOST: usize = 8;
