//! The server's side of the world: what reaches its machine, and what comes of it.

use super::super::EngineError;
use super::super::facts::Ending;
use super::super::fault::Deed;
use super::super::hand;
use super::super::network::{Lane, Packet};
use super::super::script::{ServerFate, View, name_down};
use super::{Alarm, World, length, phase_number};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use veilsum_aggregation::message::Hello;
use veilsum_aggregation::server::ServerOutput;
use veilsum_aggregation::{Now, Server, ToClient, ToServer};
use veilsum_attestation::bundle::VectorName;
use veilsum_crypto::ClientId;

impl World {
    pub(super) fn server_hears(&mut self, from: ClientId, message: ToServer) -> Result<(), EngineError> {
        let mut heard = Some(message);
        let mut sent = Vec::new();
        let view = View {
            federation: &self.federation,
            round: self.round,
            log: self.disk.entries(),
            taps: &self.taps,
        };
        for act in self.script.acts(self.round) {
            if let Some(message) = heard.take() {
                let (kept, downs) = hand::server::hears(act, &view, from, message)?;
                heard = kept;
                sent.extend(downs);
            }
        }
        for (to, message) in sent {
            self.put_down(to, &message)?;
        }
        match heard {
            Some(ToServer::Hello(hello)) => self.greet(from, &hello),
            Some(message) => {
                if let Some(server) = &mut self.server {
                    server.handle(from, message, Now(self.now));
                }
                self.drain_server()
            }
            None => self.drain_server(),
        }
    }

    /// The server's process is back: it ends what its log leaves open, and its clients come back to it.
    pub(super) fn server_back(&mut self) -> Result<(), EngineError> {
        self.disk.empty();
        let setup = self.federation.server_setup()?;
        let rng = ChaCha20Rng::seed_from_u64(self.dice.next_u64());
        if let Ok(server) = Server::recover(setup, self.disk.log(), &self.disk, Now(self.now), rng) {
            self.server = Some(server);
            self.drain_server()?;
            self.server = None;
        }
        let here: Vec<ClientId> = self
            .seats
            .iter()
            .filter(|(client, seat)| seat.alive && !self.network.is_cut(**client))
            .map(|(client, _)| *client)
            .collect();
        if self.disk.next().0 == self.round {
            self.awaited = Some(here.iter().copied().collect());
            self.alarm(self.now + 200, Alarm::ServerStarts);
        }
        for client in here {
            let at = self.now + self.network.delay(&mut self.dice);
            self.alarm(at, Alarm::Connect(client));
        }
        Ok(())
    }

    /// A client's first words on a connection, as the server's driver takes them.
    pub(super) fn greet(&mut self, from: ClientId, hello: &Hello) -> Result<(), EngineError> {
        if let Some((place, message)) = &self.over
            && hello.at.is_some_and(|at| (at.round, at.attempt) == *place)
        {
            let message = message.clone();
            self.server_sends(from, message)?;
        }
        if let Some(server) = &mut self.server {
            server.join(from, hello, Now(self.now));
            return self.drain_server();
        }
        let Some(awaited) = &mut self.awaited else {
            return Ok(());
        };
        awaited.remove(&from);
        if awaited.is_empty() {
            return self.ring(Alarm::ServerStarts);
        }
        Ok(())
    }

    pub(super) fn drain_server(&mut self) -> Result<(), EngineError> {
        let mut pending: VecDeque<ServerOutput> = VecDeque::new();
        while let Some(output) = self.server.as_mut().and_then(Server::poll_output) {
            pending.push_back(output);
        }
        while let Some(output) = pending.pop_front() {
            match output {
                ServerOutput::Send(to, message) => self.server_sends(to, message)?,
                ServerOutput::Record(entry) if !self.record(&entry)? => return Ok(()),
                ServerOutput::Store {
                    client,
                    cluster,
                    bytes,
                } => {
                    let name = VectorName {
                        round: self.round,
                        attempt: self.attempt,
                        client,
                        cluster,
                    };
                    self.disk.vectors.insert(name, bytes);
                }
                ServerOutput::Refused(client, refusal) => {
                    self.facts.by_server.push((client, refusal.name()));
                }
                ServerOutput::Done(outcome) => {
                    for opened in &outcome.opened {
                        self.disk.keep_model(&opened.model);
                        if let Some(slot) = self.models.get_mut(usize::from(opened.cluster.0)) {
                            *slot = Arc::clone(&opened.model);
                        }
                    }
                    self.end(Ending::Sum(outcome));
                }
                ServerOutput::Aborted(abort) => self.end(Ending::Abort(abort.name().to_owned())),
                ServerOutput::Record(_) | ServerOutput::Progress { .. } => {}
            }
        }
        let phase = self.server.as_ref().map(Server::phase);
        if phase != self.phase {
            self.phase = phase;
            if let Some(phase) = phase {
                self.phase_ends = self.now + length(phase);
                self.begin_partitions(phase_number(phase))?;
            }
        }
        Ok(())
    }

