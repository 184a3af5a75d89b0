//! Waits for: `masked` and every chunk it commits to. Sends: the proposal. May drop here: anybody, while t are left; a
//! partial upload is thrown away and counts as dropped.

use super::agree::AgreePhase;
use super::share::Round;
use super::unmask::Unmasking;
use super::{Core, PhaseName, ServerOutput, answered};
use crate::Now;
use crate::abort::Abort;
use crate::message::{Chunk, Continue, DealtBox, EntryBytes, Inbox, Proposal, Received, ToClient};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::block::{blocks, counted};
use veilsum_attestation::dealing::BoxPlace;
use veilsum_attestation::release::release_for;
use veilsum_attestation::statement::{Agree, ClientSet, Complaint, FalseComplaint, Masked, Shares};
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::residue::{ResidueError, add_packed, check_packed};
use veilsum_crypto::{BoundedVec, ClientId, ClusterId, Digest, Signature};

/// Sums and uploads so far.
pub(super) struct Collect {
    round: Round,
    dealers: BTreeMap<ClientId, Shares>,
    sharers: ClientSet,
    chunking: Chunking,
    /// What each client that has not uploaded was sent.
    inboxes: Inboxes,
    /// The dealers of bad boxes, each with the clients that have no share of it.
    complaints: BTreeMap<ClientId, BTreeSet<ClientId>>,
    /// One running sum per cluster, of clients that count.
    sums: BTreeMap<ClusterId, Vec<u32>>,
    /// The groups that are not complete yet, where clients count in groups: who is missing, and the running sums so far.
    groups: Vec<Group>,
    open: BTreeMap<ClientId, Upload>,
    /// Where each survivor's `masked` statement is in the log.
    survivors: BTreeMap<ClientId, u64>,
}

/// The dealings, for clients that come back without them.
pub(super) struct Inboxes {
    pub(super) shares: BoundedVec<EntryBytes, 4096>,
    pub(super) boxes: BTreeMap<ClientId, BoundedVec<DealtBox, 4096>>,
}

/// Clients that count together.
struct Group {
    members: ClientSet,
    missing: BTreeSet<ClientId>,
    sums: BTreeMap<ClusterId, Vec<u32>>,
}

/// A client's upload on its way.
struct Upload {
    entry: Vec<u8>,
    masked: Masked,
    received: BTreeMap<ClusterId, Vector>,
}

/// The chunks of a vector so far, in order.
#[derive(Default)]
struct Vector {
    bytes: Vec<u8>,
    leaves: Vec<Digest>,
}

impl Collect {
    pub(super) fn new<R: CryptoRng>(
        core: &Core<R>,
        round: Round,
        dealers: BTreeMap<ClientId, Shares>,
        inboxes: Inboxes,
    ) -> Self {
        let rule = &core.setup.policy.update;
        // The policy's check bounds the entries by 2^31; the weight is one coordinate more.
        let entries = usize::try_from(rule.entries).unwrap_or(usize::MAX - 1) + 1;
        Self {
            round,
            sharers: dealers.keys().copied().collect(),
            dealers,
            inboxes,
            complaints: BTreeMap::new(),
            chunking: Chunking::new(rule.modulus, entries),
            sums: core
                .plan
                .numbered()
                .map(|(cluster, _)| (cluster, vec![0; entries]))
                .collect(),
            groups: groups(core),
            open: BTreeMap::new(),
            survivors: BTreeMap::new(),
        }
    }

    /// A client's inbox once more.
    pub(super) fn inbox(&self, client: ClientId) -> Result<Inbox, Refusal> {
        let boxes = self.inboxes.boxes.get(&client).ok_or(Refusal::Late)?;
        Ok(Inbox {
            shares: self.inboxes.shares.clone(),
            boxes: boxes.clone(),
        })
    }

    /// How much of a client's upload is here; `None` once it is complete.
    pub(super) fn received<R>(&self, core: &Core<R>, client: ClientId) -> Option<Continue> {
        if self.survivors.contains_key(&client) {
            return None;
        }
        let received = self
            .open
            .get(&client)
            .map(|upload| {
                upload
                    .received
                    .iter()
                    .map(|(cluster, vector)| Received {
                        cluster: *cluster,
                        chunks: u32::try_from(vector.leaves.len()).unwrap_or(u32::MAX),
                    })
                    .collect()
            })
            .unwrap_or_default();
        Some(Continue {
            round: core.plan.round,
            attempt: core.plan.attempt,
            received: BoundedVec::new(received).unwrap_or_default(),
        })
    }

