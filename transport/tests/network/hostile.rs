//! Clients of the consortium that do not keep to the protocol: written with bare quinn, so that nothing of ours stops them.

use crate::quic_bed::{client, issue};
use crate::refusals::Gatehouse;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use veilsum_transport::{
    CloseCode, Frame, FrameReceiver, FrameSender, Issued, Lane, Limits, Link, Listener, QuicReceiver,
    QuicSender, TransportError,
};

/// How a bare client presents itself.
pub(crate) struct Raw<'a> {
    pub(crate) certificate: Option<&'a Issued>,
    pub(crate) alpn: Vec<Vec<u8>>,
}

pub(crate) fn alpn() -> Vec<Vec<u8>> {
    vec![b"veilsum/1".to_vec()]
}

/// A handshake; if the server refuses only after it, its refusal.
pub(crate) async fn raw_connect(house: &Gatehouse, raw: Raw<'_>) -> Result<Connection, ConnectionError> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(house.ca.cert_pem().as_bytes()).unwrap())
        .unwrap();
    let builder =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
    let mut config = match raw.certificate {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let chain = vec![CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = raw.alpn;
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let connection = endpoint
        .connect_with(config, house.addr(), "localhost")
        .unwrap()
        .await?;
    // In TLS 1.3 the client is through before its certificate is looked at.
    match timeout(Duration::from_millis(300), connection.closed()).await {
        Ok(refusal) => Err(refusal),
        Err(_) => Ok(connection),
    }
}

/// A bare client with a good certificate, past the handshake.
async fn insider(house: &Gatehouse) -> Connection {
    let cert = issue(&house.ca, &client(1));
    raw_connect(
        house,
        Raw {
            certificate: Some(&cert),
            alpn: alpn(),
        },
    )
    .await
    .unwrap()
}

/// Both lanes opened by the rules, and the server's end of the link.
async fn let_in(
    house: &mut Gatehouse,
) -> (
    Connection,
    [(SendStream, RecvStream); 2],
    QuicSender,
    QuicReceiver,
) {
    let connection = insider(house).await;
    let (mut control, mut bulk) = (
        connection.open_bi().await.unwrap(),
        connection.open_bi().await.unwrap(),
    );
    control.0.write_all(b"c").await.unwrap();
    bulk.0.write_all(b"b").await.unwrap();
    let (tx, rx) = house.listener.accept().await.unwrap().split();
    let mut hello = [0];
    control.1.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello, [1]);
    (connection, [control, bulk], tx, rx)
}

/// How the link failed; a hang is a failure of the test.
async fn failure(rx: &mut QuicReceiver) -> TransportError {
    timeout(Duration::from_secs(10), rx.recv())
        .await
        .expect("the link hangs")
        .unwrap_err()
}

#[tokio::test]
async fn a_hostile_length_is_refused_and_nothing_is_allocated() {
    let mut house = Gatehouse::open();
    let (connection, [mut control, _bulk], _tx, mut rx) = let_in(&mut house).await;
    control.0.write_all(&[0xFF; 4]).await.unwrap();
    let error = failure(&mut rx).await;
    let max = Limits::default().control_max;
    assert!(
        matches!(error, TransportError::FrameTooLarge { lane: Lane::Control, got: 0xFFFF_FFFE, max: m, .. } if m == max),
        "{error}"
    );
    let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
        panic!("not told why")
    };
    assert_eq!(close.error_code, 2u32.into());
    house.still_open().await;
}

#[tokio::test]
async fn a_lane_that_ends_inside_a_frame_is_truncated() {
    let mut house = Gatehouse::open();
    let (_connection, [_control, mut bulk], _tx, mut rx) = let_in(&mut house).await;
    bulk.0
        .write_all(&[4, 0, 0, 0, 9, 1, 2, 3, 101, 0, 0, 0, 9, 1, 2])
        .await
        .unwrap();
    bulk.0.finish().unwrap();
    assert_eq!(rx.recv().await.unwrap(), Some(Frame::bulk(9, vec![1, 2, 3])));
    let error = failure(&mut rx).await;
    assert!(
        matches!(
            error,
            TransportError::Truncated {
                lane: Lane::Bulk,
                missing: 98,
                ..
            }
        ),
        "{error}"
    );
    house.still_open().await;
}

#[tokio::test]
async fn a_frame_of_length_zero_is_malformed() {
    let mut house = Gatehouse::open();
    let (_connection, [mut control, _bulk], _tx, mut rx) = let_in(&mut house).await;
    control.0.write_all(&[0; 5]).await.unwrap();
    let error = failure(&mut rx).await;
    assert!(matches!(error, TransportError::Malformed { .. }), "{error}");
    house.still_open().await;
}

