//! What servers and clients have in common: trust, policy, keys, certificates, the clock.

use super::{Sheet, rehearsal};
use crate::config::{ConfigError, Located, TlsConfig, TrustConfig, WatchConfig};
use crate::genesis::{Genesis, GenesisError};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, SystemTime};
use veilsum_crypto::PublicIdentity;
use veilsum_transport::{CertificateFacts, PeerId};

/// The policy file, under the authority that the configuration trusts.
pub(super) fn policy<T>(
    sheet: &mut Sheet,
    located: &Located<T>,
    trust: &TrustConfig,
    path: &Path,
) -> Option<Genesis> {
    let trusted = match trust.trust() {
        Ok(trusted) => trusted,
        Err(error) => {
            sheet.wrong("trust", error, TELL_AUTHORITY);
            sheet.cannot_tell("policy", "there is no authority key to check it with");
            return None;
        }
    };
    let genesis = match Genesis::read(&located.path(path), &trusted) {
        Ok(genesis) => genesis,
        Err(error @ GenesisError::Authority) => {
            sheet.wrong("trust", error, TELL_AUTHORITY);
            sheet.cannot_tell("policy", "there is no authority key to check it with");
            return None;
        }
        Err(error @ GenesisError::Statement(_)) => {
            sheet.cannot_tell("trust", "the policy file does not agree with it");
            sheet.wrong(
                "policy",
                error,
                "compare trust.federation and trust.authority with what the consortium told you, and fetch the policy file again",
            );
            return None;
        }
        Err(error) => {
            sheet.cannot_tell("trust", "it takes the policy file");
            sheet.wrong("policy", error, "fetch the policy file again from the consortium");
            return None;
        }
    };
    let policy = &genesis.policy;
    sheet.ok(
        "trust",
        format!("`{}`, whose authority signed the policy", trusted.federation),
    );
    sheet.ok(
        "policy",
        format!(
            "{} clients, threshold {}, crowd {} of {} organisations, {} rounds",
            policy.clients, policy.threshold, policy.crowd, policy.crowd_orgs, policy.rounds
        ),
    );
    Some(genesis)
}

/// The signing key: there, its owner's alone, and the policy's. `whose` is what the policy says.
pub(super) fn key<T>(
    sheet: &mut Sheet,
    located: &Located<T>,
    path: &Path,
    whose: Option<(&PublicIdentity, String)>,
) {
    let shown = located.path(path).display().to_string();
    let identity = match located.identity(path) {
        Ok(identity) => identity,
        Err(error) => {
            return fault(
                sheet,
                "signing key",
                &error,
                "put the key file back from its backup, or enrol again",
            );
        }
    };
    match whose {
        None => sheet.cannot_tell(
            "signing key",
            format!("{shown} is one; whose takes the policy file"),
        ),
        Some((key, name)) if *key == identity.public() => {
            sheet.ok("signing key", format!("{shown}, the policy's for {name}"));
        }
        Some((_, name)) => sheet.wrong(
            "signing key",
            format!("{shown} is not the key that the policy names for {name}"),
            "take this party's own key file, or the policy file of the federation that it is enrolled in",
        ),
    }
}

/// The TLS files: there, one pair, the policy's, in time, and of the authority.
pub(super) async fn certificate<T>(
    sheet: &mut Sheet,
    located: &Located<T>,
    tls: &TlsConfig,
    whose: Option<(PeerId, String)>,
    side: rehearsal::Role,
    now: SystemTime,
) -> bool {
    let (identity, roots) = match located.tls(tls) {
        Ok(pair) => pair,
        Err(error) => {
            fault(
                sheet,
                "TLS files",
                &error,
                "take the files that came with the certificate",
            );
            sheet.cannot_tell("certificate", "it takes the TLS files");
            return false;
        }
    };
    match whose {
        None => sheet.cannot_tell("TLS files", "they fit together; whose takes the policy file"),
        Some((id, name)) if id == identity.peer_id() => {
            sheet.ok("TLS files", format!("key {id}, the policy's for {name}"));
        }
        Some((id, name)) => sheet.wrong(
            "TLS files",
            format!(
                "the certificate's key is {}, and the policy names {id} for {name}",
                identity.peer_id()
            ),
            "take this party's own certificate and key, or have a policy signed that names these",
        ),
    }
    dates(sheet, "certificate", &located.path(&tls.certificate), now, false);
    dates(sheet, "authority", &located.path(&tls.authority), now, true);
    rehearsal::rehearse(sheet, identity, roots, side).await;
    true
}

