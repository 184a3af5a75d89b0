//! What every client's releases have cost, and a budget that is not overdrawn.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use veilsum_crypto::ClientId;

use super::{PrivacyError, check_delta, check_epsilon, check_rho, zcdp};

/// Who is hidden. Costs of different units do not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// One image of a client, replaced by another.
    Record,
    /// A client, with everything it has.
    Client,
}

/// Something that was, or is about to be, shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// The client's descriptor for the so-and-so-many-th clustering: hides records.
    Descriptor {
        /// Number of the clustering.
        clustering: u64,
    },
    /// Its part in the sums of a round, all clusters together: hides the client.
    Sums {
        /// Number of the round.
        round: u64,
    },
}

impl Release {
    /// Who is hidden in it.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Descriptor { .. } => Unit::Record,
            Self::Sums { .. } => Unit::Client,
        }
    }
}

/// A line of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose data.
    pub client: ClientId,
    /// What was shown.
    pub release: Release,
    /// What it cost, in zero-concentrated differential privacy.
    pub rho: f64,
}

/// The most a client may spend of one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Epsilon.
    pub epsilon: f64,
    /// Delta.
    pub delta: f64,
}

/// See the module. The same entries in the same order give the same ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    budgets: BTreeMap<Unit, Budget>,
    entries: Vec<Entry>,
    shown: BTreeSet<(ClientId, Release)>,
    spent: BTreeMap<(ClientId, Unit), f64>,
}

impl Ledger {
    /// An empty ledger. A unit without a budget is counted and never refused.
    ///
    /// # Errors
    /// [`LedgerError::Setting`] for a budget that is none.
    pub fn new(budgets: BTreeMap<Unit, Budget>) -> Result<Self, LedgerError> {
        for budget in budgets.values() {
            check_epsilon(budget.epsilon)?;
            check_delta(budget.delta)?;
        }
        Ok(Self {
            budgets,
            entries: Vec::new(),
            shown: BTreeSet::new(),
            spent: BTreeMap::new(),
        })
    }

