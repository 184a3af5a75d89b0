//! What an auditor can say: a federation trains for two rounds, its bundle is verified, and a changed bundle is not.
//!
//! `cargo run --example audit`. The drivers, the models and the auditor are the real ones, the network is simulated.

#[path = "simulated/federation.rs"]
mod federation;

use federation::{Fault, Federation};
use veilsum_attestation::audit::Overall;
use veilsum_learner::Learner;
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::toy::ToyDepth;

pub(crate) fn main() -> Result<(), Fault> {
    let federation = Federation::found(&ToyDepth::initial_weights()?, 2)?;
    let mut learners: Vec<Box<dyn Learner>> = Vec::new();
    for seed in 0..8 {
        let frames = Generator {
            platform: Platform::Ugv,
            place: Place::Street,
            light: Light::Day,
            width: 64,
            height: 48,
            train: 3,
            test: 1,
            seed,
        };
        learners.push(Box::new(ToyDepth::new(frames.dataset()?)?));
    }
    let model = federation.run(learners, 3, 0.01)?;
    let mut bundle = std::fs::read(federation.bundle())?;
    println!(
        "{} numbers trained; a bundle of {} bytes:\n",
        model.len(),
        bundle.len()
    );

    // Log, sums and models are recomputed from the masked vectors, bit for bit.
    let verdict = federation.audit(&bundle)?;
    println!("{verdict}");
    if verdict.overall != Overall::Verified {
        return Err("an honest bundle should be verified".into());
    }

    // One bit in one client's masked vector: it is no longer what that client signed.
    let at = bundle.len() - 1000;
    if let Some(byte) = bundle.get_mut(at) {
        *byte ^= 1;
    }
    match federation.audit(&bundle) {
        Ok(verdict) if verdict.overall == Overall::Verified => Err("a changed bundle was verified".into()),
        Ok(verdict) => {
            println!("with one bit changed:\n\n{verdict}");
            Ok(())
        }
        Err(error) => {
            println!("with one bit changed: {error}");
            Ok(())
        }
    }
}