/// Whether a certificate is valid now and for a while.
fn dates(sheet: &mut Sheet, check: &'static str, path: &Path, now: SystemTime, authority: bool) {
    let facts = std::fs::read_to_string(path)
        .map_err(|error| error.to_string())
        .and_then(|pem| CertificateFacts::of_pem(&pem).map_err(|error| error.to_string()));
    let shown = path.display();
    let facts = match facts {
        Ok(facts) => facts,
        Err(error) => return sheet.wrong(check, format!("{shown}: {error}"), "have it issued again"),
    };
    if authority && !facts.is_authority {
        return sheet.wrong(
            check,
            format!(
                "{shown} is the certificate of `{}`, which is no authority",
                facts.name
            ),
            "take the consortium's ca.pem",
        );
    }
    if let Ok(early) = facts.not_before.duration_since(now) {
        return sheet.wrong(
            check,
            format!("{shown} begins in {} by this machine's clock", days(early)),
            "set the clock; if it is right, have the certificate issued again",
        );
    }
    let Ok(left) = facts.not_after.duration_since(now) else {
        let past = now.duration_since(facts.not_after).unwrap_or_default();
        return sheet.wrong(
            check,
            format!("{shown} ended {} ago", days(past)),
            "have it renewed over the same key: the policy names the key",
        );
    };
    if left < SOON {
        return sheet.wrong(
            check,
            format!("{shown} ends in {}", days(left)),
            "have it renewed over the same key now: the policy names the key",
        );
    }
    sheet.ok(check, format!("{shown}, valid for another {}", days(left)));
}

/// Whether the clock can be right: nothing that was made with the federation may lie in the future.
pub(super) fn clock<T>(
    sheet: &mut Sheet,
    located: &Located<T>,
    tls: &TlsConfig,
    policy: &Path,
    now: SystemTime,
) {
    let founded = std::fs::read_to_string(located.path(&tls.authority))
        .ok()
        .and_then(|pem| CertificateFacts::of_pem(&pem).ok())
        .map(|facts| facts.not_before);
    let written = std::fs::metadata(located.path(policy))
        .and_then(|meta| meta.modified())
        .ok();
    let todo = "set the clock, for example by NTP: certificates are checked against it";
    match (founded, written) {
        (Some(founded), _) if founded > now => {
            let early = founded.duration_since(now).unwrap_or_default();
            sheet.wrong(
                "clock",
                format!(
                    "it says {} before the consortium's certificate authority began",
                    days(early)
                ),
                todo,
            );
        }
        (_, Some(written)) if written > now + DAY => {
            let early = written.duration_since(now).unwrap_or_default();
            sheet.wrong(
                "clock",
                format!("the policy file was written {} later than now", days(early)),
                todo,
            );
        }
        (None, _) => sheet.cannot_tell("clock", "there is no authority certificate to compare with"),
        _ => sheet.ok("clock", "later than the consortium's founding"),
    }
}

/// A configuration's error, with its own advice where it has one.
fn fault(sheet: &mut Sheet, check: &'static str, error: &ConfigError, todo: &str) {
    match error {
        ConfigError::Permissions { path, mode } => sheet.wrong(
            check,
            format!("{path} has mode {mode:o}: others can read this secret"),
            format!("chmod 600 {path}"),
        ),
        other => sheet.wrong(check, other, todo),
    }
}

fn days(time: Duration) -> String {
    match time.as_secs() / 86_400 {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// Whether the address at which the party can be looked at may be opened, and can.
pub(super) fn watch(sheet: &mut Sheet, watch: Option<&WatchConfig>) {
    let Some(watch) = watch else {
        return;
    };
    if let Err(error) = watch.check() {
        return sheet.wrong("watch", error, "mend [watch] in the configuration");
    }
    let listen = watch.listen;
    match TcpListener::bind(listen) {
        Ok(_) if listen.ip().is_loopback() => {
            sheet.ok("watch", format!("TCP {listen} is free; only this machine reaches it"));
        }
        Ok(_) => sheet.ok(
            "watch",
            format!("TCP {listen} is free; whoever reaches it reads how the federation goes, without being asked who it is"),
        ),
        Err(error) => sheet.wrong(
            "watch",
            format!("cannot listen on TCP {listen}: {error}"),
            elsewhere(error.kind()),
        ),
    }
}

/// What to do where nothing can listen.
pub(super) fn elsewhere(error: ErrorKind) -> &'static str {
    match error {
        ErrorKind::AddrInUse => "stop the process that listens there, or choose another port",
        ErrorKind::AddrNotAvailable => "write an address of this machine into `listen`, or 0.0.0.0",
        ErrorKind::PermissionDenied => "choose a port above 1023, or allow this one to the user",
        _ => "check `listen` and the network's settings",
    }
}

const TELL_AUTHORITY: &str = "ask the consortium's authority for its key, by another way than the network, and write it into trust.authority";
const DAY: Duration = Duration::from_hours(24);
/// A renewal takes people; this is what they get.
const SOON: Duration = Duration::from_hours(24 * 14);
