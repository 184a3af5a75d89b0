//! What a person types on a fresh clone: `cargo xtask demo`, `cargo xtask test`, and the parts they are made of.

mod arrows;
mod cargo;
mod demo;
mod doctor;
mod fuzz;
mod libtorch;
mod machine;
mod mutants;
mod step;
mod tally;
mod test;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    match dispatch(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<ExitCode> {
    let root = root();
    match args.split_first().map(|(verb, rest)| (verb.as_str(), rest)) {
        Some(("demo", rest)) => demo::run(&root, rest),
        Some(("test", rest)) => test::run(&root, test::Options::parse(rest, false)?),
        Some(("ci", rest)) => test::run(&root, test::Options::parse(rest, true)?),
        Some(("libtorch", [])) => {
            let found = libtorch::obtain(&root)?;
            println!("{} ({})", found.path.display(), found.origin);
            Ok(ExitCode::SUCCESS)
        }
        Some(("arrows", [])) => {
            println!("{}", arrows::check(&root)?);
            Ok(ExitCode::SUCCESS)
        }
        Some(("mutants", [])) => mutants::run(&root, None),
        Some(("mutants", [wanted])) => mutants::run(&root, Some(wanted)),
        Some(("fuzz", rest)) => fuzz::run(&root, &fuzz::Options::parse(rest)?),
        Some(("doctor", [])) => Ok(doctor::run(&root)),
        Some(("help" | "--help" | "-h", _)) => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some((verb, rest)) => bail!(
            "cannot do `{}`\n\n{USAGE}",
            [&[verb.to_owned()], rest].concat().join(" ")
        ),
        None => bail!("say what to do\n\n{USAGE}"),
    }
}

/// The clone: where cargo says this package is now, or was when it was built.
fn root() -> PathBuf {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package
        .parent()
        .map_or_else(|| package.clone(), Path::to_path_buf)
}

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo [ARGS]         set up, build and run the demo; ARGS go to `veilsum demo`
  test [--no-torch]   everything that passes without a GPU, with counts
  ci [--no-torch]     test, and lints, licences and documentation
  libtorch            obtain libtorch and say where it is
  arrows              check which crate may use which
  mutants [RULE]      take rules of the round out one by one, and see that a test fails
  fuzz [TARGET] [--seconds N]
                      run the fuzz targets one after the other, 600 s each if nothing is said
  doctor              what this machine lacks, and the command that brings it";
