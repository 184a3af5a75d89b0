//! The training loop of the models in plain Rust: batches, losses, and the old weights where training came to no good.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::error::LearnError;
use crate::learner::{TrainPlan, TrainReport};
use crate::shuffle::shuffle;

/// Runs a plan over the frames `usable`; `step` takes a batch and gives the mean squared error before it, `None` if nothing
/// of the batch has depth. With the report, how often all frames were gone through.
///
/// # Errors
/// [`LearnError::NonFiniteLoss`] for the first loss that is not finite or not there.
pub(super) fn descend(
    plan: &TrainPlan,
    usable: &mut [usize],
    mut step: impl FnMut(&[usize]) -> Option<f64>,
) -> Result<(TrainReport, u32), LearnError> {
    let mut rng = ChaCha20Rng::seed_from_u64(plan.seed ^ (u64::from(plan.round) << 32));
    let steps = plan.steps(usable.len());
    let mut report = TrainReport {
        steps,
        samples: 0,
        loss_first: 0.0,
        loss_last: 0.0,
        skipped_frames: 0,
    };
    let (mut at, mut passes) = (usable.len(), 0);
    for number in 0..steps {
        if at >= usable.len() {
            shuffle(usable, &mut rng);
            (at, passes) = (0, passes + 1);
        }
        let end = (at + plan.batch).min(usable.len());
        let batch = usable.get(at..end).unwrap_or_default();
        at = end;
        report.samples += u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let loss = step(batch).unwrap_or(f64::NAN);
        if !loss.is_finite() {
            return Err(LearnError::NonFiniteLoss {
                round: plan.round,
                step: number,
                loss,
            });
        }
        if number == 0 {
            report.loss_first = loss;
        }
        report.loss_last = loss;
    }
    Ok((report, passes))
}

/// The frames to train on of those that have depth or not, in order.
///
/// # Errors
/// [`LearnError::NoTrainingData`] naming the client.
pub(super) fn usable(client: &str, has_depth: impl Iterator<Item = bool>) -> Result<Vec<usize>, LearnError> {
    let usable: Vec<usize> = has_depth
        .enumerate()
        .filter_map(|(index, has)| has.then_some(index))
        .collect();
    if usable.is_empty() {
        return Err(LearnError::NoTrainingData {
            client: client.to_owned(),
        });
    }
    Ok(usable)
}

/// A number that is not finite after training is a training that diverged.
pub(super) fn diverged(round: u32, error: LearnError) -> LearnError {
    match error {
        LearnError::NonFinite { tensor, index, value } => LearnError::Diverged {
            round,
            tensor,
            index,
            value,
        },
        other => other,
    }
}