    /// A bad box: its dealer is out. What the others hold of it is still good, so the round goes on.
    pub(super) fn accept_complaint<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        entry: &[u8],
    ) -> Result<(), Refusal> {
        let signed = core.read::<Complaint>(entry, from)?;
        let complaint = signed.body();
        let dealer = complaint.dealer;
        if self.survivors.contains_key(&from) || self.open.contains_key(&from) {
            return Err(Refusal::BadComplaint(FalseComplaint::WrongContext));
        }
        let shares = self
            .dealers
            .get(&dealer)
            .ok_or(Refusal::BadComplaint(FalseComplaint::WrongContext))?;
        let clusters: Vec<_> = core
            .plan
            .clusters_of(dealer)
            .map(|(cluster, _)| cluster)
            .collect();
        let roster: Vec<ClientId> = self.round.roster.keys().copied().collect();
        let place = BoxPlace {
            dealer,
            receiver: from,
            shares,
            clusters: &clusters,
            roster: &roster,
            context: &self.round.context,
        };
        complaint
            .check(&place, &self.round.box_keys())
            .map_err(Refusal::BadComplaint)?;
        if !self.complaints.entry(dealer).or_default().insert(from) {
            return Err(Refusal::Conflict("complaint"));
        }
        core.record_bytes(entry);
        // A vector that is counted already stays counted: t good shares open its masks like anybody's.
        let refusal = Refusal::BadShare { dealer };
        if self.survivors.contains_key(&dealer) || !core.present.contains(&dealer) {
            core.outputs.push_back(ServerOutput::Refused(dealer, refusal));
        } else {
            core.put_out(dealer);
            self.open.remove(&dealer);
            core.refuse(dealer, refusal);
        }
        Ok(())
    }

    pub(super) fn accept_masked<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        entry: &[u8],
    ) -> Result<(), Refusal> {
        let signed = core.read::<Masked>(entry, from)?;
        let masked = signed.body();
        if masked.plan != core.plan_leaf || masked.roster != self.round.roster_digest {
            return Err(Refusal::WrongContext);
        }
        if masked.sharers != self.sharers {
            return Err(Refusal::BadMasked(
                "it masks over other dealers than it was told of",
            ));
        }
        let clusters = core.plan.clusters_of(from).map(|(cluster, _)| cluster);
        if !masked.vectors.iter().map(|vector| vector.cluster).eq(clusters) {
            return Err(Refusal::BadMasked("it is for other clusters than the client's"));
        }
        let bytes = self.chunking.total_bytes().unwrap_or_default() as u64;
        if masked.vectors.iter().any(|vector| vector.bytes != bytes) {
            return Err(Refusal::BadMasked("a vector has the wrong length"));
        }
        if self.survivors.contains_key(&from) || self.open.contains_key(&from) {
            return match self.open.get(&from) {
                Some(upload) if upload.entry == entry => Ok(()),
                _ => Err(Refusal::Conflict("masked")),
            };
        }
        let received = masked
            .vectors
            .iter()
            .map(|vector| (vector.cluster, Vector::default()))
            .collect();
        self.open.insert(
            from,
            Upload {
                entry: entry.to_vec(),
                masked: masked.clone(),
                received,
            },
        );
        Ok(())
    }

    pub(super) fn accept_chunk<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        chunk: &Chunk,
    ) -> Result<(), Refusal> {
        let upload = self
            .open
            .get_mut(&from)
            .ok_or(Refusal::BadMasked("a chunk without its statement"))?;
        let received = upload.received.get_mut(&chunk.cluster).ok_or(Refusal::BadMasked(
            "a chunk is for another cluster than the client's",
        ))?;
        let index = received.leaves.len();
        if chunk.index as usize != index {
            return Err(Refusal::BadMasked("chunks are not in order"));
        }
        let length = Refusal::BadMasked("a chunk has the wrong length");
        let entries = self.chunking.range(index).ok_or(length.clone())?.len();
        check_packed(self.chunking.modulus(), &chunk.bytes, entries).map_err(|error| match error {
            ResidueError::Padding => Refusal::BadMasked("a vector has bits set beyond its last entry"),
            _ => length,
        })?;
        // Hashed while it is in the cache; kept in one piece, as it is stored.
        received.leaves.push(chunk::leaf(index, &chunk.bytes));
        if index == 0 {
            received
                .bytes
                .reserve_exact(self.chunking.total_bytes().unwrap_or_default());
        }
        received.bytes.extend_from_slice(&chunk.bytes);
        let complete = upload
            .received
            .values()
            .all(|vector| vector.leaves.len() == self.chunking.count());
        if complete && let Some(upload) = self.open.remove(&from) {
            self.count_in(core, from, upload)?;
        }
        Ok(())
    }

    /// A complete upload: checked against its roots, then added. Until this point nothing of it was counted.
    fn count_in<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        upload: Upload,
    ) -> Result<(), Refusal> {
        let bad = Refusal::BadMasked("a vector is not the one its statement commits to");
        for vector in &upload.masked.vectors {
            let received = upload.received.get(&vector.cluster).ok_or(bad.clone())?;
            if chunk::root(&received.leaves) != vector.root {
                return Err(bad);
            }
        }
        let entries = self.chunking.entries();
        let group = self.groups.iter_mut().find(|group| group.members.contains(&from));
        let mut group = group.filter(|group| group.missing.len() > 1 || !group.sums.is_empty());
        for (cluster, Vector { bytes, .. }) in upload.received {
            let sum = match group.as_mut() {
                Some(group) => group.sums.entry(cluster).or_insert_with(|| vec![0; entries]),
                None => self.sums.get_mut(&cluster).ok_or(bad.clone())?,
            };
            add_packed(self.chunking.modulus(), &bytes, sum).map_err(|_| bad.clone())?;
            core.outputs.push_back(ServerOutput::Store {
                client: from,
                cluster,
                bytes,
            });
        }
        let index = core.log.entries().len() as u64;
        core.record_bytes(&upload.entry);
        self.survivors.insert(from, index);
        self.complete(from);
        self.inboxes.boxes.remove(&from);
        Ok(())
    }

    /// Takes a client off its group's list, and the group into the sums when nobody is missing any more.
    fn complete(&mut self, client: ClientId) {
        let Some(place) = self
            .groups
            .iter()
            .position(|group| group.members.contains(&client))
        else {
            return;
        };
        let Some(group) = self.groups.get_mut(place) else {
            return;
        };
        group.missing.remove(&client);
        if group.missing.is_empty() {
            for (cluster, part) in std::mem::take(&mut group.sums) {
                for (sum, entry) in self.sums.entry(cluster).or_default().iter_mut().zip(part) {
                    *sum = sum.wrapping_add(entry);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        self.open.remove(&client);
    }

    pub(super) fn count(&self, present: &BTreeSet<ClientId>) -> (usize, usize) {
        answered(present, |client| self.survivors.contains_key(client))
    }

    pub(super) fn finish<R: CryptoRng>(
        self,
        core: &mut Core<R>,
        now: Now,
    ) -> Result<AgreePhase, (Abort, PhaseName)> {
        let fail = |abort| (abort, PhaseName::Mask);
        let uploaded: ClientSet = self.survivors.keys().copied().collect();
        let survivors = counted(&core.plan, core.setup.policy.blocks, &uploaded);
        let (have, need) = (survivors.len(), core.threshold());
        if have < need {
            return Err(fail(Abort::TooFewMasked { have, need }));
        }
        let release = release_for(&core.plan, &survivors, &core.setup.book, &core.setup.policy)
            .map_err(|_| fail(Abort::Internal("the plan is no membership matrix")))?;
        if release.is_empty() {
            return Err(fail(Abort::ReleaseLeaks));
        }
        // A secret of which fewer than t survivors hold good shares would never open: better to begin again without its
        // dealer.
        let spoilt: ClientSet = self
            .complaints
            .iter()
            .filter(|(_, receivers)| {
                survivors
                    .iter()
                    .filter(|holder| !receivers.contains(holder))
                    .count()
                    < need
            })
            .map(|(dealer, _)| *dealer)
            .collect();
        if let Some(client) = spoilt.iter().next().copied() {
            return Err(fail(Abort::BadDealer { client }));
        }
        let head = core.log.head();
        let too_long = || fail(Abort::Internal("a proof or set is too long"));
        let release = BoundedVec::new(release).map_err(|_| too_long())?;
        let consistency = core
            .log
            .consistency(core.plan.head.size, head.size)
            .unwrap_or_default();
        let consistency = BoundedVec::new(consistency).map_err(|_| too_long())?;
        let agree = Agree {
            plan: core.plan_leaf,
            roster: self.round.roster_digest,
            sharers: self.sharers,
            survivors,
            release,
            head,
            server: Signature([0; 64]),
        };
        let agree = agree
            .propose(&core.setup.identity, core.setup.book.federation())
            .map_err(|error| fail(Abort::Wire(error)))?;
        core.keep_present(|client| agree.survivors.contains(client));
        let mut proposals = BTreeMap::new();
        for client in core.present.clone() {
            let index = self.survivors.get(&client).copied().unwrap_or_default();
            let inclusion = core.log.inclusion(index, head.size).unwrap_or_default();
            let message = Proposal {
                survivors: agree.survivors.clone(),
                release: agree.release.clone(),
                head,
                index,
                inclusion: BoundedVec::new(inclusion).map_err(|_| too_long())?,
                consistency: consistency.clone(),
                server: agree.server,
            };
            proposals.insert(client, message.clone());
            core.send(client, ToClient::Proposal(message));
        }
        core.deadline = now.plus(core.setup.deadlines.agree);
        Ok(AgreePhase::new(
            Unmasking {
                round: self.round,
                dealers: self.dealers,
                complaints: self.complaints,
                sums: self.sums,
                agree,
            },
            proposals,
        ))
    }
}

/// The groups of a plan, where clients count in groups.
fn groups<R>(core: &Core<R>) -> Vec<Group> {
    match core.setup.policy.blocks {
        0 => Vec::new(),
        least => blocks(&core.plan, least)
            .into_iter()
            .map(|members| Group {
                missing: members.iter().copied().collect(),
                members,
                sums: BTreeMap::new(),
            })
            .collect(),
    }
}
