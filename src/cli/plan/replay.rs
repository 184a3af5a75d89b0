//! `veilsum plan replay`: do the plans of a log follow from the descriptors?
//!
//! A bundle of rounds holds no descriptor, only the signed digest of each. Whoever may see the descriptors, the consortium's
//! plan auditor, checks here that the server made of them what the policy says.

use super::ReplayArgs;
use crate::cli::{Format, print};
use crate::config::{AuditorConfig, Located};
use crate::describe;
use crate::exit::{Exit, Failure};
use crate::genesis::{Genesis, Trust};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use veilsum_attestation::bundle::{BundleReader, Part};
use veilsum_attestation::statement::{
    ClientSet, ClusteringRule, Descriptor, Entry, Kind, Party, Plan, descriptor_digest,
};
use veilsum_crypto::{ClientId, Digest, wire};

/// What was found of one clustering.
#[derive(Serialize)]
struct Found {
    clustering: u64,
    descriptors: usize,
    /// `follows`, `differs` or `not checkable`.
    status: &'static str,
    reason: Option<String>,
    tau: Option<f64>,
    clusters: Vec<Vec<u32>>,
}

pub(super) fn run(args: &ReplayArgs) -> Result<Exit, Failure> {
    let config = |error: anyhow::Error| Failure::new(Exit::Config, error);
    let trust = trust(args).map_err(config)?;
    let entries = entries(&args.bundle).map_err(config)?;
    let founding = entries.iter().position(|entry| kind(entry) == Some(Kind::Policy));
    let genesis = founding
        .and_then(|policy| entries.get(..=policy))
        .ok_or_else(|| Failure::say(Exit::Config, "the log does not begin with members and a policy"))?;
    let genesis = Genesis::parse(&Genesis::file(genesis), &trust).map_err(|error| config(error.into()))?;
    let Some(rule) = genesis.policy.clustering else {
        return Err(Failure::say(
            Exit::Config,
            "the policy does not cluster clients by their data: there is nothing to replay",
        ));
    };
    let blobs = blobs(&args.descriptors).map_err(config)?;
    let found = replay(&entries, &genesis, &rule, &blobs).map_err(config)?;
    print(&match args.format {
        Format::Json => {
            serde_json::json!({"schema": "veilsum-plan-replay/1", "clusterings": found}).to_string()
        }
        Format::Human => words(&found),
    })?;
    let all = |status| found.iter().all(|one| one.status == status);
    Ok(if found.iter().any(|one| one.status == "differs") {
        Exit::Violated
    } else if all("follows") && !found.is_empty() {
        Exit::Ok
    } else {
        Exit::Config
    })
}

fn trust(args: &ReplayArgs) -> Result<Trust, anyhow::Error> {
    let path = match &args.trust {
        Some(path) => path.clone(),
        None => args.bundle.with_file_name("auditor.toml"),
    };
    Ok(Located::<AuditorConfig>::read(&path)?.settings.trust.trust()?)
}

fn entries(path: &Path) -> Result<Vec<Vec<u8>>, anyhow::Error> {
    let file =
        File::open(path).map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    let mut reader = BundleReader::new(BufReader::new(file))?;
    let Part::Head(_) = reader.part()? else {
        anyhow::bail!("{} does not begin with a signed head", path.display());
    };
    let mut entries = Vec::new();
    while let Some(entry) = reader.entry()? {
        entries.push(entry);
    }
    Ok(entries)
}

fn kind(bytes: &[u8]) -> Option<Kind> {
    wire::decode::<Entry>(bytes).ok().map(|entry| entry.kind)
}

/// The files of a folder by their digests as descriptors.
fn blobs(folder: &Path) -> Result<BTreeMap<Digest, Vec<u8>>, anyhow::Error> {
    let fault = |error| anyhow::anyhow!("cannot read {}: {error}", folder.display());
    let mut blobs = BTreeMap::new();
    for file in std::fs::read_dir(folder).map_err(fault)? {
        let path = file.map_err(fault)?.path();
        if path.is_file() {
            let bytes = std::fs::read(&path).map_err(fault)?;
            blobs.insert(descriptor_digest(&bytes), bytes);
        }
    }
    Ok(blobs)
}

