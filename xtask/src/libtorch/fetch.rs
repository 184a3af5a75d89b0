//! One wheel from a package index into the downloads folder: resumed, verified, or thrown away.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use super::cache::clear;
use super::pins::Wheel;
use super::progress::Progress;

/// How patiently a broken connection is tried again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Tries in a row that bring no byte before giving up.
    pub(crate) tries: u32,
    /// The first pause; each further one doubles.
    pub(crate) pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 5,
            pause: Duration::from_secs(2),
        }
    }
}

/// Brings `wheel` into `folder` and returns its path; its SHA-256 is the pinned one.
///
/// A part file of an earlier run is gone on with. If what comes out has another digest it is thrown away, and,
/// when it stood on an old part, fetched once more from the start.
///
/// # Errors
/// The index or server refuses, the connection stays broken, or the bytes are not the pinned ones.
pub(crate) fn fetch(
    wheel: &Wheel,
    folder: &Path,
    patience: Patience,
    progress: &Progress,
) -> Result<PathBuf> {
    let whole = folder.join(&*wheel.file);
    if whole.is_file() {
        match verify(&whole, wheel) {
            Ok(()) => return Ok(whole),
            Err(error) => progress.say(&format!("{error:#}; fetching it again")),
        }
    }
    let part = folder.join(format!("{}.part", wheel.file));
    let resumed = size(&part) > 0;
    if resumed {
        progress.say(&format!(
            "going on with {} at {} MB",
            wheel.file,
            size(&part) / 1_000_000
        ));
    }
    transfer(wheel, &part, patience, progress)?;
    if let Err(error) = verify(&part, wheel) {
        if !resumed {
            return Err(error)
                .context("run the command again; if it stays, the package index serves another file");
        }
        progress.say(&format!("{error:#}; fetching it from the start"));
        transfer(wheel, &part, patience, progress)?;
        verify(&part, wheel)
            .context("run the command again; if it stays, the package index serves another file")?;
    }
    fs::rename(&part, &whole).with_context(|| format!("cannot rename {}", part.display()))?;
    Ok(whole)
}

/// Checks a file against the wheel's digest and removes it when it differs.
fn verify(path: &Path, wheel: &Wheel) -> Result<()> {
    let found = sha256(path)?;
    if found == wheel.sha256 {
        return Ok(());
    }
    clear(path)?;
    bail!(
        "{} is corrupt and was thrown away: SHA-256 is {found}, expected {}",
        path.display(),
        wheel.sha256
    )
}

/// Runs the fetch script until the part file is complete.
fn transfer(wheel: &Wheel, part: &Path, patience: Patience, progress: &Progress) -> Result<()> {
    let mut fruitless = 0;
    loop {
        let before = size(part);
        let reason = match run_script(wheel, part, progress)? {
            End::Complete => return Ok(()),
            End::OtherPip(reason) => {
                progress.say(&format!(
                    "leaving the download to pip itself, without resuming ({reason})"
                ));
                return pip_download(wheel, part);
            }
            End::Refused(reason) => {
                bail!("cannot get {}: {reason}\n  {}", wheel.file, by_hand(part, wheel))
            }
            End::Broken(reason) => reason,
        };
        fruitless = if size(part) > before { 0 } else { fruitless + 1 };
        if fruitless >= patience.tries {
            bail!(
                "cannot get {}: {reason}\n  what came so far is kept: run the command again to go on from there",
                wheel.file
            );
        }
        progress.say(&format!("the connection broke ({reason}); trying again"));
        thread::sleep(patience.pause * 2_u32.pow(fruitless.min(5)));
    }
}

/// How the script ended.
enum End {
    Complete,
    Broken(String),
    Refused(String),
    OtherPip(String),
}

fn run_script(wheel: &Wheel, part: &Path, progress: &Progress) -> Result<End> {
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT, &*wheel.file, wheel.project])
        .arg(part)
        .args(&wheel.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("`python3` does not run")?;
    let mut complaints = child.stderr.take().context("no pipe for errors")?;
    // Warnings may fill their pipe before the script ends, so they are read beside the progress lines.
    let listener = thread::spawn(move || {
        let mut text = Vec::new();
        complaints
            .read_to_end(&mut text)
            .map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    for line in BufReader::new(child.stdout.take().context("no pipe for progress")?).lines() {
        let line = line.context("cannot read the download's progress")?;
        let mut words = line.split(' ');
        if words.next() == Some("at") {
            let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            progress.at(number(), number());
        }
    }
    let status = child.wait().context("cannot wait for the download")?;
    let text = listener.join().ok().and_then(io::Result::ok).unwrap_or_default();
    let reason = text.trim().lines().last().unwrap_or("no reason given").to_owned();
    Ok(match status.code() {
        Some(0) => End::Complete,
        Some(4) => End::Refused(reason),
        Some(5) => End::OtherPip(reason),
        _ => End::Broken(reason),
    })
}

/// pip's own download: the ordinary way, but an interrupted one starts again from nothing.
fn pip_download(wheel: &Wheel, part: &Path) -> Result<()> {
    let folder = part.with_extension("pip");
    clear(&folder)?;
    // `name-version-python-abi-platform.whl`
    let stem = wheel.file.trim_end_matches(".whl");
    let fields: Vec<&str> = stem.split('-').collect();
    let [_, version, python, abi, platforms] = fields.as_slice() else {
        bail!("{} is not a wheel's name", wheel.file);
    };
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-cache-dir",
        "--only-binary",
        ":all:",
    ])
    .args(["--python-version", "311", "--abi", *abi])
    .args([
        "--implementation",
        if python.starts_with("cp") { "cp" } else { "py" },
    ])
    .arg("--dest")
    .arg(&folder);
    for platform in platforms.split('.') {
        pip.args(["--platform", platform]);
    }
    let status = pip
        .arg(format!("{}=={version}", wheel.project))
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .context("`python3 -m pip` does not run")?;
    let got = folder.join(&*wheel.file);
    if !status.success() || !got.is_file() {
        bail!(
            "pip could not download {} ({status})\n  {}",
            wheel.file,
            by_hand(part, wheel)
        );
    }
    fs::rename(&got, part).with_context(|| format!("cannot move {}", got.display()))?;
    clear(&folder)
}

fn by_hand(part: &Path, wheel: &Wheel) -> String {
    format!(
        "check the network and pip's settings (`python3 -m pip config debug`), or put the file there by hand: {}",
        part.with_file_name(&*wheel.file).display()
    )
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file
            .read(&mut buffer)
            .with_context(|| format!("cannot read {}", path.display()))?;
        match buffer.get(..count) {
            Some([]) | None => return Ok(hex::encode(digest.finalize())),
            Some(bytes) => digest.update(bytes),
        }
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

const SCRIPT: &str = include_str!("fetch.py");
