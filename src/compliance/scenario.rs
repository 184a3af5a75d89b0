//! The scenario file: what goes wrong, and what must then happen. Written and read by people; unknown keys are refused with
//! the line and the nearest key there is.

use super::coverage::{Actor, Phase};
use super::fault::FaultSpec;
use serde::Deserialize;
use std::fmt;

/// One scenario: a row of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Row number.
    pub id: u32,
    /// What it is about, in a sentence.
    pub title: String,
    /// The phases it happens in; empty for a scenario outside the phases.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Whose fault it is; none for a run without a fault.
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Numbers of clients it runs at.
    #[serde(default = "all_n")]
    pub n: Vec<u32>,
    /// Numbers of clusters it runs at.
    #[serde(default = "all_k")]
    pub k: Vec<u32>,
    /// Whether it also runs with the real drivers over QUIC.
    #[serde(default)]
    pub quic: bool,
    /// Why the whole scenario cannot be run yet.
    #[serde(default)]
    pub not_built: Option<String>,
    /// Parameters of the federation that differ from the standard ones.
    #[serde(default)]
    pub policy: PolicySpec,
    /// The runs it consists of. All must end as expected.
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
}

/// One run of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What is special about it.
    pub name: String,
    /// The phases it covers, where they are not the scenario's.
    #[serde(default)]
    pub phases: Option<Vec<Phase>>,
    /// Whose fault it is, where it is not the scenario's actor.
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Numbers of clients, where they are not the scenario's.
    #[serde(default)]
    pub n: Option<Vec<u32>>,
    /// Numbers of clusters, where they are not the scenario's.
    #[serde(default)]
    pub k: Option<Vec<u32>>,
    /// Why this case cannot be run yet.
    #[serde(default)]
    pub not_built: Option<String>,
    /// Rounds to run. Faults happen in the last one unless they say otherwise.
    #[serde(default = "one")]
    pub rounds: u64,
    /// Times to run it, each with its own seed; a quarter of that from 32 clients on.
    #[serde(default = "one")]
    pub repeat: u64,
    /// Entries of an update; many make an upload of several chunks.
    #[serde(default)]
    pub entries: Option<u64>,
    /// Parameters that differ from the scenario's.
    #[serde(default)]
    pub policy: PolicySpec,
    /// What is checked beside the rounds.
    #[serde(default)]
    pub check: Option<Check>,
    /// What goes wrong.
    #[serde(default, rename = "fault")]
    pub faults: Vec<FaultSpec>,
    /// What must happen.
    #[serde(default)]
    pub expect: Expect,
}

/// Parameters of a federation. Numbers are written as sums of `n`, `k`, `t`, `m`, `s`, `c`, `n/2` and integers, such as
/// `"n - m - s"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Colluders assumed, m.
    #[serde(default)]
    pub colluders: Option<String>,
    /// Dropouts planned for, s.
    #[serde(default)]
    pub dropouts: Option<String>,
    /// Threshold, t.
    #[serde(default)]
    pub threshold: Option<String>,
    /// Least crowd, c.
    #[serde(default)]
    pub crowd: Option<String>,
    /// Least crowd in organisations.
    #[serde(default)]
    pub crowd_orgs: Option<String>,
    /// Number of organisations; clients belong to them in turn.
    #[serde(default)]
    pub orgs: Option<String>,
    /// How the clusters lie.
    #[serde(default)]
    pub clusters: Option<Layout>,
    /// Clients counted together, all or none.
    #[serde(default)]
    pub blocks: Option<String>,
    /// Bits fewer than the sums need.
    #[serde(default)]
    pub bits_short: Option<u8>,
}

/// How the clusters lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A chain of clusters, each overlapping the next by as many clients as the disclosure rule lets.
    Overlap,
    /// As overlap, but the last cluster has exactly `c + m + s` members of its own.
    Tight,
    /// The last cluster is the first less one client.
    Isolating,
    /// One more cluster, without members.
    Empty,
    /// Client 0 is in no cluster.
    Outsider,
    /// Disjoint clusters, the first of one organisation only.
    OneMaker,
}

