//! Writes generated clients as folders of PNG pairs: `cargo run -p veilsum-learner --example generate -- DIR [FRAMES]`.

use std::path::Path;

use veilsum_learner::data::generator::{Generator, Light, Place, Platform};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("say where to write")?;
    let frames: usize = args.next().map_or(Ok(24), |n| n.parse())?;
    let mut seed = 0;
    for place in Place::ALL {
        for platform in Platform::ALL {
            seed += 1;
            let light = if seed % 3 == 0 { Light::Night } else { Light::Day };
            let client = Generator {
                platform,
                place,
                light,
                width: 128,
                height: 96,
                train: frames,
                test: frames.div_ceil(3),
                seed,
            };
            client.write_folder(&Path::new(&dir).join(client.name()))?;
            let score = client.dataset()?.mean_picture_score()?;
            println!(
                "{}: AbsRel of the mean picture {:.3}",
                client.name(),
                score.abs_rel
            );
        }
    }
    Ok(())
}
