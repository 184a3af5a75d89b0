//! Certificates that must not get in, over real TLS on loopback.

use super::EngineError;
use super::scenario::Check;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};
use tracing::subscriber::{NoSubscriber, with_default};
use veilsum_transport::{
    Connector, ConsortiumCa, IssueKind, Issued, Limits, QuicConnector, QuicListener, RevocationList, Side,
    TlsIdentity, TransportError, TrustRoots,
};

/// Knocks with a bad certificate; gives the name of the refusal, and nothing when it is let in.
pub(super) fn refused(check: Check) -> Result<Vec<&'static str>, EngineError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|_| EngineError::Internal("no runtime"))
        // The listener warns of whom it refuses, which is what it is here for.
        .and_then(|runtime| with_default(NoSubscriber::new(), || runtime.block_on(knock(check))))
}

async fn knock(check: Check) -> Result<Vec<&'static str>, EngineError> {
    let now = SystemTime::now();
    let ca = ConsortiumCa::generate("compliance", DAY, now)?;
    let names = vec!["localhost".to_owned()];
    let server = ca.issue(&IssueKind::Server { names }, DAY, now)?;
    let list = RevocationList::default();
    let trusted = roots(&ca)?.with_revocations(list.clone());
    let listener = QuicListener::bind(
        (Ipv4Addr::LOCALHOST, 0).into(),
        identity(&server)?,
        trusted,
        Limits::default(),
    )?;
    let kind = IssueKind::Client {
        name: "client-1".to_owned(),
    };
    let certificate = match check {
        Check::OtherAuthority => ConsortiumCa::generate("compliance", DAY, now)?.issue(&kind, DAY, now)?,
        Check::Expired => ca.issue(&kind, DAY, now - 2 * DAY)?,
        _ => ca.issue(&kind, DAY, now)?,
    };
    if check == Check::Revoked {
        list.revoke(certificate.peer_id);
    }
    let limits = Limits {
        handshake_timeout: Duration::from_secs(4),
        ..Limits::default()
    };
    let connector = QuicConnector::new(
        listener.local_addr(),
        "localhost",
        identity(&certificate)?,
        roots(&ca)?,
        Some(server.peer_id),
        limits,
    )?;
    Ok(match (check, connector.connect().await) {
        (
            Check::OtherAuthority,
            Err(TransportError::UnknownAuthority {
                refused_by: Side::Peer,
            }),
        )
        | (
            Check::Expired,
            Err(TransportError::CertificateExpired {
                refused_by: Side::Peer,
            }),
        )
        | (
            Check::Revoked,
            Err(TransportError::CertificateRevoked {
                refused_by: Side::Peer,
            }),
        ) => {
            vec!["Unauthorised"]
        }
        (_, Err(_)) => vec!["AnotherError"],
        (_, Ok(_)) => Vec::new(),
    })
}

fn identity(issued: &Issued) -> Result<TlsIdentity, EngineError> {
    Ok(TlsIdentity::from_pem(
        issued.cert_pem.as_bytes(),
        issued.key_pem.as_bytes(),
    )?)
}

fn roots(ca: &ConsortiumCa) -> Result<TrustRoots, EngineError> {
    Ok(TrustRoots::from_pem(ca.cert_pem().as_bytes())?)
}

const DAY: Duration = Duration::from_hours(24);
