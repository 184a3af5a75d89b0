//! Paired comparisons over seeds. The unit is the seed: clients and test sequences of one seed share their models.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// The exact one-sided probability of at least so many positive differences when both signs are equally likely. Zeros do
/// not count.
#[must_use]
pub fn sign_test(differences: &[f64]) -> f64 {
    let positive = differences.iter().filter(|d| **d > 0.0).count();
    let all = differences.iter().filter(|d| **d != 0.0).count();
    // Binomial coefficients by the recurrence, times 2^-n.
    let mut term = 0.5_f64.powi(i32::try_from(all).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    for k in 0..=all {
        if k >= positive {
            tail += term;
        }
        term *= number(all - k) / number(k + 1);
    }
    tail.min(1.0)
}

/// Wilcoxon's signed-rank test, one-sided for positive differences, exact: over all 2ⁿ signs, mean ranks for ties, zeros
/// left out. For up to 20 differences; `None` beyond.
#[must_use]
pub fn wilcoxon(differences: &[f64]) -> Option<f64> {
    let mut sizes: Vec<(f64, bool)> = differences
        .iter()
        .filter(|d| **d != 0.0)
        .map(|d| (d.abs(), *d > 0.0))
        .collect();
    if sizes.len() > 20 {
        return None;
    }
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Twice the rank is a whole number.
    let ranks: Vec<usize> = sizes
        .iter()
        .map(|(size, _)| {
            let below = sizes.iter().filter(|(other, _)| other < size).count();
            let same = sizes.iter().filter(|(other, _)| other <= size).count() - below;
            2 * below + same + 1
        })
        .collect();
    let seen: usize = ranks
        .iter()
        .zip(&sizes)
        .filter(|(_, (_, up))| *up)
        .map(|(rank, _)| rank)
        .sum();
    let at_least = (0_u32..1 << sizes.len()).filter(|signs| {
        let of = ranks.iter().enumerate().filter(|(bit, _)| signs >> bit & 1 == 1);
        of.map(|(_, rank)| rank).sum::<usize>() >= seen
    });
    Some(number(at_least.count()) / 2.0_f64.powi(i32::try_from(sizes.len()).unwrap_or(0)))
}

/// The 95 % percentile interval of the mean, from 10,000 draws with replacement.
#[must_use]
pub fn bootstrap(differences: &[f64], seed: u64) -> (f64, f64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let count = differences.len().max(1) as u64;
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let draws = (0..count).map(|_| {
                #[expect(clippy::cast_possible_truncation, reason = "below the number of seeds")]
                let at = (rng.next_u64() % count) as usize;
                differences.get(at).copied().unwrap_or(0.0)
            });
            draws.sum::<f64>() / number(differences.len().max(1))
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |place: usize| means.get(place).copied().unwrap_or(0.0);
    (at(DRAWS / 40), at(DRAWS - DRAWS / 40 - 1))
}

/// Holm's step-down adjustment: as many as went in, in their order.
#[must_use]
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let of = |at: &usize| probabilities.get(*at).copied().unwrap_or(1.0);
    order.sort_by(|a, b| of(a).total_cmp(&of(b)));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least: f64 = 0.0;
    for (place, at) in order.iter().enumerate() {
        least = least.max((of(at) * number(probabilities.len() - place)).min(1.0));
        if let Some(cell) = adjusted.get_mut(*at) {
            *cell = least;
        }
    }
    adjusted
}

/// Mean and sample standard deviation.
#[must_use]
pub fn mean_sd(values: &[f64]) -> (f64, f64) {
    let count = number(values.len().max(1));
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, (square / (count - 1.0).max(1.0)).sqrt())
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(super) fn number(count: usize) -> f64 {
    count as f64
}

const DRAWS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-12, "{got} {want}");
    }

    /// scipy 1.17.1: `wilcoxon(x, alternative="greater", method="exact")`, `binomtest(wins, n, 0.5, alternative="greater")`.
    #[test]
    fn probabilities_are_scipys() {
        let cases: [(&[f64], f64, f64); 4] = [
            (&[0.31, 0.12, -0.04, 0.22, 0.51, 0.07], 0.031_25, 0.109_375),
            (
                &[0.31, -0.12, 0.04, 0.22, 0.51, 0.07, -0.2, 0.9],
                0.074_218_75,
                0.144_531_25,
            ),
            (&[1.5, -0.3, -0.2, 0.4], 0.312_5, 0.687_5),
            (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.015_625, 0.015_625),
        ];
        for (differences, signed_rank, sign) in cases {
            close(wilcoxon(differences).unwrap(), signed_rank);
            close(sign_test(differences), sign);
        }
    }

    /// The smallest probabilities there are with 5, 6 and 10 seeds.
    #[test]
    fn all_seeds_alike_give_the_least_probability() {
        for (seeds, least) in [(5, 0.031_25), (6, 0.015_625), (10, 0.000_976_562_5)] {
            let all: Vec<f64> = (1..=seeds).map(f64::from).collect();
            close(sign_test(&all), least);
            close(wilcoxon(&all).unwrap(), least);
        }
        close(sign_test(&[]), 1.0);
        close(sign_test(&[0.0, 1.0]), 0.5);
        assert!(wilcoxon(&[1.0; 21]).is_none());
    }

    /// Ranks 2, 2, 2, 5, 4 with one negative: by `scipy.stats.permutation_test` over all signs.
    #[test]
    fn ties_have_mean_ranks() {
        close(wilcoxon(&[0.1, 0.1, -0.1, 0.3, 0.2]).unwrap(), 0.125);
    }

    /// `statsmodels.stats.multitest.multipletests(p, method="holm")`.
    #[test]
    fn holms_are_statsmodels() {
        let cases: [(&[f64], &[f64]); 3] = [
            (&[0.03, 0.004], &[0.03, 0.008]),
            (&[0.01, 0.04, 0.03, 0.005], &[0.03, 0.06, 0.06, 0.02]),
            (&[0.5, 0.6], &[1.0, 1.0]),
        ];
        for (given, wanted) in cases {
            for (got, want) in holm(given).iter().zip(wanted) {
                close(*got, *want);
            }
        }
    }

    #[test]
    fn an_interval_holds_the_mean_and_narrows_with_agreement() {
        let (low, high) = bootstrap(&[0.3, 0.4, 0.5, 0.2, 0.6, 0.4], 1);
        assert!(low < 0.4 && 0.4 < high && low > 0.2 && high < 0.6);
        // The normal interval of the same: sd of the population 0.1291 over √6, times 1.96: 0.297 to 0.503.
        assert!(
            (low - 0.297).abs() < 0.02 && (high - 0.503).abs() < 0.02,
            "{low} {high}"
        );
        assert_eq!(bootstrap(&[0.25; 6], 1), (0.25, 0.25));
        assert_eq!(bootstrap(&[0.3, 0.4], 5), bootstrap(&[0.3, 0.4], 5));
    }

    #[test]
    fn spread_is_the_samples() {
        let (mean, sd) = mean_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        close(mean, 5.0);
        close(sd, (32.0_f64 / 7.0).sqrt());
    }
}
