//! Clients that leave: the sum of those who are left comes out whole, and with too few of them nothing comes out at all.
//!
//! `cargo run --example dropout`. Whoever leaves in mid-round leaves masks behind in everybody's vectors; the others hold
//! shares of the secrets behind those masks, and at least the threshold of them (here 5) must give theirs.

#[path = "isolate/federation.rs"]
mod federation;

use federation::Federation;
use std::error::Error;
use veilsum_aggregation::Abort;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let everybody: Vec<u32> = (0..8).collect();
    let plan = std::slice::from_ref(&everybody);
    for gone in [&[][..], &[5], &[1, 5, 6]] {
        let outcome = Federation::new(3)?.round(plan, gone)?;
        let opened = outcome.opened.first().ok_or("a sum should be open")?;
        let ring = 1_i64 << federation::modulus_bits();
        let centred = |word: &u32| (i64::from(*word) + ring / 2).rem_euclid(ring) - ring / 2;
        let sum: Vec<i64> = opened.sum.iter().take(federation::ENTRIES).map(centred).collect();
        let mut left = vec![0_i64; federation::ENTRIES];
        for client in everybody.iter().filter(|client| !gone.contains(client)) {
            for (total, value) in left.iter_mut().zip(Federation::update(*client)) {
                *total += value;
            }
        }
        println!(
            "gone {gone:?}: {sum:?} of {} clients, should be {left:?}",
            opened.contributors
        );
        if sum != left {
            return Err("the sum is not that of the clients who are left".into());
        }
    }
    // Four of eight are fewer than the threshold: their shares open nothing.
    match Federation::new(3)?.round(plan, &[0, 1, 2, 3]) {
        Err(abort @ Abort::TooFewMasked { .. }) => {
            println!("gone [0, 1, 2, 3]: {abort}");
            Ok(())
        }
        other => Err(format!("expected the round to end by name, got {other:?}").into()),
    }
}
