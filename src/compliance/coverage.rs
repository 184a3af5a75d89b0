//! The coverage gate: every phase times every kind of fault is 42 cells, and each needs a scenario.

use super::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A phase of the round, as the matrix numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Enrolment and plan.
    P0,
    /// Keys.
    P1,
    /// Shares.
    P2,
    /// Masked vectors.
    P3,
    /// Agreement.
    P4,
    /// Reveals.
    P5,
    /// Publication.
    P6,
}

/// Whose fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// A client stops.
    ClientCrash,
    /// The server stops.
    ServerCrash,
    /// The network stops for some.
    Partition,
    /// A client is slow.
    Straggler,
    /// A client cheats.
    MaliciousClient,
    /// The server cheats, or the network does what a cheating server could.
    MaliciousServer,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 7] = [
        Self::P0,
        Self::P1,
        Self::P2,
        Self::P3,
        Self::P4,
        Self::P5,
        Self::P6,
    ];

    /// What happens in it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P0 => "P0 plan",
            Self::P1 => "P1 keys",
            Self::P2 => "P2 shares",
            Self::P3 => "P3 masked",
            Self::P4 => "P4 agree",
            Self::P5 => "P5 reveal",
            Self::P6 => "P6 publish",
        }
    }
}

impl Actor {
    /// All actors.
    pub const ALL: [Self; 6] = [
        Self::ClientCrash,
        Self::ServerCrash,
        Self::Partition,
        Self::Straggler,
        Self::MaliciousClient,
        Self::MaliciousServer,
    ];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientCrash => "client crash",
            Self::ServerCrash => "server crash",
            Self::Partition => "partition",
            Self::Straggler => "straggler",
            Self::MaliciousClient => "malicious client",
            Self::MaliciousServer => "malicious server",
        }
    }
}

/// Which scenarios cover which cell.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    cells: BTreeMap<(Phase, Actor), Rows>,
}

/// The scenarios of one cell.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// With a case that is run.
    pub built: BTreeSet<u32>,
    /// With none that is.
    pub not_built: BTreeSet<u32>,
}

impl Coverage {
    /// The coverage of a list of scenarios.
    #[must_use]
    pub fn of(scenarios: &[Scenario]) -> Self {
        let mut coverage = Self::default();
        for scenario in scenarios {
            for case in &scenario.cases {
                let phases = case.phases.as_ref().unwrap_or(&scenario.phases);
                let Some(actor) = case.actor.or(scenario.actor) else {
                    continue;
                };
                for phase in phases {
                    let rows = coverage.cells.entry((*phase, actor)).or_default();
                    if scenario.not_built(case).is_none() {
                        rows.built.insert(scenario.id);
                    } else {
                        rows.not_built.insert(scenario.id);
                    }
                }
            }
        }
        coverage
    }

    /// The scenarios of a cell.
    #[must_use]
    pub fn rows(&self, phase: Phase, actor: Actor) -> Rows {
        self.cells.get(&(phase, actor)).cloned().unwrap_or_default()
    }

    /// The gate.
    #[must_use]
    pub fn gate(&self) -> Gate {
        let mut gate = Gate {
            cells: Phase::ALL.len() * Actor::ALL.len(),
            ..Gate::default()
        };
        for phase in Phase::ALL {
            for actor in Actor::ALL {
                let rows = self.rows(phase, actor);
                let name = format!("{}, {}", phase.name(), actor.name());
                if !rows.built.is_empty() {
                    gate.mapped += 1;
                } else if rows.not_built.is_empty() {
                    gate.unmapped.push(name);
                } else {
                    gate.only_not_built.push(name);
                }
            }
        }
        gate
    }
}

/// How full the table is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// Cells there are.
    pub cells: usize,
    /// Cells with a scenario that is run.
    pub mapped: usize,
    /// Cells with scenarios none of which is run yet.
    pub only_not_built: Vec<String>,
    /// Cells without any scenario.
    pub unmapped: Vec<String>,
}

impl Gate {
    /// Whether no cell is without a scenario.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.unmapped.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(extra: &str) -> Scenario {
        let text =
            format!("id = 9\ntitle = \"x\"\nphases = [\"P1\", \"P2\"]\nactor = \"partition\"\n{extra}");
        Scenario::parse("test", &text).unwrap()
    }

    #[test]
    fn a_case_that_is_not_built_maps_no_cell() {
        let built = scenario("[[case]]\nname = \"a\"\n[case.expect]\nsum = true\n");
        let gate = Coverage::of(&[built]).gate();
        assert_eq!((gate.cells, gate.mapped, gate.unmapped.len()), (42, 2, 40));
        assert!(!gate.passes());
        let waiting = scenario("not_built = \"no parts\"\n[[case]]\nname = \"a\"\n");
        let gate = Coverage::of(&[waiting]).gate();
        assert_eq!(
            (gate.mapped, gate.only_not_built.len(), gate.unmapped.len()),
            (0, 2, 40)
        );
    }
}
