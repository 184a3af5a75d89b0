//! `cargo xtask demo`: libtorch, a release build, and `veilsum demo` in front of the person who asked.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result, bail};

use crate::{cargo, libtorch};

/// Builds and runs the demo with the caller's arguments; its exit code is ours.
///
/// # Errors
/// libtorch cannot be obtained, the build fails, or the program does not start.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    // `cargo xtask demo -- --rounds 3` says the same as without the dashes.
    let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
    let found = libtorch::obtain(root)?;
    eprintln!(
        "libtorch {}: {} ({})",
        libtorch::VERSION,
        found.path.display(),
        found.origin
    );
    let status = cargo::command(root, BUILD)
        .env("LIBTORCH", &found.path)
        .status()
        .context("cargo does not run")?;
    if !status.success() {
        bail!("the build failed ({status}); the compiler's messages are above");
    }
    let program = cargo::target_folder(root)?.join("release/veilsum");
    let mut demo = Command::new(&program);
    demo.arg("demo").args(args);
    cargo::as_by_hand(&mut demo);
    let status = demo
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(exit_code(status))
}

/// A child's exit code, or 128 plus the signal that ended it, as shells have it.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

const HELP: &str = "\
usage: cargo xtask demo [ARGS]

Obtains libtorch, builds in release and runs `veilsum demo ARGS`. The most used:
  --rounds N     rounds to train
  --steps N      optimiser steps a round and client
  --data DIR     real frames in place of generated ones (docs/data.md)
  --dir DIR      where it works and writes its report
All of them: `veilsum demo --help`, once it is built (target/release/veilsum).";

const BUILD: &[&str] = &[
    "build",
    "--release",
    "--locked",
    "--features",
    "torch",
    "--bin",
    "veilsum",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn exit_codes_are_passed_on() {
        let debug = |code: ExitCode| format!("{code:?}");
        assert_eq!(
            debug(exit_code(ExitStatus::from_raw(6 << 8))),
            debug(ExitCode::from(6))
        );
        assert_eq!(
            debug(exit_code(ExitStatus::from_raw(0))),
            debug(ExitCode::SUCCESS)
        );
        assert_eq!(
            debug(exit_code(ExitStatus::from_raw(9))),
            debug(ExitCode::from(137))
        );
    }
}
