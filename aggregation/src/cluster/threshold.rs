//! How close is close enough. A divergence means nothing by itself: it grows with the number of channels.

use super::Divergences;

/// How tau is chosen from the divergences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// So that this share of all pairs, from 0 to 1, lies within tau: 0 gives every client a cluster of its own, 1 puts
    /// all in one. Ties may bring in more.
    Overlap(f64),
    /// In the middle (geometric mean) of the largest relative jump between neighbouring divergences. For data that falls
    /// apart into domains, where a share would cut one in two.
    Gap,
    /// This very number, in the unit of the divergences.
    Fixed(f64),
}

/// A threshold, and what it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tau {
    /// Pairs up to and including this divergence are close.
    pub tau: f64,
    /// Share of pairs that are, from 0 to 1; 0 where there are no pairs.
    pub overlap: f64,
    /// For [`Threshold::Gap`], the factor of the jump; below 2 there is hardly one.
    pub jump: Option<f64>,
}

impl Threshold {
    /// Applies the rule.
    ///
    /// # Errors
    /// [`ThresholdError`]: a share outside 0 to 1, a threshold that is no number, or nothing to find a jump in.
    pub fn choose(self, divergences: &Divergences) -> Result<Tau, ThresholdError> {
        let mut sorted = divergences.pairs().to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (tau, jump) = match self {
            Self::Overlap(share) => (quantile(&sorted, share)?, None),
            Self::Gap => {
                let (tau, jump) = gap(&sorted).ok_or(ThresholdError::NoGap)?;
                (tau, Some(jump))
            }
            Self::Fixed(tau) if tau.is_finite() => (tau, None),
            Self::Fixed(tau) => return Err(ThresholdError::Tau { tau }),
        };
        let close = sorted.partition_point(|value| *value <= tau);
        Ok(Tau {
            tau,
            overlap: ratio(close, sorted.len()),
            jump,
        })
    }
}

/// The divergence up to which the nearest whole number of pairs lies.
fn quantile(sorted: &[f64], share: f64) -> Result<f64, ThresholdError> {
    if !(0.0..=1.0).contains(&share) {
        return Err(ThresholdError::Share { share });
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of pairs far below 2^52, times at most 1"
    )]
    let wanted = (share * sorted.len() as f64).round() as usize;
    Ok(match wanted.checked_sub(1) {
        Some(last) => sorted.get(last).copied().unwrap_or(0.0),
        None => sorted.first().map_or(0.0, |least| least.next_down()),
    })
}

/// Threshold and factor of the largest jump between positive neighbours; the first of equal ones.
fn gap(sorted: &[f64]) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for (low, high) in sorted.iter().zip(sorted.iter().skip(1)) {
        // Clients with equal data are close under any threshold; no jump from zero says more.
        if *low > 0.0 && high > low {
            let jump = high / low;
            if best.is_none_or(|(_, largest)| jump > largest) {
                // Between the two also where the square root rounds.
                best = Some(((low * jump.sqrt()).clamp(*low, high.next_down()), jump));
            }
        }
    }
    best
}

/// A share; 0 of nothing.
pub(super) fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio
}

/// Why there is no threshold. The caller's setting is at fault, or the data has no structure.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ThresholdError {
    /// A share outside its range.
    #[error("an overlap of {share} is no share of the pairs: give a number from 0 to 1")]
    Share {
        /// What was given.
        share: f64,
    },
    /// A threshold that is NaN or infinite.
    #[error("{tau} is no threshold: give a finite number")]
    Tau {
        /// What was given.
        tau: f64,
    },
    /// All positive divergences are equal, or there are fewer than two.
    #[error("there is no gap between the divergences: choose an overlap or a fixed threshold")]
    NoGap,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[f64]) -> Divergences {
        let rows: Vec<Vec<f64>> = points
            .iter()
            .map(|a| points.iter().map(|b| (a - b).powi(2)).collect())
            .collect();
        Divergences::from_rows(&rows).unwrap()
    }

    #[test]
    fn a_share_of_the_pairs_is_close() {
        // Pairs 1, 4, 9, 1, 4, 1 (squared distances of 0, 1, 2, 3).
        let matrix = line(&[0.0, 1.0, 2.0, 3.0]);
        let tau = |share| Threshold::Overlap(share).choose(&matrix).unwrap();
        assert!(tau(0.0).tau < 1.0);
        assert_eq!((tau(0.0).overlap, tau(1.0).overlap), (0.0, 1.0));
        assert_eq!((tau(0.5).tau, tau(0.5).overlap), (1.0, 0.5));
        // One pair wanted, three tied.
        assert_eq!((tau(0.1).tau, tau(0.1).overlap), (1.0, 0.5));
        assert_eq!((tau(5.0 / 6.0).tau, tau(1.0).tau), (4.0, 9.0));
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(
                Threshold::Overlap(share).choose(&matrix),
                Err(ThresholdError::Share { .. })
            ));
        }
    }

    #[test]
    fn two_domains_of_15_and_17_are_48_6_percent() {
        // 15 indoor clients within 1.4 of each other, 17 outdoor ones within 1.6, the domains 100 apart.
        let step = |count: i32, from: f64| (0..count).map(move |i| from + 0.1 * f64::from(i));
        let points: Vec<f64> = step(15, 0.0).chain(step(17, 100.0)).collect();
        let chosen = Threshold::Gap.choose(&line(&points)).unwrap();
        assert!((chosen.overlap - (105.0 + 136.0) / 496.0).abs() < 1e-12);
        assert!(1.6_f64.powi(2) < chosen.tau && chosen.tau < 98.6_f64.powi(2));
        assert!((chosen.jump.unwrap() - (98.6_f64 / 1.6).powi(2)).abs() < 1e-6);
    }

    #[test]
    fn identical_clients_make_no_gap() {
        assert_eq!(
            Threshold::Gap.choose(&line(&[1.0, 1.0, 1.0])),
            Err(ThresholdError::NoGap)
        );
        // 0, 0 | 9, 9 ...: from 0 to 9 is no jump, from 9 to 1,000,000 is.
        let chosen = Threshold::Gap.choose(&line(&[0.0, 0.0, 3.0, 1003.0])).unwrap();
        assert!((9.0..994_009.0).contains(&chosen.tau));
        assert_eq!(Threshold::Gap.choose(&line(&[1.0])), Err(ThresholdError::NoGap));
    }

    #[test]
    fn neighbouring_floats_are_still_told_apart() {
        let low = 1.0_f64;
        let rows = vec![
            vec![0.0, low, low.next_up()],
            vec![low, 0.0, low],
            vec![low.next_up(), low, 0.0],
        ];
        let chosen = Threshold::Gap
            .choose(&Divergences::from_rows(&rows).unwrap())
            .unwrap();
        assert_eq!(chosen.tau.to_bits(), low.to_bits());
    }

    #[test]
    fn a_fixed_threshold_is_taken_as_it_is() {
        let matrix = line(&[0.0, 1.0, 2.0]);
        let chosen = Threshold::Fixed(1.5).choose(&matrix).unwrap();
        assert_eq!((chosen.tau, chosen.jump), (1.5, None));
        assert!((chosen.overlap - 2.0 / 3.0).abs() < 1e-12);
        assert!(matches!(
            Threshold::Fixed(f64::INFINITY).choose(&matrix),
            Err(ThresholdError::Tau { .. })
        ));
        let nobody = line(&[]);
        assert!(Threshold::Overlap(0.5).choose(&nobody).unwrap().overlap <= 0.0);
    }
}
