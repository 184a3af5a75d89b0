//! The golden table of two quadratic clients, and what must hold bit for bit, by plain averaging and by the protocol.

use super::*;
use crate::experiment::{Masked, Masking, Plain};
use veilsum_aggregation::cluster::{Divergences, Threshold, soft};
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::toy::{Perceptron, ToyDepth};
use veilsum_learner::{Correction, Evaluation, Layout, TensorSpec, TrainReport};

/// `½ a (w − b)²`, by gradient descent. A second number is a buffer: the running mean of w, which nothing corrects.
struct Quadratic {
    a: f32,
    b: f32,
    at: Weights,
    samples: u32,
}

fn layout() -> Layout {
    Layout::new(vec![
        TensorSpec::new("mean", [1], TensorClass::Buffer),
        TensorSpec::new("w", [1], TensorClass::Shared),
    ])
    .unwrap()
}

impl Quadratic {
    /// One of a negative `a` fails in rounds 1, 3, 5 … and trains as its opposite in the others.
    fn fails(&self, plan: &TrainPlan) -> Result<(), LearnError> {
        if self.a < 0.0 && plan.round % 2 == 1 {
            return Err(LearnError::NonFiniteLoss {
                round: plan.round,
                step: 0,
                loss: f64::NAN,
            });
        }
        Ok(())
    }

    fn descend(&mut self, plan: &TrainPlan, correction: Option<&Correction>) -> TrainReport {
        let TrainLength::Steps(steps) = plan.length else {
            panic!("the schedule counts steps")
        };
        let [mut mean, mut w] = *self.at.values() else {
            panic!("two numbers")
        };
        for _ in 0..steps {
            let mut gradient = self.a.abs() * (w - self.b);
            if let Some(correction) = correction {
                for (spec, linear, anchor) in correction.tensors() {
                    if spec.name == "w" {
                        gradient += linear[0] + correction.proximal() * (w - anchor[0]);
                    } else {
                        assert_eq!(linear, [0.0], "a buffer is corrected");
                    }
                }
            }
            w -= plan.learning_rate as f32 * gradient;
            mean += 0.5 * (w - mean);
        }
        self.at = Weights::new(&layout(), vec![mean, w]).unwrap();
        TrainReport {
            steps,
            samples: steps,
            loss_first: 0.0,
            loss_last: 0.0,
            skipped_frames: 0,
        }
    }
}

impl Learner for Quadratic {
    fn layout(&self) -> &Layout {
        self.at.layout()
    }
    fn weights(&self) -> Result<Weights, LearnError> {
        Ok(self.at.clone())
    }
    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.at = weights.clone();
        Ok(())
    }
    fn train(&mut self, plan: &TrainPlan) -> Result<TrainReport, LearnError> {
        self.fails(plan)?;
        Ok(self.descend(plan, None))
    }
    fn train_corrected(&mut self, plan: &TrainPlan, c: &Correction) -> Result<TrainReport, LearnError> {
        self.fails(plan)?;
        Ok(self.descend(plan, Some(c)))
    }
    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        Err(LearnError::NoEncoder)
    }
    fn sample_count(&self) -> u32 {
        self.samples
    }
}

const GOLDEN: Schedule = Schedule {
    rounds: 200,
    steps: 5,
    batch: 1,
    learning_rate: 0.1,
    decay: 1.0,
};

fn start() -> Weights {
    Weights::new(&layout(), vec![0.0, 5.0]).unwrap()
}

/// A policy needs three clients: every function `copies` times gives the same means.
fn quadratics(copies: usize) -> Vec<Box<dyn Learner>> {
    let both = [(1.0, 0.0), (3.0, 2.0)].repeat(copies);
    let make = |(a, b)| {
        Box::new(Quadratic {
            a,
            b,
            at: start(),
            samples: 4,
        }) as Box<dyn Learner>
    };
    both.into_iter().map(make).collect()
}

fn everybody(clients: usize) -> Membership {
    Membership::from_members(clients, &[(0..clients).collect()]).unwrap()
}

/// w after each of the rounds.
fn run(bend: Bend, copies: usize, rounds: u32, averaging: &mut dyn Averaging) -> Vec<f64> {
    let count = 2 * copies;
    let mut federation = Federation::new(
        quadratics(copies),
        everybody(count),
        bend,
        Buffers::Averaged,
        &start(),
    )
    .unwrap();
    (0..rounds)
        .map(|_| {
            federation.round(&GOLDEN, 1, averaging).unwrap();
            f64::from(federation.models()[0].values()[1])
        })
        .collect()
}

