//! Seeded order.

use chacha20::ChaCha20Rng;
use rand_core::Rng;

/// Fisher–Yates. The bias of the remainder is below 2⁻³² for any data set.
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut ChaCha20Rng) {
    for i in (1..items.len()).rev() {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is at most i")]
        let j = (rng.next_u64() % (i as u64 + 1)) as usize;
        items.swap(i, j);
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn every_order_comes_up_equally_often() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [1, 2, 3];
            shuffle(&mut items, &mut rng);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
