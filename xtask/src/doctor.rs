//! `cargo xtask doctor`: what this machine has and what it lacks, each with the command that brings it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::{cargo, libtorch, machine};

/// Prints one line per need; 1 when something is missing that `demo` or `test` cannot do without.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut missing = 0;
    let mut tell = |name: &str, found: Result<String>, needed: bool| match found {
        Ok(found) => println!("ok       {name}: {found}"),
        Err(error) => {
            missing += u32::from(needed);
            println!(
                "{} {name}: {error:#}",
                if needed { "MISSING " } else { "optional" }
            );
        }
    };
    tell(
        "cargo",
        answer(Command::new(cargo::program()).arg("--version")),
        true,
    );
    tell(
        "rustc",
        answer(Command::new("rustc").arg("--version").current_dir(root)),
        true,
    );
    tell("C++ compiler", machine::cpp_compiler().map_err(Into::into), true);
    match libtorch::look(root) {
        // Whatever it was obtained with is not needed any more.
        Ok(path) => tell("libtorch", Ok(path.display().to_string()), true),
        Err(error) => {
            let python = machine::python();
            let shown = python
                .clone()
                .map(|found| format!("{} with pip {}", found.version, found.pip));
            tell("Python", shown.map_err(Into::into), true);
            if let Ok(python) = python {
                tell("platform", machine::platform(&python).map_err(Into::into), true);
                let disk = libtorch::room().map(|free| format!("{} free", machine::gigabytes(free)));
                tell("disk", disk, true);
            }
            println!("to come  libtorch: {error:#}; `cargo xtask libtorch` obtains it");
        }
    }
    let deny = answer(Command::new(cargo::program()).args(["deny", "--version"]))
        .map_err(|_| anyhow::anyhow!("only `cargo xtask ci` needs it: cargo install cargo-deny --locked"));
    tell("cargo-deny", deny, false);
    if missing == 0 {
        println!("nothing is missing");
        ExitCode::SUCCESS
    } else {
        println!("{missing} missing");
        ExitCode::FAILURE
    }
}

/// The first line a command prints.
fn answer(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?} failed with {}",
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
