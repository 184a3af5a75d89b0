//! A client with its disk, through crashes and lost connections, and everything it ever said. What it must not say twice is
//! checked as it says it.

use crate::forge::{body, key};
use crate::script::Script;
use crate::world::{Contribution, Federation};
use chacha20::ChaCha20Rng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_aggregation::message::{Chunk, Proposal};
use veilsum_aggregation::*;
use veilsum_attestation::Head;
use veilsum_attestation::evidence::Evidence;
use veilsum_attestation::statement::*;
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

/// A round and an attempt at it.
type Place = (RoundId, Attempt);

pub(crate) struct Life {
    pub(crate) me: ClientId,
    pub(crate) client: Client<ChaCha20Rng>,
    contribution: Contribution,
    head: Head,
    journal: Option<Vec<u8>>,
    vectors: BTreeMap<ClusterId, Vec<u8>>,
    lives: u64,
    /// Rounds this client saw the end of, with sums.
    pub(crate) done: usize,
    /// What it kept of a server that it says was caught.
    pub(crate) accused: Vec<Evidence>,
    said: BTreeMap<(Place, &'static str, u64), Vec<u8>>,
    plans: BTreeMap<Digest, Place>,
    agreed: BTreeMap<Digest, (Place, Agree)>,
    revealed: BTreeMap<RoundId, Vec<u8>>,
    masked: Option<Masked>,
}

impl Life {
    pub(crate) fn new(me: ClientId, client: Client<ChaCha20Rng>, contribution: Contribution) -> Self {
        Self {
            me,
            client,
            contribution,
            head: Head::empty(),
            journal: None,
            vectors: BTreeMap::new(),
            lives: 0,
            done: 0,
            accused: Vec::new(),
            said: BTreeMap::new(),
            plans: BTreeMap::new(),
            agreed: BTreeMap::new(),
            revealed: BTreeMap::new(),
            masked: None,
        }
    }

    /// Takes a message; whatever is wrong with it is a named refusal.
    pub(crate) fn tell(&mut self, message: ToClient) {
        if let ToClient::Plan(plan) = &message
            && let Some(body) = body::<Plan>(&plan.entry)
        {
            self.plans
                .insert(leaf_hash(&plan.entry), (body.round, body.attempt));
        }
        let (kind, _, bytes) = message.encode().expect("within its bound");
        let result = self.client.handle(message, Now(0));
        crate::trace(|| {
            format!(
                "server -> {}: kind {kind}, {} bytes: {result:?}",
                self.me,
                bytes.len()
            )
        });
        if let Err(refusal) = result {
            assert!(!refusal.to_string().is_empty());
        }
    }

    /// Does what the machine asks for and gives what it sends. After `most` things the process dies.
    pub(crate) fn drain(&mut self, federation: &Federation, most: usize) -> Vec<ToServer> {
        let mut sends = Vec::new();
        for _ in 0..most {
            let Some(output) = self.client.poll_output() else {
                return sends;
            };
            match output {
                ClientOutput::Send(message) => {
                    let kind = message.encode().expect("within its bound").0;
                    crate::trace(|| format!("  {} sends kind {kind}", self.me));
                    self.note(&message);
                    sends.push(message);
                }
                ClientOutput::Train { clusters, .. } => {
                    let delta = self.contribution.delta();
                    let updates: Vec<_> = clusters
                        .into_iter()
                        .map(|(cluster, model)| ClientUpdate {
                            cluster,
                            model,
                            delta: delta.clone(),
                        })
                        .collect();
                    let _ = self.client.update(&updates, self.contribution.weight, Now(0));
                }
                ClientOutput::Keep(head) => self.head = head,
                ClientOutput::Journal(bytes) => self.journal = Some(bytes),
                ClientOutput::Spool { cluster, packed, .. } => {
                    self.vectors.insert(cluster, packed);
                }
                ClientOutput::Upload { round, attempt, from } => {
                    let rule = federation.policy.update;
                    let chunking = chunk::Chunking::new(rule.modulus, rule.entries as usize + 1);
                    for (cluster, first) in from {
                        let packed = self.vectors[&cluster].clone();
                        for chunk in Chunk::cut((round, attempt), cluster, &packed, chunking, first) {
                            let message = ToServer::Chunk(chunk);
                            self.note(&message);
                            sends.push(message);
                        }
                    }
                }
                ClientOutput::Done { .. } => self.done += 1,
                ClientOutput::Evidence(evidence) => self.accused.push(*evidence),
                ClientOutput::Describe { .. } | ClientOutput::KeepDescriptor { .. } => {}
                ClientOutput::Ended { .. } | ClientOutput::Progress { .. } => {}
            }
        }
        sends
    }