/// What is checked beside the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The policy file is read as every party reads it when it starts; no round is run.
    PolicyFile,
    /// The same, signed by another authority.
    ForeignAuthority,
    /// The same, with a member's key exchanged after it was signed.
    SwappedMember,
    /// What the server and the colluders can compute of an honest vector is uniform.
    Residual,
    /// The bundle builder is handed what an auditor must not get.
    Export,
    /// The crowd over all rounds together, if no update ever changed, is worked out and said.
    StaticWindow,
    /// A private tensor is put where a shared one belongs.
    PrivateTensor,
    /// A certificate of another authority, over a real TLS handshake.
    OtherAuthority,
    /// An expired certificate, over a real TLS handshake.
    Expired,
    /// A revoked certificate, over a real TLS handshake.
    Revoked,
    /// A client offers a descriptor without the policy's noise.
    DescriptorWithoutNoise,
    /// A client offers the descriptor of another clustering.
    DescriptorReplayed,
    /// A client offers a descriptor with a number that is none.
    DescriptorNotFinite,
    /// The policy's descriptors cost more than a client allows.
    Budget,
    /// Fewer witnesses answer than are needed.
    QuorumMissing,
    /// A witness that is needed has seen another history.
    WitnessRefuses,
    /// A witness holds an earlier size and is asked again from there.
    WitnessBehind,
    /// A witness cosigns both histories of a fork.
    WitnessCosignsFork,
}

/// What must happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The last round gives the exact sum of the survivors in every released cluster.
    #[serde(default)]
    pub sum: bool,
    /// The clients that must not be among the survivors; everybody else must.
    #[serde(default)]
    pub out: Vec<String>,
    /// Clients that may be among the survivors or not.
    #[serde(default)]
    pub may_be_out: Vec<String>,
    /// Clusters that must stay closed.
    #[serde(default)]
    pub withheld: Option<usize>,
    /// The reason's name with which the last attempt ends and nothing is opened.
    #[serde(default)]
    pub abort: Option<String>,
    /// The party that must stop, `server` or a name of clients, having sent nothing that rests on what was not stored.
    #[serde(default)]
    pub stopped: Option<String>,
    /// Who must refuse what. Other refusals must not happen.
    #[serde(default)]
    pub refused: Vec<RefusedSpec>,
    /// Names of refusals that may happen too.
    #[serde(default)]
    pub also: Vec<String>,
    /// Refusals of any name may happen too.
    #[serde(default)]
    pub any_refusal: bool,
    /// The clients whose mask keys are opened, and nobody else's.
    #[serde(default)]
    pub mask_keys_of: Option<Vec<String>>,
    /// The auditor's checks that must find a violation; without any the bundle must be verified.
    #[serde(default)]
    pub violated: Vec<String>,
    /// The sums must have the same bytes as without any fault.
    #[serde(default)]
    pub same_sums: bool,
    /// A statement that must be in the log, such as `late`.
    #[serde(default)]
    pub logged: Vec<String>,
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedSpec {
    /// The reason's name.
    pub name: String,
    /// Who refuses: `server`, `everybody`, or clients. Each of the clients must.
    pub by: String,
    /// Whom the server refuses; every one of them.
    #[serde(default)]
    pub whom: Option<String>,
}

impl Scenario {
    /// Reads a scenario. `path` is for messages.
    ///
    /// # Errors
    /// [`ScenarioError`] with the line, and for an unknown key the nearest one there is.
    pub fn parse(path: &str, text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text).map_err(|error| ScenarioError::toml(path, text, &error))?;
        scenario.check(path)?;
        Ok(scenario)
    }

    /// What the format alone cannot say.
    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        let fail = |reason: String| {
            Err(ScenarioError {
                path: path.to_owned(),
                line: None,
                reason,
            })
        };
        if self.cases.is_empty() && self.not_built.is_none() {
            return fail("there is no [[case]] and no `not_built`".into());
        }
        if self.n.iter().any(|n| !(3..=256).contains(n)) || self.k.iter().any(|k| !(1..=64).contains(k)) {
            return fail("`n` is between 3 and 256 and `k` between 1 and 64".into());
        }
        for case in &self.cases {
            let expect = &case.expect;
            let endings = usize::from(expect.sum)
                + usize::from(expect.abort.is_some())
                + usize::from(expect.stopped.is_some());
            let said = endings == 1 || (endings == 0 && !expect.refused.is_empty() && case.check.is_some());
            if !said && case.not_built.is_none() && self.not_built.is_none() {
                return fail(format!(
                    "case `{}` must expect exactly one of `sum = true`, `abort`, `stopped`, or a refusal by a `check`",
                    case.name
                ));
            }
            if case.rounds == 0 || case.rounds > 50 || case.repeat == 0 || case.repeat > 1000 {
                return fail(format!(
                    "case `{}`: `rounds` is between 1 and 50 and `repeat` between 1 and 1000",
                    case.name
                ));
            }
            for fault in &case.faults {
                if let Err(reason) = fault.check() {
                    return fail(format!("case `{}`: {reason}", case.name));
                }
            }
        }
        Ok(())
    }

    /// Why a case is not run, if it is not.
    #[must_use]
    pub fn not_built<'a>(&'a self, case: &'a Case) -> Option<&'a str> {
        self.not_built.as_deref().or(case.not_built.as_deref())
    }
}