#[tokio::test]
async fn one_lane_finished_and_the_other_cut_off_is_not_an_end() {
    let mut house = Gatehouse::open();
    let (connection, [mut control, bulk], _tx, mut rx) = let_in(&mut house).await;
    control.0.finish().unwrap();
    sleep(Duration::from_millis(100)).await;
    connection.close(9u32.into(), b"bye\n\x07");
    let error = failure(&mut rx).await;
    let TransportError::Closed {
        code: CloseCode::Other(9),
        reason,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(reason, "bye??", "a peer's words are cleaned");
    drop(bulk);
    house.still_open().await;
}

#[tokio::test]
async fn lanes_opened_in_a_wrong_way_are_refused() {
    let mut house = Gatehouse::open();
    for tags in [[b"c", b"c"], [b"b", b"b"], [b"c", b"x"], [b"\0", b"b"]] {
        let connection = insider(&house).await;
        let mut open = Vec::new();
        for tag in tags {
            let mut stream = connection.open_bi().await.unwrap();
            stream.0.write_all(tag).await.unwrap();
            open.push(stream);
        }
        let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
            panic!("not told why")
        };
        assert_eq!(close.error_code, 3u32.into());
    }
    assert!(
        house
            .listener
            .refused()
            .iter()
            .all(|r| matches!(r.error, TransportError::Malformed { .. }))
    );
    assert_eq!(house.listener.refused().len(), 4);
    house.still_open().await;
}

#[tokio::test]
async fn lanes_in_the_other_order_are_fine() {
    let mut house = Gatehouse::open();
    let connection = insider(&house).await;
    let (mut bulk, mut control) = (
        connection.open_bi().await.unwrap(),
        connection.open_bi().await.unwrap(),
    );
    bulk.0.write_all(b"b").await.unwrap();
    control.0.write_all(b"c").await.unwrap();
    let (_tx, mut rx) = house.listener.accept().await.unwrap().split();
    bulk.0.write_all(&[1, 0, 0, 0, 4]).await.unwrap();
    assert_eq!(rx.recv().await.unwrap(), Some(Frame::bulk(4, Vec::new())));
}

#[tokio::test]
async fn a_third_stream_is_not_to_be_had() {
    let mut house = Gatehouse::open();
    let (connection, _lanes, _tx, _rx) = let_in(&mut house).await;
    let third = timeout(Duration::from_millis(200), connection.open_bi()).await;
    assert!(third.is_err(), "a third stream was granted");
    let uni = timeout(Duration::from_millis(200), connection.open_uni()).await;
    assert!(uni.is_err(), "a one-way stream was granted");
}

#[tokio::test]
async fn a_slow_handshake_holds_nobody_up_and_ends() {
    let house = Gatehouse::open();
    let limits = Limits {
        handshake_timeout: Duration::from_millis(1500),
        ..Limits::default()
    };
    let Gatehouse { ca, server, .. } = house;
    let trusted = crate::quic_bed::roots(&ca);
    let mut house = Gatehouse::with(ca, server, trusted, limits);
    let started = Instant::now();
    let mut sleepers = Vec::new();
    for _ in 0..5 {
        // Through TLS, and then silence: no lane is ever opened.
        sleepers.push(insider(&house).await);
    }
    let honest = Instant::now();
    house.still_open().await;
    assert!(
        honest.elapsed() < Duration::from_millis(1400),
        "waited for the sleepers: {:?}",
        honest.elapsed()
    );
    assert_eq!(sleepers.len(), 5);
    for sleeper in sleepers {
        sleeper.closed().await;
    }
    assert!(started.elapsed() < Duration::from_secs(6));
    let error = house.refusal().await;
    assert!(
        matches!(error, TransportError::HandshakeTimeout { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn garbage_datagrams_change_nothing() {
    let mut house = Gatehouse::open();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for n in 0..2000usize {
        let datagram: Vec<u8> = (0..n % 1400).map(|i| (i * n + n / 7) as u8).collect();
        socket.send_to(&datagram, house.addr()).unwrap();
    }
    house.still_open().await;
}

#[tokio::test]
async fn a_server_that_shuts_down_says_so() {
    let mut house = Gatehouse::open();
    let (connection, _lanes, mut tx, mut rx) = let_in(&mut house).await;
    let Gatehouse { listener, .. } = house;
    listener.close().await;
    let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
        panic!("not told why")
    };
    assert_eq!(close.error_code, 5u32.into());
    let shut = |error: &TransportError| {
        matches!(
            error,
            TransportError::Closed {
                code: CloseCode::Shutdown,
                ..
            }
        )
    };
    assert!(shut(&tx.send(Frame::control(1, Vec::new())).await.unwrap_err()));
    assert!(shut(&failure(&mut rx).await));
}