    /// The process dies and starts again from its disk.
    pub(crate) fn restart(&mut self, federation: &Federation) {
        self.lives += 1;
        crate::trace(|| format!("{} starts again", self.me));
        let member = federation.member(self.me.0);
        let rng = rng(self.lives << 32 | u64::from(self.me.0));
        self.client = match &self.journal {
            Some(journal) => Client::restore(member, self.head, journal, rng).expect("its own journal"),
            None => Client::new(member, self.head, rng).expect("the policy suits"),
        };
        self.client.connected();
    }

    /// Checks a message against everything said before it.
    fn note(&mut self, message: &ToServer) {
        let (place, kind, number) = match message {
            ToServer::Keys(entry) => (self.place(body::<Keys>(entry).map(|keys| keys.plan)), "keys", 0),
            ToServer::Shares(dealing) => {
                let shares = body::<Shares>(&dealing.entry).map(|shares| shares.plan);
                (self.place(shares), "shares", 0)
            }
            ToServer::Masked(entry) => {
                self.masked = body::<Masked>(entry);
                let plan = self.masked.as_ref().map(|masked| masked.plan);
                (self.place(plan), "masked", 0)
            }
            ToServer::Chunk(chunk) => {
                let number = u64::from(chunk.cluster.0) << 32 | u64::from(chunk.index);
                ((chunk.round, chunk.attempt), "chunk", number)
            }
            ToServer::Agree(entry) => {
                let agree = body::<Agree>(entry).expect("its own statement");
                let place = self.place(Some(agree.plan));
                self.agreed.insert(agree.digest().expect("short"), (place, agree));
                (place, "agree", 0)
            }
            ToServer::Reveal(entry) => {
                let reveal = body::<Reveal>(entry).expect("its own statement");
                let place = self.check_reveal(&reveal);
                let known = self.revealed.entry(place.0).or_insert_with(|| entry.to_vec());
                assert_eq!(known, &entry.to_vec(), "two reveals in {}", place.0);
                (place, "reveal", 0)
            }
            ToServer::Hello(_) | ToServer::Complaint(_) | ToServer::Refuse(_) | ToServer::Described(_) | ToServer::NotDescribed(_) => {
                return;
            }
        };
        let (_, _, bytes) = message.encode().expect("within its bound");
        let known = self
            .said
            .entry((place, kind, number))
            .or_insert_with(|| bytes.clone());
        assert_eq!(known, &bytes, "two different {kind} in {place:?}");
    }

    fn place(&self, plan: Option<Digest>) -> Place {
        self.plans[&plan.expect("its own statement")]
    }

    /// A reveal follows this client's own agreement, and opens every client one way.
    fn check_reveal(&self, reveal: &Reveal) -> Place {
        let (place, agree) = self
            .agreed
            .get(&reveal.agreement)
            .expect("a reveal of its own agreement");
        let seeds: BTreeSet<_> = reveal.self_shares.iter().map(|share| share.owner).collect();
        let masks: BTreeSet<_> = reveal.mask_shares.iter().map(|share| share.owner).collect();
        assert!(seeds.is_disjoint(&masks), "both kinds");
        assert!(seeds.iter().all(|owner| agree.survivors.contains(owner)));
        assert!(!masks.iter().any(|owner| agree.survivors.contains(owner)));
        for share in &reveal.self_shares {
            assert!(
                agree.release.contains(&share.cluster),
                "a cluster that stays closed"
            );
        }
        *place
    }

    /// A proposal with some byte changed, signed anew by the server.
    pub(crate) fn forge_proposal(
        &self,
        federation: &Federation,
        honest: &Proposal,
        script: &mut Script<'_>,
    ) -> Proposal {
        let mut bytes = ToClient::Proposal(honest.clone()).encode().expect("short").2;
        script.bend(&mut bytes);
        let Ok(ToClient::Proposal(bent)) = ToClient::decode(PROPOSAL, &bytes) else {
            return honest.clone();
        };
        let Some(masked) = &self.masked else { return bent };
        let agree = Agree {
            plan: masked.plan,
            roster: masked.roster,
            sharers: masked.sharers.clone(),
            survivors: bent.survivors.clone(),
            release: bent.release.clone(),
            head: bent.head,
            server: Signature([0; 64]),
        };
        match agree.propose(&key(Party::Server), federation.book.federation()) {
            Ok(agree) => Proposal {
                server: agree.server,
                ..bent
            },
            Err(_) => bent,
        }
    }
}

const PROPOSAL: u8 = 36;
