//! Says what the client's data looks like, when the policy asks for it: once for each clustering, and what it costs is
//! written down before it leaves.

use super::super::model;
use super::work::Job;
use super::{Driver, JoinError};
use crate::describe;
use crate::events::ClientEvent;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::sync::Arc;
use veilsum_aggregation::privacy::ledger::{Entry as LedgerEntry, Release};
use veilsum_aggregation::privacy::zcdp;

impl Driver<'_> {
    /// Queues the descriptor that is asked for, once the model whose encoder makes it is here.
    pub(super) fn queue_descriptor(&mut self) {
        let policy = &self.plan.member.policy;
        if let Some(clustering) = self.describing
            && let Some(rule) = policy.clustering
            && let Some(model) = self.shelf.get(model::FROZEN, &policy.initial)
        {
            self.describing = None;
            self.drawing.insert(clustering);
            let mut noise = [0; 32];
            self.noise.fill_bytes(&mut noise);
            self.queue.push_back(Job::Describe {
                clustering,
                model: model.to_vec(),
                member: Arc::clone(&self.plan.member),
                rule,
                noise: Box::new(ChaCha20Rng::from_seed(noise)),
            });
        }
    }

    /// Signs a descriptor and sends it, once the ledger says what it costs.
    pub(super) fn described(&mut self, clustering: u64, descriptor: Vec<u8>) -> Result<(), JoinError> {
        // New noise on the same data would be a second descriptor for the price of one.
        if self.store.descriptor(clustering)?.is_some() {
            return Ok(());
        }
        let member = &self.plan.member;
        let rho = member
            .policy
            .clustering
            .map(|rule| describe::cost(&rule))
            .transpose()?
            .flatten();
        let spent = rho
            .map(|rho| {
                self.store.charge(LedgerEntry {
                    client: member.me,
                    release: Release::Descriptor { clustering },
                    rho,
                })
            })
            .transpose()?;
        let epsilon = spent.map(|spent| zcdp::epsilon(spent, DELTA)).transpose()?;
        self.emit(&ClientEvent::Described {
            clustering,
            bytes: descriptor.len() as u64,
            epsilon,
        })?;
        match self.machine.described(clustering, descriptor) {
            Ok(()) => Ok(()),
            Err(refusal) => self.not_described(clustering, refusal.name(), &refusal),
        }
    }

    /// Tells the operator why, and the server that it need not wait. What the learner found wrong with the data is not its
    /// business.
    pub(super) fn not_described(
        &mut self,
        clustering: u64,
        name: &str,
        reason: &dyn std::fmt::Display,
    ) -> Result<(), JoinError> {
        self.machine.not_described(clustering, name);
        self.emit(&ClientEvent::NotDescribed {
            clustering,
            reason: reason.to_string(),
        })
    }
}

/// The delta at which epsilon is told.
const DELTA: f64 = 1e-6;
