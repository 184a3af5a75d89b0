//! The simulator, for the suite.

use crate::conformance::Bed;
use veilsum_transport::{Limits, PeerId, SimConfig, SimConnector, SimListener, SimNet};

pub(crate) struct SimBed {
    net: SimNet,
    server: PeerId,
}

impl Bed for SimBed {
    type Listener = SimListener;
    type Connector = SimConnector;

    fn new(limits: Limits) -> Self {
        let config = SimConfig {
            limits,
            ..SimConfig::default()
        };
        let server = config.server;
        Self {
            net: SimNet::new(7, config),
            server,
        }
    }

    fn listener(&mut self) -> SimListener {
        self.net.listener()
    }

    fn client(&self, n: u8) -> SimConnector {
        self.net.connector(self.id(n))
    }

    fn client_with(&self, n: u8, limits: Limits) -> SimConnector {
        self.client(n).with_limits(limits)
    }

    fn mortal(&mut self, n: u8) -> SimConnector {
        self.client(n)
    }

    fn kill(&self, n: u8) {
        self.net.kill(self.id(n));
    }

    fn id(&self, n: u8) -> PeerId {
        PeerId([n; 32])
    }

    fn server_id(&self) -> PeerId {
        self.server
    }
}
