//! What the server and the clients say while they run, and what is done to the lines because of it.

use super::relay::Switch;
use crate::compliance::coverage::Phase;
use crate::compliance::fault::{Deed, FaultSpec, When};
use crate::events::{ClientEvent, ServerEvent, Sink};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use veilsum_crypto::ClientId;

/// Listens to the server and cuts lines when their phase begins.
pub(super) struct Watch {
    pub(super) faults: Vec<(BTreeSet<ClientId>, FaultSpec)>,
    pub(super) switches: BTreeMap<ClientId, Arc<Switch>>,
    pub(super) phase: Option<String>,
    pub(super) survivors: Option<BTreeSet<ClientId>>,
    pub(super) released: usize,
    pub(super) withheld: usize,
    pub(super) aborted: Option<String>,
    /// Clients change their addresses when their vectors are due.
    pub(super) moves: bool,
}

impl Watch {
    pub(super) fn begin(&mut self, phase: Phase, left_ms: u64) {
        for (who, spec) in &self.faults {
            let here = matches!(spec.does, Deed::Partition | Deed::Straggle) && spec.at == Some(phase);
            if !here {
                continue;
            }
            let back = match (spec.does, spec.when) {
                (Deed::Partition, Some(When::Inside)) => Some(left_ms / 3),
                (Deed::Straggle, Some(When::Inside)) => Some(left_ms * 3 / 4),
                (_, Some(When::Outside)) => Some(left_ms + 400),
                _ => None,
            };
            for client in who {
                if let Some(switch) = self.switches.get(client).cloned() {
                    switch.cut();
                    if let Some(back) = back {
                        tokio::spawn(async move {
                            tokio::time::sleep(Duration::from_millis(back)).await;
                            switch.heal();
                        });
                    }
                }
            }
        }
        if self.moves && phase == Phase::P3 {
            for switch in self.switches.values() {
                switch.change_address();
            }
        }
    }
}

impl Sink<ServerEvent> for Watch {
    fn emit(&mut self, _t_ms: u64, event: &ServerEvent) -> std::io::Result<()> {
        match event {
            ServerEvent::Phase {
                phase, deadline_ms, ..
            } if self.phase.as_ref() != Some(phase) => {
                self.phase = Some(phase.clone());
                let number = match phase.as_str() {
                    "advertise" => Phase::P1,
                    "share" => Phase::P2,
                    "mask" => Phase::P3,
                    "agree" => Phase::P4,
                    "unmask" => Phase::P5,
                    _ => return Ok(()),
                };
                self.begin(number, *deadline_ms);
            }
            ServerEvent::RoundDone {
                survivors,
                released,
                withheld,
                ..
            } => {
                self.survivors = Some(survivors.iter().copied().map(ClientId).collect());
                (self.released, self.withheld) = (released.len(), withheld.len());
            }
            ServerEvent::RoundAborted { reason, .. } => self.aborted = Some(reason.clone()),
            _ => {}
        }
        Ok(())
    }
}

/// Hears when a client has stopped in the middle of its upload.
pub(super) struct Stall(pub(super) Arc<Notify>);

impl Sink<ClientEvent> for Stall {
    fn emit(&mut self, _t_ms: u64, event: &ClientEvent) -> std::io::Result<()> {
        if matches!(event, ClientEvent::Stalled { .. }) {
            self.0.notify_one();
        }
        Ok(())
    }
}
