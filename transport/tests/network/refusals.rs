//! Who does not get in, by what name, on both sides; and the listener lives on after each of them.

use crate::hostile::{Raw, alpn, raw_connect};
use crate::quic_bed::{DAY, authority, client, identity, issue, roots, server};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};
use veilsum_transport::{Connector, QuicLink};
use veilsum_transport::{
    ConsortiumCa, Frame, FrameReceiver, FrameSender, IssueKind, Issued, Limits, Link, Listener, PeerId,
    QuicConnector, QuicListener, RevocationList, Side, TransportError, TrustRoots,
};

/// A server of one consortium, and what it said about those it refused.
pub(crate) struct Gatehouse {
    pub(crate) ca: ConsortiumCa,
    pub(crate) listener: QuicListener,
    pub(crate) server: Issued,
}

impl Gatehouse {
    pub(crate) fn open() -> Self {
        let ca = authority("test consortium");
        let server = issue(&ca, &server());
        let trusted = roots(&ca);
        Self::with(ca, server, trusted, Limits::default())
    }

    pub(crate) fn with(ca: ConsortiumCa, server: Issued, trusted: TrustRoots, limits: Limits) -> Self {
        let listener = QuicListener::bind(
            (Ipv4Addr::LOCALHOST, 0).into(),
            identity(&server),
            trusted,
            limits,
        )
        .unwrap();
        Self { ca, listener, server }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// A client with this certificate that trusts `ca` and asks for `name`.
    async fn knock(
        &self,
        cert: &Issued,
        trusted: &ConsortiumCa,
        name: &str,
        pin: Option<PeerId>,
    ) -> Result<QuicLink, TransportError> {
        self.knock_as(identity(cert), roots(trusted), name, pin).await
    }

    async fn knock_as(
        &self,
        identity: veilsum_transport::TlsIdentity,
        trusted: TrustRoots,
        name: &str,
        pin: Option<PeerId>,
    ) -> Result<QuicLink, TransportError> {
        let limits = Limits {
            handshake_timeout: Duration::from_secs(4),
            ..Limits::default()
        };
        QuicConnector::new(self.addr(), name, identity, trusted, pin, limits)?
            .connect()
            .await
    }

    /// The first refusal; waits for it, as the server may learn of it after the client.
    pub(crate) async fn refusal(&self) -> TransportError {
        for _ in 0..200 {
            if let Some(refused) = self.listener.refused().first() {
                return refused.error.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server noticed nothing");
    }

    /// Somebody honest still gets in, and is heard.
    pub(crate) async fn still_open(&mut self) {
        let honest = issue(&self.ca, &client(200));
        let link = self
            .knock_as(identity(&honest), roots(&self.ca), "localhost", None)
            .await;
        let (mut tx, _rx) = link.unwrap().split();
        let served = self.listener.accept().await.unwrap();
        assert_eq!(served.peer(), honest.peer_id);
        let (_tx, mut rx) = served.split();
        tx.send(Frame::control(1, &b"hello"[..])).await.unwrap();
        assert_eq!(&rx.recv().await.unwrap().unwrap().body[..], b"hello");
    }
}

fn refused(result: Result<QuicLink, TransportError>) -> TransportError {
    match result {
        Ok(_) => panic!("let in"),
        Err(error) => {
            assert!(!error.retry(), "trying again does not help: {error}");
            error
        }
    }
}

#[tokio::test]
async fn a_client_of_another_authority() {
    let mut house = Gatehouse::open();
    // Same name as the consortium's authority: only the key tells them apart.
    for name in ["another consortium", "test consortium"] {
        let stranger = issue(&authority(name), &client(1));
        let error = refused(house.knock(&stranger, &house.ca, "localhost", None).await);
        assert_eq!(
            error,
            TransportError::UnknownAuthority {
                refused_by: Side::Peer
            },
            "{name}"
        );
    }
    assert_eq!(
        house.refusal().await,
        TransportError::UnknownAuthority { refused_by: Side::We }
    );
    assert_eq!(house.listener.refused().len(), 2);
    assert_eq!(
        house.listener.refused()[1].error,
        TransportError::UnknownAuthority { refused_by: Side::We }
    );
    house.still_open().await;
}

#[tokio::test]
async fn a_server_of_another_authority() {
    let mut house = Gatehouse::open();
    let other = authority("another consortium");
    let ours = issue(&other, &client(1));
    let error = refused(house.knock(&ours, &other, "localhost", None).await);
    assert_eq!(error, TransportError::UnknownAuthority { refused_by: Side::We });
    assert_eq!(
        house.refusal().await,
        TransportError::UnknownAuthority {
            refused_by: Side::Peer
        }
    );
    house.still_open().await;
}

#[tokio::test]
async fn a_client_without_a_certificate() {
    let mut house = Gatehouse::open();
    let error = raw_connect(
        &house,
        Raw {
            certificate: None,
            alpn: alpn(),
        },
    )
    .await
    .err()
    .unwrap();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(
        house.refusal().await,
        TransportError::NoClientCertificate { refused_by: Side::We }
    );
    house.still_open().await;
}

#[tokio::test]
async fn an_expired_client_and_one_not_yet_valid() {
    let mut house = Gatehouse::open();
    let now = SystemTime::now();
    for made in [now - 2 * DAY, now + DAY] {
        let stale = house.ca.issue(&client(1), DAY, made).unwrap();
        let error = refused(house.knock(&stale, &house.ca, "localhost", None).await);
        assert_eq!(
            error,
            TransportError::CertificateExpired {
                refused_by: Side::Peer
            }
        );
    }
    assert_eq!(
        house.refusal().await,
        TransportError::CertificateExpired { refused_by: Side::We }
    );
    house.still_open().await;
}

#[tokio::test]
async fn an_expired_server() {
    let ca = authority("test consortium");
    let stale = ca.issue(&server(), DAY, SystemTime::now() - 2 * DAY).unwrap();
    let trusted = roots(&ca);
    let house = Gatehouse::with(ca, stale, trusted, Limits::default());
    let client = issue(&house.ca, &client(1));
    let error = refused(house.knock(&client, &house.ca, "localhost", None).await);
    assert_eq!(error, TransportError::CertificateExpired { refused_by: Side::We });
    assert_eq!(
        house.refusal().await,
        TransportError::CertificateExpired {
            refused_by: Side::Peer
        }
    );
}

#[tokio::test]
async fn a_server_with_another_key_than_the_pinned_one() {
    let mut house = Gatehouse::open();
    let cert = issue(&house.ca, &client(1));
    let pinned = PeerId([7; 32]);
    let error = refused(house.knock(&cert, &house.ca, "localhost", Some(pinned)).await);
    assert_eq!(
        error,
        TransportError::WrongServerKey {
            pinned,
            got: house.server.peer_id
        }
    );
    let seen = house.refusal().await;
    let TransportError::CertificateRefused {
        refused_by: Side::Peer,
        why,
    } = seen
    else {
        panic!("{seen}")
    };
    assert!(why.contains("pinned"), "{why}");
    assert!(
        house
            .knock(&cert, &house.ca, "localhost", Some(house.server.peer_id))
            .await
            .is_ok()
    );
    house.listener.accept().await.unwrap();
    house.still_open().await;
}

#[tokio::test]
async fn a_server_that_is_not_who_was_asked_for() {
    let mut house = Gatehouse::open();
    let cert = issue(&house.ca, &client(1));
    let error = refused(house.knock(&cert, &house.ca, "aggregator.example", None).await);
    assert_eq!(
        error,
        TransportError::WrongServerName {
            asked: "aggregator.example".into()
        }
    );
    assert!(matches!(
        house.refusal().await,
        TransportError::CertificateRefused {
            refused_by: Side::Peer,
            ..
        }
    ));
    let error = refused(house.knock(&cert, &house.ca, "not a name", None).await);
    assert!(
        matches!(
            error,
            TransportError::BadSetting {
                setting: "server_name",
                ..
            }
        ),
        "{error}"
    );
    assert!(
        house.knock(&cert, &house.ca, "127.0.0.1", None).await.is_ok(),
        "an address in the certificate is a name"
    );
    house.listener.accept().await.unwrap();
    house.still_open().await;
}

#[tokio::test]
async fn a_revoked_client_even_with_a_new_certificate() {
    let ca = authority("test consortium");
    let server = issue(&ca, &server());
    let list = RevocationList::default();
    let trusted = roots(&ca).with_revocations(list.clone());
    let mut house = Gatehouse::with(ca, server, trusted, Limits::default());
    let request = veilsum_transport::KeyRequest::generate().unwrap();
    let certify = |ca: &ConsortiumCa, at| ca.sign(&request.request_pem, &client(1), DAY, at).unwrap().0;
    let first = certify(&house.ca, SystemTime::now());
    let renewed = certify(&house.ca, SystemTime::now() - Duration::from_mins(1));
    let as_client = |pem: &str| {
        veilsum_transport::TlsIdentity::from_pem(pem.as_bytes(), request.key_pem.as_bytes()).unwrap()
    };
    assert!(
        house
            .knock_as(as_client(&first), roots(&house.ca), "localhost", None)
            .await
            .is_ok()
    );
    house.listener.accept().await.unwrap();
    list.revoke(request.peer_id);
    for pem in [&first, &renewed] {
        let error = refused(
            house
                .knock_as(as_client(pem), roots(&house.ca), "localhost", None)
                .await,
        );
        assert_eq!(
            error,
            TransportError::CertificateRevoked {
                refused_by: Side::Peer
            }
        );
    }
    assert_eq!(
        house.refusal().await,
        TransportError::CertificateRevoked { refused_by: Side::We }
    );
    house.still_open().await;
}

#[tokio::test]
async fn a_revoked_server() {
    let house = Gatehouse::open();
    let cert = issue(&house.ca, &client(1));
    let trusted = roots(&house.ca).with_revocations([house.server.peer_id].into_iter().collect());
    let error = refused(house.knock_as(identity(&cert), trusted, "localhost", None).await);
    assert_eq!(error, TransportError::CertificateRevoked { refused_by: Side::We });
    assert_eq!(
        house.refusal().await,
        TransportError::CertificateRevoked {
            refused_by: Side::Peer
        }
    );
}

#[tokio::test]
async fn certificates_used_for_the_wrong_purpose() {
    let mut house = Gatehouse::open();
    let another_server = issue(
        &house.ca,
        &IssueKind::Server {
            names: vec!["localhost".into()],
        },
    );
    let error = refused(house.knock(&another_server, &house.ca, "localhost", None).await);
    let TransportError::CertificateRefused {
        refused_by: Side::Peer,
        why,
    } = error
    else {
        panic!("{error}")
    };
    assert!(why.contains("purpose"), "{why}");
    assert!(matches!(
        house.refusal().await,
        TransportError::CertificateRefused {
            refused_by: Side::We,
            ..
        }
    ));
    house.still_open().await;
}

#[tokio::test]
async fn another_protocol_on_the_same_port() {
    let mut house = Gatehouse::open();
    let cert = issue(&house.ca, &client(1));
    let raw = Raw {
        certificate: Some(&cert),
        alpn: vec![b"h3".to_vec()],
    };
    assert!(raw_connect(&house, raw).await.is_err());
    assert_eq!(house.refusal().await, TransportError::AlpnMismatch);
    house.still_open().await;
}
