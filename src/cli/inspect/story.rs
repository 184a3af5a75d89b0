//! The log as a story: who is in, who left when, what was opened, what was withheld and why.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::release::release_for;
use veilsum_attestation::statement::{
    Aborted, Agree, ClientSet, Complaint, Descriptor, Entry, KeyBook, Keys, Kind, Late, Masked, Member,
    Party, Plan, Policy, Reveal, Shares, Sums,
};
use veilsum_crypto::wire::{self, Wire};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, PublicIdentity, RoundId};

/// What is known after the statements so far.
#[derive(Default)]
pub(super) struct Story {
    members: Vec<Member>,
    policy: Option<Policy>,
    plan: Option<Plan>,
    state: Option<State>,
}

/// One statement.
pub(super) struct Step {
    pub(super) kind: String,
    pub(super) signer: String,
    pub(super) says: String,
    /// Which lines of the state it changed.
    pub(super) changed: Vec<Line>,
}

/// A line of the state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    In,
    Left,
    Agreed,
    Opened,
    Withheld,
    End,
}

/// One attempt at a round.
#[derive(Serialize)]
pub(super) struct State {
    pub(super) round: RoundId,
    attempt: Attempt,
    phase: &'static str,
    /// Clients still taking part.
    taking_part: BTreeSet<ClientId>,
    /// Who left, and when.
    left: BTreeMap<ClientId, &'static str>,
    joined: BTreeSet<ClientId>,
    dealt: BTreeSet<ClientId>,
    uploaded: BTreeSet<ClientId>,
    signed: BTreeSet<ClientId>,
    revealed: BTreeSet<ClientId>,
    survivors: Option<BTreeSet<ClientId>>,
    /// Clusters whose sums were agreed to be opened.
    release: BTreeSet<ClusterId>,
    /// Clusters that were opened: clients and weight.
    opened: BTreeMap<ClusterId, (u32, u64)>,
    /// Clusters that stay closed, and why.
    withheld: BTreeMap<ClusterId, String>,
    end: Option<String>,
}

impl Story {
    /// Takes the next entry.
    pub(super) fn take(&mut self, index: u64, bytes: &[u8]) -> Step {
        let Ok(entry) = wire::decode::<Entry>(bytes) else {
            return Step {
                kind: "?".to_owned(),
                signer: "?".to_owned(),
                says: format!("entry {index} cannot be read"),
                changed: Vec::new(),
            };
        };
        let (says, changed) = self
            .statement(&entry)
            .unwrap_or_else(|| ("its body cannot be read".to_owned(), Vec::new()));
        Step {
            kind: entry.kind.name().to_owned(),
            signer: entry.signer.to_string(),
            says,
            changed,
        }
    }

    /// The state of the current attempt.
    pub(super) fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// The server's key, once the policy has named it.
    pub(super) fn server(&self) -> Option<PublicIdentity> {
        self.policy.as_ref().map(|policy| policy.server)
    }

    fn statement(&mut self, entry: &Entry) -> Option<(String, Vec<Line>)> {
        match entry.kind {
            Kind::Member => {
                let member: Member = body(entry)?;
                let says = format!("{} of {} is enrolled", member.client, member.org);
                self.members.push(member);
                Some((says, Vec::new()))
            }
            Kind::Policy => {
                let policy: Policy = body(entry)?;
                let says = format!(
                    "{}: {} clients, {} needed at each step, crowds of {} clients of {} organisations, {} colluders assumed, \
                     {} rounds",
                    String::from_utf8_lossy(&policy.name).escape_debug(),
                    policy.clients,
                    policy.threshold,
                    policy.crowd,
                    policy.crowd_orgs,
                    policy.colluders,
                    policy.rounds
                );
                self.policy = Some(policy);
                Some((says, Vec::new()))
            }
            Kind::Plan => {
                let plan: Plan = body(entry)?;
                let says = plan_line(&plan);
                self.state = Some(State::new(&plan));
                self.plan = Some(plan);
                Some((says, vec![Line::In]))
            }
            _ => self.in_attempt(entry),
        }
    }

