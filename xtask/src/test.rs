//! `cargo xtask test` and `cargo xtask ci`: everything that passes without a GPU, fast steps first.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::step::Steps;
use crate::{arrows, cargo, libtorch};

/// What to run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Leave out whatever needs libtorch.
    pub(crate) no_torch: bool,
    /// Lints, licences and documentation as well.
    pub(crate) full: bool,
}

impl Options {
    /// Reads the arguments behind `test` or `ci`.
    ///
    /// # Errors
    /// Names an argument it does not know.
    pub(crate) fn parse(args: &[String], full: bool) -> Result<Self> {
        let mut options = Self {
            full,
            ..Self::default()
        };
        for arg in args {
            match arg.as_str() {
                "--no-torch" => options.no_torch = true,
                other => bail!("unknown argument `{other}`; only --no-torch is known here"),
            }
        }
        Ok(options)
    }
}

/// Runs the steps in the clone at `root`; the exit code is 1 when anything failed.
///
/// # Errors
/// When not even the first step can be started.
pub(crate) fn run(root: &Path, options: Options) -> Result<ExitCode> {
    let planned = if options.full { 11 } else { 6 };
    let mut steps = Steps::new(cargo::target_folder(root)?.join("xtask"), planned)?;
    steps.command("format", cargo::command(root, &["fmt", "--all", "--check"]));
    steps.check("arrows", || arrows::check(root).map(|found| (found, ())));
    if options.full {
        deny(&mut steps, root);
        steps.command("lints", cargo::command(root, LINTS));
    }
    steps.tests("tests without torch", cargo::command(root, TESTS));
    torch(&mut steps, root, options);
    if options.full {
        let mut docs = cargo::command(root, &["doc", "--workspace", "--no-deps", "--locked"]);
        docs.env("RUSTDOCFLAGS", "-D warnings");
        steps.command("documentation", docs);
    }
    Ok(steps.conclude())
}

/// The steps that need libtorch. One that cannot be obtained is a failure, not an excuse.
fn torch(steps: &mut Steps, root: &Path, options: Options) {
    let lints = options.full.then_some("lints with torch");
    let tests = ["tests with torch", "doc tests with torch"];
    if options.no_torch {
        for name in ["libtorch"].into_iter().chain(lints).chain(tests) {
            steps.leave(name, "--no-torch was given");
        }
        return;
    }
    let found = steps.check("libtorch", || {
        let found = libtorch::obtain(root)?;
        Ok((format!("{} ({})", found.path.display(), found.origin), found))
    });
    let Some(found) = found else {
        for name in lints.into_iter().chain(tests) {
            steps.fail(name, "libtorch could not be obtained, see above");
        }
        return;
    };
    let with_torch = |args: &[&str]| {
        let mut command = cargo::command(root, args);
        command.env("LIBTORCH", &found.path);
        command
    };
    if let Some(name) = lints {
        steps.command(name, with_torch(TORCH_LINTS));
    }
    let mut command = with_torch(TORCH_TESTS);
    match integration_tests(&root.join("learner/tests")) {
        Ok(names) => {
            for name in names {
                command.args(["--test", &name]);
            }
            steps.tests(tests[0], command);
        }
        Err(error) => steps.fail(tests[0], &format!("{error:#}")),
    }
    steps.tests(tests[1], with_torch(TORCH_DOC_TESTS));
}

/// The names of the integration tests in a `tests` folder, sorted.
fn integration_tests(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list {}", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(stem) = path.file_stem().and_then(std::ffi::OsStr::to_str)
        {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Licences, bans and sources always; advisories where a copy of their database is at hand.
fn deny(steps: &mut Steps, root: &Path) {
    let installed = Command::new(cargo::program())
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !installed {
        let why = "cargo-deny is missing\n  to fix it: cargo install cargo-deny --locked";
        steps.fail("licences and bans", why);
        steps.fail("advisories", why);
        return;
    }
    let args = ["deny", "--all-features", "check", "bans", "licenses", "sources"];
    steps.command("licences and bans", cargo::command(root, &args));
    if advisories_at_hand() {
        let args = ["deny", "--all-features", "--offline", "check", "advisories"];
        steps.command("advisories", cargo::command(root, &args));
    } else {
        steps.leave(
            "advisories",
            "no copy of the advisory database here; `cargo deny fetch` brings one",
        );
    }
}

fn advisories_at_hand() -> bool {
    let home = std::env::var_os("CARGO_HOME")
        .map(std::path::PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    home.is_some_and(|home| home.join("advisory-dbs").is_dir() || home.join("advisory-db").is_dir())
}

const TESTS: &[&str] = &["test", "--workspace", "--locked", "--no-fail-fast"];

/// In one command, so that both crates are built with the same features of everything below them.
///
/// Of the root's integration tests `inspect` starts a demonstration, which trains the depth network where it can, and
/// `fleet` trains bird's-eye views. The others have run already, and libtorch changes nothing in them. Those of the learner are added by name.
const TORCH_TESTS: &[&str] = &[
    "test",
    "--package",
    "veilsum",
    "--package",
    "veilsum-learner",
    "--features",
    "torch",
    "--locked",
    "--no-fail-fast",
    "--lib",
    "--bins",
    "--test",
    "inspect",
    "--test",
    "fleet",
];

const TORCH_DOC_TESTS: &[&str] = &[
    "test",
    "--package",
    "veilsum",
    "--package",
    "veilsum-learner",
    "--features",
    "torch",
    "--locked",
    "--doc",
];

const LINTS: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--locked",
    "--",
    "-D",
    "warnings",
];

const TORCH_LINTS: &[&str] = &[
    "clippy",
    "--package",
    "veilsum",
    "--package",
    "veilsum-learner",
    "--all-targets",
    "--features",
    "torch",
    "--locked",
    "--",
    "-D",
    "warnings",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integration_test_of_the_learner_runs_with_torch() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../learner/tests");
        let names = integration_tests(&folder).unwrap();
        assert!(names.contains(&"federated".to_owned()), "{names:?}");
        let error = integration_tests(&folder.join("nowhere")).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    #[test]
    fn arguments_are_known_or_named() {
        assert!(
            Options::parse(&["--no-torch".to_owned()], false)
                .unwrap()
                .no_torch
        );
        assert!(!Options::parse(&[], true).unwrap().no_torch);
        let error = Options::parse(&["--fast".to_owned()], false).unwrap_err();
        assert!(error.to_string().contains("--fast"), "{error}");
    }
}
