//! All global states, depth first, and what must hold in every one of them.

use crate::machine::{Input, Machines, MsgId, NodeId, Who};
use crate::world::{Federation, Setup};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use veilsum_crypto::Digest;

/// How much may go wrong, and how many states are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Clients that die and come back.
    pub(crate) crashes: u8,
    /// Phases that end while messages are on their way.
    pub(crate) deadlines: u8,
    /// Proposals that leave a survivor out.
    pub(crate) lies: u8,
    /// Whether clients are also shown agreements that nobody should believe: too few signatures, or on different things.
    pub(crate) bad_agreements: bool,
    /// States at most.
    pub(crate) states: usize,
}

/// What was found.
pub(crate) struct Report {
    pub(crate) states: usize,
    pub(crate) histories: usize,
    pub(crate) published: usize,
    pub(crate) aborted: usize,
    pub(crate) whole: bool,
    pub(crate) violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states{}, {} machine histories, {} ends with sums, {} aborted, violations: {:?}",
            self.states,
            if self.whole { " (all)" } else { "" },
            self.histories,
            self.published,
            self.aborted,
            self.violations
        )
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    server: NodeId,
    clients: Vec<NodeId>,
    control: Vec<VecDeque<MsgId>>,
    bulk: Vec<VecDeque<MsgId>>,
    down: Vec<VecDeque<MsgId>>,
    /// The server has not seen a hello since the connection was lost.
    offline: Vec<bool>,
    crashes: u8,
    deadlines: u8,
    lies: u8,
}

pub(crate) struct Explorer {
    machines: Machines,
    start: State,
    bounds: Bounds,
    threshold: usize,
}

impl Explorer {
    pub(crate) fn new(clients: u32, threshold: u32, bounds: Bounds) -> Self {
        let federation = Federation::unchecked(Setup {
            clients,
            threshold,
            clusters: vec![(0..clients).collect()],
            entries: 2,
            crowd: 2,
            orgs: clients,
        });
        let (mut machines, server, clients) = Machines::new(federation);
        let server = machines.tell(Who::Server, server, Input::Start);
        let none = vec![VecDeque::new(); clients.len()];
        let mut start = State {
            server,
            offline: vec![false; clients.len()],
            clients,
            control: none.clone(),
            bulk: none.clone(),
            down: none,
            crashes: bounds.crashes,
            deadlines: bounds.deadlines,
            lies: bounds.lies,
        };
        post(&machines, &mut start, server);
        Self {
            machines,
            start,
            bounds,
            threshold: threshold as usize,
        }
    }

    pub(crate) fn run(mut self) -> Report {
        let mut seen = HashSet::from([fingerprint(&self.start)]);
        let mut stack = vec![self.start.clone()];
        let mut report = Report {
            states: 1,
            histories: 0,
            published: 0,
            aborted: 0,
            whole: true,
            violations: Vec::new(),
        };
        let mut violations = BTreeSet::new();
        while let Some(state) = stack.pop() {
            let nexts = self.nexts(&state);
            if nexts.is_empty() {
                let server = &self.machines.nodes[state.server as usize];
                if server.outcome.is_some() {
                    report.published += 1;
                } else {
                    report.aborted += usize::from(server.aborted);
                }
                if server.open {
                    violations.insert("a round that does not end".to_owned());
                }
            }
            for next in nexts {
                if report.states >= self.bounds.states {
                    report.whole = false;
                    break;
                }
                if seen.insert(fingerprint(&next)) {
                    report.states += 1;
                    self.judge(&next, &mut violations);
                    stack.push(next);
                }
            }
        }
        report.histories = self.machines.nodes.len();
        report.violations = violations.into_iter().collect();
        report
    }

    /// Every state one step on.
    fn nexts(&mut self, state: &State) -> Vec<State> {
        let mut nexts = Vec::new();
        let everybody = state.clients.len();
        let mut ready = false;
        for client in 0..everybody {
            for bulk in [false, true] {
                let queue = if bulk { &state.bulk } else { &state.control };
                if let Some(message) = queue[client].front().copied() {
                    ready = true;
                    let mut next = state.clone();
                    let queue = if bulk { &mut next.bulk } else { &mut next.control };
                    queue[client].pop_front();
                    if self.machines.is_hello(message) {
                        next.offline[client] = false;
                    }
                    self.server(&mut next, Input::Up(client as u32, message));
                    nexts.push(next);
                }
            }
            if let Some(message) = state.down[client].front().copied() {
                ready = true;
                let mut next = state.clone();
                next.down[client].pop_front();
                self.client(&mut next, client, Input::Down(message));
                nexts.push(next);
                if state.lies > 0 && self.machines.is_proposal(message) {
                    for left_out in (0..everybody).filter(|other| *other != client) {
                        let mut next = state.clone();
                        next.down[client].pop_front();
                        next.lies -= 1;
                        self.client(&mut next, client, Input::Shrunk(message, left_out as u32));
                        nexts.push(next);
                    }
                }
            }
            if self.bounds.lies > 0 {
                for agrees in self.gathered(state, client) {
                    let mut next = state.clone();
                    self.client(&mut next, client, Input::Gathered(agrees));
                    nexts.push(next);
                }
            }
            if state.crashes > 0 {
                let mut next = state.clone();
                next.crashes -= 1;
                next.control[client].clear();
                next.bulk[client].clear();
                next.down[client].clear();
                next.offline[client] = true;
                self.server(&mut next, Input::Gone(client as u32));
                self.client(&mut next, client, Input::Restart);
                nexts.push(next);
            }
        }
        if self.machines.nodes[state.server as usize].open && (!ready || state.deadlines > 0) {
            let mut next = state.clone();
            if ready {
                next.deadlines -= 1;
            }
            self.server(&mut next, Input::Deadline);
            nexts.push(next);
        }
        nexts
    }

