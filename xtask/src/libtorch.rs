//! Obtains libtorch, in this order: the user's `LIBTORCH`; the user's cache folder, shared by all clones and
//! linked as `.libtorch`; else downloaded into that cache.
//!
//! The folder in the cache appears whole or not at all: everything is verified and unpacked beside it and
//! renamed at the end, under a lock.

mod cache;
mod fetch;
mod pins;
mod progress;
#[cfg(test)]
mod stage;

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use cache::{Cache, clear};
use fetch::{Patience, fetch};
pub(crate) use pins::VERSION;
use pins::{LIBRARIES, Wheel};
use progress::Progress;

use crate::machine;

/// Where libtorch came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The user's own `LIBTORCH`.
    Environment,
    /// A folder `.libtorch` of the user's making in the clone.
    Clone,
    /// The cache, already complete.
    Cache,
    /// The cache, filled just now.
    Downloaded,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "your LIBTORCH",
            Self::Clone => "your folder",
            Self::Cache => "from the cache",
            Self::Downloaded => "downloaded",
        })
    }
}

/// A libtorch that can be built against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Libtorch {
    /// What `LIBTORCH` must be for cargo.
    pub(crate) path: PathBuf,
    /// Where it came from.
    pub(crate) origin: Origin,
}

/// Finds or fetches libtorch for the clone at `root`.
///
/// # Errors
/// Names what is missing on this machine and what to do about it, or what is wrong with the user's `LIBTORCH`.
pub(crate) fn obtain(root: &Path) -> Result<Libtorch> {
    machine::cpp_compiler()?;
    let link = root.join(LINK);
    if let Some(path) = users_own(env::var_os("LIBTORCH").as_deref(), &link) {
        check(&path).with_context(|| {
            format!(
                "LIBTORCH is {}, which veilsum cannot use; unset it to let xtask obtain one",
                path.display()
            )
        })?;
        return Ok(Libtorch {
            path,
            origin: Origin::Environment,
        });
    }
    if is_real_folder(&link) {
        check(&link).with_context(|| {
            format!(
                "{} is a folder xtask did not make and cannot use; move it away",
                link.display()
            )
        })?;
        return Ok(Libtorch {
            path: link,
            origin: Origin::Clone,
        });
    }
    let cache = Cache::of_user()?;
    let origin = fill(&cache, &pins::wheels(), Patience::default(), ready_to_download)?;
    link_to(&link, &cache.libtorch())?;
    Ok(Libtorch { path: link, origin })
}

/// What `obtain` would use, without fetching anything; `Err` says what is not as it should be.
///
/// # Errors
/// There is none yet, or it is not usable.
pub(crate) fn look(root: &Path) -> Result<PathBuf> {
    let link = root.join(LINK);
    let path = match users_own(env::var_os("LIBTORCH").as_deref(), &link) {
        Some(path) => path,
        None if is_real_folder(&link) => link,
        None => Cache::of_user()?.libtorch(),
    };
    check(&path)?;
    Ok(path)
}

/// Free bytes where the cache is, when they are enough to obtain libtorch.
///
/// # Errors
/// They are not.
pub(crate) fn room() -> Result<u64> {
    machine::room(&Cache::of_user()?.libtorch(), ROOM)
}

/// Makes the cache hold a complete libtorch. `before` runs once it is clear that something must be fetched.
fn fill(
    cache: &Cache,
    wheels: &[Wheel],
    patience: Patience,
    before: impl FnOnce(&Cache) -> Result<()>,
) -> Result<Origin> {
    let home = cache.libtorch();
    if check(&home).is_ok() {
        return Ok(Origin::Cache);
    }
    before(cache)?;
    let _lock = cache.lock()?;
    // Another clone may have finished while this one waited.
    match check(&home) {
        Ok(()) => return Ok(Origin::Cache),
        Err(error) if home.exists() => eprintln!("{} is damaged ({error:#}); making it anew", home.display()),
        Err(_) => {}
    }
    let downloads = cache.downloads();
    fs::create_dir_all(&downloads).with_context(|| format!("cannot make {}", downloads.display()))?;
    let draft = cache.unpacking();
    clear(&draft)?;
    for wheel in wheels {
        let path = fetch(wheel, &downloads, patience, &Progress::new(wheel.project))?;
        unpack(&path, wheel, &draft)?;
    }
    fs::write(draft.join("lib/libtorch.so"), LINKER_SCRIPT).context("cannot write the linker script")?;
    write_sizes(&draft)?;
    fs::write(draft.join("build-version"), format!("{VERSION}\n")).context("cannot write build-version")?;
    clear(&home)?;
    fs::rename(&draft, &home).with_context(|| format!("cannot rename to {}", home.display()))?;
    clear(&downloads)?;
    Ok(Origin::Downloaded)
}