    /// Up to the uploads.
    fn in_attempt(&mut self, entry: &Entry) -> Option<(String, Vec<Line>)> {
        let state = self.state.as_mut()?;
        let client = signing_client(entry);
        Some(match entry.kind {
            Kind::Keys => {
                let keys: Keys = body(entry)?;
                state.phase = "advertise";
                state.joined.insert(client?);
                (
                    format!("joins with fresh keys, in {} cluster(s)", keys.commitments.len()),
                    vec![Line::In],
                )
            }
            Kind::Shares => {
                let shares: Shares = body(entry)?;
                let left = state.enter("share");
                state.dealt.insert(client?);
                (
                    format!("dealt {} shares, by their digests", shares.digests.len()),
                    left,
                )
            }
            Kind::Complaint => {
                let complaint: Complaint = body(entry)?;
                let left = state.enter("mask");
                (format!("opens the bad box {} dealt it", complaint.dealer), left)
            }
            Kind::Descriptor => {
                let descriptor: Descriptor = body(entry)?;
                (
                    format!(
                        "shows what its data looks like, for clustering {}",
                        descriptor.clustering
                    ),
                    Vec::new(),
                )
            }
            Kind::Masked => {
                let masked: Masked = body(entry)?;
                let mut left = state.enter("mask");
                state.uploaded.insert(client?);
                left.push(Line::In);
                (
                    format!("uploaded {} masked vector(s)", masked.vectors.len()),
                    left,
                )
            }
            Kind::Late => {
                let late: Late = body(entry)?;
                state.left.insert(late.client, "came after the proposal");
                state.taking_part.remove(&late.client);
                (
                    format!(
                        "refuses the upload of {}: it came after the proposal",
                        late.client
                    ),
                    vec![Line::Left],
                )
            }
            _ => return self.after_uploads(entry),
        })
    }

    /// From the proposal on.
    fn after_uploads(&mut self, entry: &Entry) -> Option<(String, Vec<Line>)> {
        let (plan, state) = (self.plan.as_ref()?, self.state.as_mut()?);
        let client = signing_client(entry);
        Some(match entry.kind {
            Kind::Agree => {
                let agree: Agree = body(entry)?;
                let mut changed = state.enter("agree");
                state.signed.insert(client?);
                if state.survivors.is_none() {
                    state.agreed(&agree, plan, self.policy.as_ref(), &self.members);
                    changed.extend([Line::Agreed, Line::Withheld]);
                }
                (
                    format!(
                        "signs {} survivors, {} cluster(s) to open, and the log at {} entries",
                        agree.survivors.len(),
                        agree.release.len(),
                        agree.head.size
                    ),
                    changed,
                )
            }
            Kind::Reveal => {
                let reveal: Reveal = body(entry)?;
                let changed = state.enter("unmask");
                state.revealed.insert(client?);
                (
                    format!(
                        "opens {} self-mask share(s) and {} mask share(s)",
                        reveal.self_shares.len(),
                        reveal.mask_shares.len()
                    ),
                    changed,
                )
            }
            Kind::Sums => {
                let sums: Sums = body(entry)?;
                state.phase = "publish";
                state.opened = sums
                    .results
                    .iter()
                    .map(|result| (result.cluster, (result.contributors, result.weight)))
                    .collect();
                state.end = Some("published".to_owned());
                (
                    format!("publishes {} sum(s)", sums.results.len()),
                    vec![Line::Opened, Line::Withheld, Line::End],
                )
            }
            Kind::Aborted => {
                let aborted: Aborted = body(entry)?;
                let reason: String = aborted
                    .reason
                    .iter()
                    .filter(|byte| byte.is_ascii_alphanumeric())
                    .map(|byte| char::from(*byte))
                    .collect();
                state.phase = aborted.phase.name();
                let blamed = match aborted.culprits.len() {
                    0 => String::new(),
                    _ => format!(", blaming {}", list(aborted.culprits.iter())),
                };
                state.end = Some(format!("nothing opened ({reason})"));
                for cluster in plan.numbered().map(|(cluster, _)| cluster) {
                    let why = format!("the attempt was aborted: {reason}");
                    state.withheld.insert(cluster, why);
                }
                (
                    format!(
                        "ends the attempt in phase {}: {reason}{blamed}",
                        aborted.phase.name()
                    ),
                    vec![Line::End],
                )
            }
            _ => return None,
        })
    }
}

impl State {
    fn new(plan: &Plan) -> Self {
        Self {
            round: plan.round,
            attempt: plan.attempt,
            phase: "plan",
            taking_part: plan.invited().iter().copied().collect(),
            left: BTreeMap::new(),
            joined: BTreeSet::new(),
            dealt: BTreeSet::new(),
            uploaded: BTreeSet::new(),
            signed: BTreeSet::new(),
            revealed: BTreeSet::new(),
            survivors: None,
            release: BTreeSet::new(),
            opened: BTreeMap::new(),
            withheld: BTreeMap::new(),
            end: None,
        }
    }

    /// The first statement of a phase: whoever is missing from the one before has left.
    fn enter(&mut self, phase: &'static str) -> Vec<Line> {
        if self.phase == phase {
            return Vec::new();
        }
        let (stayed, when) = match phase {
            "share" => (&self.joined, "sent no keys"),
            "mask" => (&self.dealt, "sent no shares"),
            "agree" => (&self.uploaded, "uploaded nothing in time"),
            "unmask" => (&self.signed, "did not sign the agreement"),
            _ => return Vec::new(),
        };
        self.phase = phase;
        let gone: Vec<ClientId> = self.taking_part.difference(stayed).copied().collect();
        for client in &gone {
            self.taking_part.remove(client);
            self.left.entry(*client).or_insert(when);
        }
        if gone.is_empty() {
            Vec::new()
        } else {
            vec![Line::Left]
        }
    }