impl Case {
    /// Whether the case runs at a size.
    #[must_use]
    pub fn runs_at(&self, scenario: &Scenario, n: u32, k: u32) -> bool {
        self.n.as_ref().unwrap_or(&scenario.n).contains(&n)
            && self.k.as_ref().unwrap_or(&scenario.k).contains(&k)
    }
}

impl PolicySpec {
    /// These parameters, and the scenario's where the case does not say.
    #[must_use]
    pub fn or(&self, scenario: &Self) -> Self {
        let either = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Self {
            colluders: either(&self.colluders, &scenario.colluders),
            dropouts: either(&self.dropouts, &scenario.dropouts),
            threshold: either(&self.threshold, &scenario.threshold),
            crowd: either(&self.crowd, &scenario.crowd),
            crowd_orgs: either(&self.crowd_orgs, &scenario.crowd_orgs),
            orgs: either(&self.orgs, &scenario.orgs),
            clusters: self.clusters.or(scenario.clusters),
            blocks: either(&self.blocks, &scenario.blocks),
            bits_short: self.bits_short.or(scenario.bits_short),
        }
    }
}

impl fmt::Display for Expect {
    /// The expectation as tables show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.sum {
            parts.push(match (self.out.is_empty(), self.may_be_out.is_empty()) {
                (true, true) => "sum over all".to_owned(),
                (false, _) => format!("sum without {}", self.out.join(", ")),
                (true, false) => format!("sum, with or without {}", self.may_be_out.join(", ")),
            });
        }
        if let Some(withheld) = self.withheld {
            parts.push(format!("{withheld} withheld"));
        }
        if let Some(abort) = &self.abort {
            parts.push(format!("abort {abort}"));
        }
        if let Some(stopped) = &self.stopped {
            parts.push(format!("{stopped} stops (Storage)"));
        }
        for refused in &self.refused {
            parts.push(format!("{} by {}", refused.name, refused.by));
        }
        if !self.violated.is_empty() {
            parts.push(format!("auditor: {}", self.violated.join(", ")));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Why a scenario file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Which file.
    pub path: String,
    /// The line, where there is one.
    pub line: Option<usize>,
    /// What is wrong with it, and what would do.
    pub reason: String,
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.reason),
            None => write!(f, "{}: {}", self.path, self.reason),
        }
    }
}

impl ScenarioError {
    fn toml(path: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error
            .span()
            .map(|span| text.get(..span.start).unwrap_or(text).matches('\n').count() + 1);
        let message = error.message();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let reason = match quoted.next() {
            Some(got) if message.starts_with("unknown") => match nearest(got, quoted) {
                Some(near) => format!("{message}; did you mean `{near}`?"),
                None => message.to_owned(),
            },
            _ => message.to_owned(),
        };
        Self {
            path: path.to_owned(),
            line,
            reason,
        }
    }
}

/// The known word with the fewest letters to change, if it is near enough to be a slip.
fn nearest<'a>(got: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|word| (distance(got, word), word))
        .min()
        .filter(|(far, word)| *far <= word.len().max(3) / 2)
        .map(|(_, word)| word)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (pair, y) in row.windows(2).zip(&b) {
            let (diagonal, above) = match pair {
                [diagonal, above] => (*diagonal, *above),
                _ => (0, 0),
            };
            left = (left + 1).min(above + 1).min(diagonal + usize::from(x != *y));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

fn all_n() -> Vec<u32> {
    vec![5, 12, 32, 41]
}

fn all_k() -> Vec<u32> {
    vec![1, 3, 5]
}

fn one() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_named_with_its_line_and_the_nearest_key() {
        let text = "id = 1\ntitle = \"x\"\n[[case]]\nname = \"y\"\n[[case.fault]]\ndoes = \"crash\"\nwhoo = \"all\"\n";
        let error = Scenario::parse("f.toml", text).unwrap_err();
        assert_eq!(error.line, Some(7));
        assert!(error.to_string().contains("did you mean `who`?"), "{error}");
        let error = Scenario::parse("f.toml", "id = 1\ntitle = \"x\"\nphasse = []\n").unwrap_err();
        assert!(
            error.to_string().starts_with("f.toml:3: unknown field `phasse`"),
            "{error}"
        );
        assert!(error.to_string().ends_with("did you mean `phases`?"), "{error}");
    }

    #[test]
    fn a_case_must_say_what_it_expects() {
        let text = "id = 1\ntitle = \"x\"\n[[case]]\nname = \"y\"\n";
        let error = Scenario::parse("f.toml", text).unwrap_err();
        assert!(error.reason.contains("must expect"), "{error}");
    }

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
