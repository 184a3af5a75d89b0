//! Clients come and go: processes that die and start again, connections that end and come back.

use super::super::EngineError;
use super::super::tap::{Heard, Tap};
use super::{Alarm, Kept, World, phase_number};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use veilsum_aggregation::Client;
use veilsum_crypto::ClientId;

impl World {
    /// A client's process as it starts: from its journal, if there is one.
    pub(super) fn machine(&mut self, client: ClientId, kept: &Kept) -> Result<Client<Tap>, EngineError> {
        let heard = (self.tap_all || self.script.tapped().contains(&client)).then(Heard::default);
        if let Some(heard) = &heard {
            self.taps.insert(client, heard.clone());
        }
        let rng = Tap::new(ChaCha20Rng::seed_from_u64(self.dice.next_u64()), heard);
        let member = self.federation.member(client)?;
        match &kept.journal {
            Some(journal) => Client::restore(member, kept.head, journal, rng)
                .map_err(|error| EngineError::Restore(error.to_string())),
            None => Ok(Client::new(member, kept.head, rng)?),
        }
    }

    /// Clients that died or were cut off in an earlier round are started again and connect.
    pub(super) fn wake(&mut self) -> Result<(), EngineError> {
        self.network.forget_cuts();
        self.alarms.clear();
        self.server = None;
        let clients: Vec<ClientId> = self.seats.keys().copied().collect();
        for client in clients {
            self.revive(client)?;
            if self.seats.get(&client).is_some_and(|seat| !seat.connected) {
                self.connect(client)?;
            }
        }
        Ok(())
    }

    /// Starts a client's process again, if it is dead.
    pub(super) fn revive(&mut self, client: ClientId) -> Result<(), EngineError> {
        let Some(mut seat) = self.seats.remove(&client) else {
            return Ok(());
        };
        if !seat.alive {
            seat.machine = self.machine(client, &seat.kept)?;
            seat.alive = true;
        }
        self.seats.insert(client, seat);
        Ok(())
    }

    /// A client connects and says hello. Between attempts the hello is heard at once; what follows it is on its way.
    pub(super) fn connect(&mut self, client: ClientId) -> Result<(), EngineError> {
        let Some(seat) = self.seats.get_mut(&client).filter(|seat| seat.alive) else {
            return Ok(());
        };
        seat.connected = true;
        seat.machine.connected();
        self.drain_client(client)
    }

    /// A client's connection is gone, with everything on its way.
    pub(super) fn disconnect(&mut self, client: ClientId) {
        self.network.lose(client);
        if let Some(seat) = self.seats.get_mut(&client) {
            seat.connected = false;
        }
    }

    pub(super) fn dead(&self) -> impl Iterator<Item = ClientId> {
        self.seats
            .iter()
            .filter(|(_, seat)| !seat.alive)
            .map(|(client, _)| *client)
    }

    pub(super) fn is_alive(&self, client: ClientId) -> bool {
        self.seats.get(&client).is_some_and(|seat| seat.alive)
    }

    /// Whether a client's process runs and its connection is up.
    pub(super) fn is_there(&self, client: ClientId) -> bool {
        self.seats
            .get(&client)
            .is_some_and(|seat| seat.alive && seat.connected)
    }

    pub(super) fn die(
        &mut self,
        client: ClientId,
        noticed: Option<bool>,
        back: bool,
    ) -> Result<(), EngineError> {
        if back {
            self.alarm(self.now + 30, Alarm::ClientBack(client));
        }
        self.kill(client, noticed)
    }

    /// A client is gone: its process, and by chance what it had under way; the server notices, or does not.
    pub(super) fn kill(&mut self, client: ClientId, noticed: Option<bool>) -> Result<(), EngineError> {
        let (lost, by_chance) = (
            self.dice.next_u32().is_multiple_of(2),
            self.dice.next_u32().is_multiple_of(2),
        );
        if let Some(seat) = self.seats.get_mut(&client) {
            seat.alive = false;
            seat.connected = false;
        }
        self.network.lose_down(client);
        if lost {
            self.network.lose(client);
        }
        if noticed.unwrap_or(by_chance) {
            self.server_gone(client)?;
        }
        Ok(())
    }

    /// Whether a client's disk takes what it must keep; the client stops if not.
    pub(super) fn may_keep(&mut self, client: ClientId) -> Result<bool, EngineError> {
        let phase = self.server.as_ref().map(|server| phase_number(server.phase()));
        if self.script.client_disk_full(self.round, client, phase) {
            self.facts.stopped.insert(client);
            self.kill(client, None)?;
            return Ok(false);
        }
        Ok(true)
    }
}