    pub(super) fn end(&mut self, ending: Ending) {
        self.facts.endings.push((self.round, self.attempt, ending));
    }

    /// Writes an entry to disk; false when the server is gone after that.
    pub(super) fn record(&mut self, entry: &[u8]) -> Result<bool, EngineError> {
        let threshold = self.federation.policy.threshold as usize;
        let fate = self.script.server_fate(self.round, entry, threshold);
        if fate == ServerFate::DiskFull {
            self.disk.fill();
        }
        let view = View {
            federation: &self.federation,
            round: self.round,
            log: self.disk.entries(),
            taps: &self.taps,
        };
        let mut written = entry.to_vec();
        for act in self.script.acts(self.round) {
            written = hand::server::records(act, &view, written)?;
        }
        let kept = self.disk.append(written);
        if kept && fate == ServerFate::Goes {
            return Ok(true);
        }
        self.server = None;
        let clients: Vec<ClientId> = self.seats.keys().copied().collect();
        for client in clients {
            self.disconnect(client);
        }
        if kept {
            // Its sums may be on disk already: then the round is done, and it was the machine's last word.
            self.alarm(self.now + 50, Alarm::ServerBack);
        } else {
            // What was opened but not recorded was never published.
            let place = (self.round, self.attempt);
            self.facts
                .endings
                .retain(|(round, attempt, _)| (*round, *attempt) != place);
            self.end(Ending::ServerStopped);
        }
        Ok(false)
    }

    pub(super) fn server_sends(&mut self, to: ClientId, message: ToClient) -> Result<(), EngineError> {
        self.check_stored(&message);
        if matches!(message, ToClient::Published(_) | ToClient::Aborted(_)) {
            self.over = Some(((self.round, self.attempt), message.clone()));
        }
        let mut sent = vec![(to, message)];
        let view = View {
            federation: &self.federation,
            round: self.round,
            log: self.disk.entries(),
            taps: &self.taps,
        };
        for act in self.script.acts(self.round) {
            let mut next = Vec::new();
            for (to, message) in sent {
                next.extend(hand::server::sends(act, &view, to, message)?);
            }
            sent = next;
        }
        for (to, message) in sent {
            let message = hand::replay::down(&mut self.script, self.round, to, message);
            self.put_down(to, &message)?;
        }
        Ok(())
    }

    /// Nothing is acknowledged that is not stored: every statement an honest server shows is on its disk.
    pub(super) fn check_stored(&mut self, message: &ToClient) {
        let entries: Vec<&[u8]> = match message {
            ToClient::Plan(plan) => vec![&plan.entry],
            ToClient::Roster(roster) => roster.keys.iter().map(|entry| &**entry).collect(),
            ToClient::Inbox(inbox) => inbox.shares.iter().map(|entry| &**entry).collect(),
            ToClient::Agreement(agreement) => agreement.agrees.iter().map(|entry| &**entry).collect(),
            ToClient::Published(entry) | ToClient::Aborted(entry) => vec![entry],
            _ => Vec::new(),
        };
        let forged = self.script.does(Deed::WrongSum, self.round).is_some()
            || self.script.does(Deed::WrongModel, self.round).is_some();
        if !forged && entries.into_iter().any(|entry| !self.disk.holds(entry)) {
            self.facts
                .broken
                .push("the server showed a statement that was not on its disk".into());
        }
    }

    pub(super) fn put_down(&mut self, to: ClientId, message: &ToClient) -> Result<(), EngineError> {
        if !self.is_there(to) {
            return Ok(());
        }
        let name = name_down(message);
        let (kind, _, mut body) = message.encode()?;
        self.script.flip(self.round, to, name, &mut body, &mut self.dice);
        let at = self.now + self.network.delay(&mut self.dice);
        self.network.send(Lane::Down(to), Packet { at, kind, body });
        Ok(())
    }

    pub(super) fn server_gone(&mut self, client: ClientId) -> Result<(), EngineError> {
        if let Some(server) = &mut self.server {
            server.gone(client, Now(self.now));
            self.drain_server()?;
        }
        Ok(())
    }
}
