//! What this machine has: Python with pip, a C++ compiler, room on the disk, a platform libtorch exists for.
//!
//! Every question answers with what was found or with a [`Lack`]: what is missing and the command that brings it.

use std::env;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Something this machine needs and does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lack {
    /// What is missing, as one clause.
    pub(crate) what: String,
    /// What to type or do about it.
    pub(crate) cure: String,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  to fix it: {}", self.what, self.cure)
    }
}

impl std::error::Error for Lack {}

/// Python 3 with pip, as `python3` on the path answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Python {
    /// `3.11.7`.
    pub(crate) version: String,
    /// pip's version.
    pub(crate) pip: String,
    /// glibc's version, where the C library is glibc.
    pub(crate) glibc: Option<(u32, u32)>,
}

/// Asks `python3` about itself, its pip and the C library.
///
/// # Errors
/// A [`Lack`] when there is no `python3`, it is older than 3.8, or it has no pip.
pub(crate) fn python() -> Result<Python, Lack> {
    let answer = match ask_python(None) {
        Ok(answer) => answer,
        Err(error) => {
            return Err(Lack {
                what: format!("Python 3 is missing: {error:#}"),
                cure: install("python3 python3-pip", "python3 python3-pip", "python python-pip"),
            });
        }
    };
    judge_python(&answer)
}

/// A working C++ compiler: the command's name and its first line of `--version`.
///
/// # Errors
/// A [`Lack`] when neither `$CXX` nor `c++` runs.
pub(crate) fn cpp_compiler() -> Result<String, Lack> {
    let name = env::var("CXX")
        .ok()
        .filter(|name| !name.trim().is_empty())
        .unwrap_or_else(|| "c++".to_owned());
    // CXX may carry flags or a wrapper such as ccache.
    let mut words = name.split_whitespace();
    let program = words.next().unwrap_or("c++");
    match Command::new(program).args(words).arg("--version").output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(format!("{name}: {}", text.lines().next().unwrap_or_default()))
        }
        Ok(output) => Err(no_compiler(&format!(
            "`{name} --version` failed with {}",
            output.status
        ))),
        Err(error) => Err(no_compiler(&format!("`{name}` does not run: {error}"))),
    }
}

/// Whether the pinned libraries run here: x86-64 Linux, glibc 2.28 or newer.
///
/// # Errors
/// A [`Lack`] naming the platform.
pub(crate) fn platform(python: &Python) -> Result<String, Lack> {
    judge_platform(env::consts::OS, env::consts::ARCH, python.glibc)
}

/// Free bytes on the file system that holds `path`, or will.
///
/// # Errors
/// When `python3` cannot say.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let existing = path
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(Path::new("/"));
    let answer = ask_python(Some(existing))?;
    answer
        .get("free")
        .and_then(Value::as_u64)
        .context("python3 did not tell the free disk space")
}

/// Whether `needed` bytes fit where `path` is or will be.
///
/// # Errors
/// A [`Lack`] saying how much is free and how much is needed.
pub(crate) fn room(path: &Path, needed: u64) -> Result<u64> {
    let free = free_bytes(path)?;
    if free < needed {
        bail!(Lack {
            what: format!(
                "too little disk space for {}: {} free, {} needed",
                path.display(),
                gigabytes(free),
                gigabytes(needed)
            ),
            cure: "free some space, or set XDG_CACHE_HOME to a folder on a larger disk".to_owned(),
        });
    }
    Ok(free)
}

/// Bytes as gigabytes for people.
pub(crate) fn gigabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000_000;
    format!("{}.{} GB", tenths / 10, tenths % 10)
}

