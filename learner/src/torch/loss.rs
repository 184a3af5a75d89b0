//! What training minimises. All losses look at valid pixels only: finite, positive true depth.

use tch::{Kind, Tensor};

/// Which variance the scale-invariant log loss takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Silog {
    /// `var(g) + 0.15 · mean(g)²` with the unbiased variance, as the published AdaBins code computes it.
    Unbiased,
    /// `mean(g²) − λ · mean(g)²`, as its paper and most others write it.
    Lambda(f64),
}

/// Over what the means of a scale-invariant loss are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// All valid pixels of the batch together (AdaBins, NeWCRFs).
    Batch,
    /// The valid pixels of each picture; then the mean over the pictures that have any (DCDepth).
    Picture,
}

/// As [`silog`], for a prediction in ln metres.
#[must_use]
pub fn silog_of_log(log_depth: &Tensor, truth: &Tensor, form: Silog, pooling: Pooling) -> Option<Tensor> {
    match pooling {
        Pooling::Batch => root(&errors(log_depth, truth)?, form),
        Pooling::Picture => {
            let pictures = truth.size().first().copied().unwrap_or(0);
            let losses: Vec<Tensor> = (0..pictures)
                .filter_map(|i| errors(&log_depth.select(0, i), &truth.select(0, i)))
                .filter_map(|error| root(&error, form))
                .collect();
            (!losses.is_empty()).then(|| Tensor::stack(&losses, 0).mean(Kind::Float))
        }
    }
}

/// Size of cosine coefficients `[B, side², h, w]`, row-major: the mean over patches of Σ w·|c|, where w grows with the
/// anti-diagonal i + j as 1.2^(i+j) − 1 and sums to 1.
///
/// After Wang et al., "DCDepth" (NeurIPS 2024), section 3.4.
pub fn frequency(coefficients: &Tensor) -> Tensor {
    let count = coefficients.size().get(1).copied().unwrap_or(0);
    let weights = Tensor::from_slice(&frequency_weights(usize::try_from(count).unwrap_or(0)))
        .to_kind(Kind::Float)
        .to_device(coefficients.device())
        .view([1, count, 1, 1]);
    (coefficients.abs() * weights)
        .sum_dim_intlist(1, false, Kind::Float)
        .mean(Kind::Float)
}

/// `side²` weights, row-major.
fn frequency_weights(count: usize) -> Vec<f64> {
    let side = count.isqrt().max(1);
    let raw: Vec<f64> = (0..count)
        .map(|at| 1.2_f64.powi(i32::try_from(at / side + at % side).unwrap_or(0)) - 1.0)
        .collect();
    let sum: f64 = raw.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    raw.iter().map(|weight| weight / sum).collect()
}

/// Edge-aware smoothness: the mean step between neighbours of a log depth `[B, 1, H, W]`, horizontally plus vertically,
/// each weighed by exp of minus the picture's step there. `pictures` is `[B, 3, H, W]`; its channels are averaged.
pub fn smoothness(log_depth: &Tensor, pictures: &Tensor) -> Tensor {
    let grey = pictures.mean_dim([1].as_slice(), true, Kind::Float);
    let step = |map: &Tensor, axis: i64| {
        let inner = map
            .size()
            .get(if axis == 2 { 2 } else { 3 })
            .copied()
            .unwrap_or(1)
            - 1;
        (map.narrow(axis, 0, inner) - map.narrow(axis, 1, inner)).abs()
    };
    let along = |axis: i64| (step(log_depth, axis) * (-step(&grey, axis)).exp()).mean(Kind::Float);
    along(3) + along(2)
}

/// Scale-invariant log loss: 10 · √ of [`Silog`] with g = ln prediction − ln truth over the valid pixels of the whole
/// batch. `None` if there is no valid pixel.
///
/// Both tensors have the same shape. One valid pixel gives a finite loss (its variance is taken as 0), and so does a
/// perfect prediction, whose gradient is 0 rather than the square root's infinity.
///
/// After AdaBins (Bhat et al. 2021), section 3.4, and Eigen et al. (2014).
#[must_use]
pub fn silog(prediction: &Tensor, truth: &Tensor, form: Silog) -> Option<Tensor> {
    silog_of_log(
        &prediction.clamp_min(SMALLEST_M).log(),
        truth,
        form,
        Pooling::Batch,
    )
}

/// Differences of logarithms at valid pixels; `None` if there is none.
fn errors(log_depth: &Tensor, truth: &Tensor) -> Option<Tensor> {
    let valid = valid(truth);
    let predicted = log_depth.masked_select(&valid);
    // The truth is masked before the logarithm, so that nothing invalid reaches the graph.
    (predicted.numel() > 0).then(|| predicted - truth.masked_select(&valid).log())
}