    fn agreed(&mut self, agree: &Agree, plan: &Plan, policy: Option<&Policy>, members: &[Member]) {
        self.survivors = Some(agree.survivors.iter().copied().collect());
        self.release = agree.release.iter().copied().collect();
        for (cluster, planned) in plan.numbered() {
            if self.release.contains(&cluster) {
                continue;
            }
            let why = policy.map_or_else(
                || "not in the release".to_owned(),
                |policy| withheld(plan, cluster, &planned.members, agree, policy, members),
            );
            self.withheld.insert(cluster, why);
        }
    }

    /// The lines that a statement changed.
    pub(super) fn lines(&self, changed: &[Line]) -> Vec<String> {
        let mut lines = Vec::new();
        if changed.contains(&Line::In) {
            lines.push(format!(
                "in: {} of {} ({} with keys, {} dealt, {} uploaded)",
                self.taking_part.len(),
                self.taking_part.len() + self.left.len(),
                self.joined.len(),
                self.dealt.len(),
                self.uploaded.len()
            ));
        }
        if changed.contains(&Line::Left) {
            lines.extend(
                self.left
                    .iter()
                    .map(|(client, when)| format!("left: {client}, {when}")),
            );
        }
        if changed.contains(&Line::Agreed)
            && let Some(survivors) = &self.survivors
        {
            lines.push(format!("survivors: {}", list(survivors.iter())));
            lines.push(format!("to open: {}", list(self.release.iter())));
        }
        if changed.contains(&Line::Opened) {
            lines.extend(self.opened.iter().map(|(cluster, (clients, weight))| {
                format!("opened: {cluster}, the sum of {clients} clients, weight {weight}")
            }));
        }
        if changed.contains(&Line::Withheld) {
            lines.extend(
                self.withheld
                    .iter()
                    .map(|(cluster, why)| format!("withheld: {cluster}, {why}")),
            );
        }
        if changed.contains(&Line::End)
            && let Some(end) = &self.end
        {
            lines.push(format!("{}, {}: {end}", self.round, self.attempt));
        }
        lines
    }
}

/// Why a cluster stays closed.
fn withheld(
    plan: &Plan,
    cluster: ClusterId,
    members: &ClientSet,
    agree: &Agree,
    policy: &Policy,
    enrolled: &[Member],
) -> String {
    let need = policy.crowd.saturating_add(policy.colluders);
    let left: BTreeSet<ClientId> = members.intersection(&agree.survivors).copied().collect();
    if left.len() < need as usize {
        return format!(
            "{} of its clients survived and {need} are needed ({} and {} colluders)",
            left.len(),
            policy.crowd,
            policy.colluders
        );
    }
    let orgs: BTreeSet<u32> = enrolled
        .iter()
        .filter(|member| left.contains(&member.client))
        .map(|member| member.org.0)
        .collect();
    if orgs.len() < policy.crowd_orgs as usize {
        return format!(
            "its survivors are of {} organisation(s) and {} are needed",
            orgs.len(),
            policy.crowd_orgs
        );
    }
    // The rule needs organisations only; keys are not looked at.
    let book = KeyBook::new(
        Digest([0; 32]),
        policy.server,
        policy.server,
        enrolled.iter().cloned(),
    );
    match release_for(plan, &agree.survivors, &book, policy) {
        Ok(release) if release.contains(&cluster) => {
            "although the disclosure rule allows it: the audit will call this a violation".to_owned()
        }
        Ok(_) => format!(
            "large enough alone, but together with the clusters opened a combination would cover fewer than {need} clients"
        ),
        Err(leak) => leak.to_string(),
    }
}

fn plan_line(plan: &Plan) -> String {
    let sizes: Vec<String> = plan
        .numbered()
        .map(|(cluster, planned)| format!("{cluster} of {}", planned.members.len()))
        .collect();
    format!("{}, {}: {}", plan.round, plan.attempt, sizes.join(", "))
}

fn list<T: std::fmt::Display>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    if items.is_empty() {
        "nobody".to_owned()
    } else {
        items.join(", ")
    }
}

fn signing_client(entry: &Entry) -> Option<ClientId> {
    match entry.signer {
        Party::Client(client) => Some(client),
        Party::Authority | Party::Server => None,
    }
}

fn body<T: Wire>(entry: &Entry) -> Option<T> {
    wire::decode(&entry.body).ok()
}
