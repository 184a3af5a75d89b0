//! What only a server has: the initial model, clusters, an address to listen on, a log.

use super::folder::{self, State};
use super::{Sheet, party, rehearsal};
use crate::config::{Located, ServerConfig};
use crate::genesis::Genesis;
use crate::store::model_from_bytes;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::Path;
use std::time::SystemTime;
use veilsum_attestation::disclosure::{self, Membership, Verdict};
use veilsum_attestation::model_digest;
use veilsum_attestation::release::planning_rule;
use veilsum_attestation::tlog::TrustPolicy;
use veilsum_transport::PeerId;

pub(super) async fn examine(sheet: &mut Sheet, located: &Located<ServerConfig>, now: SystemTime) {
    let settings = &located.settings;
    let genesis = party::policy(sheet, located, &settings.trust, &settings.policy);
    let genesis = genesis.as_ref();
    let name = || "the server".to_owned();
    party::key(
        sheet,
        located,
        &settings.key,
        genesis.map(|genesis| (&genesis.policy.server, name())),
    );
    let whose = genesis.map(|genesis| (PeerId(genesis.policy.server_tls.0), name()));
    party::certificate(sheet, located, &settings.tls, whose, rehearsal::Role::Server, now).await;
    party::clock(sheet, located, &settings.tls, &settings.policy, now);
    initial_model(sheet, located, genesis);
    clusters(sheet, settings, genesis);
    round(sheet, settings, genesis);
    let path = located.path(&settings.state);
    if folder::state(sheet, &path) == State::Used {
        log(sheet, &path, genesis);
    }
    let bundle = located.path(&settings.bundle);
    let above = bundle.parent().unwrap_or(Path::new("."));
    if folder::writable(sheet, "bundle", above) {
        sheet.ok("bundle", format!("{} can be written", bundle.display()));
    }
    if let Some(path) = &settings.witnesses {
        witnesses(sheet, &located.path(path));
    }
    address(sheet, settings);
    party::watch(sheet, settings.watch.as_ref());
}

fn initial_model(sheet: &mut Sheet, located: &Located<ServerConfig>, genesis: Option<&Genesis>) {
    let bytes = match located.bytes(&located.settings.initial_model) {
        Ok(bytes) => bytes,
        Err(error) => return sheet.wrong("initial model", error, MODEL),
    };
    let shown = located.path(&located.settings.initial_model);
    let shown = shown.display();
    let Some(policy) = genesis.map(|genesis| &genesis.policy) else {
        return sheet.cannot_tell(
            "initial model",
            format!("{shown} is there; which it is takes the policy file"),
        );
    };
    let entries = policy.update.entries;
    match model_from_bytes(&bytes).filter(|model| model.len() as u64 == entries) {
        None => sheet.wrong(
            "initial model",
            format!(
                "{shown} has {} bytes, and the policy's model {entries} entries of 4",
                bytes.len()
            ),
            MODEL,
        ),
        Some(model)
            if model_digest(&model) == policy.initial && model.iter().all(|entry| entry.is_finite()) =>
        {
            sheet.ok(
                "initial model",
                format!("{shown}, {entries} entries, the policy's digest"),
            );
        }
        Some(_) => sheet.wrong(
            "initial model",
            format!("{shown} is not the model that the policy was signed for"),
            MODEL,
        ),
    }
}

fn clusters(sheet: &mut Sheet, settings: &ServerConfig, genesis: Option<&Genesis>) {
    let Some(genesis) = genesis else {
        return sheet.cannot_tell("clusters", "it takes the policy file");
    };
    let (policy, named) = (&genesis.policy, &settings.round.clusters);
    match (policy.clustering.is_some(), named.is_empty()) {
        (true, true) => return sheet.ok("clusters", "made from what the clients' data looks like"),
        (true, false) => {
            return sheet.wrong(
                "clusters",
                "round.clusters names clusters, and the policy clusters clients by their data",
                "take round.clusters out, or have a policy signed without clustering",
            );
        }
        (false, true) => {
            return sheet.wrong(
                "clusters",
                "round.clusters names no cluster, and the policy does not cluster clients by their data",
                "name the members of each cluster in round.clusters",
            );
        }
        (false, false) => {}
    }
    let rows: Vec<Vec<usize>> = named
        .iter()
        .map(|members| members.iter().map(|client| *client as usize).collect())
        .collect();
    let orgs: Vec<u32> = genesis
        .book
        .members()
        .values()
        .map(|member| member.org.0)
        .collect();
    let matrix = match Membership::from_members(orgs.len(), &rows) {
        Ok(matrix) => matrix,
        Err(error) => return sheet.wrong("clusters", format!("round.clusters: {error}"), CLUSTERS),
    };
    match disclosure::check(&matrix, &orgs, &planning_rule(policy)) {
        Verdict::Safe(_) => sheet.ok(
            "clusters",
            format!("{} clusters that give nobody away", rows.len()),
        ),
        Verdict::Exposed(exposure) => sheet.wrong(
            "clusters",
            format!(
                "a combination of the sums would cover clients {:?} only",
                exposure.clients
            ),
            CLUSTERS,
        ),
        Verdict::Undecided(_) => sheet.wrong("clusters", "they are too tangled to decide", CLUSTERS),
    }
}

