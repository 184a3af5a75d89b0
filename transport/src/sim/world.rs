//! The state of the simulated network: one lock, no tasks of its own.
//!
//! Both halves of every link look at this state, decide, and if they must wait are told until when. Nothing here sleeps.

use super::half::SimLink;
use super::line::{Direction, End, Item, LaneState, LinkState};
use super::{Delivery, Fault, SimConfig};
use crate::error::{CloseCode, TransportError};
use crate::frame::{Frame, Lane};
use crate::limits::Limits;
use crate::link::PeerId;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// The whole network.
pub(super) struct World {
    seed: u64,
    pub(super) config: SimConfig,
    born: Instant,
    state: Mutex<State>,
    /// Told when a partition heals, a peer comes back, or a listener appears.
    pub(super) topology: Notify,
}

#[derive(Default)]
struct State {
    arrivals: Option<mpsc::UnboundedSender<SimLink>>,
    links: BTreeMap<u64, LinkState>,
    next_link: u64,
    /// How often each client has connected: part of the seed of its next link.
    connects: BTreeMap<PeerId, u64>,
    dead: BTreeSet<PeerId>,
    parted: BTreeSet<PeerId>,
    delays: BTreeMap<PeerId, RangeInclusive<u64>>,
    cuts: BTreeMap<PeerId, Cut>,
    deliveries: Vec<Delivery>,
}

/// An armed fault: what may still pass.
#[derive(Clone, Copy)]
struct Cut {
    frames: u64,
    bytes: u64,
}

/// What a half that asked must do.
pub(super) enum Step<T> {
    Done(T),
    /// Ask again when the link changes, or at this time if one is given.
    Wait(Option<Instant>),
}

pub(super) type Outcome<T> = Result<Step<T>, TransportError>;

impl World {
    pub(super) fn new(seed: u64, config: SimConfig) -> Self {
        Self {
            seed,
            config,
            born: Instant::now(),
            state: Mutex::default(),
            topology: Notify::new(),
        }
    }

    pub(super) fn listen(&self, arrivals: mpsc::UnboundedSender<SimLink>) {
        let mut state = self.lock();
        state.dead.remove(&self.config.server);
        let replaced = state.arrivals.replace(arrivals);
        drop(state);
        drop(replaced);
        self.topology.notify_waiters();
    }

    /// Whether a client's packets reach a server at this moment.
    pub(super) fn reachable(&self, peer: PeerId) -> bool {
        let state = self.lock();
        let listening = state
            .arrivals
            .as_ref()
            .is_some_and(|arrivals| !arrivals.is_closed());
        listening && !state.dead.contains(&peer) && !state.parted.contains(&peer)
    }

    pub(super) fn is_dead(&self, peer: PeerId) -> bool {
        self.lock().dead.contains(&peer)
    }

    /// How long the handshake takes: there and back, then the client's certificate, in QUIC's two round trips.
    pub(super) fn handshake_delay(&self, peer: PeerId) -> Duration {
        let mut state = self.lock();
        let nth = state.connects.entry(peer).or_insert(0);
        *nth += 1;
        let nth = *nth;
        let mut rng = self.rng(peer, nth, "handshake");
        let delay = self.delay_range(&state, peer);
        (0..4).map(|_| draw(&mut rng, &delay)).sum()
    }

