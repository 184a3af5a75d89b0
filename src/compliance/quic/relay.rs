//! A UDP relay between one client and the server: loss, reordering, a slow line, a line that is cut for a while, a client
//! that moves to another address.

use crate::compliance::EngineError;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// What a line does to datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Lost, of a thousand.
    pub(super) loss_per_mille: u32,
    /// Held back a few milliseconds, of a thousand, so that later ones overtake them.
    pub(super) late_per_mille: u32,
    /// Bits a second; 0 for no limit.
    pub(super) bits_per_second: u64,
}

/// Passes one client's datagrams on. Dropping it cuts the line for good.
pub(super) struct Relay {
    addr: SocketAddr,
    switch: Arc<Switch>,
    running: JoinHandle<()>,
}

/// What can be done to a relay while it runs.
#[derive(Debug, Default)]
pub(super) struct Switch {
    cut: AtomicBool,
    moved: Notify,
    turned: Notify,
}

impl Switch {
    /// Holds every datagram back from now on.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// Lets what was held back go, in order, and everything after it.
    pub(super) fn heal(&self) {
        self.cut.store(false, Ordering::SeqCst);
        self.turned.notify_one();
    }

    /// From now on the server sees the client at another port.
    pub(super) fn change_address(&self) {
        self.moved.notify_one();
    }
}

impl Relay {
    /// A relay in front of `server`, on an address of its own.
    pub(super) async fn new(server: SocketAddr, line: Line, seed: u64) -> Result<Self, EngineError> {
        let near = socket().await?;
        let addr = near.local_addr().map_err(network)?;
        let switch = Arc::new(Switch::default());
        let route = Route {
            near: Arc::new(near),
            far: Arc::new(socket().await?),
            server,
            line,
            rng: ChaCha20Rng::seed_from_u64(seed),
            held: VecDeque::new(),
            free_at: [Instant::now(); 2],
        };
        let running = tokio::spawn(route.run(Arc::clone(&switch)));
        Ok(Self {
            addr,
            switch,
            running,
        })
    }

    /// Where the client finds it.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn switch(&self) -> Arc<Switch> {
        Arc::clone(&self.switch)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// The relay at work.
struct Route {
    near: Arc<UdpSocket>,
    far: Arc<UdpSocket>,
    server: SocketAddr,
    line: Line,
    rng: ChaCha20Rng,
    /// Datagrams held back by a cut: upward or not, bytes.
    held: VecDeque<(bool, Vec<u8>)>,
    /// When each direction of a slow line is free again.
    free_at: [Instant; 2],
}

impl Route {
    async fn run(mut self, switch: Arc<Switch>) {
        let mut client = None;
        let (mut up, mut down) = (vec![0u8; 65_536], vec![0u8; 65_536]);
        loop {
            tokio::select! {
                biased;
                () = switch.moved.notified() => {
                    if let Ok(fresh) = socket().await {
                        self.far = Arc::new(fresh);
                    }
                }
                () = switch.turned.notified() => {
                    for (upward, datagram) in std::mem::take(&mut self.held) {
                        self.pass(upward, datagram, client);
                    }
                }
                Ok((length, from)) = self.near.recv_from(&mut up) => {
                    client = Some(from);
                    let datagram = up.get(..length).unwrap_or_default().to_vec();
                    self.take(true, datagram, client, &switch);
                }
                Ok((length, _)) = self.far.recv_from(&mut down) => {
                    let datagram = down.get(..length).unwrap_or_default().to_vec();
                    self.take(false, datagram, client, &switch);
                }
            }
        }
    }

    fn take(&mut self, upward: bool, datagram: Vec<u8>, client: Option<SocketAddr>, switch: &Switch) {
        if switch.cut.load(Ordering::SeqCst) {
            // A cut that lasts must not fill the memory.
            if self.held.len() < MOST_HELD {
                self.held.push_back((upward, datagram));
            }
        } else {
            self.pass(upward, datagram, client);
        }
    }

    fn pass(&mut self, upward: bool, datagram: Vec<u8>, client: Option<SocketAddr>) {
        let mut happens = |per_mille: u32| self.rng.next_u32() % 1000 < per_mille;
        if happens(self.line.loss_per_mille) {
            return;
        }
        let mut wait = if happens(self.line.late_per_mille) {
            LATE
        } else {
            Duration::ZERO
        };
        if let Some(takes) = (datagram.len() as u64 * 8_000_000).checked_div(self.line.bits_per_second)
            && let Some(free_at) = self.free_at.get_mut(usize::from(upward))
        {
            let now = Instant::now();
            *free_at = (*free_at).max(now) + Duration::from_micros(takes);
            wait += *free_at - now;
        }
        let (socket, to) = if upward {
            (Arc::clone(&self.far), Some(self.server))
        } else {
            (Arc::clone(&self.near), client)
        };
        let Some(to) = to else {
            return;
        };
        if wait.is_zero() {
            // A full socket buffer is one more loss.
            let _ = socket.try_send_to(&datagram, to);
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                let _ = socket.send_to(&datagram, to).await;
            });
        }
    }
}

async fn socket() -> Result<UdpSocket, EngineError> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(network)
}

#[expect(clippy::needless_pass_by_value, reason = "an error is handed over")]
fn network(error: std::io::Error) -> EngineError {
    EngineError::Network(error.to_string())
}

const MOST_HELD: usize = 20_000;
const LATE: Duration = Duration::from_millis(5);