fn round(sheet: &mut Sheet, settings: &ServerConfig, genesis: Option<&Genesis>) {
    let (round, deadlines) = (&settings.round, &settings.deadlines);
    let shortest = [
        ("advertise_s", deadlines.advertise_s),
        ("share_s", deadlines.share_s),
        ("mask_s", deadlines.mask_s),
        ("agree_s", deadlines.agree_s),
        ("unmask_s", deadlines.unmask_s),
    ]
    .into_iter()
    .find(|(_, seconds)| *seconds == 0);
    if let Some((name, _)) = shortest {
        return sheet.wrong(
            "round",
            format!("deadlines.{name} is 0: no client can answer in no time"),
            "give every phase at least a few seconds",
        );
    }
    if round.attempts == 0 {
        return sheet.wrong(
            "round",
            "round.attempts is 0: no round is tried",
            "set it to 1 or more",
        );
    }
    let Some(policy) = genesis.map(|genesis| &genesis.policy) else {
        return sheet.cannot_tell("round", "it takes the policy file");
    };
    if policy.clustering.is_some() && round.describe_s == 0 {
        return sheet.wrong(
            "round",
            "round.describe_s is 0: no client can describe its data in no time",
            "set it to what the slowest machine needs to look at its images once, or leave it out",
        );
    }
    let (clients, threshold) = (policy.clients as usize, policy.threshold as usize);
    if !(threshold..=clients).contains(&round.wait_for) {
        return sheet.wrong(
            "round",
            format!(
                "round.wait_for is {}; the policy has {clients} clients and a threshold of {threshold}",
                round.wait_for
            ),
            format!("set it between {threshold} and {clients}"),
        );
    }
    sheet.ok(
        "round",
        format!(
            "starts with {} of {clients} clients or after {} s",
            round.wait_for, round.start_after_s
        ),
    );
}

/// The log of an earlier run begins with this policy.
fn log(sheet: &mut Sheet, state: &Path, genesis: Option<&Genesis>) {
    let path = state.join("log.veil");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return sheet.ok(folder::CHECK, format!("{}, without a log yet", state.display()));
        }
        Err(error) => {
            return sheet.wrong(
                folder::CHECK,
                format!("cannot read {}: {error}", path.display()),
                "check its permissions",
            );
        }
    };
    let Some(genesis) = genesis else {
        return sheet.cannot_tell(folder::CHECK, "whose log it is takes the policy file");
    };
    let file = Genesis::file(&genesis.entries);
    // The entries are framed in the log as they are in the policy file, after its first line.
    let founding = file
        .iter()
        .position(|byte| *byte == b'\n')
        .and_then(|end| file.get(end + 1..));
    let founding = founding.unwrap_or_default();
    if bytes.starts_with(founding) || founding.starts_with(&bytes) {
        sheet.ok(
            folder::CHECK,
            format!("{}, with a log of this policy", state.display()),
        );
    } else {
        sheet.wrong(
            folder::CHECK,
            format!("{} is the log of another policy", path.display()),
            "use another state folder, or the policy file that this log began with",
        );
    }
}

fn witnesses(sheet: &mut Sheet, path: &Path) {
    let shown = path.display();
    match std::fs::read(path) {
        Err(error) => sheet.wrong("witnesses", format!("cannot read {shown}: {error}"), WITNESSES),
        Ok(text) => match TrustPolicy::parse(&text) {
            Ok(_) => sheet.ok(
                "witnesses",
                format!("{shown}; whether they answer shows at the start of a round"),
            ),
            Err(error) => sheet.wrong("witnesses", format!("{shown}: {error}"), WITNESSES),
        },
    }
}

fn address(sheet: &mut Sheet, settings: &ServerConfig) {
    let listen = settings.listen;
    match UdpSocket::bind(listen) {
        Ok(_) => sheet.ok(
            "address",
            format!("UDP {listen} is free; that clients reach it only they can tell"),
        ),
        Err(error) => sheet.wrong(
            "address",
            format!("cannot listen on UDP {listen}: {error}"),
            party::elsewhere(error.kind()),
        ),
    }
}

const MODEL: &str = "take the initial model that came with the policy file";
const CLUSTERS: &str = "merge clusters or cut second memberships; `veilsum plan check` explains";
const WITNESSES: &str = "docs/audit.md shows a witness policy file";