    /// Makes the link and hands the server its end.
    pub(super) fn open(self: &Arc<Self>, peer: PeerId, limits: &Limits) -> Result<SimLink, TransportError> {
        let server = self.config.server;
        let mut state = self.lock();
        let used = state
            .links
            .values()
            .filter(|link| link.halves_of(End::Server) > 0)
            .count();
        if used >= self.config.limits.max_connections {
            return Err(TransportError::Busy {
                addr: "the simulated server".into(),
            });
        }
        for link in state.links.values_mut().filter(|link| link.client == peer) {
            link.close(TransportError::Closed {
                code: CloseCode::Superseded,
                reason: String::new(),
                peer,
            });
        }
        let id = state.next_link;
        state.next_link += 1;
        let nth = state.connects.get(&peer).copied().unwrap_or_default();
        let now = Instant::now();
        let direction = |way: &str| Direction {
            lanes: Lane::BOTH.map(|lane| LaneState {
                rng: self.rng(peer, nth, &format!("{way} {lane}")),
                queue: VecDeque::new(),
                last_due: now,
                held: 0,
            }),
            free: now,
            reset: None,
            finished: false,
            receiver_gone: false,
            first: Lane::Control,
        };
        let changed = Arc::new(Notify::new());
        let link = LinkState {
            client: peer,
            up: direction("up"),
            down: direction("down"),
            killed: None,
            cut: None,
            stalled: None,
            resumed: now,
            closed: None,
            halves: [2, 2],
            changed: Arc::clone(&changed),
        };
        state.links.insert(id, link);
        let arrivals = state.arrivals.clone();
        // The lock is released first: a link that is dropped takes it.
        drop(state);
        let theirs = SimLink::new(
            Arc::clone(self),
            id,
            End::Server,
            peer,
            Arc::clone(&changed),
            &self.config.limits,
        );
        let ours = SimLink::new(Arc::clone(self), id, End::Client, server, changed, limits);
        if arrivals.is_none_or(|arrivals| arrivals.send(theirs).is_err()) {
            return Err(TransportError::Unreachable {
                addr: "the simulated server".into(),
            });
        }
        Ok(ours)
    }

    pub(super) fn kill(&self, peer: PeerId) {
        let now = Instant::now();
        let mut state = self.lock();
        state.dead.insert(peer);
        let server = peer == self.config.server;
        for link in state
            .links
            .values_mut()
            .filter(|link| server || link.client == peer)
        {
            link.killed = Some(if server { End::Server } else { End::Client });
            link.up.lose_in_flight(now.min(link.stalled.unwrap_or(now)));
            link.cut_now(now);
        }
        let arrivals = if server { state.arrivals.take() } else { None };
        // Not under the lock: links that nobody accepted may be dropped with it.
        drop(state);
        drop(arrivals);
    }

    pub(super) fn revive(&self, peer: PeerId) {
        self.lock().dead.remove(&peer);
        self.topology.notify_waiters();
    }

    pub(super) fn partition(&self, peers: impl IntoIterator<Item = PeerId>) {
        let now = Instant::now();
        let mut state = self.lock();
        state.parted.extend(peers);
        let State { links, parted, .. } = &mut *state;
        for link in links.values_mut().filter(|link| parted.contains(&link.client)) {
            link.stalled.get_or_insert(now);
            link.changed.notify_waiters();
        }
    }

    pub(super) fn heal(&self) {
        let now = Instant::now();
        let idle = self.config.limits.idle_timeout;
        let mut state = self.lock();
        state.parted.clear();
        for link in state.links.values_mut() {
            if let Some(since) = link.stalled.take() {
                if now >= since + idle {
                    link.up.lose_in_flight(since);
                    link.cut_now(since);
                } else {
                    link.resumed = now;
                }
                link.changed.notify_waiters();
            }
        }
        drop(state);
        self.topology.notify_waiters();
    }

    pub(super) fn inject(&self, fault: Fault) {
        let (peer, cut) = match fault {
            Fault::CutAfterFrames { peer, frames } => (
                peer,
                Cut {
                    frames,
                    bytes: u64::MAX,
                },
            ),
            Fault::CutAfterBytes { peer, bytes } => (
                peer,
                Cut {
                    frames: u64::MAX,
                    bytes,
                },
            ),
        };
        self.lock().cuts.insert(peer, cut);
    }

