//! Everybody's keys, the signed beginning of the log, and what each client contributes.

use super::EngineError;
use super::grid::Size;
use super::scenario::Layout;
use crate::genesis::Genesis;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;
use veilsum_aggregation::client::{Floors, Membership};
use veilsum_aggregation::message::EntryBytes;
use veilsum_aggregation::server::{Deadlines, ServerSetup};
use veilsum_attestation::statement::{
    ClientSet, KeyBook, Member, Party, Policy, Signed, Statement, UpdateRule,
};
use veilsum_crypto::{
    BoundedVec, ClientId, ClusterId, Digest, Identity, Modulus, OrgId, PublicIdentity, SuiteId,
};

/// A federation of made-up parties.
#[derive(Clone, Debug)]
pub(super) struct Federation {
    pub(super) size: Size,
    pub(super) clusters: Vec<BTreeSet<ClientId>>,
    pub(super) book: KeyBook,
    pub(super) policy: Policy,
    pub(super) policy_leaf: Digest,
    pub(super) genesis: Vec<Vec<u8>>,
    /// Tells federations of the same size apart: part of every key and of the name.
    pub(super) tag: u8,
}

/// How a federation is made.
#[derive(Clone, Debug)]
pub(super) struct Founding {
    pub(super) size: Size,
    pub(super) layout: Layout,
    pub(super) clusters: Vec<BTreeSet<ClientId>>,
    pub(super) entries: u64,
    pub(super) bits_short: u8,
    pub(super) tag: u8,
    /// Rounds the policy lets it run.
    pub(super) rounds: u64,
    /// The members' TLS keys, for a real network.
    pub(super) tls: Vec<Digest>,
}

impl Federation {
    /// Makes keys and signs the policy, whether or not it is a safe one.
    pub(super) fn found(founding: Founding) -> Result<Self, EngineError> {
        let Founding {
            size,
            layout,
            clusters,
            entries,
            bits_short,
            tag,
            rounds,
            tls,
        } = founding;
        let (authority, server) = (identity(tag, AUTHORITY, 0)?, identity(tag, SERVER, 0)?);
        let name = federation_name(tag);
        let members = (0..size.n)
            .map(|client| {
                Ok(Member {
                    client: ClientId(client),
                    org: OrgId(size.org(client, layout)),
                    key: identity(tag, CLIENT, client)?.public(),
                    tls: tls
                        .get(client as usize)
                        .copied()
                        .unwrap_or(Digest(seed(tag, TLS, client))),
                })
            })
            .collect::<Result<_, EngineError>>()?;
        let policy = |members| {
            let policy = policy(&size, server.public(), members, entries, bits_short, &name)?;
            Ok::<_, EngineError>(Policy { rounds, ..policy })
        };
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(tag));
        let genesis = Genesis::found(&authority, &name, members, policy, &mut rng)?;
        Ok(Self {
            size,
            clusters,
            book: genesis.book,
            policy: genesis.policy,
            policy_leaf: genesis.policy_leaf,
            genesis: genesis.entries,
            tag,
        })
    }

    /// The authority's key and the federation's name: what every party is told out of band.
    pub(super) fn trust(&self) -> Result<crate::genesis::Trust, EngineError> {
        Ok(crate::genesis::Trust {
            federation: federation_name(self.tag),
            authority: identity(self.tag, AUTHORITY, 0)?.public(),
        })
    }

    pub(super) fn server_setup(&self) -> Result<Arc<ServerSetup>, EngineError> {
        Ok(Arc::new(ServerSetup {
            identity: self.server_identity()?,
            book: self.book.clone(),
            policy: self.policy.clone(),
            policy_leaf: self.policy_leaf,
            deadlines: DEADLINES,
        }))
    }

    pub(super) fn server_identity(&self) -> Result<Identity, EngineError> {
        identity(self.tag, SERVER, 0)
    }

    pub(super) fn member(&self, client: ClientId) -> Result<Arc<Membership>, EngineError> {
        Ok(Arc::new(Membership {
            me: client,
            identity: identity(self.tag, CLIENT, client.0)?,
            book: self.book.clone(),
            policy: self.policy.clone(),
            policy_leaf: self.policy_leaf,
            floors: Floors {
                clients: 3,
                threshold: 2,
                crowd: 2,
                crowd_orgs: 1,
                ..Floors::default()
            },
        }))
    }

    /// A statement with the server's signature, as a dishonest server can make any.
    pub(super) fn by_server<S: Statement>(&self, body: S) -> Result<EntryBytes, EngineError> {
        self.signed(body, Party::Server, &self.server_identity()?)
    }

    /// A statement with a client's signature, as a dishonest client can make any of its own.
    pub(super) fn by_client<S: Statement>(
        &self,
        client: ClientId,
        body: S,
    ) -> Result<EntryBytes, EngineError> {
        self.signed(
            body,
            Party::Client(client),
            &identity(self.tag, CLIENT, client.0)?,
        )
    }

    /// The same with a key that nobody enrolled.
    pub(super) fn by_stranger<S: Statement>(
        &self,
        client: ClientId,
        body: S,
    ) -> Result<EntryBytes, EngineError> {
        self.signed(
            body,
            Party::Client(client),
            &identity(self.tag, STRANGER, client.0)?,
        )
    }

    fn signed<S: Statement>(&self, body: S, party: Party, key: &Identity) -> Result<EntryBytes, EngineError> {
        let mut rng = ChaCha20Rng::seed_from_u64(77);
        let bytes = Signed::make(body, party, key, self.book.federation(), &mut rng)?.bytes()?;
        BoundedVec::new(bytes).map_err(|_| EngineError::Internal("a forged entry is too long"))
    }

    /// The members of a cluster as statements write them.
    pub(super) fn cluster_set(&self, cluster: ClusterId) -> ClientSet {
        self.clusters
            .get(usize::from(cluster.0))
            .map(|set| set.iter().copied().collect())
            .unwrap_or_default()
    }
}