const PROX: Bend = Bend::Prox { mu: 0.1 };
const DYN: Bend = Bend::Dyn {
    alpha: 0.1,
    rate: 0.1,
};
const SCAFFOLD: Bend = Bend::Scaffold {
    rate: 0.1,
    server_rate: 1.0,
};

/// Two clients `½ (w − 0)²` and `½ 3 (w − 2)²`, rate 0.1, 5 steps, start 5, optimum 1.5. After 1 and after 200 rounds; the
/// values come from exact arithmetic outside this program.
const TABLE: [(Bend, f64, f64); 4] = [
    (Bend::Nothing, 2.728_330, 1.340_266),
    (PROX, 2.771_801, 1.340_716),
    (DYN, 0.543_602, 1.499_893),
    (SCAFFOLD, 2.728_330, 1.500_000),
];

#[test]
fn two_quadratics_end_where_exact_arithmetic_says() {
    for (bend, first, last) in TABLE {
        let ways = run(bend, 1, 200, &mut Plain);
        // f32 weights near 2 are 1.2e-7 apart; what a round loses the next ones pull back.
        assert!((ways[0] - first).abs() < 2e-6, "{bend:?}: {}", ways[0]);
        assert!((ways[199] - last).abs() < 2e-6, "{bend:?}: {}", ways[199]);
    }
}

const MASKING: Masking = Masking {
    value_bits: 24,
    range: 16.0,
    crowd: 2,
    seed: 3,
};

#[test]
fn two_quadratics_by_the_protocol_end_there_too() {
    // Four clients: the two twice. The mean of a round is off by less than 4 steps of 1.9e-6 over 4 clients.
    let bound = MASKING.bound(&[1; 4]);
    assert!((1.9e-6..2.0e-6).contains(&bound), "{bound}");
    for (bend, first, _) in TABLE {
        let plain = run(bend, 2, 12, &mut Plain);
        let mut masked = Masked::new(MASKING);
        let hidden = run(bend, 2, 12, &mut masked);
        assert_eq!(masked.rounds(), 12);
        // FedDyn's start is mean − h/α: an error in the mean counts twice.
        let once = if bend == DYN { 2.0 } else { 1.0 } * bound + 2e-6;
        assert!((hidden[0] - first).abs() < once, "{bend:?}: {}", hidden[0]);
        // Errors of rounds add up at most; SCAFFOLD's control variate carries its own along (5 steps of 0.1).
        for (round, (plain, hidden)) in plain.iter().zip(&hidden).enumerate() {
            let gap = (plain - hidden).abs();
            assert!(
                gap <= 2.0 * once * (round + 1) as f64,
                "{bend:?} round {round}: {gap}"
            );
        }
        assert!(plain != hidden, "{bend:?}: nothing was quantised");
    }
}

#[test]
fn the_mean_control_variate_is_the_servers() {
    let mut federation =
        Federation::new(quadratics(2), everybody(4), SCAFFOLD, Buffers::Averaged, &start()).unwrap();
    for _ in 0..50 {
        federation.round(&GOLDEN, 1, &mut Plain).unwrap();
        // What travels is f32: one rounding a round.
        assert!(federation.imbalance() < 2e-5, "{}", federation.imbalance());
    }
}

/// Also when a client is away in every other round: what travels is the change of its variate, and the server's share of
/// it is one of all clients.
#[test]
fn the_mean_control_variate_is_the_servers_when_clients_are_away() {
    let mut clients = quadratics(2);
    clients[1] = Box::new(Quadratic {
        a: -3.0,
        b: 2.0,
        at: start(),
        samples: 4,
    });
    let mut federation =
        Federation::new(clients, everybody(4), SCAFFOLD, Buffers::Averaged, &start()).unwrap();
    for _ in 0..50 {
        federation.round(&GOLDEN, 1, &mut Plain).unwrap();
        assert!(federation.imbalance() < 2e-5, "{}", federation.imbalance());
    }
    assert_eq!(federation.failures(), 25);
}