    /// A ledger with the entries of an earlier one, each charged again.
    ///
    /// # Errors
    /// [`LedgerError`] of the first entry that this ledger would not have taken.
    pub fn replay(
        budgets: BTreeMap<Unit, Budget>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, LedgerError> {
        let mut ledger = Self::new(budgets)?;
        for entry in entries {
            ledger.charge(entry)?;
        }
        Ok(ledger)
    }

    /// Writes an entry. Do so before the release leaves: what is refused must not be shown.
    ///
    /// # Errors
    /// [`LedgerError`]: a cost that is none, a release charged before, or a budget that does not allow it. Nothing changes.
    pub fn charge(&mut self, entry: Entry) -> Result<(), LedgerError> {
        check_rho(entry.rho)?;
        let (client, unit) = (entry.client, entry.release.unit());
        if self.shown.contains(&(client, entry.release)) {
            return Err(LedgerError::Repeated {
                client,
                release: entry.release,
            });
        }
        let total = self.rho(client, unit) + entry.rho;
        if let Some(budget) = self.budgets.get(&unit) {
            let epsilon = zcdp::epsilon(total, budget.delta)?;
            if epsilon > budget.epsilon {
                return Err(LedgerError::Overdrawn {
                    client,
                    unit,
                    epsilon,
                    budget: *budget,
                });
            }
        }
        self.shown.insert((client, entry.release));
        self.spent.insert((client, unit), total);
        self.entries.push(entry);
        Ok(())
    }

    /// All entries, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What a client has spent of one unit.
    #[must_use]
    pub fn rho(&self, client: ClientId, unit: Unit) -> f64 {
        self.spent.get(&(client, unit)).copied().unwrap_or(0.0)
    }

    /// The same as an epsilon at `delta`.
    ///
    /// # Errors
    /// [`PrivacyError::Delta`] outside 0 to 1.
    pub fn epsilon(&self, client: ClientId, unit: Unit, delta: f64) -> Result<f64, PrivacyError> {
        zcdp::epsilon(self.rho(client, unit), delta)
    }
}

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// A number that is no cost or no budget.
    #[error(transparent)]
    Setting(#[from] PrivacyError),
    /// The same release twice: the second one would be new noise on the same data, and free.
    #[error("{client} was charged for {release:?} before: a new descriptor needs a new clustering number")]
    Repeated {
        /// The client.
        client: ClientId,
        /// The release.
        release: Release,
    },
    /// More than the budget.
    #[error(
        "{client} would have spent epsilon {epsilon:.3} of {:.3} at delta {:e}: nothing more may be shown of it",
        budget.epsilon,
        budget.delta
    )]
    Overdrawn {
        /// The client.
        client: ClientId,
        /// Who is hidden.
        unit: Unit,
        /// What it would have come to.
        epsilon: f64,
        /// What is allowed.
        budget: Budget,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client: u32, clustering: u64, rho: f64) -> Entry {
        Entry {
            client: ClientId(client),
            release: Release::Descriptor { clustering },
            rho,
        }
    }

    fn budget(epsilon: f64) -> BTreeMap<Unit, Budget> {
        [(Unit::Record, Budget { epsilon, delta: 1e-6 })].into()
    }

    #[test]
    fn ten_descriptors_cost_what_one_ten_times_as_dear_does() {
        let mut ledger = Ledger::new(budget(2.2)).unwrap();
        for clustering in 0..10 {
            ledger.charge(entry(1, clustering, 0.01)).unwrap();
        }
        // The published conversion of rho 0.1 at 10⁻⁶.
        let spent = ledger.epsilon(ClientId(1), Unit::Record, 1e-6).unwrap();
        assert!((spent - 2.141_938_928).abs() < 2e-8, "{spent}");
        // The eleventh would be 2.26.
        assert!(matches!(
            ledger.charge(entry(1, 10, 0.01)),
            Err(LedgerError::Overdrawn { client: ClientId(1), unit: Unit::Record, epsilon, .. }) if epsilon > 2.2
        ));
        assert_eq!(ledger.entries().len(), 10);
        // Another client, another purse; another unit, too.
        ledger.charge(entry(2, 10, 0.01)).unwrap();
        ledger
            .charge(Entry {
                client: ClientId(1),
                release: Release::Sums { round: 1 },
                rho: 9.0,
            })
            .unwrap();
        assert!((ledger.rho(ClientId(1), Unit::Client) - 9.0).abs() < 1e-15);
        assert!((ledger.rho(ClientId(1), Unit::Record) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_shown_twice_for_one_price() {
        let mut ledger = Ledger::new(BTreeMap::new()).unwrap();
        ledger.charge(entry(1, 0, 0.5)).unwrap();
        assert!(matches!(
            ledger.charge(entry(1, 0, 0.5)),
            Err(LedgerError::Repeated { .. })
        ));
        assert!(matches!(
            ledger.charge(entry(1, 1, f64::NAN)),
            Err(LedgerError::Setting(PrivacyError::Rho(_)))
        ));
        assert!(ledger.charge(entry(1, 1, -0.1)).is_err());
        assert!((ledger.rho(ClientId(1), Unit::Record) - 0.5).abs() < 1e-15);
    }

    #[test]
    fn a_ledger_read_again_is_the_same() {
        let mut ledger = Ledger::new(budget(8.0)).unwrap();
        for client in 0..3 {
            ledger
                .charge(entry(client, 0, 0.1 + f64::from(client)))
                .unwrap_or(());
        }
        let text = serde_json::to_string(ledger.entries()).unwrap();
        let entries: Vec<Entry> = serde_json::from_str(&text).unwrap();
        let again = Ledger::replay(budget(8.0), entries.clone()).unwrap();
        assert_eq!(again.entries(), ledger.entries());
        assert!(Ledger::replay(budget(1.0), entries.clone()).is_err());
        assert!(matches!(
            Ledger::replay(budget(8.0), entries.iter().chain(&entries).copied()),
            Err(LedgerError::Repeated { .. })
        ));
        assert!(Ledger::new(budget(0.0)).is_err());
    }
}
