//! The demonstration's training without the rest of it: eight generated clients, the tiny network, plain averages.

#![cfg(feature = "torch")]

use veilsum_learner::data::generator::Place;
use veilsum_learner::demo::DemoDefaults;
use veilsum_learner::torch::{DepthLearner, DepthLearnerConfig};
use veilsum_learner::{DepthMetrics, Learner, Weights};

/// Means over the clients of one place before the first and after the last round.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn federate(demo: &DemoDefaults, place: Place, seed: u64) -> (DepthMetrics, DepthMetrics) {
    let config = DepthLearnerConfig::tiny(demo.range);
    let members = demo.clients(seed).into_iter().filter(|(home, _)| *home == place);
    let mut clients: Vec<DepthLearner> = members
        .map(|(_, g)| DepthLearner::new(config.clone(), demo.model_seed, g.dataset().unwrap()).unwrap())
        .collect();
    let mut global = DepthLearner::initial_weights(&config, demo.model_seed).unwrap();
    let score = |clients: &mut [DepthLearner], global: &Weights| {
        let scores: Vec<DepthMetrics> = clients
            .iter_mut()
            .map(|client| {
                client.load(global).unwrap();
                *client.evaluate().unwrap().depth().unwrap()
            })
            .collect();
        DepthMetrics::mean(&scores).unwrap()
    };
    let before = score(&mut clients, &global);
    for round in 1..=demo.rounds {
        let trained: Vec<Weights> = clients
            .iter_mut()
            .map(|client| {
                client.load(&global).unwrap();
                client.train(&demo.plan(round)).unwrap();
                client.weights().unwrap()
            })
            .collect();
        global = Weights::mean(&trained).unwrap();
    }
    (before, score(&mut clients, &global))
}

/// Averages of independently trained networks are a better network, in seconds: two rounds, few frames.
#[test]
fn two_rounds_of_averaging_help() {
    let demo = DemoDefaults {
        rounds: 2,
        steps: 8,
        train: 12,
        test: 4,
        ..DemoDefaults::TORCH
    };
    let (before, after) = federate(&demo, Place::Indoor, 1);
    assert!(after.abs_rel < 0.75 * before.abs_rel, "{before:?} {after:?}");
    assert!(after.delta1 > before.delta1, "{before:?} {after:?}");
}

/// The promise of the demonstration: in each place AbsRel falls by a quarter at least.
#[test]
#[ignore = "about a minute of one core; run with --ignored"]
fn the_demonstration_learns_in_each_place() {
    for place in [Place::Indoor, Place::Street] {
        let (before, after) = federate(&DemoDefaults::TORCH, place, 1);
        assert!(
            after.abs_rel < 0.75 * before.abs_rel,
            "{place:?}: {before:?} {after:?}"
        );
    }
}
