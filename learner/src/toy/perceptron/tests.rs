use super::*;
use crate::data::generator::{Generator, Light, Place, Platform};
use crate::learner::TrainLength;

fn client(place: Place) -> Perceptron {
    let g = Generator {
        platform: Platform::Ugv,
        place,
        light: Light::Day,
        width: 64,
        height: 48,
        train: 8,
        test: 4,
        seed: 1,
    };
    Perceptron::new(7, g.dataset().unwrap()).unwrap()
}

fn plan() -> TrainPlan {
    TrainPlan {
        round: 1,
        length: TrainLength::Steps(60),
        learning_rate: 1e-2,
        batch: 4,
        seed: 11,
    }
}

#[test]
fn it_learns_and_replays() {
    let (mut one, mut two) = (client(Place::Indoor), client(Place::Indoor));
    let before = one.evaluate().unwrap();
    let report = one.train(&plan()).unwrap();
    assert!(report.loss_last < 0.3 * report.loss_first, "{report:?}");
    let after = one.evaluate().unwrap();
    assert!(after.depth().unwrap().abs_rel < 0.7 * before.depth().unwrap().abs_rel);
    two.train(&plan()).unwrap();
    assert_eq!(one.weights().unwrap(), two.weights().unwrap());
}

/// Against differences of the loss, for every weight of one sample.
#[test]
fn gradients_are_those_of_the_loss() {
    let toy = client(Place::Street);
    let sample = &toy.train[0];
    let loss = |weights: &[f32]| -> f64 {
        let parts = Perceptron::parts(weights).unwrap();
        let errors =
            sample.inputs.iter().zip(&sample.logs).filter_map(|(x, truth)| {
                truth.map(|truth| 0.5 * f64::from(parts.forward(x).2 - truth).powi(2))
            });
        errors.sum()
    };
    let mut gradient = vec![0.0; toy.weights.len()];
    let parts = Perceptron::parts(&toy.weights).unwrap();
    Perceptron::backward(&parts, sample, &mut gradient).unwrap();
    let (mut wrong, scale) = (0, gradient.iter().fold(0.0_f32, |m, g| m.max(g.abs())));
    for (at, g) in gradient.iter().enumerate() {
        let moved = |by: f32| {
            let mut weights = toy.weights.clone();
            weights[at] += by;
            loss(&weights)
        };
        let slope = (moved(1e-3) - moved(-1e-3)) / 2e-3;
        // A unit that switches within the step bends the difference: a few of many.
        wrong += usize::from((slope - f64::from(*g)).abs() > 0.01 * f64::from(scale));
    }
    assert!(wrong * 100 < gradient.len(), "{wrong} of {}", gradient.len());
}

#[test]
fn corrections_pull_and_push() {
    let start = client(Place::Street).weights().unwrap();
    let trained = |linear: Option<Vec<f32>>, proximal, optimiser| {
        let mut toy = client(Place::Street);
        let correction = Correction::new(start.clone(), linear, proximal, optimiser).unwrap();
        toy.train_corrected(&plan(), &correction).unwrap();
        toy.weights().unwrap()
    };
    let far = |w: &Weights| w.minus(&start).unwrap().norm();
    let free = trained(None, 0.0, LocalOptimiser::Own);
    let mut plain = client(Place::Street);
    plain.train(&plan()).unwrap();
    assert_eq!(free, plain.weights().unwrap());
    assert!(far(&trained(None, 10.0, LocalOptimiser::Own)) < 0.5 * far(&free));
    // With descent at a rate of 0.01 and 60 steps a pull of 1 moves by about 0.6.
    let mut pull = vec![0.0; start.values().len()];
    if let Some(last) = pull.last_mut() {
        *last = -1.0;
    }
    let still = trained(None, 0.0, LocalOptimiser::Sgd);
    let pulled = trained(Some(pull), 0.0, LocalOptimiser::Sgd);
    let at = |w: &Weights| *w.values().last().unwrap();
    assert!(at(&pulled) > at(&still) + 0.1, "{} {}", at(&pulled), at(&still));
}
