//! How the learning rate moves over the steps of one training plan.
//!
//! A plan's learning rate is the largest one. In federated training a plan is a round; for the published schedules to be
//! the published ones, one plan must cover the whole training.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// A learning-rate schedule. Rates are shares of the plan's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// For short rounds: a rise over the first fifth, then a cosine down to a tenth.
    ///
    /// Adam's first steps after a restart move every weight by the full rate whatever its gradient, and an average of
    /// weights that were still moving fast is worse than its parts; both are damped.
    Round,
    /// One cycle of Smith and Topin, "Super-Convergence" (2019), with cosines: from the full rate divided by `div` up to
    /// it, then down to the first rate divided by `final_div`. Momentum runs the other way, from 0.95 to 0.85 and back.
    OneCycle {
        /// Full rate over first rate (published: AdaBins 25, DCDepth 5).
        div: f64,
        /// First rate over last rate (published: AdaBins 100, DCDepth 4).
        final_div: f64,
        /// Share of the steps in which it rises (published: AdaBins 0.3, DCDepth 0.1).
        rise: f64,
    },
    /// `(1 − last) · (1 − s / n)^power + last` (published for NeWCRFs: last 0.1, power 0.9).
    Polynomial {
        /// Last rate as a share of the first.
        last: f64,
        /// Exponent.
        power: f64,
    },
}

impl Schedule {
    /// AdaBins as published, for a largest rate of 3.57e-4.
    pub const ADABINS: Self = Self::OneCycle {
        div: 25.0,
        final_div: 100.0,
        rise: 0.3,
    };
    /// NeWCRFs as published, for a first rate of 2e-5.
    pub const NEWCRFS: Self = Self::Polynomial {
        last: 0.1,
        power: 0.9,
    };
    /// DCDepth as published, for a largest rate of 1e-4.
    pub const DCDEPTH: Self = Self::OneCycle {
        div: 5.0,
        final_div: 4.0,
        rise: 0.1,
    };

    /// Share of the plan's learning rate at `step`, from 0, of `steps`.
    #[must_use]
    pub fn rate(self, step: u32, steps: u32) -> f64 {
        let (done, all) = (f64::from(step), f64::from(steps.max(1)));
        match self {
            Self::Round => {
                let rise = ((done + 1.0) / (0.2 * all).max(1.0)).min(1.0);
                rise * (0.55 + 0.45 * (PI * done / all).cos())
            }
            Self::OneCycle { div, final_div, rise } => {
                let (first, last) = (1.0 / div, 1.0 / (div * final_div));
                cycle(done, all, rise, [first, 1.0, last])
            }
            Self::Polynomial { last, power } => (1.0 - last) * (1.0 - done / all).max(0.0).powf(power) + last,
        }
    }

    /// Momentum (Adam's first decay) at `step`; `None` if it does not move.
    #[must_use]
    pub fn momentum(self, step: u32, steps: u32) -> Option<f64> {
        match self {
            Self::OneCycle { rise, .. } => {
                let (done, all) = (f64::from(step), f64::from(steps.max(1)));
                Some(cycle(done, all, rise, [0.95, 0.85, 0.95]))
            }
            Self::Round | Self::Polynomial { .. } => None,
        }
    }
}

/// A value that runs along half a cosine to the middle one, reached one step before the share `rise` is over, and along
/// another to the last one, reached in the last step.
fn cycle(done: f64, all: f64, rise: f64, [first, middle, last]: [f64; 3]) -> f64 {
    let top = rise * all - 1.0;
    let between = |from: f64, to: f64, share: f64| {
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            1.0
        };
        to + 0.5 * (from - to) * (1.0 + (PI * share).cos())
    };
    if done <= top {
        between(first, middle, done / top)
    } else {
        between(middle, last, (done - top) / (all - 1.0 - top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
    }

    /// `torch.optim.lr_scheduler.OneCycleLR` of PyTorch 2.13 with the published settings, over 100 and 200 steps.
    #[test]
    fn one_cycle_agrees_with_pytorch() {
        let adabins = [
            (0, 1.428_000e-5, 0.95),
            (1, 1.528_452e-5, 0.949_707),
            (10, 1.053_735e-4, 0.923_420),
            (20, 2.818_050e-4, 0.871_941),
            (29, 3.57e-4, 0.85),
            (30, 3.568_203e-4, 0.850_050),
            (50, 2.834_491e-4, 0.870_611),
            (99, 1.428e-7, 0.95),
        ];
        for (step, rate, momentum) in adabins {
            close(3.57e-4 * Schedule::ADABINS.rate(step, 100), rate);
            close(Schedule::ADABINS.momentum(step, 100).unwrap(), momentum);
        }
        let dcdepth = [
            (0, 2e-5, 0.95),
            (10, 6.330_317e-5, 0.895_871),
            (19, 1e-4, 0.85),
            (99, 6.074_829e-5, 0.891_318),
            (199, 5e-6, 0.95),
        ];
        for (step, rate, momentum) in dcdepth {
            close(1e-4 * Schedule::DCDEPTH.rate(step, 200), rate);
            close(Schedule::DCDEPTH.momentum(step, 200).unwrap(), momentum);
        }
    }

    /// From the published formula, in Python.
    #[test]
    fn polynomial_agrees_with_its_formula() {
        for (step, rate) in [
            (0, 2e-5),
            (1, 1.983_792e-5),
            (50, 1.164_596e-5),
            (99, 2.285_281e-6),
        ] {
            close(2e-5 * Schedule::NEWCRFS.rate(step, 100), rate);
        }
        assert_eq!(Schedule::NEWCRFS.momentum(3, 100), None);
    }

    #[test]
    fn a_round_rises_then_falls_to_a_tenth() {
        assert!((Schedule::Round.rate(0, 1) - 1.0).abs() < 1e-12);
        let shares: Vec<f64> = (0..20).map(|step| Schedule::Round.rate(step, 20)).collect();
        assert!(shares[0] < 0.3 && shares[3] > 0.9 && shares[19] < 0.11);
    }

    #[test]
    fn short_plans_have_usable_rates() {
        for schedule in [
            Schedule::Round,
            Schedule::ADABINS,
            Schedule::NEWCRFS,
            Schedule::DCDEPTH,
        ] {
            for steps in 0..12 {
                for step in 0..=steps {
                    let rate = schedule.rate(step, steps);
                    assert!(rate > 0.0 && rate <= 1.0, "{schedule:?} {step}/{steps}: {rate}");
                    let momentum = schedule.momentum(step, steps).unwrap_or(0.9);
                    assert!((0.85..=0.95).contains(&momentum), "{schedule:?} {momentum}");
                }
            }
        }
    }
}
