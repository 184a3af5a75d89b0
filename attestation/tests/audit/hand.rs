//! A federation of five clients in one cluster, played by one hand.

use crate::tricks::{Finish, Founding, Tricks};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use veilsum_attestation::audit::{Progress, Verdict};
use veilsum_attestation::bundle::subset::SubsetWriter;
use veilsum_attestation::bundle::tier::Tier;
use veilsum_attestation::bundle::{BundleWriter, Due, VectorName, sign_head};
use veilsum_attestation::statement::*;
use veilsum_attestation::{Auditor, Head, Log, Trust, model_digest};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::commit::commit;
use veilsum_crypto::residue::pack;
use veilsum_crypto::share::{Reconstructor, Secret, share_digest, split};
use veilsum_crypto::stream::{AesCtr, MaskStream, Sign};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

pub(crate) struct Hand {
    federation: Digest,
    policy: Policy,
    policy_leaf: Digest,
    log: Log,
    seed: u64,
    model: Vec<f32>,
    keys: BTreeMap<ClientId, (BoxSecret, MaskSecret)>,
    vectors: BTreeMap<VectorName, Vec<u8>>,
    models: BTreeMap<Digest, Vec<f32>>,
}

const CLIENTS: u32 = 5;
pub(crate) const THRESHOLD: usize = 4;
const ENTRIES: usize = 9;
const CLUSTER: ClusterId = ClusterId(0);

fn identity(signer: Party) -> Identity {
    let seed = match signer {
        Party::Authority => [1; 32],
        Party::Server => [2; 32],
        Party::Client(client) => [3 + client.0 as u8; 32],
    };
    Identity::from_seed(&seed).unwrap()
}

fn everybody() -> impl Iterator<Item = ClientId> {
    (0..CLIENTS).map(ClientId)
}

/// What a client contributes: entry i is its number plus i, less 4, and its weight 1 + its number modulo 4.
fn value(client: ClientId, entry: usize) -> i64 {
    i64::from(client.0) + entry as i64 - 4
}

fn weight(client: ClientId) -> u64 {
    1 + u64::from(client.0 % 4)
}

impl Hand {
    pub(crate) fn new() -> Self {
        Self::founded(&Founding::default())
    }

    pub(crate) fn founded(founding: &Founding) -> Self {
        let authority = identity(Party::Authority);
        let federation = federation_digest(&authority.public(), "by hand");
        let mut hand = Self {
            federation,
            policy: Policy {
                suite: SuiteId::SUITE_1,
                name: BoundedVec::new(b"by hand".to_vec()).unwrap(),
                server: identity(Party::Server).public(),
                server_tls: Digest([0; 32]),
                clients: CLIENTS,
                members: Digest([0; 32]),
                threshold: THRESHOLD as u32,
                colluders: 1,
                dropouts: 1,
                crowd: 2,
                crowd_orgs: 2,
                update: UpdateRule {
                    entries: ENTRIES as u64,
                    schema: Digest([5; 32]),
                    value_bits: 16,
                    modulus: Modulus::new(19).unwrap(),
                    range_micros: 32_767 * 15_625,
                    max_weight: 4,
                },
                initial: model_digest(&[0.25; ENTRIES]),
                rounds: 100,
                clustering: None,
                blocks: 0,
                keep_rounds: 0,
            },
            policy_leaf: Digest([0; 32]),
            log: Log::default(),
            seed: 0,
            model: vec![0.25; ENTRIES],
            keys: BTreeMap::new(),
            vectors: BTreeMap::new(),
            models: BTreeMap::new(),
        };
        let leaves: Vec<Digest> = everybody()
            .map(|client| {
                let mut member = Member {
                    client,
                    org: OrgId(client.0 % 3),
                    key: identity(Party::Client(client)).public(),
                    tls: Digest([0; 32]),
                };
                (founding.member)(&mut member);
                hand.say(member, founding.enrolled_by)
            })
            .collect();
        hand.policy.members = members_digest(&leaves);
        hand.policy.check().unwrap();
        (founding.policy)(&mut hand.policy);
        hand.policy_leaf = hand.say(hand.policy.clone(), founding.signed_by);
        hand
    }

    /// Signs a statement and appends it to the log; its leaf.
    fn say<S: Statement>(&mut self, body: S, signer: Party) -> Digest {
        let mut dice = self.dice();
        let signed = Signed::make(body, signer, &identity(signer), &self.federation, &mut dice).unwrap();
        self.log.append(signed.bytes().unwrap());
        signed.leaf()
    }

    /// A client's descriptor, changed before it is signed.
    pub(crate) fn describe(&mut self, client: u32, clustering: u64, bend: fn(&mut Descriptor)) {
        let mut body = Descriptor {
            policy: self.policy_leaf,
            clustering,
            digest: descriptor_digest(&[1, 2, 3]),
        };
        bend(&mut body);
        self.say(body, Party::Client(ClientId(client)));
    }