fn ready_to_download(cache: &Cache) -> Result<()> {
    let python = machine::python()?;
    machine::platform(&python)?;
    machine::room(&cache.libtorch(), ROOM)?;
    eprintln!(
        "obtaining libtorch {VERSION}: 540 MB to download, 490 MB kept in {}",
        cache.libtorch().display()
    );
    Ok(())
}

fn unpack(path: &Path, wheel: &Wheel, folder: &Path) -> Result<()> {
    let output = Command::new("python3")
        .args(["-c", UNPACK])
        .arg(path)
        .arg(folder)
        .args(wheel.kept.iter().map(|(from, to)| format!("{from}={to}")))
        .stdin(Stdio::null())
        .output()
        .context("`python3` does not run")?;
    if !output.status.success() {
        let said = if output.stdout.is_empty() {
            &output.stderr
        } else {
            &output.stdout
        };
        bail!(
            "cannot unpack {}: {}",
            wheel.file,
            String::from_utf8_lossy(said)
                .trim()
                .lines()
                .last()
                .unwrap_or("no reason given")
        );
    }
    Ok(())
}

/// The user's `LIBTORCH`, unless it is only the default that `.cargo/config.toml` gives every cargo command.
fn users_own(variable: Option<&OsStr>, link: &Path) -> Option<PathBuf> {
    let path = PathBuf::from(variable.filter(|value| !value.is_empty())?);
    let place = |path: &Path| Some((path.parent()?.canonicalize().ok()?, path.file_name()?.to_owned()));
    (path != link && place(&path) != place(link)).then_some(path)
}

fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether a folder holds a libtorch of the right version with nothing missing.
fn check(path: &Path) -> Result<()> {
    let found = version(path)?;
    if found.split('+').next() != Some(VERSION) {
        bail!("libtorch {VERSION} is expected, {} holds {found}", path.display());
    }
    for part in ["include/torch", "lib/libtorch_cpu.so"] {
        if !path.join(part).exists() {
            bail!("{} has no {part}", path.display());
        }
    }
    // Written only by `fill`; a libtorch from elsewhere is not judged by it.
    let Ok(sizes) = fs::read_to_string(path.join(SIZES)) else {
        return Ok(());
    };
    for line in sizes.lines() {
        let (size, name) = line
            .split_once(' ')
            .with_context(|| format!("{SIZES} is unreadable"))?;
        let file = path.join(name);
        let found = fs::metadata(&file)
            .with_context(|| format!("{} is missing", file.display()))?
            .len();
        if size.parse() != Ok(found) {
            bail!("{} has {found} bytes instead of {size}", file.display());
        }
    }
    Ok(())
}

/// The version a libtorch says it has: `build-version` in an archive, `version.py` in an installed wheel.
fn version(path: &Path) -> Result<String> {
    if let Ok(text) = fs::read_to_string(path.join("build-version")) {
        return Ok(text.trim().to_owned());
    }
    let text = fs::read_to_string(path.join("version.py"))
        .ok()
        .with_context(|| format!("no libtorch at {} (no build-version file)", path.display()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("__version__ = "))
        .map(|quoted| quoted.trim_matches(['\'', '"']).to_owned())
        .with_context(|| format!("{}/version.py names no version", path.display()))
}

fn write_sizes(folder: &Path) -> Result<()> {
    let line = |name: &str| {
        let file = fs::metadata(folder.join("lib").join(name)).with_context(|| format!("no {name}"))?;
        Ok(format!("{} lib/{name}", file.len()))
    };
    let lines: Vec<String> = LIBRARIES.into_iter().map(line).collect::<Result<_>>()?;
    fs::write(folder.join(SIZES), lines.join("\n")).with_context(|| format!("cannot write {SIZES}"))
}

/// Points the clone's link at `target`, leaving a link that already does so untouched.
fn link_to(link: &Path, target: &Path) -> Result<()> {
    if fs::read_link(link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    clear(link)?;
    symlink(target, link)
        .or_else(|error| {
            // Two commands in one clone may both have seen no link.
            if fs::read_link(link).is_ok_and(|found| found == target) {
                Ok(())
            } else {
                Err(error)
            }
        })
        .with_context(|| format!("cannot link {} to {}", link.display(), target.display()))
}

/// The link in the clone; `.cargo/config.toml` points cargo at it.
const LINK: &str = ".libtorch";

/// Sizes of the libraries, so that a truncated cache is noticed.
const SIZES: &str = "sizes";

/// `-ltorch` is asked for by name, but everything a CPU build needs is in the one big library.
const LINKER_SCRIPT: &str = "INPUT(libtorch_cpu.so)\n";

/// Bytes for the wheels, what is unpacked from them, and a build.
const ROOM: u64 = 3_000_000_000;

const UNPACK: &str = include_str!("libtorch/unpack.py");

#[cfg(test)]
mod tests;
