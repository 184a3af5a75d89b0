//! A training step of each depth network beside the same network in PyTorch, in one run on the same cores.
//!
//! `cargo bench -p veilsum-learner --features torch --bench networks` compares the tiny networks; `-- --full` adds one
//! step of each published architecture. PYTHON names an interpreter that has `torch` 2.13, `safetensors` and, for
//! the full AdaBins, `timm` (default `python3`); without one only this side is timed.
//!
//! Both sides start from the same weights and pictures. Before anything is timed their predictions and losses are
//! compared, so that a ratio is one of equal work. The two take turns, and the median of several turns counts; processor
//! time, because wall-clock time says more about what else a machine does.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::Deserialize;
use serde_json::json;
use tch::nn::{OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor, nn};
use veilsum_learner::DepthRange;
use veilsum_learner::torch::objective::Objective;
use veilsum_learner::torch::pass::Pass;
use veilsum_learner::torch::swin::SwinConfig;
use veilsum_learner::torch::{DepthNetwork, NetworkConfig, NetworkKind, NetworkSize};

type Failure = Box<dyn std::error::Error>;

const RANGE: DepthRange = DepthRange {
    min_m: 0.1,
    cap_m: 10.0,
};
const RATE: f64 = 1e-3;

/// One comparison.
struct Job {
    name: &'static str,
    network: NetworkConfig,
    objective: Objective,
    pictures: i64,
    threads: i32,
    turns: usize,
    steps: usize,
}

fn main() -> Result<(), Failure> {
    let full = std::env::args().any(|arg| arg == "--full");
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    for job in jobs(full) {
        if only.is_empty() || only.iter().any(|name| job.name.contains(name.as_str())) {
            compare(&job, &python)?;
        }
    }
    Ok(())
}

fn jobs(full: bool) -> Vec<Job> {
    let kinds = [
        (NetworkKind::AdaBins, "adabins tiny", "adabins published"),
        (NetworkKind::NewCrfs, "newcrfs tiny", "newcrfs published, Swin-T"),
        (NetworkKind::DcDepth, "dcdepth tiny", "dcdepth published, Swin-T"),
    ];
    let mut jobs = Vec::new();
    for (kind, name, _) in kinds {
        jobs.push(Job {
            name,
            network: NetworkConfig::new(kind, NetworkSize::Tiny, RANGE),
            objective: Objective::new(kind, NetworkSize::Tiny),
            pictures: 4,
            threads: 1,
            turns: 5,
            steps: 6,
        });
    }
    for (kind, _, name) in kinds.into_iter().filter(|_| full) {
        // Swin-L needs more memory than most machines with two cores have; the decoders are the published ones.
        let mut network = NetworkConfig::new(kind, NetworkSize::Published, RANGE);
        match &mut network {
            NetworkConfig::AdaBins(config) => config.bins.dropout = 0.0,
            NetworkConfig::NewCrfs(config) => config.encoder = without_omissions(),
            NetworkConfig::DcDepth(config) => {
                config.encoder = without_omissions();
                (config.drop_path, config.skip) = (0.0, 0.0);
            }
        }
        jobs.push(Job {
            name,
            network: match kind {
                NetworkKind::AdaBins => network,
                // A quarter of NYU's pixels, for memory.
                NetworkKind::NewCrfs | NetworkKind::DcDepth => network.with_picture(320, 224),
            },
            objective: Objective::new(kind, NetworkSize::Published),
            pictures: 1,
            threads: 2,
            turns: 1,
            steps: 2,
        });
    }
    jobs
}

fn without_omissions() -> SwinConfig {
    SwinConfig {
        drop_path: 0.0,
        ..SwinConfig::tiny(7)
    }
}

/// What the Python side says.
#[derive(Deserialize)]
struct Reply {
    torch: String,
    gap: f64,
    losses: Vec<f64>,
    times: Vec<(f64, f64)>,
}