    fn dice(&mut self) -> chacha20::ChaCha20Rng {
        self.seed += 1;
        rng(self.seed)
    }

    pub(crate) fn attempt(&mut self, round: u64, attempt: u32, tricks: &Tricks) {
        let is = |trick: Option<u32>, client: ClientId| trick == Some(client.0);
        let bend = &tricks.bend;
        let ids: Vec<ClientId> = everybody().collect();
        let (round, attempt) = (RoundId(round), Attempt(attempt));
        let model = model_digest(&self.model);
        self.models.insert(model, self.model.clone());
        let mut plan = Plan {
            round,
            attempt,
            policy: self.policy_leaf,
            head: self.log.head(),
            clusters: BoundedVec::new(vec![ClusterPlan {
                model,
                members: everybody().collect(),
            }])
            .unwrap(),
            graph_seed: [0; 32],
        };
        (bend.plan)(&mut plan);
        let plan_leaf = self.say(plan.clone(), Party::Server);
        let plan_context = plan.context(self.policy.suite, self.federation, plan_leaf);

        // Keys, and what will be dealt.
        let (mut seeds, mut seed_shares, mut leaves) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for client in everybody() {
            let mut dice = self.dice();
            if !is(tricks.old_keys, client) {
                let fresh = (BoxSecret::generate(&mut dice), MaskSecret::generate(&mut dice));
                self.keys.insert(client, fresh);
            }
            let degree = THRESHOLD + usize::from(is(tricks.high_degree, client));
            let mut seed = SelfSeed::generate(&mut dice);
            let shares = split(&seed, degree, &ids, &mut dice).unwrap();
            if is(tricks.high_degree, client) {
                let first = Reconstructor::new(&ids[..THRESHOLD]).unwrap();
                seed = first.reconstruct(shares[..THRESHOLD].iter()).unwrap();
            }
            let committed = if is(tricks.false_commitment, client) {
                commit(&SelfSeed::generate(&mut dice), client, CLUSTER, &plan_context)
            } else {
                commit(&seed, client, CLUSTER, &plan_context)
            };
            let (boxes, masks) = &self.keys[&client];
            let mut body = Keys {
                plan: plan_leaf,
                box_key: boxes.public(),
                mask_key: masks.public(),
                commitments: BoundedVec::new(vec![Commitment {
                    cluster: CLUSTER,
                    digest: committed,
                }])
                .unwrap(),
                head: if is(tricks.other_head, client) {
                    Head::empty()
                } else {
                    plan.head
                },
            };
            (bend.keys)(client, &mut body);
            if !(bend.silent)(Kind::Keys, client) {
                leaves.push(self.say(body, Party::Client(client)));
            }
            seeds.insert(client, seed);
            seed_shares.insert(client, shares);
        }
        let roster = roster_digest(&leaves);
        let context = plan_context.with_roster(roster);

        // Shares.
        let mut mask_shares = BTreeMap::new();
        for dealer in everybody() {
            let mut dice = self.dice();
            let shares = if is(tricks.false_mask_shares, dealer) {
                split(&MaskSecret::generate(&mut dice), THRESHOLD, &ids, &mut dice).unwrap()
            } else {
                split(&self.keys[&dealer].1, THRESHOLD, &ids, &mut dice).unwrap()
            };
            let digests = everybody()
                .flat_map(|holder| {
                    let at = holder.0 as usize;
                    [
                        share_digest(&shares[at], dealer, holder, Secret::MaskKey, &context),
                        share_digest(
                            &seed_shares[&dealer][at],
                            dealer,
                            holder,
                            Secret::SelfMask(CLUSTER),
                            &context,
                        ),
                    ]
                })
                .collect();
            mask_shares.insert(dealer, shares);
            let mut body = Shares {
                plan: plan_leaf,
                roster,
                digests: BoundedVec::new(digests).unwrap(),
                boxes: Digest([0; 32]),
            };
            (bend.shares)(dealer, &mut body);
            if !(bend.silent)(Kind::Shares, dealer) {
                self.say(body, Party::Client(dealer));
            }
        }

        // Masked vectors. Whoever masks over fewer dealers says so and leaves nothing else out.
        let modulus = self.policy.update.modulus;
        let survivors: ClientSet = everybody()
            .filter(|client| !tricks.dropped.contains(&client.0))
            .collect();
        let mut total = vec![0u32; ENTRIES + 1];
        for me in survivors.iter().copied() {
            let mut words: Vec<u32> = (0..ENTRIES).map(|entry| value(me, entry) as u32).collect();
            let others: u64 = survivors
                .iter()
                .filter(|client| **client != me)
                .map(|client| weight(*client))
                .sum();
            words.push(if is(tricks.weightless, me) {
                (others as u32).wrapping_neg()
            } else {
                weight(me) as u32
            });
            let own = seeds[&me].stream_seed(me, CLUSTER, &model, &context);
            AesCtr::new(&own).apply(Sign::Plus, 0, &mut words);
            for (peer, (_, secret)) in self.keys.iter().filter(|(peer, _)| **peer != me) {
                let pair = self.keys[&me]
                    .1
                    .pair_seed(me, *peer, &secret.public(), CLUSTER, &model, &context);
                let sign = if me < *peer { Sign::Plus } else { Sign::Minus };
                if !is(tricks.bare, me) {
                    AesCtr::new(&pair.unwrap()).apply(sign, 0, &mut words);
                }
            }
            let bytes = pack(modulus, &words);
            let vector = VectorRoot {
                cluster: CLUSTER,
                root: Chunking::new(modulus, words.len()).root_of(&words),
                bytes: bytes.len() as u64,
            };
            let sharers = everybody()
                .filter(|client| !is(tricks.other_sharers, me) || client.0 > 0)
                .collect();
            let mut body = Masked {
                plan: plan_leaf,
                roster,
                sharers,
                vectors: BoundedVec::new(vec![vector]).unwrap(),
            };
            (bend.masked)(me, &mut body);
            self.say(body, Party::Client(me));
            self.vectors.insert(
                VectorName {
                    round,
                    attempt,
                    client: me,
                    cluster: CLUSTER,
                },
                bytes,
            );
            for (sum, word) in total.iter_mut().zip(&words) {
                *sum = sum.wrapping_add(*word);
            }
        }

        // Agreement and reveals.
        let mut agree = Agree {
            plan: plan_leaf,
            roster,
            sharers: everybody().collect(),
            survivors: survivors.clone(),
            release: BoundedVec::new(vec![CLUSTER]).unwrap(),
            head: self.log.head(),
            server: Signature([0; 64]),
        };
        (bend.agree)(&mut agree);
        let agree = agree.propose(&identity(Party::Server), &self.federation).unwrap();
        let agreement = agree.digest().unwrap();
        let intruders = bend.intruders.iter().copied().map(ClientId);
        for client in survivors.iter().copied().chain(intruders.clone()) {
            let mut signed = agree.clone();
            (bend.sign)(client, &mut signed);
            if !(bend.silent)(Kind::Agree, client) {
                self.say(signed, Party::Client(client));
            }
        }
        if let Some(late) = &bend.late {
            self.say(late.clone(), Party::Server);
        }
        let revealers: Vec<ClientId> = survivors
            .iter()
            .copied()
            .take(tricks.revealers)
            .chain(intruders)
            .collect();
        for me in revealers {
            let at = me.0 as usize;
            let selves = survivors.iter().map(|owner| SelfShare {
                owner: *owner,
                cluster: CLUSTER,
                share: *seed_shares[owner][at].to_bytes(),
            });
            let masks = everybody()
                .filter(|client| !survivors.contains(client))
                .map(|owner| MaskShare {
                    owner,
                    share: *mask_shares[&owner][at].to_bytes(),
                });
            let mut body = Reveal {
                agreement,
                self_shares: BoundedVec::new(selves.collect()).unwrap(),
                mask_shares: BoundedVec::new(masks.collect()).unwrap(),
            };
            (bend.reveal)(me, &mut body);
            self.say(body, Party::Client(me));
        }

        match &tricks.finish {
            Finish::Sums => {
                let mut sum: Vec<u32> = (0..ENTRIES)
                    .map(|entry| survivors.iter().map(|client| value(*client, entry)).sum::<i64>() as u32)
                    .collect();
                sum.push(survivors.iter().map(|client| weight(*client)).sum::<u64>() as u32);
                if tricks.weightless.is_some() {
                    sum[ENTRIES] = 0;
                }
                if tricks.bare.is_some() {
                    // Nobody knows the plain sum then; the server takes off what it can and publishes that.
                    sum = total;
                    for (owner, seed) in seeds.iter().filter(|(owner, _)| survivors.contains(owner)) {
                        let own = seed.stream_seed(*owner, CLUSTER, &model, &context);
                        AesCtr::new(&own).apply(Sign::Minus, 0, &mut sum);
                    }
                }
                sum.iter_mut().for_each(|word| *word = modulus.reduce(*word));
                self.publish(plan_leaf, agreement, &sum, survivors.len() as u32, bend.sums);
            }
            Finish::Aborted(reason, culprits) => {
                let mut body = Aborted {
                    round,
                    attempt,
                    phase: Phase::Unmask,
                    reason: BoundedVec::new(reason.as_bytes().to_vec()).unwrap(),
                    culprits: culprits.iter().copied().map(ClientId).collect(),
                };
                (bend.aborted)(&mut body);
                self.say(body, Party::Server);
            }
            Finish::Nothing => {}
        }
    }

