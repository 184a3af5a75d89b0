//! A UDP relay between client and server, for faults no program can be asked to commit: loss, reordering, a dead cable, a new address.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Passes one client's datagrams on. Dropping it cuts the line for good.
pub(crate) struct Relay {
    addr: SocketAddr,
    switch: Arc<Switch>,
    running: JoinHandle<()>,
}

#[derive(Default)]
struct Switch {
    dead: AtomicBool,
    passed: AtomicU64,
    move_now: Notify,
}

/// What the line does to datagrams.
#[derive(Clone, Copy, Default)]
pub(crate) struct Line {
    pub(crate) loss_per_mille: u64,
    /// This share of datagrams is held back for a few milliseconds, so that later ones overtake them.
    pub(crate) late_per_mille: u64,
}

impl Relay {
    /// A relay in front of `server`, on an address of its own.
    pub(crate) fn new(server: SocketAddr, line: Line) -> Self {
        let bind = || {
            let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let near = bind();
        let addr = near.local_addr().unwrap();
        let switch = Arc::new(Switch::default());
        let near = Arc::new(UdpSocket::from_std(near).unwrap());
        let far = UdpSocket::from_std(bind()).unwrap();
        let running = tokio::spawn(run(near, far, server, Arc::clone(&switch), line));
        Self {
            addr,
            switch,
            running,
        }
    }

    /// Where the client finds it.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Nothing passes any more, in either direction.
    pub(crate) fn kill(&self) {
        self.switch.dead.store(true, Ordering::SeqCst);
    }

    /// From now on the server sees the client at another port.
    pub(crate) fn change_address(&self) {
        self.switch.move_now.notify_one();
    }

    /// Datagrams passed so far.
    pub(crate) fn passed(&self) -> u64 {
        self.switch.passed.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn run(near: Arc<UdpSocket>, far: UdpSocket, server: SocketAddr, switch: Arc<Switch>, line: Line) {
    let mut far = Arc::new(far);
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    let mut client = None;
    let (mut up, mut down) = (vec![0u8; 65_536], vec![0u8; 65_536]);
    loop {
        tokio::select! {
            biased;
            () = switch.move_now.notified() => {
                far = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
            }
            Ok((n, from)) = near.recv_from(&mut up) => {
                client = Some(from);
                pass(&mut rng, line, &switch, &far, &up[..n], server);
            }
            Ok((n, _)) = far.recv_from(&mut down) => {
                if let Some(client) = client {
                    pass(&mut rng, line, &switch, &near, &down[..n], client);
                }
            }
        }
    }
}

fn pass(
    rng: &mut ChaCha20Rng,
    line: Line,
    switch: &Switch,
    socket: &Arc<UdpSocket>,
    datagram: &[u8],
    to: SocketAddr,
) {
    let mut happens = |per_mille: u64| rng.next_u64() % 1000 < per_mille;
    if switch.dead.load(Ordering::SeqCst) || happens(line.loss_per_mille) {
        return;
    }
    switch.passed.fetch_add(1, Ordering::SeqCst);
    if happens(line.late_per_mille) {
        let (socket, datagram) = (Arc::clone(socket), datagram.to_vec());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let _ = socket.send_to(&datagram, to).await;
        });
    } else {
        // A full socket buffer is one more loss.
        let _ = socket.try_send_to(datagram, to);
    }
}
