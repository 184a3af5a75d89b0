//! What only a client has: an enrolment, limits of its own, a network, frames, a server to reach.

use super::folder::{self, State};
use super::{Sheet, party, rehearsal};
use crate::config::{ClientConfig, DataConfig, Located};
use crate::genesis::Genesis;
use crate::network;
use crate::store::ClientStore;
use std::path::Path;
use std::time::{Duration, SystemTime};
use veilsum_aggregation::Floors;
use veilsum_crypto::{ClientId, Digest};
use veilsum_transport::{Connector, Limits, PeerId, QuicConnector, TransportError};

pub(super) async fn examine(
    sheet: &mut Sheet,
    located: &Located<ClientConfig>,
    now: SystemTime,
    offline: bool,
) {
    let settings = &located.settings;
    let genesis = party::policy(sheet, located, &settings.trust, &settings.policy);
    let genesis = genesis.as_ref();
    let me = ClientId(settings.client);
    let member = genesis.and_then(|genesis| genesis.book.members().get(&me));
    match (genesis, member) {
        (None, _) => sheet.cannot_tell("enrolment", "it takes the policy file"),
        (Some(genesis), None) => sheet.wrong(
            "enrolment",
            format!(
                "client {} is not among the {} of the policy",
                me.0, genesis.policy.clients
            ),
            "write this client's own number into `client`; the first is 0",
        ),
        (Some(_), Some(member)) => {
            sheet.ok(
                "enrolment",
                format!("client {} of organisation {}", me.0, member.org.0),
            );
        }
    }
    let name = || format!("client {}", me.0);
    party::key(
        sheet,
        located,
        &settings.key,
        member.map(|member| (&member.key, name())),
    );
    let whose = member.map(|member| (PeerId(member.tls.0), name()));
    let tls = party::certificate(sheet, located, &settings.tls, whose, rehearsal::Role::Client, now).await;
    party::clock(sheet, located, &settings.tls, &settings.policy, now);
    floors(sheet, settings, genesis);
    party::watch(sheet, settings.watch.as_ref());
    match settings.check() {
        Ok(()) => sheet.ok("training", format!("{} steps a round", settings.training.steps)),
        Err(error) => sheet.wrong("training", error, "mend the setting"),
    }
    frames(sheet, located);
    network(sheet, settings, genesis);
    let path = located.path(&settings.state);
    let state = folder::state(sheet, &path);
    if state == State::Used {
        head(sheet, &path);
    }
    let pinned = genesis.map(|genesis| PeerId(genesis.policy.server_tls.0));
    match (offline, state, pinned) {
        (true, ..) => sheet.cannot_tell("server", "left out with --offline"),
        (_, State::Locked, _) => sheet.cannot_tell(
            "server",
            "a client runs on this folder, and a second connection would end its own",
        ),
        (_, _, None) => sheet.cannot_tell("server", "its key takes the policy file"),
        (_, _, Some(_)) if !tls => sheet.cannot_tell("server", "it takes the TLS files"),
        (_, _, Some(pinned)) => reach(sheet, located, pinned).await,
    }
}

fn floors(sheet: &mut Sheet, settings: &ClientConfig, genesis: Option<&Genesis>) {
    let Some(genesis) = genesis else {
        return sheet.cannot_tell("floors", "it takes the policy file");
    };
    match Floors::from(settings.floors).check(&genesis.policy, &genesis.book) {
        Ok(()) => sheet.ok("floors", "the policy is within all of this client's limits"),
        Err(error) => sheet.wrong(
            "floors",
            error,
            "ask the consortium for a policy within [floors]; change them only if you mean to take less protection",
        ),
    }
}

fn frames(sheet: &mut Sheet, located: &Located<ClientConfig>) {
    let settings = &located.settings;
    // The generator takes its numbers from the settings; those that are too large are named above.
    let generated = matches!(
        settings.data,
        DataConfig::Generated { .. } | DataConfig::GeneratedFleet { .. }
    );
    if generated && settings.check().is_err() {
        return sheet.cannot_tell("frames", "the settings above come first");
    }
    let base = located.path(Path::new(""));
    match settings.data.load(&base, network::frame_size(&settings.learner)) {
        Ok(loaded) => sheet.ok("frames", loaded.summary),
        Err(error) => sheet.wrong(
            "frames",
            error,
            "docs/data.md shows the layout and the settings of [data]",
        ),
    }
}

fn network(sheet: &mut Sheet, settings: &ClientConfig, genesis: Option<&Genesis>) {
    let weights = match network::initial_weights(&settings.learner) {
        Ok(weights) => weights,
        Err(error) => {
            return sheet.wrong(
                "network",
                error,
                "mend [learner], or build veilsum for this network",
            );
        }
    };
    match genesis {
        None => sheet.cannot_tell("network", "which one the federation trains takes the policy file"),
        Some(genesis) if Digest(weights.layout_digest()) == genesis.policy.update.schema => {
            sheet.ok(
                "network",
                format!("the policy's, {} shared entries", weights.values().len()),
            );
        }
        Some(_) => sheet.wrong(
            "network",
            "it does not have the shared tensors that the policy was signed for",
            "set learner.kind as the consortium says",
        ),
    }
}

/// The head of the log that this client saw last.
fn head(sheet: &mut Sheet, path: &Path) {
    match ClientStore::open(path).and_then(|store| store.head()) {
        Ok(head) => sheet.ok(
            folder::CHECK,
            format!("{}, log head at {} entries", path.display(), head.size),
        ),
        Err(error) => sheet.wrong(
            folder::CHECK,
            error,
            "ask the consortium before you take the state away: it is what a rolled back server is found by",
        ),
    }
}

/// A handshake with the server, under its pinned key.
async fn reach(sheet: &mut Sheet, located: &Located<ClientConfig>, pinned: PeerId) {
    let settings = &located.settings;
    let limits = Limits {
        handshake_timeout: PATIENCE,
        ..Limits::default()
    };
    let connector = located
        .tls(&settings.tls)
        .map_err(|error| error.to_string())
        .and_then(|(tls, roots)| {
            QuicConnector::new(
                settings.server,
                settings.server_name.clone(),
                tls,
                roots,
                Some(pinned),
                limits,
            )
            .map_err(|error| error.to_string())
        });
    let connector = match connector {
        Ok(connector) => connector,
        Err(error) => return sheet.wrong("server", error, "mend `server` and `server_name`"),
    };
    match connector.connect().await {
        Ok(link) => {
            drop(link);
            sheet.ok("server", format!("{} answers with the policy's key", settings.server));
        }
        Err(TransportError::Unreachable { addr }) => sheet.wrong(
            "server",
            format!("nobody answers at UDP {addr}"),
            "see that the server runs, that `server` is its address and that UDP passes; --offline leaves this out",
        ),
        Err(error) => sheet.wrong("server", error, "compare `server` and `server_name` with the operator"),
    }
    let _ = tokio::time::timeout(PATIENCE, connector.wait_closed()).await;
}

const PATIENCE: Duration = Duration::from_secs(5);