/// What a client contributes: integers on the grid, so that sums are exact.
#[derive(Clone, Debug)]
pub(super) struct Contribution {
    pub(super) values: Vec<i32>,
    pub(super) weight: u32,
    /// Every entry in place of its value, for updates that no sum can take.
    pub(super) instead: Option<f32>,
}

impl Contribution {
    /// A random contribution. One coordinate per client marks it: a double count or a leak into another cluster reads off
    /// the sum.
    pub(super) fn random(client: ClientId, entries: u64, rng: &mut ChaCha20Rng) -> Self {
        let mut values: Vec<i32> = (0..entries)
            .map(|_| i32::try_from(rng.next_u32() % 2001).unwrap_or_default() - 1000)
            .collect();
        let place = usize::try_from(u64::from(client.0) % entries.max(1)).unwrap_or_default();
        if let Some(mark) = values.get_mut(place) {
            *mark = 1 << (client.0 % 12);
        }
        Self {
            values,
            weight: [1, 2, 4, 4]
                .get(rng.next_u32() as usize % 4)
                .copied()
                .unwrap_or(1),
            instead: None,
        }
    }

    /// The update as a learner hands it in: quantised with this weight, an entry gives its value times the weight.
    #[expect(clippy::cast_precision_loss, reason = "values below 2^24 are exact")]
    pub(super) fn delta(&self) -> Vec<f32> {
        self.values
            .iter()
            .map(|value| self.instead.unwrap_or(*value as f32 / 16.0))
            .collect()
    }

    /// What the entry `index` gives to a sum; the weight beyond the last.
    pub(super) fn term(&self, index: usize) -> i64 {
        let weight = i64::from(self.weight);
        match (self.values.get(index), self.instead) {
            (None, _) => weight,
            (Some(_), Some(value)) if value.is_sign_negative() => -TOP,
            (Some(_), Some(_)) => TOP,
            (Some(value), None) => i64::from(*value) * weight,
        }
    }
}

/// The key of a made-up party.
pub(super) fn identity(tag: u8, role: u8, number: u32) -> Result<Identity, EngineError> {
    Identity::from_seed(&seed(tag, role, number))
        .map_err(|_| EngineError::Internal("a signing seed was refused"))
}

fn seed(tag: u8, role: u8, number: u32) -> [u8; 32] {
    let mut seed = [role; 32];
    for (slot, byte) in seed.iter_mut().zip(number.to_le_bytes().into_iter().chain([tag])) {
        *slot = byte;
    }
    seed
}

fn federation_name(tag: u8) -> String {
    format!("compliance federation {tag}")
}

fn policy(
    size: &Size,
    server: PublicIdentity,
    members: Digest,
    entries: u64,
    bits_short: u8,
    name: &str,
) -> Result<Policy, EngineError> {
    let bits = UpdateRule::modulus_bits(VALUE_BITS, MAX_WEIGHT, size.n).saturating_sub(u32::from(bits_short));
    let modulus = u8::try_from(bits)
        .ok()
        .and_then(|bits| Modulus::new(bits).ok())
        .ok_or(EngineError::Internal("no such modulus"))?;
    Ok(Policy {
        suite: SuiteId::SUITE_1,
        name: BoundedVec::new(name.as_bytes().to_vec()).unwrap_or_default(),
        server,
        server_tls: Digest([0; 32]),
        clients: size.n,
        members,
        threshold: size.t,
        colluders: size.m,
        dropouts: size.s,
        crowd: size.c,
        crowd_orgs: size.c_orgs,
        update: UpdateRule {
            entries,
            schema: Digest([5; 32]),
            value_bits: VALUE_BITS,
            modulus,
            // step = 32767 * 15625 / 1e6 / 32767 = 1/64 exactly, so the expected sums are exact integers.
            range_micros: 32_767 * 15_625,
            max_weight: MAX_WEIGHT,
        },
        initial: veilsum_attestation::model_digest(&vec![0.5; usize::try_from(entries).unwrap_or_default()]),
        rounds: 1000,
        clustering: None,
        blocks: size.blocks,
        keep_rounds: 0,
    })
}

/// Milliseconds of virtual time; a message takes up to eight.
pub(super) const DEADLINES: Deadlines = Deadlines {
    advertise: 1000,
    share: 400,
    mask: 400,
    agree: 400,
    unmask: 400,
    reconnect: 100,
};

const VALUE_BITS: u8 = 16;
pub(super) const MAX_WEIGHT: u32 = 4;
/// The largest magnitude of a quantised entry.
const TOP: i64 = 32_767;

pub(super) const AUTHORITY: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const STRANGER: u8 = 4;
const TLS: u8 = 5;
