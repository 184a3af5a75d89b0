//! Cross entropy of two classes, the rare one weighted.

use tch::{Kind, Reduction, Tensor};

/// A cell that has no say.
pub const IGNORED: i64 = -100;

/// Mean cross entropy with weights 1 for background and `vehicle` for vehicles, times 2.
///
/// `logits` `[B, 2, S, S]`; `target` `[B, S, S]` of 0, 1 and [`IGNORED`]. The mean divides by the sum of the cells'
/// weights. `None` if all cells are ignored, where a mean would be 0 / 0. The published weight is 75.
#[must_use]
pub fn weighted_cross_entropy(logits: &Tensor, target: &Tensor, vehicle: f64) -> Option<Tensor> {
    if target.eq(IGNORED).all().int64_value(&[]) != 0 {
        return None;
    }
    let weight = Tensor::from_slice(&[1.0, vehicle])
        .to_kind(Kind::Float)
        .to_device(logits.device());
    Some(2.0 * logits.cross_entropy_loss(target, Some(weight), Reduction::Mean, IGNORED, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: three cells with logit differences 0, 2 and −1 (vehicle minus background), true classes vehicle,
    /// background, vehicle; a fourth is ignored. Each costs ln(1 + e^∓d): ln 2, ln(1 + e²), ln(1 + e).
    #[test]
    fn golden() {
        let vehicle = [0.0_f32, 2.0, -1.0, 9.0];
        let logits = Tensor::stack(
            &[
                Tensor::zeros([4], (Kind::Float, tch::Device::Cpu)),
                Tensor::from_slice(&vehicle),
            ],
            0,
        )
        .view([1, 2, 1, 4]);
        let target = Tensor::from_slice(&[1_i64, 0, 1, IGNORED]).view([1, 1, 4]);
        let found = weighted_cross_entropy(&logits, &target, 75.0)
            .unwrap()
            .double_value(&[]);
        let e = 1.0_f64.exp();
        let expected = 2.0 * (75.0 * 2.0_f64.ln() + (1.0 + e * e).ln() + 75.0 * (1.0 + e).ln()) / 151.0;
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        let nothing = Tensor::full([1, 1, 4], IGNORED, (Kind::Int64, tch::Device::Cpu));
        assert!(weighted_cross_entropy(&logits, &nothing, 75.0).is_none());
    }
}
