//! The vocabulary of faults. A fault is a deed, who does it or suffers it, and where in the round.

use super::coverage::Phase;
use super::grid::Size;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_crypto::ClientId;

/// One fault, as a scenario file writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// What is done.
    pub does: Deed,
    /// The clients that do it or suffer it: `all`, `2 clients`, `n - t clients`, `client 0`, `2 of cluster 1`,
    /// `1 in two clusters`, `others` (everybody no earlier fault picked), or a name given by `as`. Numbers are sums of `n`,
    /// `k`, `t`, `m`, `s`, `c`, `n/2` and integers. Different faults pick different clients.
    #[serde(default)]
    pub who: Option<String>,
    /// A name for these clients.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
    /// The phase. A client that crashes at P1 dies in place of sending its keys, at P0 before the plan reaches it, at P6
    /// before the sums do.
    #[serde(default)]
    pub at: Option<Phase>,
    /// The round; the last one without it.
    #[serde(default)]
    pub round: Option<u64>,
    /// How far into the phase.
    #[serde(default)]
    pub part: Option<Part>,
    /// Whether the server notices at once that the connection is gone; by chance without it.
    #[serde(default)]
    pub noticed: Option<bool>,
    /// When a partition ends, or a late message arrives.
    #[serde(default)]
    pub when: Option<When>,
    /// Which message, for `replay` and `flip`.
    #[serde(default)]
    pub what: Option<MessageName>,
    /// Where a replayed message was heard.
    #[serde(default)]
    pub from: Option<Source>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// `who` die at `at`.
    Crash,
    /// `who` die at `at` and come back from their journals.
    Restart,
    /// `who` are not connected when the round begins.
    StayAway,
    /// `who` are cut off from the server from the beginning of phase `at` until `when`.
    Partition,
    /// What `who` send in phase `at` arrives just before or just after the deadline (`when`), and their clocks are wrong.
    Straggle,
    /// Every message takes up to a hundred times as long and overtakes others where channels let it.
    Reorder,
    /// The server dies when the first statement of phase `at` is on its disk, and comes back from its log.
    ServerCrash,
    /// The server comes back from a backup made before the round before.
    ServerRollback,
    /// The server's disk is full at the first statement of phase `at`.
    ServerDiskFull,
    /// The disk of `who` is full: nothing more can be kept from phase `at` on.
    ClientDiskFull,

    /// The server shows a plan in which two clusters differ in one client.
    LeakInPlan,
    /// The server shows a plan of another policy.
    ForeignPolicy,
    /// The server shows a plan over a forked log.
    ForkedPlan,
    /// The server shows `who` other models than the others, and everybody all keys.
    TwoModels,
    /// The server exchanges a key in the roster.
    SwapKey,
    /// The server changes a box on its way to `who`.
    BendBox,
    /// The server tells `who` of one dealer fewer and proposes that dealer as a survivor.
    HideDealer,
    /// The server leaves the finished uploads of `who` out of the survivors it shows them.
    LeaveOut,
    /// The server proposes to open every cluster.
    WidenRelease,
    /// The server proposes other survivors to `who` than to the others, and shows everybody all signatures.
    TwoSurvivorSets,
    /// The same, but shows each side its own signatures only.
    SetEach,
    /// The server shows `who` a fork of its log, and everybody all signatures.
    TwoHeads,
    /// The server shows fewer than t signatures.
    FewSignatures,
    /// The server asks `who` again, with another release, after they answered.
    AskAgain,
    /// The server repeats a round that was answered.
    RepeatRound,
    /// The server publishes and logs another sum.
    WrongSum,
    /// The server publishes and logs another model.
    WrongModel,

    /// `who` deal a box that one receiver cannot open.
    WrongBox,
    /// `who` deal shares of something else than they committed to.
    WrongDealing,
    /// `who` announce vectors of another length.
    WrongLength,
    /// `who` pack their vectors with another modulus.
    WrongModulus,
    /// `who` announce a vector for a cluster that is not theirs.
    ForeignCluster,
    /// `who` upload something else than they announced.
    WrongRoot,
    /// `who` announce other vectors after they uploaded theirs.
    TwoVectors,
    /// `who` sign another survivor set than was proposed.
    WrongAgree,
    /// `who` reveal a wrong share.
    WrongReveal,
    /// `who` sign with a key that was never enrolled.
    Stranger,
    /// `who` claim a sample weight above the policy's.
    TooHeavy,
    /// `who` have an update that is not finite.
    NotFinite,
    /// `who` have an update far beyond the policy's range.
    BeyondRange,

    /// A message `what` of `who` is exchanged for one heard elsewhere (`from`).
    Replay,
    /// One random bit of the message `what` of or for `who` is flipped.
    Flip,
}

/// How far into the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// After half of the chunks.
    Half,
    /// After the chunks of the first cluster.
    FirstCluster,
    /// After as many statements as the threshold.
    Threshold,
}

/// When something ends or arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Just before the phase's deadline.
    Inside,
    /// Just after it.
    Outside,
    /// Never.
    Never,
}

/// Where a replayed message was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The same client's message of the round before.
    AnotherRound,
    /// The same client's message of an earlier phase of this round.
    AnotherPhase,
    /// Another client's message of this round.
    AnotherClient,
    /// The same client number's message in another federation.
    AnotherFederation,
}

/// A message of the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageName {
    /// Server to client.
    Plan,
    /// Client to server.
    Keys,
    /// Server to client.
    Roster,
    /// Client to server.
    Shares,
    /// Server to client.
    Inbox,
    /// Client to server.
    Masked,
    /// Client to server.
    Chunk,
    /// Server to client.
    Proposal,
    /// Client to server.
    Agree,
    /// Server to client.
    Agreement,
    /// Client to server.
    Reveal,
    /// Server to client.
    Published,
}

