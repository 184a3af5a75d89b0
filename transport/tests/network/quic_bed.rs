//! QUIC on loopback with an authority of its own, for the suite.

use crate::conformance::Bed;
use crate::relay::{Line, Relay};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use veilsum_transport::{
    ConsortiumCa, IssueKind, Issued, Limits, PeerId, QuicConnector, QuicListener, TlsIdentity, TrustRoots,
};

pub(crate) struct QuicBed {
    ca: ConsortiumCa,
    server: Issued,
    clients: Mutex<BTreeMap<u8, Issued>>,
    limits: Limits,
    /// Where the server is; before there is one, a port on which nobody listens.
    addr: SocketAddr,
    relays: BTreeMap<u8, Relay>,
}

impl QuicBed {
    fn identity(&self, n: u8) -> TlsIdentity {
        let mut clients = self.clients.lock().unwrap();
        identity(clients.entry(n).or_insert_with(|| issue(&self.ca, &client(n))))
    }

    fn connector(&self, n: u8, addr: SocketAddr, limits: Limits) -> QuicConnector {
        QuicConnector::new(
            addr,
            "localhost",
            self.identity(n),
            roots(&self.ca),
            Some(self.server.peer_id),
            limits,
        )
        .unwrap()
    }

    /// Client `n` behind a relay of its own.
    pub(crate) fn relayed(&mut self, n: u8, line: Line) -> QuicConnector {
        let relay = Relay::new(self.addr, line);
        let connector = self.connector(n, relay.addr(), self.limits.clone());
        self.relays.insert(n, relay);
        connector
    }

    pub(crate) fn relay(&self, n: u8) -> &Relay {
        &self.relays[&n]
    }
}

impl Bed for QuicBed {
    type Listener = QuicListener;
    type Connector = QuicConnector;

    fn new(limits: Limits) -> Self {
        let ca = authority("test consortium");
        let server = issue(&ca, &server());
        // A free port that is closed again: nobody is there until `listener` is called.
        let addr = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap();
        Self {
            ca,
            server,
            clients: Mutex::default(),
            limits,
            addr,
            relays: BTreeMap::new(),
        }
    }

    fn listener(&mut self) -> QuicListener {
        let addr = (Ipv4Addr::LOCALHOST, 0).into();
        let listener =
            QuicListener::bind(addr, identity(&self.server), roots(&self.ca), self.limits.clone()).unwrap();
        self.addr = listener.local_addr();
        listener
    }

    fn client(&self, n: u8) -> QuicConnector {
        self.connector(n, self.addr, self.limits.clone())
    }

    fn client_with(&self, n: u8, limits: Limits) -> QuicConnector {
        self.connector(n, self.addr, limits)
    }

    fn mortal(&mut self, n: u8) -> QuicConnector {
        self.relayed(n, Line::default())
    }

    fn kill(&self, n: u8) {
        self.relays[&n].kill();
    }

    fn id(&self, n: u8) -> PeerId {
        self.clients.lock().unwrap()[&n].peer_id
    }

    fn server_id(&self) -> PeerId {
        self.server.peer_id
    }
}

pub(crate) fn authority(name: &str) -> ConsortiumCa {
    ConsortiumCa::generate(name, DAY, SystemTime::now()).unwrap()
}

pub(crate) fn issue(ca: &ConsortiumCa, kind: &IssueKind) -> Issued {
    ca.issue(kind, DAY, SystemTime::now()).unwrap()
}

pub(crate) fn server() -> IssueKind {
    IssueKind::Server {
        names: vec!["localhost".into(), "127.0.0.1".into()],
    }
}

pub(crate) fn client(n: u8) -> IssueKind {
    IssueKind::Client {
        name: format!("client-{n}"),
    }
}

pub(crate) fn identity(issued: &Issued) -> TlsIdentity {
    TlsIdentity::from_pem(issued.cert_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap()
}

pub(crate) fn roots(ca: &ConsortiumCa) -> TrustRoots {
    TrustRoots::from_pem(ca.cert_pem().as_bytes()).unwrap()
}

pub(crate) const DAY: Duration = Duration::from_hours(24);