#[test]
fn buffers_are_averaged_and_nothing_corrects_them() {
    let mut plain = Vec::new();
    for bend in [Bend::Nothing, DYN, SCAFFOLD] {
        let mut federation =
            Federation::new(quadratics(1), everybody(2), bend, Buffers::Averaged, &start()).unwrap();
        federation.round(&GOLDEN, 1, &mut Plain).unwrap();
        let own: Vec<f32> = federation.own().iter().map(|own| own.values()[0]).collect();
        let mean = (own[0] + own[1]) / 2.0;
        assert!(
            (federation.models()[0].values()[0] - mean).abs() < 1e-6,
            "{bend:?}"
        );
        plain.push(federation.models()[0].values()[0]);
    }
    // Option: everybody keeps its own.
    let mut federation = Federation::new(
        quadratics(1),
        everybody(2),
        Bend::Nothing,
        Buffers::Local,
        &start(),
    )
    .unwrap();
    federation.round(&GOLDEN, 1, &mut Plain).unwrap();
    let own = federation.own()[0].values()[0];
    federation.round(&GOLDEN, 1, &mut Plain).unwrap();
    let served = federation.serve(0).unwrap().weights().unwrap();
    assert_ne!(served.values()[0], federation.served()[0].values()[0]);
    assert_eq!(served.values()[1], federation.served()[0].values()[1]);
    assert_ne!(served.values()[0], own);
}

#[test]
fn who_leaves_the_finite_numbers_hands_nothing_in() {
    for masked in [false, true] {
        let mut clients = quadratics(2);
        clients[1] = Box::new(Quadratic {
            a: -1.0,
            b: 0.0,
            at: start(),
            samples: 4,
        });
        let mut averaging: Box<dyn Averaging> = if masked {
            Box::new(Masked::new(MASKING))
        } else {
            Box::new(Plain)
        };
        let mut federation =
            Federation::new(clients, everybody(4), Bend::Nothing, Buffers::Averaged, &start()).unwrap();
        federation.round(&GOLDEN, 1, averaging.as_mut()).unwrap();
        assert_eq!(federation.failures(), 1);
        // Two of a = 1: 5 · 0.9⁵; one of a = 3: 2 + 3 · 0.7⁵.
        let mean = (2.0 * 5.0 * 0.9_f64.powi(5) + 2.0 + 3.0 * 0.7_f64.powi(5)) / 3.0;
        let got = f64::from(federation.models()[0].values()[1]);
        assert!((got - mean).abs() < 1e-5, "{got} {mean}");
    }
}

#[test]
fn a_state_of_one_server_model_is_for_one_cluster() {
    let two = Membership::from_members(2, &[vec![0], vec![1]]).unwrap();
    for bend in [DYN, SCAFFOLD] {
        let made = Federation::new(quadratics(1), two.clone(), bend, Buffers::Averaged, &start());
        assert!(matches!(made, Err(ExperimentError::Clusters(_))));
    }
}

const TOY: Schedule = Schedule {
    rounds: 3,
    steps: 6,
    batch: 3,
    learning_rate: 0.1,
    decay: 0.9,
};

const TRAIN: [usize; 5] = [6, 8, 9, 6, 11];

fn toys() -> Vec<Box<dyn Learner>> {
    let make = |(client, train): (usize, &usize)| {
        let frames = Generator {
            platform: Platform::ALL[client % 4],
            place: Place::ALL[client % 3],
            light: Light::Day,
            width: 32,
            height: 24,
            train: *train,
            test: 1,
            seed: client as u64,
        };
        Box::new(ToyDepth::new(frames.dataset().unwrap()).unwrap()) as Box<dyn Learner>
    };
    TRAIN.iter().enumerate().map(make).collect()
}

/// Models of the clusters, and the models clients would be served, after three rounds.
fn toy_run(
    clients: Vec<Box<dyn Learner>>,
    clusters: Membership,
    bend: Bend,
    averaging: &mut dyn Averaging,
) -> (Vec<Weights>, Vec<Weights>) {
    let start = ToyDepth::initial_weights().unwrap();
    let count = clients.len();
    let mut federation = Federation::new(clients, clusters, bend, Buffers::Averaged, &start).unwrap();
    for _ in 0..TOY.rounds {
        federation.round(&TOY, 9, averaging).unwrap();
    }
    let served = (0..count)
        .map(|client| federation.serve(client).unwrap().weights().unwrap())
        .collect();
    (federation.served().to_vec(), served)
}

fn bits(models: &[Weights]) -> Vec<Vec<u32>> {
    models
        .iter()
        .map(|model| model.values().iter().map(|value| value.to_bits()).collect())
        .collect()
}

/// Clients on a line, all pairs different.
fn at_overlap(overlap: f64) -> Membership {
    let line = |i: usize, j: usize| {
        (i as f64 - j as f64).abs() + 0.01 * (i + j) as f64 * f64::from(u8::from(i != j))
    };
    let rows: Vec<Vec<f64>> = (0..5).map(|i| (0..5).map(|j| line(i, j)).collect()).collect();
    let divergences = Divergences::from_rows(&rows).unwrap();
    soft(
        &divergences,
        Threshold::Overlap(overlap).choose(&divergences).unwrap().tau,
    )
}