impl FaultSpec {
    /// Whether the keys a deed needs are there and no others.
    ///
    /// # Errors
    /// A sentence naming the key.
    pub fn check(&self) -> Result<(), String> {
        use Deed as D;
        let deed = self.does;
        let who = !matches!(
            deed,
            D::Reorder
                | D::ServerCrash
                | D::ServerRollback
                | D::ServerDiskFull
                | D::LeakInPlan
                | D::ForeignPolicy
                | D::ForkedPlan
                | D::WidenRelease
                | D::FewSignatures
                | D::RepeatRound
                | D::WrongSum
                | D::WrongModel
        );
        let at = matches!(
            deed,
            D::Crash
                | D::Restart
                | D::Partition
                | D::Straggle
                | D::ServerCrash
                | D::ServerDiskFull
                | D::ClientDiskFull
        );
        let when = matches!(deed, D::Partition | D::Straggle);
        let what = matches!(deed, D::Replay | D::Flip);
        let from = deed == D::Replay;
        for (key, given, wanted) in [
            ("who", self.who.is_some(), who),
            ("at", self.at.is_some(), at),
            ("when", self.when.is_some(), when),
            ("what", self.what.is_some(), what),
            ("from", self.from.is_some(), from),
        ] {
            if given != wanted {
                let verb = if wanted { "needs" } else { "has no use for" };
                return Err(format!("the deed {deed:?} {verb} the key `{key}`"));
            }
        }
        if self.part.is_some() && !matches!(deed, D::Crash | D::Restart | D::ServerCrash | D::ServerDiskFull)
        {
            return Err(format!("the deed {deed:?} has no use for the key `part`"));
        }
        Ok(())
    }
}

/// Who is meant by what: picks clients, different ones for different faults.
#[derive(Clone, Debug)]
pub struct Cast {
    size: Size,
    clusters: Vec<BTreeSet<ClientId>>,
    /// All clients in a seeded order.
    order: Vec<ClientId>,
    picked: BTreeSet<ClientId>,
    names: BTreeMap<String, BTreeSet<ClientId>>,
}

impl Cast {
    /// Nobody is picked yet. `order` is every client once.
    #[must_use]
    pub fn new(size: Size, clusters: &[BTreeSet<ClientId>], order: Vec<ClientId>) -> Self {
        Self {
            size,
            clusters: clusters.to_vec(),
            order,
            picked: BTreeSet::new(),
            names: BTreeMap::new(),
        }
    }

    /// Picks the clients of a fault.
    ///
    /// # Errors
    /// A sentence: the words mean nothing, or there are not so many clients.
    pub fn pick(&mut self, spec: &FaultSpec) -> Result<BTreeSet<ClientId>, String> {
        let Some(words) = &spec.who else {
            return Ok(BTreeSet::new());
        };
        let chosen = match self.names.get(words.as_str()) {
            Some(known) => known.clone(),
            None => self.choose(words)?,
        };
        self.picked.extend(chosen.iter().copied());
        if let Some(name) = &spec.name {
            self.names.insert(name.clone(), chosen.clone());
        }
        Ok(chosen)
    }

    /// The clients that a name or phrase of an expectation means.
    ///
    /// # Errors
    /// A sentence: no fault gave that name.
    pub fn named(&self, words: &str) -> Result<BTreeSet<ClientId>, String> {
        match words {
            "all" | "everybody" => Ok(self.order.iter().copied().collect()),
            "others" => Ok(self
                .order
                .iter()
                .copied()
                .filter(|client| !self.picked.contains(client))
                .collect()),
            name => self
                .names
                .get(name)
                .cloned()
                .ok_or_else(|| format!("no fault is `as = \"{name}\"`")),
        }
    }

    fn choose(&self, words: &str) -> Result<BTreeSet<ClientId>, String> {
        if words == "all" || words == "others" {
            return self.named(words);
        }
        if let Some(number) = words.strip_prefix("client ") {
            return Ok([ClientId(self.size.number(number)?)].into());
        }
        let (count, free): (&str, Vec<ClientId>) = if let Some(count) = words.strip_suffix(" in two clusters")
        {
            let doubly =
                |client: &ClientId| self.clusters.iter().filter(|set| set.contains(client)).count() > 1;
            (count, self.free().filter(doubly).collect())
        } else if let Some((count, cluster)) = words.split_once(" of cluster ") {
            let number = self.size.number(cluster)? as usize;
            let members = self
                .clusters
                .get(number)
                .ok_or_else(|| format!("there is no cluster {number}"))?;
            // Those of one cluster only come first, so that a fault meant for a cluster touches no other.
            let mut free: Vec<ClientId> = self.free().filter(|client| members.contains(client)).collect();
            free.sort_by_key(|client| self.clusters.iter().filter(|set| set.contains(client)).count());
            (count, free)
        } else {
            let count = words
                .strip_suffix(" clients")
                .or_else(|| words.strip_suffix(" client"))
                .ok_or_else(|| format!("`who = \"{words}\"` is not understood"))?;
            (count, self.free().collect())
        };
        let wanted = self.size.number(count)? as usize;
        if free.len() < wanted {
            return Err(format!(
                "`{words}` asks for {wanted} clients and {} are free",
                free.len()
            ));
        }
        Ok(free.into_iter().take(wanted).collect())
    }

    fn free(&self) -> impl Iterator<Item = ClientId> {
        self.order
            .iter()
            .copied()
            .filter(|client| !self.picked.contains(client))
    }
}
