//! The network: messages on their way, each with the time it arrives. Order holds inside a channel and nowhere else.

use chacha20::ChaCha20Rng;
use rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use veilsum_crypto::ClientId;

/// One channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Client to server, small messages.
    Control(ClientId),
    /// Client to server, vectors.
    Bulk(ClientId),
    /// Server to client.
    Down(ClientId),
}

impl Lane {
    pub(super) fn client(self) -> ClientId {
        match self {
            Self::Control(client) | Self::Bulk(client) | Self::Down(client) => client,
        }
    }
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) at: u64,
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
}

/// All channels.
#[derive(Debug, Default)]
pub(super) struct Network {
    lanes: BTreeMap<Lane, VecDeque<Packet>>,
    cut: BTreeSet<ClientId>,
    /// The longest a message takes, in milliseconds.
    pub(super) latency: u64,
}

impl Network {
    /// A network whose messages take up to `latency` milliseconds.
    pub(super) fn new(latency: u64) -> Self {
        Self {
            latency,
            ..Self::default()
        }
    }

    /// How long the next message takes.
    pub(super) fn delay(&self, dice: &mut ChaCha20Rng) -> u64 {
        1 + dice.next_u64() % self.latency.max(1)
    }

    /// Sends; what is behind another message of its channel arrives no earlier.
    pub(super) fn send(&mut self, lane: Lane, mut packet: Packet) {
        let queue = self.lanes.entry(lane).or_default();
        if let Some(before) = queue.back() {
            packet.at = packet.at.max(before.at);
        }
        queue.push_back(packet);
    }

    /// When the next message arrives.
    pub(super) fn next(&self) -> Option<u64> {
        self.ready().map(|(_, at)| at).min()
    }

    /// Takes one of the messages that have arrived by `now`, in any order the channels let.
    pub(super) fn take(&mut self, now: u64, dice: &mut ChaCha20Rng) -> Option<(Lane, Packet)> {
        let here: Vec<Lane> = self
            .ready()
            .filter(|(_, at)| *at <= now)
            .map(|(lane, _)| lane)
            .collect();
        let choice = dice.next_u32() as usize % here.len().max(1);
        let lane = *here.get(choice)?;
        let packet = self.lanes.get_mut(&lane)?.pop_front()?;
        Some((lane, packet))
    }

    fn ready(&self) -> impl Iterator<Item = (Lane, u64)> {
        self.lanes
            .iter()
            .filter(|(lane, _)| !self.cut.contains(&lane.client()))
            .filter_map(|(lane, queue)| Some((*lane, queue.front()?.at)))
    }

    /// What a client sent is lost; what is on its way to it too.
    pub(super) fn lose(&mut self, client: ClientId) {
        self.lanes.retain(|lane, _| lane.client() != client);
    }

    /// What is on its way to a client is lost.
    pub(super) fn lose_down(&mut self, client: ClientId) {
        self.lanes.remove(&Lane::Down(client));
    }

    /// Holds back whatever is from or for a client.
    pub(super) fn cut(&mut self, client: ClientId) {
        self.cut.insert(client);
    }

    /// Lets it through again, not before `now`.
    pub(super) fn heal(&mut self, client: ClientId, now: u64) {
        self.cut.remove(&client);
        for (_, queue) in self.lanes.iter_mut().filter(|(lane, _)| lane.client() == client) {
            for packet in queue {
                packet.at = packet.at.max(now);
            }
        }
    }

    /// Whether a client is cut off.
    pub(super) fn is_cut(&self, client: ClientId) -> bool {
        self.cut.contains(&client)
    }

    /// Every partition ends and what it held back is gone.
    pub(super) fn forget_cuts(&mut self) {
        for client in std::mem::take(&mut self.cut) {
            self.lose(client);
        }
    }
}