/// `None` for an empty list of errors.
fn root(error: &Tensor, form: Silog) -> Option<Tensor> {
    let count = error.numel();
    if count == 0 {
        return None;
    }
    let mean = error.mean(Kind::Float);
    let radicand = match form {
        Silog::Unbiased if count == 1 => mean.square() * 0.15,
        Silog::Unbiased => error.var(true) + mean.square() * 0.15,
        Silog::Lambda(lambda) => error.square().mean(Kind::Float) - mean.square() * lambda,
    };
    // Below the floor the clamp's gradient is 0, which stops the root's from being infinite.
    Some(radicand.clamp_min(FLOOR).sqrt() * 10.0)
}

/// Bidirectional Chamfer distance between bin centres and true depths, square metres: the mean squared distance from
/// each centre to the nearest valid depth plus that from each depth to the nearest centre, averaged over the pictures
/// that have valid depth. `None` if none has.
///
/// `centres` is `[B, bins]`, `truth` is `[B, …]`. After AdaBins, section 3.4.
#[must_use]
pub fn chamfer(centres: &Tensor, truth: &Tensor) -> Option<Tensor> {
    let pictures = truth.size().first().copied().unwrap_or(0);
    let distances: Vec<Tensor> = (0..pictures)
        .filter_map(|i| {
            let picture = truth.select(0, i);
            let depths = picture.masked_select(&valid(&picture));
            (depths.numel() > 0).then(|| {
                let gaps = (centres.select(0, i).unsqueeze(1) - depths.unsqueeze(0)).square();
                gaps.amin(1, false).mean(Kind::Float) + gaps.amin(0, false).mean(Kind::Float)
            })
        })
        .collect();
    (!distances.is_empty()).then(|| Tensor::stack(&distances, 0).mean(Kind::Float))
}

/// Where true depth is known: finite and positive.
fn valid(truth: &Tensor) -> Tensor {
    truth.isfinite().logical_and(&truth.gt(0.0))
}