    pub(super) fn set_delay(&self, peer: PeerId, delay_ms: RangeInclusive<u64>) {
        self.lock().delays.insert(peer, delay_ms);
    }

    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        self.lock().deliveries.clone()
    }

    /// Takes the frame out of `frame` if it could be sent.
    pub(super) fn send(&self, id: u64, end: End, frame: &mut Option<Frame>) -> Outcome<()> {
        let now = Instant::now();
        let Some(sending) = frame.as_ref() else {
            return Ok(Step::Done(()));
        };
        let (lane, size) = (sending.lane, sending.wire_len());
        let mut state = self.lock();
        let Some(client) = state.links.get(&id).map(|link| link.client) else {
            return Err(self.vanished());
        };
        let delay = self.delay_range(&state, client);
        let State { links, cuts, .. } = &mut *state;
        let Some(link) = links.get_mut(&id) else {
            return Err(self.vanished());
        };
        let peer = link.peer_of(end, self.config.server);
        let deadline = self.check_alive(link, end, now)?;
        if link.cut.is_some() {
            return Ok(Step::Wait(deadline));
        }

        let gone = |how| Err(TransportError::PeerGone { peer, how });
        if link.direction(end).receiver_gone {
            return gone(STOPPED_READING);
        }
        let window = u64::from(self.config.limits.stream_window);
        let held = link.direction(end).lane(lane).held;
        if held > 0 && held + size > window {
            return Ok(Step::Wait(deadline));
        }
        if end == End::Client
            && let Some(cut) = cuts.get_mut(&client)
        {
            if cut.frames == 0 || cut.bytes < size {
                // The frame is on the line when the line is cut: to its sender it is sent.
                cuts.remove(&client);
                link.cut_now(now);
                *frame = None;
                return Ok(Step::Done(()));
            }
            cut.frames -= 1;
            cut.bytes -= size;
        }
        if let Some(frame) = frame.take() {
            self.transmit(link.direction(end), lane, Item::Frame(frame), size, &delay, now);
        }
        if end == End::Client
            && cuts
                .get(&client)
                .is_some_and(|cut| cut.frames == 0 || cut.bytes == 0)
        {
            cuts.remove(&client);
            link.cut_now(now);
        }
        link.changed.notify_waiters();
        Ok(Step::Done(()))
    }

    /// Ends a direction in order; done when the last byte has arrived.
    pub(super) fn finish(&self, id: u64, end: End) -> Outcome<()> {
        let now = Instant::now();
        let mut state = self.lock();
        let Some(client) = state.links.get(&id).map(|link| link.client) else {
            return Err(self.vanished());
        };
        let delay = self.delay_range(&state, client);
        let Some(link) = state.links.get_mut(&id) else {
            return Err(self.vanished());
        };
        let deadline = self.check_alive(link, end, now)?;
        let peer = link.peer_of(end, self.config.server);
        let (resumed, cut, stalled) = (link.resumed, link.cut.is_some(), link.stalled.is_some());
        let direction = link.direction(end);
        if !direction.finished && !cut {
            direction.finished = true;
            for lane in Lane::BOTH {
                self.transmit(direction, lane, Item::End, 0, &delay, now);
            }
            link.changed.notify_waiters();
        }
        let direction = link.direction(end);
        let arrived = direction
            .lanes
            .iter()
            .map(|lane| lane.last_due)
            .max()
            .unwrap_or(now)
            .max(resumed);
        if cut || stalled {
            return Ok(Step::Wait(deadline));
        }
        if direction.receiver_gone && !direction.lanes.iter().all(|lane| lane.queue.is_empty()) {
            return Err(TransportError::PeerGone {
                peer,
                how: STOPPED_READING,
            });
        }
        if now >= arrived {
            Ok(Step::Done(()))
        } else {
            Ok(Step::Wait(Some(arrived)))
        }
    }

    /// The next frame for this end, `None` at the peer's end.
    pub(super) fn recv(&self, id: u64, end: End) -> Outcome<Option<Frame>> {
        let now = Instant::now();
        let mut state = self.lock();
        let State {
            links, deliveries, ..
        } = &mut *state;
        let Some(link) = links.get_mut(&id) else {
            return Err(self.vanished());
        };
        let peer = link.peer_of(end, self.config.server);
        if link.killed == Some(end) {
            return Err(TransportError::PeerGone { peer, how: KILLED });
        }
        // What arrived before a cut or a stall can still be read.
        let horizon = link.stalled.unwrap_or(now).min(now);
        let resumed = link.resumed;
        let direction = link.direction(end.other());
        if let Some(frame) = direction.take_arrived(resumed, horizon) {
            if let Err(error) = self.config.limits.check(&frame) {
                let error = TransportError::from_frame(error, peer);
                link.close(TransportError::Closed {
                    code: error.close_code(),
                    reason: String::new(),
                    peer,
                });
                return Err(error);
            }
            if self.config.record {
                let to = link.peer_of(end.other(), self.config.server);
                deliveries.push(self.delivery(peer, to, &frame, now));
            }
            link.changed.notify_waiters();
            return Ok(Step::Done(Some(frame)));
        }
        if direction.has_ended(resumed, horizon) {
            return Ok(Step::Done(None));
        }
        let reset = direction.reset;
        if reset.is_some_and(|at| at.max(resumed) <= horizon) {
            return Err(TransportError::PeerGone { peer, how: LET_GO });
        }
        let next = direction.next_arrival(resumed, horizon);
        let deadline = self.check_alive(link, end, now)?;
        // While stalled nothing more arrives, so only the timeout is worth waking for.
        let arrival = if link.stalled.is_some() {
            None
        } else {
            next.into_iter().chain(reset).min()
        };
        Ok(Step::Wait(arrival.into_iter().chain(deadline).min()))
    }

    /// One half is dropped. The sending one resets what it did not finish.
    pub(super) fn drop_half(&self, id: u64, end: End, sending: bool) {
        let now = Instant::now();
        let mut state = self.lock();
        let Some(client) = state.links.get(&id).map(|link| link.client) else {
            return;
        };
        let delay = self.delay_range(&state, client);
        let Some(link) = state.links.get_mut(&id) else {
            return;
        };
        let arrived = link.stalled.unwrap_or(now);
        let direction = if sending {
            link.direction(end)
        } else {
            link.direction(end.other())
        };
        if sending {
            let complete = direction.finished && direction.lanes.iter().all(|lane| lane.last_due <= arrived);
            if !complete {
                direction.lose_in_flight(arrived);
                let lane = direction.lane(Lane::Control);
                direction.reset = Some(now + draw(&mut lane.rng, &delay));
            }
        } else {
            direction.receiver_gone = true;
            for lane in &mut direction.lanes {
                // Ends that were taken stay, so that a sender waiting in `finish` sees that all was read.
                let unread = lane.queue.iter().any(|(_, item)| matches!(item, Item::Frame(_)));
                if !unread && lane.queue.front().is_some_and(|(due, _)| *due <= arrived) {
                    lane.queue.clear();
                }
            }
        }
        if let Some(count) = link.halves.get_mut(end as usize) {
            *count = count.saturating_sub(1);
        }
        link.changed.notify_waiters();
        if link.halves == [0, 0] {
            state.links.remove(&id);
        }
    }

    /// Queues something with its delay; never before what was queued on the same lane.
    fn transmit(
        &self,
        direction: &mut Direction,
        lane: Lane,
        item: Item,
        size: u64,
        delay: &RangeInclusive<u64>,
        now: Instant,
    ) {
        if let Some(rate) = self.config.bytes_per_second {
            let micros = size.saturating_mul(1_000_000) / rate.max(1);
            direction.free = direction.free.max(now) + Duration::from_micros(micros);
        } else {
            direction.free = now;
        }
        let leaves = direction.free;
        let state = direction.lane(lane);
        let mut due = leaves + draw(&mut state.rng, delay);
        let loss = u64::from(self.config.loss_per_mille.min(MAX_LOSS));
        while loss > 0 && state.rng.next_u64() % 1000 < loss {
            due += Duration::from_millis(self.config.retransmit_ms);
        }
        state.last_due = state.last_due.max(due);
        state.held += size;
        state.queue.push_back((state.last_due, item));
    }

    /// Fails if the link is over for this end; otherwise says when it will be, if nothing changes.
    fn check_alive(
        &self,
        link: &LinkState,
        end: End,
        now: Instant,
    ) -> Result<Option<Instant>, TransportError> {
        let peer = link.peer_of(end, self.config.server);
        if link.killed == Some(end) {
            return Err(TransportError::PeerGone { peer, how: KILLED });
        }
        if let Some(error) = &link.closed {
            return Err(with_peer(error, peer));
        }
        if link.halves_of(end.other()) == 0 && link.cut.is_none() && link.stalled.is_none() {
            let unread = link.incoming(end).lanes.iter().any(|lane| !lane.queue.is_empty());
            if !unread && link.incoming(end).reset.is_none() {
                return Err(TransportError::PeerGone { peer, how: LET_GO });
            }
        }
        let deadline = link
            .cut
            .into_iter()
            .chain(link.stalled)
            .min()
            .map(|since| since + self.config.limits.idle_timeout);
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(TransportError::PeerGone { peer, how: IDLE });
        }
        Ok(deadline)
    }

    fn delivery(&self, from: PeerId, to: PeerId, frame: &Frame, now: Instant) -> Delivery {
        let at_ms = u64::try_from(now.duration_since(self.born).as_millis()).unwrap_or(u64::MAX);
        Delivery {
            at_ms,
            from,
            to,
            lane: frame.lane,
            kind: frame.kind,
            len: frame.body.len(),
        }
    }

    /// The same for both ends of a link, different for any two links.
    pub(super) fn channel_binding(&self, id: u64) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"veilsum simulated channel");
        hash.update(self.seed.to_le_bytes());
        hash.update(id.to_le_bytes());
        hash.finalize().into()
    }

    fn delay_range(&self, state: &State, peer: PeerId) -> RangeInclusive<u64> {
        state.delays.get(&peer).unwrap_or(&self.config.delay_ms).clone()
    }

    /// A generator of its own for every purpose, so that nobody's draws shift anybody else's.
    fn rng(&self, peer: PeerId, nth: u64, purpose: &str) -> ChaCha20Rng {
        let mut hash = Sha256::new();
        hash.update(b"veilsum simulated network");
        hash.update(self.seed.to_le_bytes());
        hash.update(peer.0);
        hash.update(nth.to_le_bytes());
        hash.update(purpose.as_bytes());
        ChaCha20Rng::from_seed(hash.finalize().into())
    }

    fn vanished(&self) -> TransportError {
        TransportError::PeerGone {
            peer: self.config.server,
            how: LET_GO,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same reason, told to the other end.
fn with_peer(error: &TransportError, peer: PeerId) -> TransportError {
    match error {
        TransportError::Closed { code, reason, .. } => TransportError::Closed {
            code: *code,
            reason: reason.clone(),
            peer,
        },
        other => other.clone(),
    }
}

/// Uniform over the range, but for a bias below 2^-40 that no simulation can see.
fn draw(rng: &mut ChaCha20Rng, range: &RangeInclusive<u64>) -> Duration {
    let span = range.end().saturating_sub(*range.start()).saturating_add(1);
    Duration::from_millis(range.start() + rng.next_u64() % span)
}

const MAX_LOSS: u16 = 900;
const KILLED: &str = "this end was killed";
const IDLE: &str = "nothing arrived from it for the idle timeout";
const LET_GO: &str = "its program let go of the link";
const STOPPED_READING: &str = "its program stopped reading";