#[test]
fn all_pairs_close_is_fedavg_bit_for_bit() {
    let soft = toy_run(toys(), at_overlap(1.0), Bend::Nothing, &mut Plain);
    let fedavg = toy_run(toys(), everybody(5), Bend::Nothing, &mut Plain);
    assert_eq!(bits(&soft.0), bits(&fedavg.0));
    assert_eq!(bits(&soft.1), bits(&fedavg.1));
}

#[test]
fn no_pair_close_is_local_training_bit_for_bit() {
    let (_, served) = toy_run(toys(), at_overlap(0.0), Bend::Nothing, &mut Plain);
    for (client, (mut alone, served)) in toys().into_iter().zip(&served).enumerate() {
        alone.load(&ToyDepth::initial_weights().unwrap()).unwrap();
        for round in 1..=TOY.rounds {
            alone
                .train(&TOY.plan(round, None, client_seed(9, client)))
                .unwrap();
        }
        let own = alone.weights().unwrap();
        assert_eq!(
            bits(&[own]),
            bits(std::slice::from_ref(served)),
            "client {client}"
        );
    }
}

#[test]
fn a_proximal_weight_of_zero_is_fedavg_and_so_is_scaffolds_first_round() {
    let fedavg = toy_run(toys(), everybody(5), Bend::Nothing, &mut Plain);
    let prox = toy_run(toys(), everybody(5), Bend::Prox { mu: 0.0 }, &mut Plain);
    assert_eq!(bits(&fedavg.0), bits(&prox.0));
    let moved = toy_run(toys(), everybody(5), Bend::Prox { mu: 0.5 }, &mut Plain);
    assert_ne!(bits(&fedavg.0), bits(&moved.0));
    // Equal weights: SCAFFOLD counts every client once. The control variates travel as zeros in the first round.
    let first = |bend| {
        let start = start();
        let mut federation =
            Federation::new(quadratics(1), everybody(2), bend, Buffers::Averaged, &start).unwrap();
        federation.round(&GOLDEN, 1, &mut Plain).unwrap();
        bits(federation.models())
    };
    assert_eq!(first(Bend::Nothing), first(SCAFFOLD));
}

#[test]
fn feddyns_first_mean_is_fedproxs() {
    let mean = |bend| {
        let mut federation =
            Federation::new(quadratics(1), everybody(2), bend, Buffers::Averaged, &start()).unwrap();
        federation.round(&GOLDEN, 1, &mut Plain).unwrap();
        (bits(federation.served()), bits(federation.models()))
    };
    let (dyn_served, dyn_start) = mean(DYN);
    let (prox_served, _) = mean(PROX);
    assert_eq!(dyn_served, prox_served);
    assert_ne!(dyn_start, prox_served, "the corrected start overshoots");
}

/// Clients in another order give the same models.
#[test]
fn the_order_of_clients_does_not_matter() {
    let order = [3, 0, 4, 2, 1];
    let clusters = |of: &dyn Fn(usize) -> usize| {
        let lists: Vec<Vec<usize>> = [[0, 1, 2], [2, 3, 4]]
            .iter()
            .map(|list| list.iter().map(|client| of(*client)).collect())
            .collect();
        Membership::from_members(5, &lists).unwrap()
    };
    // Seeds of shuffles go by place, so clients here take all their frames in every step.
    let whole = Schedule { batch: 64, ..TOY };
    let start = Perceptron::initial_weights(1).unwrap();
    let run = |order: &[usize], clusters| {
        let mut all: Vec<Option<Box<dyn Learner>>> = (0..5)
            .map(|client| {
                let frames = Generator {
                    platform: Platform::ALL[client % 4],
                    place: Place::Street,
                    light: Light::Day,
                    width: 32,
                    height: 24,
                    train: 4,
                    test: 1,
                    seed: client as u64,
                };
                let learner = Perceptron::new(1, frames.dataset().unwrap()).unwrap();
                Some(Box::new(learner) as Box<dyn Learner>)
            })
            .collect();
        let clients = order.iter().map(|client| all[*client].take().unwrap()).collect();
        let mut federation =
            Federation::new(clients, clusters, Bend::Nothing, Buffers::Averaged, &start).unwrap();
        for _ in 0..2 {
            let schedule = Schedule {
                learning_rate: 1e-3,
                ..whole
            };
            federation.round(&schedule, 9, &mut Plain).unwrap();
        }
        federation.served().to_vec()
    };
    let straight = run(&[0, 1, 2, 3, 4], clusters(&|client| client));
    let place = |client: usize| order.iter().position(|of| *of == client).unwrap();
    let mixed = run(&order, clusters(&place));
    for (a, b) in straight.iter().zip(&mixed) {
        let gap = a
            .minus(b)
            .unwrap()
            .values()
            .iter()
            .fold(0.0_f32, |m, d| m.max(d.abs()));
        // Sums of frames and of clients in another order: a few roundings.
        assert!(gap < 2e-4, "{gap}");
    }
}