const SMALLEST_M: f64 = 1e-6;
const FLOOR: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        Tensor::from_slice(values)
    }

    fn number(tensor: &Tensor) -> f64 {
        tensor.double_value(&[])
    }

    /// g = (0.1, −0.2, 0.3): golden values of the published code and of its paper's formula.
    #[test]
    fn silog_golden() {
        let truth = tensor(&[2.0, 3.0, 4.0]);
        let prediction = &truth * tensor(&[0.1, -0.2, 0.3]).exp();
        let unbiased = number(&silog(&prediction, &truth, Silog::Unbiased).unwrap());
        assert!((unbiased - 2.529_822).abs() < 1e-5, "{unbiased}");
        let lambda = number(&silog(&prediction, &truth, Silog::Lambda(0.85)).unwrap());
        assert!((lambda - 2.070_963).abs() < 1e-5, "{lambda}");
    }

    /// Two pictures: the golden one and one without truth, which has no say; then two that have: their mean.
    #[test]
    fn silog_by_picture() {
        let truth = tensor(&[2.0, 3.0, 4.0, 0.0, f32::NAN, -1.0]).view([2, 3]);
        let errors = tensor(&[0.1, -0.2, 0.3, 5.0, 5.0, 5.0]).view([2, 3]);
        let known = tensor(&[2.0, 3.0, 4.0, 1.0, 1.0, 1.0]).view([2, 3]);
        let log_depth = known.log() + errors;
        let form = Silog::Lambda(0.85);
        let one = number(&silog_of_log(&log_depth, &truth, form, Pooling::Picture).unwrap());
        assert!((one - 2.070_963).abs() < 1e-5, "{one}");
        // A constant error of 5: 10 · √(0.15 · 25).
        let both = number(&silog_of_log(&log_depth, &known, form, Pooling::Picture).unwrap());
        assert!((both - 0.5 * (2.070_963 + 19.364_917)).abs() < 1e-4, "{both}");
        let nothing = tensor(&[0.0; 6]).view([2, 3]);
        for pooling in [Pooling::Batch, Pooling::Picture] {
            assert!(silog_of_log(&log_depth, &nothing, form, pooling).is_none());
        }
    }

    /// Weights from numpy: `w = 1.2 ** (i + j) - 1; w /= w.sum()` for 8 x 8.
    #[test]
    fn frequency_weights_golden() {
        let weights = frequency_weights(64);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (at, expected) in [
            (0, 0.0),
            (1, 9.605_235e-4),
            (9, 2.113_152e-3),
            (28, 1.240_603e-2),
            (63, 5.685_907e-2),
        ] {
            assert!((weights[at] - expected).abs() < 1e-8, "{at}: {}", weights[at]);
        }
        let flat = Tensor::zeros([1, 64, 1, 2], (Kind::Float, tch::Device::Cpu));
        let _ = flat.select(3, 0).select(1, 63).fill_(-2.0);
        assert!((number(&frequency(&flat)) - 5.685_907e-2).abs() < 1e-7);
    }

    /// Depth steps of 1 to the right and 2 down; the picture steps by ln 2 to the right in one of two rows.
    #[test]
    fn smoothness_spares_edges() {
        let log_depth = tensor(&[0.0, 1.0, 2.0, 3.0]).view([1, 1, 2, 2]);
        let edge = 2.0_f32.ln();
        let grey = tensor(&[0.0, edge, 0.0, 0.0]).view([1, 1, 2, 2]);
        let pictures = Tensor::cat(&[&grey, &grey, &grey], 1);
        // Right: (1/2 + 1) / 2; down: (2 + 2/2) / 2.
        assert!((number(&smoothness(&log_depth, &pictures)) - (0.75 + 1.5)).abs() < 1e-6);
    }

    #[test]
    fn chamfer_golden() {
        // Centres 1, 4 against depths 1, 2, 9 (0 is unknown): (0 + 4)/2 there, (0 + 1 + 25)/3 back.
        let loss = chamfer(
            &tensor(&[1.0, 4.0]).view([1, 2]),
            &tensor(&[1.0, 2.0, 9.0, 0.0]).view([1, 4]),
        )
        .unwrap();
        assert!((number(&loss) - (2.0 + 26.0 / 3.0)).abs() < 1e-5);
    }

    #[test]
    fn chamfer_skips_pictures_without_depth() {
        let centres = tensor(&[1.0, 1.0]).view([2, 1]);
        let truth = tensor(&[3.0, f32::NAN]).view([2, 1]);
        assert!((number(&chamfer(&centres, &truth).unwrap()) - 8.0).abs() < 1e-6);
        assert!(chamfer(&centres, &tensor(&[0.0, f32::INFINITY]).view([2, 1])).is_none());
    }

    fn gradient(prediction: &[f32], truth: &[f32], form: Silog) -> (f64, Vec<f32>) {
        let prediction = tensor(prediction).set_requires_grad(true);
        let loss = silog(&prediction, &tensor(truth), form).unwrap();
        loss.backward();
        (number(&loss), Vec::try_from(prediction.grad()).unwrap())
    }

    #[test]
    fn one_valid_pixel_and_no_error_have_finite_gradients() {
        for form in [Silog::Unbiased, Silog::Lambda(0.85), Silog::Lambda(1.0)] {
            for (prediction, truth) in [
                (vec![2.0, 3.0], vec![2.0, 0.0]),  // one valid pixel, right
                (vec![2.0, 3.0], vec![4.0, 0.0]),  // one valid pixel, wrong
                (vec![2.0, 3.0], vec![2.0, 3.0]),  // all right
                (vec![2.0, 4.0], vec![1.0, 2.0]),  // constant log error
                (vec![1e-9, 3.0], vec![1.0, 2.0]), // a prediction below any depth
            ] {
                let (loss, gradient) = gradient(&prediction, &truth, form);
                assert!(loss.is_finite(), "{form:?} {truth:?}: {loss}");
                assert!(
                    gradient.iter().all(|g| g.is_finite()),
                    "{form:?} {truth:?}: {gradient:?}"
                );
            }
        }
        let (loss, gradient) = gradient(&[2.0, 3.0], &[2.0, 3.0], Silog::Unbiased);
        assert!(loss < 1e-4);
        assert_eq!(gradient, [0.0, 0.0]);
    }

    #[test]
    fn nothing_valid_is_none() {
        let truth = tensor(&[0.0, f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY]);
        assert!(silog(&tensor(&[1.0; 5]), &truth, Silog::Unbiased).is_none());
    }

    /// Depth as files may hold it: zeros, NaN, infinities and ordinary numbers.
    fn messy_depth() -> impl Strategy<Value = f32> {
        prop_oneof![
            2 => Just(0.0_f32),
            1 => Just(f32::NAN),
            1 => Just(f32::INFINITY),
            1 => Just(-1.0_f32),
            4 => 0.05_f32..100.0,
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn messy_depth_gives_finite_loss_and_gradient(
            pairs in prop::collection::vec((0.01_f32..100.0, messy_depth()), 1..24),
            lambda in prop::option::of(0.0_f64..=1.0),
        ) {
            let (prediction, truth): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let form = lambda.map_or(Silog::Unbiased, Silog::Lambda);
            let any_valid = truth.iter().any(|d| d.is_finite() && *d > 0.0);
            let predicted = tensor(&prediction).set_requires_grad(true);
            let loss = silog(&predicted, &tensor(&truth), form);
            prop_assert_eq!(loss.is_some(), any_valid);
            if let Some(loss) = loss {
                loss.backward();
                prop_assert!(number(&loss).is_finite());
                let gradient: Vec<f32> = Vec::try_from(predicted.grad()).unwrap();
                for (g, d) in gradient.iter().zip(&truth) {
                    prop_assert!(g.is_finite());
                    prop_assert!((d.is_finite() && *d > 0.0) || *g == 0.0, "invalid pixels have no say");
                }
            }
            let centres = tensor(&[1.0, 7.0]).view([1, 2]).set_requires_grad(true);
            if let Some(loss) = chamfer(&centres, &tensor(&truth).view([1, -1])) {
                loss.backward();
                prop_assert!(number(&loss).is_finite());
                let gradient: Vec<f32> = Vec::try_from(centres.grad().flatten(0, -1)).unwrap();
                prop_assert!(gradient.iter().all(|g| g.is_finite()));
            }
        }
    }
}