    fn publish(
        &mut self,
        plan: Digest,
        agreement: Digest,
        sum: &[u32],
        contributors: u32,
        bend: fn(&mut Sums),
    ) {
        let modulus = self.policy.update.modulus;
        let weight = sum[ENTRIES];
        // The grid step is 1/64 and the largest weight 4: a sum s over weight W moves an entry by s · (1/64 · 4) / W.
        // A weight that the contributors cannot have together moves nothing.
        let possible = (u64::from(contributors)..=u64::from(contributors) * 4).contains(&u64::from(weight));
        for (entry, word) in self.model.iter_mut().zip(sum).filter(|_| possible) {
            let unit = 32_767.0 * 15_625.0 / 1e6 / 32_767.0 * 4.0 / f64::from(weight);
            *entry = (f64::from(*entry) + f64::from(modulus.signed(*word)) * unit) as f32;
        }
        let result = ClusterResult {
            cluster: CLUSTER,
            sum: Chunking::new(modulus, sum.len()).root_of(sum),
            contributors,
            weight: u64::from(weight),
            model: model_digest(&self.model),
        };
        let mut body = Sums {
            plan,
            agreement,
            results: BoundedVec::new(vec![result]).unwrap(),
        };
        bend(&mut body);
        self.say(body, Party::Server);
    }

