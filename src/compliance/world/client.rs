//! A client's side of the world: what reaches its machine, and what comes of it.

use super::super::EngineError;
use super::super::fault::When;
use super::super::hand;
use super::super::network::{Lane, Packet};
use super::super::script::{Fate, View, name_up, phase_of};
use super::World;
use veilsum_aggregation::message::Chunk;
use veilsum_aggregation::{Channel, ClientOutput, ClientUpdate, Now, ToClient, ToServer};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::{Attempt, ClientId, ClusterId, RoundId};

impl World {
    pub(super) fn client_hears(
        &mut self,
        client: ClientId,
        mut message: ToClient,
    ) -> Result<(), EngineError> {
        if let Some(Fate::Dies { noticed, back }) = self.script.dies_before(self.round, client, &message) {
            return self.die(client, noticed, back);
        }
        for act in self.script.acts(self.round) {
            message = hand::client::hears(act, client, message)?;
        }
        let now = self.now;
        let Some(seat) = self.seats.get_mut(&client) else {
            return Ok(());
        };
        let clock = Now(now.saturating_add_signed(seat.skew));
        if let Err(refusal) = seat.machine.handle(message, clock) {
            self.facts.by_client.push((client, refusal.name()));
        }
        self.drain_client(client)
    }

    pub(super) fn drain_client(&mut self, client: ClientId) -> Result<(), EngineError> {
        while let Some(output) = self
            .seats
            .get_mut(&client)
            .and_then(|seat| seat.machine.poll_output())
        {
            if !self.is_alive(client) {
                continue;
            }
            match output {
                ClientOutput::Send(_) | ClientOutput::Upload { .. } if !self.is_there(client) => {}
                ClientOutput::Send(message) => self.client_sends(client, message)?,
                ClientOutput::Upload { round, attempt, from } => {
                    for (cluster, first) in from {
                        self.upload(client, (round, attempt), cluster, first)?;
                    }
                }
                ClientOutput::Journal(bytes) => {
                    if self.may_keep(client)?
                        && let Some(seat) = self.seats.get_mut(&client)
                    {
                        seat.kept.journal = Some(bytes);
                    }
                }
                ClientOutput::Spool { cluster, packed, .. } => {
                    if self.may_keep(client)?
                        && let Some(seat) = self.seats.get_mut(&client)
                    {
                        seat.kept.vectors.insert(cluster, packed);
                    }
                }
                ClientOutput::Train { clusters, .. } => {
                    let now = Now(self.now);
                    let Some(seat) = self.seats.get_mut(&client) else {
                        continue;
                    };
                    let delta = seat.contribution.delta();
                    let updates: Vec<ClientUpdate> = clusters
                        .into_iter()
                        .map(|(cluster, model)| ClientUpdate {
                            cluster,
                            model,
                            delta: delta.clone(),
                        })
                        .collect();
                    if let Err(refusal) = seat.machine.update(&updates, seat.contribution.weight, now) {
                        self.facts.by_client.push((client, refusal.name()));
                    }
                }
                ClientOutput::Keep(head) => {
                    if self.may_keep(client)?
                        && let Some(seat) = self.seats.get_mut(&client)
                    {
                        seat.kept.head = head;
                    }
                }
                ClientOutput::Done { models, .. } => {
                    self.facts.done.insert(client, models);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends the chunks of a kept vector from number `first` on.
    pub(super) fn upload(
        &mut self,
        client: ClientId,
        place: (RoundId, Attempt),
        cluster: ClusterId,
        first: u32,
    ) -> Result<(), EngineError> {
        let rule = &self.federation.policy.update;
        let entries = usize::try_from(rule.entries).unwrap_or_default() + 1;
        let chunking = Chunking::new(rule.modulus, entries);
        let packed = self
            .seats
            .get(&client)
            .and_then(|seat| seat.kept.vectors.get(&cluster))
            .cloned()
            .unwrap_or_default();
        for chunk in Chunk::cut(place, cluster, &packed, chunking, first) {
            if self.is_there(client) {
                self.client_sends(client, ToServer::Chunk(chunk))?;
            }
        }
        Ok(())
    }

    pub(super) fn client_sends(&mut self, client: ClientId, message: ToServer) -> Result<(), EngineError> {
        if let (ToServer::Hello(hello), None, None) = (&message, &self.server, &self.awaited) {
            // Between rounds a hello is heard before the next plan is made.
            return self.greet(client, hello);
        }
        self.check_kept_head(client, &message);
        let chunks = self.chunks_of(client);
        let mut arrival = None;
        match self.script.fate(self.round, client, &message, chunks) {
            Fate::Goes => {}
            Fate::Dies { noticed, back } => return self.die(client, noticed, back),
            Fate::Arrives(When::Inside) => arrival = Some(self.phase_ends - 1),
            Fate::Arrives(_) => arrival = Some(self.phase_ends + 1),
        }
        self.facts.said(client, self.round, self.attempt, &message);
        let mut sent = vec![message];
        let view = View {
            federation: &self.federation,
            round: self.round,
            log: self.disk.entries(),
            taps: &self.taps,
        };
        for act in self.script.acts(self.round) {
            let mut next = Vec::new();
            for message in sent {
                next.extend(hand::client::sends(act, &view, client, message)?);
            }
            sent = next;
        }
        for message in sent {
            for (from, message) in hand::replay::up(&mut self.script, self.round, client, message) {
                self.put_up(from, &message, arrival)?;
            }
        }
        Ok(())
    }

    pub(super) fn put_up(
        &mut self,
        from: ClientId,
        message: &ToServer,
        arrival: Option<u64>,
    ) -> Result<(), EngineError> {
        let name = name_up(message);
        let (kind, channel, mut body) = message.encode()?;
        self.script
            .flip(self.round, from, name, &mut body, &mut self.dice);
        let lane = match channel {
            Channel::Control => Lane::Control(from),
            Channel::Bulk => Lane::Bulk(from),
        };
        let delay = self.network.delay(&mut self.dice);
        // Straggling in one phase must not reach into the next by way of the channel's order.
        let at = arrival
            .filter(|_| phase_of(message).is_some())
            .unwrap_or(self.now + delay);
        self.network.send(lane, Packet { at, kind, body });
        Ok(())
    }

    /// A client keeps the head it accepted before it says so.
    pub(super) fn check_kept_head(&mut self, client: ClientId, message: &ToServer) {
        let Some(seat) = self.seats.get(&client) else {
            return;
        };
        if matches!(message, ToServer::Keys(_) | ToServer::Agree(_)) && seat.kept.head != seat.machine.head()
        {
            self.facts
                .broken
                .push(format!("{client} signed a head that was not on its disk"));
        }
    }

    /// Chunks in a client's whole upload.
    pub(super) fn chunks_of(&self, client: ClientId) -> usize {
        let rule = &self.federation.policy.update;
        let entries = usize::try_from(rule.entries).unwrap_or_default() + 1;
        let each = Chunking::new(rule.modulus, entries).count();
        let clusters = self
            .federation
            .clusters
            .iter()
            .filter(|set| set.contains(&client))
            .count();
        each * clusters
    }
}