    /// What a dishonest server can show a client that waits for an agreement, when it likes: every signature there is on
    /// what this client signed, few as they may be; and every signature there is on anything.
    fn gathered(&self, state: &State, client: usize) -> Vec<Vec<MsgId>> {
        let node = &self.machines.nodes[state.clients[client] as usize];
        let Some((digest, _)) = node
            .said
            .agrees
            .first_key_value()
            .filter(|_| node.waits_for_agreement)
        else {
            return Vec::new();
        };
        let agrees = |wanted: Option<&Digest>| -> Vec<MsgId> {
            state
                .clients
                .iter()
                .flat_map(|other| &self.machines.nodes[*other as usize].said.agrees)
                .filter(|(known, _)| wanted.is_none_or(|wanted| wanted == *known))
                .map(|(_, message)| *message)
                .collect()
        };
        let (own, all) = (agrees(Some(digest)), agrees(None));
        match (self.bounds.bad_agreements, own == all) {
            (true, false) => vec![all, own],
            (true, true) => vec![own],
            (false, _) if own.len() >= self.threshold => vec![own],
            (false, _) => Vec::new(),
        }
    }

    fn server(&mut self, state: &mut State, input: Input) {
        state.server = self.machines.tell(Who::Server, state.server, input);
        let server = state.server;
        post(&self.machines, state, server);
    }

    fn client(&mut self, state: &mut State, client: usize, input: Input) {
        let node = self
            .machines
            .tell(Who::Client(client as u32), state.clients[client], input);
        state.clients[client] = node;
        for (_, bulk, message) in &self.machines.nodes[node as usize].sent {
            let queue = if *bulk {
                &mut state.bulk
            } else {
                &mut state.control
            };
            queue[client].push_back(*message);
        }
    }

    /// What must hold whatever happens.
    fn judge(&self, state: &State, violations: &mut BTreeSet<String>) {
        let mut answered = BTreeSet::new();
        let (mut selves, mut masks) = (BTreeSet::<u32>::new(), BTreeSet::<u32>::new());
        for client in &state.clients {
            let said = &self.machines.nodes[*client as usize].said;
            for (what, count) in [
                ("masked vectors", said.masked.len()),
                ("agreements", said.agrees.len()),
                ("answers", said.reveals.len()),
            ] {
                if count > 1 {
                    violations.insert(format!("a client gave {count} different {what}"));
                }
            }
            for (agreement, own, dropped) in &said.opened {
                answered.insert(*agreement);
                selves.extend(own);
                masks.extend(dropped);
            }
        }
        if answered.len() > 1 {
            violations.insert("two agreements were both answered".to_owned());
        }
        if !selves.is_disjoint(&masks) {
            violations.insert("both kinds of shares of one client were given".to_owned());
        }
        if let Some(outcome) = &self.machines.nodes[state.server as usize].outcome {
            let modulus = self.machines.federation.policy.update.modulus;
            for opened in &outcome.opened {
                let entries = self.machines.federation.setup.entries;
                let mut sum = vec![0i64; entries + 1];
                for client in outcome.survivors.iter() {
                    for (total, value) in sum.iter_mut().zip(self.machines.contribution(client.0).values) {
                        *total += i64::from(value);
                    }
                    sum[entries] += 1;
                }
                let sum: Vec<u32> = sum
                    .into_iter()
                    .map(|total| total.rem_euclid(1 << modulus.bits()) as u32)
                    .collect();
                if opened.sum != sum {
                    violations.insert("a sum that is not its survivors'".to_owned());
                }
            }
        }
    }
}

fn post(machines: &Machines, state: &mut State, server: NodeId) {
    for (to, _, message) in &machines.nodes[server as usize].sent {
        if !state.offline[*to as usize] {
            state.down[*to as usize].push_back(*message);
        }
    }
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