    pub(crate) fn audit(&self) -> Verdict {
        self.audit_with(&mut |_| {})
    }

    pub(crate) fn audit_with(&self, progress: &mut dyn FnMut(Progress)) -> Verdict {
        Self::auditor()
            .audit(self.bundle(&[]).as_slice(), progress)
            .unwrap()
    }

    pub(crate) fn auditor() -> Auditor {
        let trust = Trust {
            name: "by hand".to_owned(),
            authority: identity(Party::Authority).public(),
        };
        Auditor::new(trust).unwrap()
    }

    /// The auditor's bundle, with the vectors of some rounds gone.
    pub(crate) fn bundle(&self, gone: &[u64]) -> Vec<u8> {
        let head = sign_head(&self.log.head(), &self.federation, &identity(Party::Server)).unwrap();
        let entries = self.log.entries().iter().map(Vec::as_slice);
        let mut writer = BundleWriter::new(Vec::new(), &self.federation, &head, entries).unwrap();
        while let Some(due) = writer.due() {
            match due {
                Due::Vector(name) if gone.contains(&name.round.0) => {
                    writer.gone(name.round, name.attempt).unwrap();
                }
                Due::Vector(name) => writer.vector(name, &self.vectors[&name]).unwrap(),
                Due::Model(digest) => match self.models.get(&digest) {
                    Some(model) => writer.model(model).unwrap(),
                    // What a bent sum leads to is nobody's model.
                    None => writer.skip_model(),
                },
            }
        }
        writer.finish().unwrap()
    }

    /// Another tier's file.
    pub(crate) fn subset(&self, tier: Tier) -> Vec<u8> {
        let head = sign_head(&self.log.head(), &self.federation, &identity(Party::Server)).unwrap();
        let mut writer =
            SubsetWriter::new(Vec::new(), tier, &self.federation, &head, None, &self.log).unwrap();
        writer.statements().unwrap();
        writer.finish().unwrap()
    }

    /// What the second verifier says of each file; `None` where it cannot run.
    pub(crate) fn second(files: &[Vec<u8>], options: &[&str]) -> Option<Vec<String>> {
        let probe = Command::new("python3")
            .args(["-c", "import cryptography"])
            .output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            println!("second verifier skipped: it needs python3 and its package `cryptography`");
            return None;
        }
        let authority = Digest(identity(Party::Authority).public().0).to_hex();
        let mut running = Command::new("python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../tests/second-verifier/verify.py"
            ))
            .args(["--federation", "by hand", "--authority", &authority])
            .args(options)
            .arg("--stream")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = running.stdin.take().unwrap();
        let files = files.to_vec();
        let feeding = std::thread::spawn(move || {
            for file in files {
                stdin.write_all(&(file.len() as u32).to_le_bytes()).unwrap();
                stdin.write_all(&file).unwrap();
            }
        });
        let said = running.wait_with_output().unwrap().stdout;
        feeding.join().unwrap();
        let said = String::from_utf8(said).unwrap();
        let overall = |line: &str| {
            let word = line
                .split("\"overall\": \"")
                .nth(1)
                .unwrap_or_else(|| panic!("{line}"));
            word.split('"').next().unwrap().to_owned()
        };
        Some(said.lines().map(overall).collect())
    }
}