fn replay(
    entries: &[Vec<u8>],
    genesis: &Genesis,
    rule: &ClusteringRule,
    blobs: &BTreeMap<Digest, Vec<u8>>,
) -> Result<Vec<Found>, anyhow::Error> {
    let mut digests: BTreeMap<u64, BTreeMap<ClientId, Digest>> = BTreeMap::new();
    let mut found: Vec<Found> = Vec::new();
    for bytes in entries {
        let entry: Entry = wire::decode(bytes)?;
        match (entry.kind, entry.signer) {
            (Kind::Descriptor, Party::Client(client)) => {
                let signed = genesis.book.read::<Descriptor>(bytes, entry.signer)?.into_inner();
                let body = signed.body();
                // Of two the first counts, as for the auditor, who calls the second a violation.
                if body.policy == genesis.policy_leaf {
                    let of = digests.entry(body.clustering).or_default();
                    of.entry(client).or_insert(body.digest);
                }
            }
            (Kind::Plan, _) => {
                let signed = genesis.book.read::<Plan>(bytes, Party::Server)?.into_inner();
                let plan = signed.body();
                let number = rule.number(plan.round);
                if found.iter().all(|one| one.clustering != number) {
                    let digests = digests.remove(&number).unwrap_or_default();
                    found.push(one(number, plan, &digests, genesis, rule, blobs));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The first plan of a clustering beside what its descriptors give.
fn one(
    number: u64,
    plan: &Plan,
    digests: &BTreeMap<ClientId, Digest>,
    genesis: &Genesis,
    rule: &ClusteringRule,
    blobs: &BTreeMap<Digest, Vec<u8>>,
) -> Found {
    let clusters: Vec<ClientSet> = plan
        .clusters
        .iter()
        .map(|cluster| cluster.members.clone())
        .collect();
    let found = |status, reason, tau| Found {
        clustering: number,
        descriptors: digests.len(),
        status,
        reason,
        tau,
        clusters: clusters
            .iter()
            .map(|set| set.iter().map(|client| client.0).collect())
            .collect(),
    };
    let mut known = BTreeMap::new();
    for (client, digest) in digests {
        let Some(bytes) = blobs.get(digest) else {
            return found(
                "not checkable",
                Some(format!("the descriptor of {client} is not in the folder")),
                None,
            );
        };
        match describe::read(bytes, &genesis.policy, rule) {
            Ok(descriptor) => known.insert(*client, descriptor),
            Err(error) => return found("differs", Some(format!("{client}: {error}")), None),
        };
    }
    match describe::plan(&known, &genesis.book, &genesis.policy, rule) {
        Err(error) => found("differs", Some(error.to_string()), None),
        Ok((planned, sets)) if sets == clusters => found("follows", None, Some(planned.tau.tau)),
        Ok((planned, sets)) => {
            let wanted: Vec<Vec<u32>> = sets
                .iter()
                .map(|set| set.iter().map(|client| client.0).collect())
                .collect();
            let reason = format!("the descriptors give the clusters {wanted:?}");
            found("differs", Some(reason), Some(planned.tau.tau))
        }
    }
}

fn words(found: &[Found]) -> String {
    let mut text = String::new();
    for one in found {
        let _ = write!(
            text,
            "clustering {}, {} descriptors: the plan {}",
            one.clustering,
            one.descriptors,
            match one.status {
                "follows" => "follows from them",
                "differs" => "DOES NOT follow from them",
                _ => "is not checkable",
            }
        );
        if let Some(reason) = &one.reason {
            let _ = write!(text, ": {reason}");
        }
        text.push('\n');
        for (cluster, members) in one.clusters.iter().enumerate() {
            let _ = writeln!(text, "  cluster {cluster}: clients {members:?}");
        }
    }
    if found.is_empty() {
        text.push_str("no round was planned\n");
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LearnerKind;
    use crate::kit::{self, KitRequest};
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    use std::time::{Duration, UNIX_EPOCH};
    use veilsum_attestation::Head;
    use veilsum_attestation::statement::{ClusterPlan, Signed, ThresholdRule};
    use veilsum_crypto::{Attempt, BoundedVec, Identity, RoundId};
    use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
    use veilsum_learner::toy::ToyDepth;

    struct World {
        dir: tempfile::TempDir,
        genesis: Genesis,
        rule: ClusteringRule,
        entries: Vec<Vec<u8>>,
        blobs: BTreeMap<Digest, Vec<u8>>,
        clusters: Vec<ClientSet>,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let rule = ClusteringRule {
            threshold: ThresholdRule::Gap,
            every: 0,
            images: 8,
            channels: 12,
            noise: None,
        };
        let request = KitRequest {
            learner: LearnerKind::Linear,
            crowd: 2,
            clustering: Some(rule),
            ..KitRequest::new(dir.path().join("kit"), "127.0.0.1:1".parse().unwrap())
        };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let kit = kit::create(&request, UNIX_EPOCH + Duration::from_hours(500_000), &mut rng).unwrap();
        let genesis = Genesis::read(&request.dir.join("server/policy.veil"), &kit.trust).unwrap();
        let (mut entries, mut blobs, mut known) = (genesis.entries.clone(), BTreeMap::new(), BTreeMap::new());
        for client in 0..8u32 {
            let frames = Generator {
                platform: Platform::Ugv,
                place: Place::Street,
                light: if client < 4 { Light::Day } else { Light::Night },
                width: 32,
                height: 24,
                train: 8,
                test: 1,
                seed: u64::from(client),
            };
            let mut learner = ToyDepth::new(frames.dataset().unwrap()).unwrap();
            let descriptor = describe::describe(&mut learner, &genesis.policy, &rule, 1, &mut rng).unwrap();
            let bytes = descriptor.encode();
            let digest = descriptor_digest(&bytes);
            let key = request.dir.join(format!("clients/client-{client:02}/client.key"));
            let body = Descriptor {
                policy: genesis.policy_leaf,
                clustering: 1,
                digest,
            };
            entries.push(say(&genesis, body, Party::Client(ClientId(client)), &key));
            known.insert(ClientId(client), descriptor);
            blobs.insert(digest, bytes);
        }
        let (_, clusters) = describe::plan(&known, &genesis.book, &genesis.policy, &rule).unwrap();
        World {
            dir,
            genesis,
            rule,
            entries,
            blobs,
            clusters,
        }
    }

    fn say<S: veilsum_attestation::statement::Statement>(
        genesis: &Genesis,
        body: S,
        signer: Party,
        key: &Path,
    ) -> Vec<u8> {
        let seed = hex::decode(std::fs::read_to_string(key).unwrap().trim()).unwrap();
        let identity = Identity::from_seed(&seed.try_into().unwrap()).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        Signed::make(body, signer, &identity, genesis.book.federation(), &mut rng)
            .unwrap()
            .bytes()
            .unwrap()
    }

    impl World {
        fn planned(&self, clusters: &[ClientSet], blobs: &BTreeMap<Digest, Vec<u8>>) -> Found {
            let plan = Plan {
                round: RoundId(1),
                attempt: Attempt(0),
                policy: self.genesis.policy_leaf,
                head: Head::empty(),
                clusters: BoundedVec::new(
                    clusters
                        .iter()
                        .map(|members| ClusterPlan {
                            model: self.genesis.policy.initial,
                            members: members.clone(),
                        })
                        .collect(),
                )
                .unwrap(),
                graph_seed: [0; 32],
            };
            let key = self.dir.path().join("kit/server/server.key");
            let mut entries = self.entries.clone();
            entries.push(say(&self.genesis, plan, Party::Server, &key));
            replay(&entries, &self.genesis, &self.rule, blobs)
                .unwrap()
                .remove(0)
        }
    }

    #[test]
    fn a_plan_follows_from_its_descriptors_or_is_found_out() {
        let world = world();
        assert_eq!(world.clusters.len(), 2, "{:?}", world.clusters);
        let good = world.planned(&world.clusters, &world.blobs);
        assert_eq!((good.status, good.descriptors), ("follows", 8));
        // A server that puts somebody elsewhere.
        let everybody: ClientSet = (0..8).map(ClientId).collect();
        let moved = world.planned(&[everybody], &world.blobs);
        assert_eq!(moved.status, "differs");
        assert!(moved.reason.unwrap().contains("[[0, 1, 2, 3], [4, 5, 6, 7]]"));
        // Descriptors that are not shown leave it open.
        let mut fewer = world.blobs.clone();
        fewer.pop_first();
        let open = world.planned(&world.clusters, &fewer);
        assert_eq!(open.status, "not checkable");
    }
}
