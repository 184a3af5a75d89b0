//! Whether the other side would take this party's certificate: a handshake on loopback against a stand-in of the other side.
//!
//! The stand-in has a certificate of an authority made for the moment, and demands of this party what the real one does: a
//! certificate of the authority in the party's own files. The TLS library looks at the system's clock itself.

use super::Sheet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};
use veilsum_transport::{
    Connector, ConsortiumCa, IssueKind, Limits, PkiError, QuicConnector, QuicListener, TlsIdentity,
    TransportError, TrustRoots,
};

/// Which side this party is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Server,
    Client,
}

pub(super) async fn rehearse(sheet: &mut Sheet, own: TlsIdentity, authority: TrustRoots, role: Role) {
    let other = match stand_in(role) {
        Ok(other) => other,
        Err(error) => return sheet.cannot_tell(CHECK, format!("no stand-in can be made: {error}")),
    };
    let met = match role {
        // The server shows its certificate to a client that trusts the authority; the client is let in.
        Role::Server => meet((own, other.1), (other.0, authority)).await,
        // The other way round.
        Role::Client => meet((other.0, authority), (own, other.1)).await,
    };
    match met {
        // Chains are checked before names, and which name clients use is theirs to say.
        Ok(()) | Err(TransportError::WrongServerName { .. }) => {
            sheet.ok(CHECK, "the authority's, and good for this role");
        }
        Err(TransportError::Io { doing, detail, .. }) => {
            sheet.cannot_tell(CHECK, format!("no handshake on loopback: {doing}: {detail}"));
        }
        Err(TransportError::UnknownAuthority { .. }) => sheet.wrong(
            CHECK,
            "the certificate was not issued by the authority in tls.authority",
            "take the ca.pem and the certificate of the same consortium",
        ),
        Err(TransportError::CertificateExpired { .. }) => sheet.wrong(
            CHECK,
            "refused: the certificate or its authority's is expired or not yet valid",
            "see the lines above on their dates and on the clock",
        ),
        Err(error) => sheet.wrong(
            CHECK,
            format!("the other side would refuse the certificate: {error}"),
            "have a certificate issued for this role by the consortium's authority",
        ),
    }
}

/// The other side's certificate, and roots that believe it.
fn stand_in(role: Role) -> Result<(TlsIdentity, TrustRoots), PkiError> {
    let now = SystemTime::now();
    let ca = ConsortiumCa::generate("rehearsal", VALIDITY, now)?;
    let kind = match role {
        Role::Server => IssueKind::Client {
            name: "rehearsal".to_owned(),
        },
        Role::Client => IssueKind::Server {
            names: vec![NAME.to_owned()],
        },
    };
    let issued = ca.issue(&kind, VALIDITY, now)?;
    let identity = TlsIdentity::from_pem(issued.cert_pem.as_bytes(), issued.key_pem.as_bytes())?;
    Ok((identity, TrustRoots::from_pem(ca.cert_pem().as_bytes())?))
}

/// A handshake between a listener and a connector, each an identity and whom it believes.
async fn meet(
    (server, clients): (TlsIdentity, TrustRoots),
    (client, servers): (TlsIdentity, TrustRoots),
) -> Result<(), TransportError> {
    let limits = Limits {
        handshake_timeout: PATIENCE,
        ..Limits::default()
    };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = QuicListener::bind(loopback, server, clients, limits.clone())?;
    let connector = QuicConnector::new(listener.local_addr(), NAME, client, servers, None, limits)?;
    let met = connector.connect().await.map(|_| ());
    let _ = tokio::time::timeout(PATIENCE, listener.close()).await;
    met
}

const CHECK: &str = "chain";
const NAME: &str = "localhost";
const VALIDITY: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_secs(5);