fn compare(job: &Job, python: &str) -> Result<(), Failure> {
    tch::set_num_threads(job.threads);
    let folder = tempfile::tempdir()?;
    let (pictures, truth) = data(job);
    let mut mine = Trainer::new(job)?;
    let tensors: Vec<(String, Tensor)> = mine
        .vars
        .variables()
        .into_iter()
        .map(|(name, tensor)| (name, tensor.detach().copy()))
        .chain([
            ("pictures".to_owned(), pictures.copy()),
            ("truth".to_owned(), truth.copy()),
        ])
        .collect();
    Tensor::write_safetensors(&tensors, folder.path().join("state.safetensors"))?;
    let depth = tch::no_grad(|| {
        let prediction = mine.network.forward(&pictures, &mut Pass::evaluate());
        prediction.depth().contiguous()
    });
    Tensor::write_safetensors(&[("depth", &depth)], folder.path().join("expected.safetensors"))?;
    std::fs::write(folder.path().join("job.json"), description(job)?)?;

    let (mut rust, mut reference, mut said, mut losses) = (Vec::new(), Vec::new(), None, Vec::new());
    for _ in 0..job.turns {
        for _ in 0..job.steps {
            let (wall, used) = (Instant::now(), processor_seconds()?);
            losses.push(mine.step(&job.objective, &pictures, &truth)?);
            rust.push((wall.elapsed().as_secs_f64(), processor_seconds()? - used));
        }
        if let Some(reply) = ask(python, folder.path(), job.steps)? {
            reference.extend(reply.times.iter().skip(usize::from(job.steps > 2)));
            said = Some(reply);
        }
    }
    let (wall, used) = (median(&rust, |t| t.0), median(&rust, |t| t.1));
    println!(
        "{}: {:.0} ms a step, {:.0} ms of processor",
        job.name,
        1e3 * wall,
        1e3 * used
    );
    let Some(reply) = said else {
        println!("  no PyTorch: set PYTHON to an interpreter with torch 2.13 and safetensors");
        return Ok(());
    };
    let drift = losses
        .iter()
        .zip(&reply.losses)
        .map(|(a, b)| (a / b - 1.0).abs())
        .fold(0.0, f64::max);
    println!(
        "  PyTorch {}: {:.0} ms a step, {:.0} ms of processor",
        reply.torch,
        1e3 * median(&reference, |t| t.0),
        1e3 * median(&reference, |t| t.1)
    );
    println!(
        "  ratio PyTorch / this: {:.2} in processor time, {:.2} in wall-clock time",
        median(&reference, |t| t.1) / used,
        median(&reference, |t| t.0) / wall
    );
    println!(
        "  largest relative difference: prediction {:.1e}, losses of the first {} steps {drift:.1e}",
        reply.gap, job.steps
    );
    if reply.gap > 1e-2 || drift > 1e-2 {
        return Err(format!("{}: the two networks differ, the ratio means nothing", job.name).into());
    }
    Ok(())
}

/// A network with its optimiser.
struct Trainer {
    vars: VarStore,
    network: Box<dyn DepthNetwork>,
    optimiser: nn::Optimizer,
}

impl Trainer {
    fn new(job: &Job) -> Result<Self, Failure> {
        let vars = VarStore::new(Device::Cpu);
        let network = job.network.build(&vars.root())?;
        job.network.draw(&vars, 1)?;
        let adam = nn::AdamW {
            beta2: 0.99,
            ..nn::AdamW::default()
        };
        let optimiser = adam.build(&vars, RATE)?;
        Ok(Self {
            vars,
            network,
            optimiser,
        })
    }

    fn step(&mut self, objective: &Objective, pictures: &Tensor, truth: &Tensor) -> Result<f64, Failure> {
        let prediction = self.network.forward(pictures, &mut Pass::train(1));
        let loss = objective
            .of(&prediction, pictures, truth)
            .ok_or("no valid pixel")?;
        self.optimiser.zero_grad();
        loss.f_backward()?;
        self.optimiser.clip_grad_norm(5.0);
        self.optimiser.step();
        Ok(loss.double_value(&[]))
    }
}

/// Smooth pictures and a slanted floor with holes.
fn data(job: &Job) -> (Tensor, Tensor) {
    let (width, height) = job.network.picture();
    let side = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (width, height) = (side(width), side(height));
    let count = job.pictures * height * width;
    let wave = Tensor::arange(3 * count, (Kind::Float, Device::Cpu)) * 0.01;
    let pictures = wave.sin().view([job.pictures, 3, height, width]);
    let at = Tensor::arange(count, (Kind::Float, Device::Cpu)).view([job.pictures, 1, height, width]);
    let truth = (&at * 0.003).cos() * 2.0 + 4.0;
    let holes = at.remainder(7.0).lt(1.0);
    (pictures, truth.masked_fill(&holes, 0.0))
}

fn description(job: &Job) -> Result<String, Failure> {
    use veilsum_learner::torch::loss::{Pooling, Silog};
    let objective = &job.objective;
    Ok(serde_json::to_string(&json!({
        "network": &job.network,
        "threads": job.threads,
        "learning_rate": RATE,
        "silog": match objective.silog { Silog::Unbiased => None, Silog::Lambda(lambda) => Some(lambda) },
        "pooling": match objective.pooling { Pooling::Batch => "batch", Pooling::Picture => "picture" },
        "above_m": objective.above_m,
        "chamfer": objective.chamfer,
        "chamfer_stride": objective.chamfer_stride,
        "step_decay": objective.step_decay,
        "frequency": objective.frequency,
    }))?)
}

fn ask(python: &str, folder: &Path, steps: usize) -> Result<Option<Reply>, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/networks.py");
    let steps = steps + usize::from(steps > 2);
    let Ok(output) = Command::new(python)
        .arg("-B")
        .arg(script)
        .arg(folder)
        .arg(steps.to_string())
        .output()
    else {
        return Ok(None);
    };
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if message.contains("ModuleNotFoundError") {
            return Ok(None);
        }
        return Err(message.into());
    }
    let line = String::from_utf8(output.stdout)?;
    Ok(Some(serde_json::from_str(line.trim())?))
}

fn median(times: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> f64 {
    let mut values: Vec<f64> = times.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time of all threads of this process so far, from Linux's scheduler, in nanoseconds there.
fn processor_seconds() -> Result<f64, Failure> {
    let mut total = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let nanoseconds: f64 = text
            .split_whitespace()
            .next()
            .ok_or("an empty schedstat")?
            .parse()?;
        total += nanoseconds * 1e-9;
    }
    Ok(total)
}
