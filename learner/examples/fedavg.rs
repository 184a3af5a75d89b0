//! Plain federated averaging of the tiny network, without masks: what the rest of veilsum protects.
//!
//! `cargo run --release -p veilsum-learner --features torch --example fedavg` trains the eight generated clients of the
//! demonstration, averaged within each of their two places. With client folders as arguments it trains those instead:
//! `… --example fedavg -- clients/a clients/b` averages over all, `--alone` trains each by itself. `--seed N` changes
//! the generated scenes and `--rounds N` the length.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use veilsum_learner::data::folder::{FolderOptions, read_client};
use veilsum_learner::data::generator::Place;
use veilsum_learner::demo::DemoDefaults;
use veilsum_learner::torch::{DepthLearner, DepthLearnerConfig};
use veilsum_learner::{DepthDataset, Learner, Weights};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut demo = DemoDefaults::TORCH;
    let (mut seed, mut alone, mut folders) = (1, false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--alone" => alone = true,
            "--seed" => seed = args.next().ok_or("--seed needs a number")?.parse()?,
            "--rounds" => demo.rounds = args.next().ok_or("--rounds needs a number")?.parse()?,
            folder => folders.push(PathBuf::from(folder)),
        }
    }
    let config = DepthLearnerConfig::tiny(demo.range);
    let start = DepthLearner::initial_weights(&config, demo.model_seed)?;
    println!("{} parameters", start.values().len());

    let groups: Vec<Vec<DepthDataset>> = if folders.is_empty() {
        let of = |wanted: Place| {
            let members = demo
                .clients(seed)
                .into_iter()
                .filter(move |(place, _)| *place == wanted);
            members
                .map(|(_, generator)| generator.dataset())
                .collect::<Result<Vec<_>, _>>()
        };
        vec![of(Place::Indoor)?, of(Place::Street)?]
    } else {
        let read = folders
            .iter()
            .map(|dir| folder(dir, &config))
            .collect::<Result<Vec<_>, _>>()?;
        if alone {
            read.into_iter().map(|data| vec![data]).collect()
        } else {
            vec![read]
        }
    };
    let mut total = Duration::ZERO;
    for group in groups {
        total += average(&demo, &config, &start, group)?;
    }
    println!("training and evaluation took {total:.1?}");
    Ok(())
}

fn average(
    demo: &DemoDefaults,
    config: &DepthLearnerConfig,
    start: &Weights,
    group: Vec<DepthDataset>,
) -> Result<Duration, Failure> {
    let mut clients = Vec::new();
    for data in group {
        let simple = data.mean_picture_score()?.abs_rel;
        println!(
            "{}: {} training frames, AbsRel of the mean picture {simple:.3}",
            data.name(),
            data.train().len()
        );
        clients.push(DepthLearner::new(config.clone(), demo.model_seed, data)?);
    }
    let mut global = start.clone();
    let begin = Instant::now();
    for round in 0..=demo.rounds {
        let (mut scores, mut deltas, mut trained) = (Vec::new(), Vec::new(), Vec::new());
        for client in &mut clients {
            client.load(&global)?;
            let evaluation = client.evaluate()?;
            let score = *evaluation.depth().ok_or("a depth learner has depth scores")?;
            scores.push(score);
            deltas.push(format!("{:.3}", score.abs_rel));
            if round < demo.rounds {
                client.train(&demo.plan(round + 1))?;
                trained.push(client.weights()?);
            }
        }
        let mean = veilsum_learner::DepthMetrics::mean(&scores)?;
        println!(
            "after {round} rounds: AbsRel {} mean {:.3}, delta1 {:.3}, RMSE {:.2} m",
            deltas.join(" "),
            mean.abs_rel,
            mean.delta1,
            mean.rmse
        );
        if round < demo.rounds {
            global = Weights::mean(&trained)?;
        }
    }
    Ok(begin.elapsed())
}

fn folder(dir: &Path, config: &DepthLearnerConfig) -> Result<DepthDataset, Failure> {
    let (width, height) = config.network.picture();
    let (data, report) = read_client(dir, &FolderOptions::new(width, height))?;
    println!("{report}");
    Ok(data)
}
