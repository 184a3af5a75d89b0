//! Runs the fuzz targets of `fuzz/`, one after the other. They build on the stable compiler: `fuzz/.cargo/config.toml` asks
//! LLVM for the counters that libFuzzer reads. What was found before is kept in the target folder and gone on from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo;

/// What to run, and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    target: Option<String>,
    seconds: u32,
}

/// What libFuzzer says at the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    runs: u64,
    edges: u64,
    features: u64,
    inputs: u64,
}

impl Options {
    /// Reads `[TARGET] [--seconds N]`.
    ///
    /// # Errors
    /// For anything else, and for a target there is not.
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            target: None,
            seconds: 600,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--seconds" => {
                    let number = args.next().and_then(|number| number.parse().ok());
                    options.seconds = number
                        .filter(|number| *number > 0)
                        .context("--seconds wants a number of seconds, 1 or more")?;
                }
                name if TARGETS.contains(&name) && options.target.is_none() => {
                    options.target = Some(name.to_owned());
                }
                other => bail!(
                    "cannot fuzz `{other}`; the targets are {}, and --seconds N is how long for each",
                    TARGETS.join(", ")
                ),
            }
        }
        Ok(options)
    }
}

/// Builds the targets, makes their seeds and runs them.
///
/// # Errors
/// When they cannot be built or started. A crash is no error: it is told, and the exit code says so.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let folder = cargo::target_folder(root)?.join("fuzz");
    build(&root.join("fuzz"), &folder)?;
    let mut crashed = Vec::new();
    for name in TARGETS {
        if options.target.as_deref().is_some_and(|wanted| wanted != *name) {
            continue;
        }
        if !fuzz(&folder, name, options.seconds)? {
            crashed.push(*name);
        }
    }
    if crashed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("crashed: {}", crashed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn build(package: &Path, folder: &Path) -> Result<()> {
    let folder = folder.to_string_lossy();
    let args = [
        "build",
        "--release",
        "--bins",
        "--locked",
        "--target-dir",
        &folder,
    ];
    let status = cargo::command(package, &args)
        // Flags from outside would replace those that put the counters in.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .context("cargo does not run")?;
    ensure!(status.success(), "the fuzz targets do not build");
    Ok(())
}

/// Runs one target; whether it came to its end without a crash.
fn fuzz(folder: &Path, name: &str, seconds: u32) -> Result<bool> {
    let program = folder.join(PLATFORM).join("release").join(name);
    let corpus = folder.join("corpus").join(name);
    let crashes = folder.join("crashes").join(name);
    for folder in [&corpus, &crashes] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let seeded = Command::new(&program)
        .env("VEILSUM_FUZZ_SEEDS", &corpus)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(seeded.success(), "{name} cannot make its seeds");
    println!("{name}: {seconds} s");
    let told = crashes.join("log");
    let log = fs::File::create(&told).with_context(|| format!("cannot write {}", told.display()))?;
    let status = Command::new(&program)
        .arg(&corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .args([
            "-print_final_stats=1",
            "-timeout=30",
            "-rss_limit_mb=2048",
            "-max_len=16384",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8_lossy(&fs::read(&told)?).into_owned();
    let Tally {
        runs,
        edges,
        features,
        inputs,
    } = tally(&text);
    println!("{name}: {runs} executions, {edges} edges, {features} features, {inputs} inputs kept");
    if !status.success() {
        println!("{name}: CRASHED, see {}", told.display());
        for input in inputs_in(&crashes)? {
            println!("  {} {}", program.display(), input.display());
        }
    }
    Ok(status.success())
}

/// Inputs that crashed a target, now or before.
fn inputs_in(crashes: &Path) -> Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(crashes)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name != "log") {
            inputs.push(path);
        }
    }
    inputs.sort();
    Ok(inputs)
}

/// Reads the last status line and the statistics after it.
fn tally(log: &str) -> Tally {
    let mut tally = Tally::default();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            let [key, value] = pair else { continue };
            let number = value.split('/').next().and_then(|number| number.parse().ok());
            let (Some(number), Some(place)) = (
                number,
                match *key {
                    "stat::number_of_executed_units:" => Some(&mut tally.runs),
                    "cov:" => Some(&mut tally.edges),
                    "ft:" => Some(&mut tally.features),
                    "corp:" => Some(&mut tally.inputs),
                    _ => None,
                },
            ) else {
                continue;
            };
            *place = number;
        }
    }
    tally
}

/// The targets, cheap ones first.
const TARGETS: &[&str] = &[
    "messages",
    "statements",
    "notes",
    "client",
    "server",
    "bundle",
    "masks",
];

/// As in `fuzz/.cargo/config.toml`.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Options> {
        Options::parse(&args.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_target_and_a_time_are_read_and_nothing_else() {
        let all = parse("").unwrap();
        assert_eq!((all.target, all.seconds), (None, 600));
        let one = parse("client --seconds 20").unwrap();
        assert_eq!((one.target.as_deref(), one.seconds), (Some("client"), 20));
        for wrong in [
            "clients",
            "client server",
            "--seconds",
            "--seconds 0",
            "--seconds x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_figures_count() {
        let log = "#2\tINITED cov: 10 ft: 20 corp: 3/41b exec/s: 0 rss: 40Mb\n\
            #900\tDONE   cov: 120 ft: 340 corp: 56/7890b lim: 16384 exec/s: 9 rss: 41Mb\n\
            Done 900 runs in 100 second(s)\n\
            stat::number_of_executed_units: 900\n\
            stat::average_exec_per_sec:     9\n";
        let want = Tally {
            runs: 900,
            edges: 120,
            features: 340,
            inputs: 56,
        };
        assert_eq!(tally(log), want);
    }

    #[test]
    fn every_target_of_the_package_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files: Vec<String> = fs::read_dir(root.join("fuzz/targets"))
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        files.sort();
        let mut listed = TARGETS.to_vec();
        listed.sort_unstable();
        assert_eq!(files, listed);
    }
}