fn judge_python(answer: &Value) -> Result<Python, Lack> {
    let version = answer
        .get("version")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST_PYTHON {
        return Err(Lack {
            what: format!(
                "python3 is {version}; {}.{} or newer is needed",
                OLDEST_PYTHON.0, OLDEST_PYTHON.1
            ),
            cure: install("python3 python3-pip", "python3 python3-pip", "python python-pip"),
        });
    }
    let Some(pip) = answer.get("pip").and_then(Value::as_str) else {
        return Err(Lack {
            what: format!("python3 ({version}) has no pip"),
            cure: format!(
                "{}, or: python3 -m ensurepip --user",
                install("python3-pip", "python3-pip", "python-pip")
            ),
        });
    };
    let glibc = (answer.get("libc").and_then(Value::as_str) == Some("glibc")).then(|| {
        let mut numbers = answer
            .get("libc_version")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .split('.')
            .map_while(|part| part.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    });
    Ok(Python {
        version,
        pip: pip.to_owned(),
        glibc,
    })
}

fn judge_platform(os: &str, arch: &str, glibc: Option<(u32, u32)>) -> Result<String, Lack> {
    let cure = format!(
        "install libtorch {} for this platform yourself and set LIBTORCH to its folder",
        crate::libtorch::VERSION
    );
    if os != "linux" || arch != "x86_64" {
        return Err(Lack {
            what: format!("no pinned libtorch for {arch} {os}, only for x86_64 linux"),
            cure,
        });
    }
    match glibc {
        Some(version) if version >= OLDEST_GLIBC => {
            Ok(format!("x86_64 linux, glibc {}.{}", version.0, version.1))
        }
        Some((major, minor)) => Err(Lack {
            what: format!(
                "glibc is {major}.{minor}; libtorch needs {}.{} or newer",
                OLDEST_GLIBC.0, OLDEST_GLIBC.1
            ),
            cure,
        }),
        None => Err(Lack {
            what: "the C library is not glibc; libtorch needs it".to_owned(),
            cure,
        }),
    }
}

/// Runs one small script that prints facts as JSON, among them the free bytes at `disk`.
fn ask_python(disk: Option<&Path>) -> Result<Value> {
    let output = Command::new("python3")
        .arg("-c")
        .arg(PROBE)
        .args(disk)
        .output()
        .context("`python3` does not run")?;
    if !output.status.success() {
        bail!(
            "`python3` failed with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
                .trim()
                .lines()
                .last()
                .unwrap_or_default()
        );
    }
    serde_json::from_slice(&output.stdout).context("`python3` answered something that is not JSON")
}

fn no_compiler(what: &str) -> Lack {
    Lack {
        what: format!("a C++ compiler is missing: {what}"),
        cure: install("g++", "gcc-c++", "gcc"),
    }
}

/// The install command of whatever package manager this machine has.
fn install(debian: &str, fedora: &str, arch: &str) -> String {
    let has = |program: &str| {
        env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
    };
    if has("dnf") {
        format!("sudo dnf install -y {fedora}")
    } else if has("zypper") {
        format!("sudo zypper install -y {fedora}")
    } else if has("pacman") {
        format!("sudo pacman -S {arch}")
    } else {
        format!("sudo apt-get install -y {debian}")
    }
}

const OLDEST_PYTHON: (u32, u32) = (3, 8);
const OLDEST_GLIBC: (u32, u32) = (2, 28);

const PROBE: &str = "
import json, platform, shutil, sys
try:
    import pip
    pip = pip.__version__
except ImportError:
    pip = None
libc, libc_version = platform.libc_ver()
facts = dict(version=platform.python_version(), pip=pip, libc=libc, libc_version=libc_version)
if len(sys.argv) > 1:
    facts['free'] = shutil.disk_usage(sys.argv[1]).free
print(json.dumps(facts))
";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(version: &str, pip: Option<&str>) -> Value {
        json!({ "version": version, "pip": pip, "libc": "glibc", "libc_version": "2.36" })
    }

    #[test]
    fn python_with_pip_is_enough() {
        let python = judge_python(&facts("3.11.2", Some("23.0.1"))).unwrap();
        assert_eq!(python.glibc, Some((2, 36)));
        assert_eq!(python.pip, "23.0.1");
    }

    #[test]
    fn python_without_pip_names_the_command_that_brings_it() {
        let lack = judge_python(&facts("3.11.2", None)).unwrap_err();
        assert!(lack.what.contains("has no pip"), "{lack}");
        assert!(lack.cure.contains("pip"), "{lack}");
    }

    #[test]
    fn old_python_is_named() {
        let lack = judge_python(&facts("3.6.9", Some("9"))).unwrap_err();
        assert!(lack.what.contains("3.6.9") && lack.what.contains("3.8"), "{lack}");
        assert!(
            judge_python(&facts("3.10.0", Some("9"))).is_ok(),
            "3.10 is newer than 3.8"
        );
    }

    #[test]
    fn platforms_without_pinned_libraries_are_named() {
        assert!(judge_platform("linux", "x86_64", Some((2, 28))).is_ok());
        for (os, arch, glibc, word) in [
            ("macos", "aarch64", None, "aarch64 macos"),
            ("linux", "aarch64", Some((2, 40)), "aarch64 linux"),
            ("linux", "x86_64", Some((2, 17)), "2.17"),
            ("linux", "x86_64", None, "not glibc"),
        ] {
            let lack = judge_platform(os, arch, glibc).unwrap_err();
            assert!(lack.what.contains(word), "{lack}");
            assert!(lack.cure.contains("LIBTORCH"), "{lack}");
        }
    }

    #[test]
    fn a_full_disk_says_how_much_is_missing() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(room(here, 1).is_ok());
        let error = room(&here.join("not/yet/there"), u64::MAX).unwrap_err();
        assert!(format!("{error}").contains("needed"), "{error}");
    }

    #[test]
    fn this_machine_answers() {
        let python = python().unwrap();
        assert!(python.version.starts_with('3'), "{python:?}");
    }
}
