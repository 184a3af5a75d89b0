//! Arithmetic modulo the Mersenne prime `2^61 - 1`.
//!
//! Why this field may stand in for the rationals: a minor of order `n` of a 0/1 matrix is at most
//! `(n+1)^((n+1)/2) / 2^n` in size (Hadamard). Up to order 36 that is below `2^61 - 1`, so a minor is zero
//! here exactly when it is zero over the integers, and every rank agrees. Above, a rank taken here can only
//! be too low: "full rank" stays a proof, and what looks singular is checked over the integers.

/// The modulus.
pub(super) const P: u64 = (1 << 61) - 1;

/// Largest order at which no nonzero minor of a 0/1 matrix can vanish modulo [`P`].
pub(super) const FAITHFUL_ORDER: usize = 36;

/// `x + a * b`, all below [`P`].
#[inline]
pub(super) fn mul_add(x: u64, a: u64, b: u64) -> u64 {
    let wide = u128::from(x) + u128::from(a) * u128::from(b);
    // Both halves fit: wide < 2^122 + 2^61.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the mask and the shift leave at most 62 bits"
    )]
    let (low, high) = ((wide & u128::from(P)) as u64, (wide >> 61) as u64);
    let sum = low + high;
    if sum >= P { sum - P } else { sum }
}

/// `a * b`.
#[inline]
pub(super) fn mul(a: u64, b: u64) -> u64 {
    mul_add(0, a, b)
}

/// `-a`.
#[inline]
pub(super) fn neg(a: u64) -> u64 {
    if a == 0 { 0 } else { P - a }
}

/// `1 / a`, and 0 for 0 (Fermat).
pub(super) fn inverse(a: u64) -> u64 {
    let (mut result, mut base, mut exponent) = (1, a, P - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul(result, base);
        }
        base = mul(base, base);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_and_negation_undo() {
        for a in [1, 2, 3, 12_345_678_901, P - 1, P / 2, P - 2] {
            assert_eq!(mul(a, inverse(a)), 1);
            assert_eq!(mul_add(a, 1, neg(a)), 0);
        }
        assert_eq!(mul(P - 1, P - 1), 1);
        assert_eq!(mul_add(P - 1, P - 1, P - 1), 0);
        assert_eq!((inverse(0), neg(0)), (0, 0));
    }

    #[test]
    fn faithful_order_is_where_hadamard_ends() {
        // log2 of the bound, in floating point: far from the edge on both sides.
        let bits = |n: f64| f64::midpoint(n, 1.0) * (n + 1.0).log2() - n;
        assert!(bits(36.0) < 60.99);
        assert!(bits(37.0) > 61.5);
    }
}
