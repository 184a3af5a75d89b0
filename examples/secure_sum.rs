//! What secure aggregation is: eight clients mask their numbers, and the server learns their sum and nothing else.
//!
//! `cargo run --example secure_sum`. The machines are the real ones; only the network is left out.

#[path = "isolate/federation.rs"]
mod federation;

use federation::Federation;
use std::error::Error;
use veilsum_crypto::ClientId;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let everybody: Vec<u32> = (0..8).collect();
    let outcome = Federation::new(3)?.round(std::slice::from_ref(&everybody), &[])?;
    let opened = outcome.opened.first().ok_or("a sum should be open")?;

    // Sums are modulo 2^m; what is above the middle is negative. The last word is the sum of weights.
    let ring = 1_i64 << federation::modulus_bits();
    let centred = |word: &u32| (i64::from(*word) + ring / 2).rem_euclid(ring) - ring / 2;
    let sum: Vec<i64> = opened.sum.iter().map(centred).collect();
    let (weights, sum) = sum.split_last().ok_or("a sum has words")?;

    let mut plain = vec![0_i64; federation::ENTRIES];
    for client in &everybody {
        let update = Federation::update(*client);
        println!("client {client} holds {update:?}, and sends it masked");
        for (total, value) in plain.iter_mut().zip(update) {
            *total += value;
        }
    }
    println!("the server opens  {sum:?}, of {weights} clients");
    println!("the plain sum is  {plain:?}");
    if sum != plain || *weights != 8 || outcome.survivors.iter().copied().ne((0..8).map(ClientId)) {
        return Err("the opened sum is not the plain one".into());
    }
    Ok(())
}