#[test]
fn rows_of_both_matrices_sum_to_one() {
    // A constant is a fixed point of averaging whatever the clusters and weights.
    let clusters = Membership::from_members(5, &[vec![0, 1, 2], vec![2, 3], vec![1, 4]]).unwrap();
    let updates: Vec<_> = [3, 1, 7, 2, 5]
        .into_iter()
        .map(|weight| {
            Some(Update {
                values: vec![0.3, -2.0],
                weight,
            })
        })
        .collect();
    let means = Plain.average(&clusters, &[], &updates).unwrap();
    assert!(means.iter().all(|mean| mean.as_deref() == Some(&[0.3, -2.0][..])));
    assert_eq!(donors(&everybody(4), &[1; 4]), 4.0);
    // Q·P of two clusters {0, 1} and {1, 2}: rows (½, ½, 0), (¼, ½, ¼), (0, ½, ½).
    let two = Membership::from_members(3, &[vec![0, 1], vec![1, 2]]).unwrap();
    let by_hand = (2.0 + 1.0 / (0.0625 + 0.25 + 0.0625) + 2.0) / 3.0;
    assert!((donors(&two, &[1; 3]) - by_hand).abs() < 1e-12);
}

/// Real networks' layouts, several clusters, sample weights: what the protocol opens is the plain mean within the bound.
#[test]
fn overlapping_clusters_by_the_protocol_stay_within_the_grid() {
    let clusters = Membership::from_members(5, &[vec![0, 1, 2], vec![2, 3, 4]]).unwrap();
    let one = |averaging: &mut dyn Averaging| {
        let start = ToyDepth::initial_weights().unwrap();
        let mut federation =
            Federation::new(toys(), clusters.clone(), Bend::Nothing, Buffers::Averaged, &start).unwrap();
        federation.round(&TOY, 9, averaging).unwrap();
        federation.served().to_vec()
    };
    let (plain, hidden) = (one(&mut Plain), one(&mut Masked::new(MASKING)));
    for (cluster, (plain, hidden)) in plain.iter().zip(&hidden).enumerate() {
        let weights: Vec<u32> = clusters
            .members(cluster)
            .map(|client| TRAIN[client] as u32)
            .collect();
        // The largest weight of the policy is that of all clients.
        let total: u32 = weights.iter().sum();
        let bound = weights.len() as f64 * MASKING.step() * 11.0 / f64::from(total);
        let gap = plain.minus(hidden).unwrap();
        let worst = gap
            .values()
            .iter()
            .fold(0.0_f64, |m, d| m.max(f64::from(d.abs())));
        // Weights near 3 are 2.4e-7 apart.
        assert!(worst > 0.0 && worst <= bound + 5e-7, "{worst} {bound}");
    }
}

#[test]
fn what_the_quantiser_would_cut_is_refused_by_name() {
    let narrow = Masking {
        range: 0.5,
        ..MASKING
    };
    let mut federation = Federation::new(
        quadratics(2),
        everybody(4),
        Bend::Nothing,
        Buffers::Averaged,
        &start(),
    )
    .unwrap();
    let error = federation
        .round(&GOLDEN, 1, &mut Masked::new(narrow))
        .unwrap_err();
    assert!(matches!(error, ExperimentError::Range { .. }), "{error}");
    assert!(error.to_string().contains("masking.range"));
}

#[test]
fn single_clients_are_never_opened() {
    let singles = Membership::from_members(4, &[vec![0], vec![1, 2, 3]]).unwrap();
    let mut federation =
        Federation::new(quadratics(2), singles, Bend::Nothing, Buffers::Averaged, &start()).unwrap();
    let error = federation
        .round(&GOLDEN, 1, &mut Masked::new(MASKING))
        .unwrap_err();
    assert!(matches!(error, ExperimentError::Round(_)), "{error}");
}
