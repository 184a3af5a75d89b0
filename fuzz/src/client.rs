//! A client under a server that may do anything with what was said in some honest rounds: deliver, change, repeat, swap,
//! withhold, sign anew with its own key and with the keys of all other clients. The client may crash between any two steps.

use crate::forge::forge;
use crate::life::Life;
use crate::script::Script;
use crate::tape::{Message, Tape, first_client};
use crate::world::{Contribution, Federation};
use std::sync::OnceLock;
use veilsum_aggregation::message::*;
use veilsum_aggregation::{ToClient, ToServer};
use veilsum_crypto::{BoundedVec, ClientId};

/// A script of operations; see [`step`].
///
/// # Panics
/// When a rule is broken.
pub fn run(data: &[u8]) {
    play(data);
}

/// Plays a script and gives the number of rounds the client saw the end of.
fn play(data: &[u8]) -> usize {
    let known = known();
    let mut script = Script::new(data);
    let client = Life::new(ME, known.client(), known.contribution.clone());
    let mut bench = Bench {
        known,
        client,
        next: 0,
    };
    for _ in 0..MOST_STEPS {
        if script.is_over() {
            break;
        }
        bench.step(&mut script);
    }
    bench.client.done
}

struct Bench {
    known: &'static Known,
    client: Life,
    /// Number of the next honest message.
    next: usize,
}

impl Bench {
    fn step(&mut self, script: &mut Script<'_>) {
        let known = self.known;
        let federation = &known.federation;
        let ahead = known.told.get(self.next).cloned();
        match (script.byte() % 16, ahead) {
            (0..4, Some(message)) => {
                self.next += 1;
                self.deliver(message);
            }
            (4, Some(message)) => {
                self.next += 1;
                self.bent(&message, script);
            }
            (5, Some(message)) => {
                self.next += 1;
                let message = self.forged(message, script);
                self.deliver(message);
            }
            (6, Some(_)) => self.next += 1,
            (7, Some(message)) => {
                if let Some(after) = known.told.get(self.next + 1).cloned() {
                    self.deliver(after);
                }
                self.deliver(message);
                self.next += 2;
            }
            (8, _) => {
                if let Some(message) = self.next.checked_sub(1).and_then(|last| known.told.get(last)) {
                    self.deliver(message.clone());
                }
            }
            (9, _) => self.deliver(known.others[script.below(known.others.len())].clone()),
            (10, _) => {
                self.client.client.connected();
                self.client.drain(federation, usize::MAX);
            }
            (11, _) => self.restart(),
            (12, Some(message)) => {
                self.next += 1;
                self.client.tell(message);
                self.client.drain(federation, script.below(8));
                self.restart();
            }
            (13, _) => {
                let message = known.others[script.below(known.others.len())].clone();
                let message = self.forged(message, script);
                self.deliver(message);
            }
            (14, _) => {
                let which = script.byte();
                let agrees = known.agrees.iter().enumerate();
                let agrees = agrees
                    .filter(|(number, _)| which >> (number % 8) & 1 == 1)
                    .map(|(_, entry)| entry.clone())
                    .collect();
                let agrees = BoundedVec::new(agrees).expect("few");
                self.deliver(ToClient::Agreement(Agreement { agrees }));
            }
            (15, _) => {
                self.client.client.leave("Left");
                self.client.drain(federation, usize::MAX);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, message: ToClient) {
        self.client.tell(message);
        self.client.drain(&self.known.federation, usize::MAX);
    }

    fn restart(&mut self) {
        self.client.restart(&self.known.federation);
        self.client.drain(&self.known.federation, usize::MAX);
    }

    fn bent(&mut self, message: &ToClient, script: &mut Script<'_>) {
        let (kind, _, mut body) = message.encode().expect("within its bound");
        script.bend(&mut body);
        if let Ok(message) = ToClient::decode(kind, &body) {
            self.deliver(message);
        }
    }

    fn forged(&self, message: ToClient, script: &mut Script<'_>) -> ToClient {
        let federation = &self.known.federation;
        let sign = |entry: &EntryBytes, script: &mut Script<'_>| forge(federation, entry, Some(ME), script);
        let one = |entries: &BoundedVec<EntryBytes, 4096>, script: &mut Script<'_>| {
            let mut entries = entries.to_vec();
            let at = script.below(entries.len());
            if let Some(entry) = entries.get_mut(at) {
                *entry = sign(entry, script);
            }
            BoundedVec::new(entries).expect("as many as before")
        };
        match message {
            ToClient::Plan(plan) => ToClient::Plan(PlanMessage {
                entry: sign(&plan.entry, script),
                ..plan
            }),
            ToClient::Roster(roster) => ToClient::Roster(Roster {
                keys: one(&roster.keys, script),
            }),
            ToClient::Inbox(inbox) => ToClient::Inbox(Inbox {
                shares: one(&inbox.shares, script),
                ..inbox
            }),
            ToClient::Proposal(proposal) => {
                ToClient::Proposal(self.client.forge_proposal(federation, &proposal, script))
            }
            ToClient::Agreement(agreement) => ToClient::Agreement(Agreement {
                agrees: one(&agreement.agrees, script),
            }),
            ToClient::Published(entry) => ToClient::Published(sign(&entry, script)),
            ToClient::Aborted(entry) => ToClient::Aborted(sign(&entry, script)),
            other @ (ToClient::Refused(_) | ToClient::Continue(_) | ToClient::Describe(_)) => other,
        }
    }
}

/// Two rounds of one log, and two of another log of the same federation.
struct Known {
    federation: Federation,
    contribution: Contribution,
    told: Vec<ToClient>,
    others: Vec<ToClient>,
    agrees: Vec<EntryBytes>,
}

impl Known {
    fn client(&self) -> veilsum_aggregation::Client<chacha20::ChaCha20Rng> {
        first_client(&self.federation)
    }
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let (tape, other) = (Tape::record(1, 2), Tape::record(2, 2));
        let mut known = Known {
            told: tape.told(),
            others: Vec::new(),
            agrees: Vec::new(),
            contribution: tape.world.contributions[&ME].clone(),
            federation: tape.world.federation,
        };
        for message in tape.said.into_iter().chain(other.said) {
            match message {
                Message::Up(ToServer::Agree(entry)) => known.agrees.push(entry),
                Message::Down(_, message) => known.others.push(message),
                Message::Up(..) => {}
            }
        }
        known
    })
}

/// Honest rounds, and each operation at each step of them.
///
/// # Panics
/// When an honest script does not reach the end of both rounds: the target would test nothing.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let steps = known().told.len();
    assert_eq!(
        play(&vec![0; steps]),
        2,
        "{steps} messages do not make two rounds"
    );
    let mut seeds = vec![vec![0; steps]];
    for operation in 4..16u8 {
        for at in 0..steps {
            let mut seed = vec![0; steps];
            seed.splice(at..at, [operation, 1, 40 + operation, 3]);
            seeds.push(seed);
        }
    }
    seeds
}

const ME: ClientId = ClientId(0);
const MOST_STEPS: usize = 40;
