//! Does a test notice when a rule is taken out? `xtask/mutants.json` lists rules of the round, each with the code that
//! holds it, the code without it, and the tests that must fail then. Work is done in a copy of the clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::cargo;

/// One rule to take out.
#[derive(Debug)]
struct Mutant {
    name: String,
    file: PathBuf,
    from: String,
    to: String,
    tests: Vec<String>,
}

/// Takes out every rule whose name contains `wanted`, one after the other, and says which tests noticed.
///
/// # Errors
/// When the list does not fit the code any more, or the copy cannot be made.
pub(crate) fn run(root: &Path, wanted: Option<&str>) -> Result<ExitCode> {
    let mutants: Vec<Mutant> = read(&root.join("xtask/mutants.json"))?
        .into_iter()
        .filter(|mutant| wanted.is_none_or(|wanted| mutant.name.contains(wanted)))
        .collect();
    ensure!(!mutants.is_empty(), "no rule of that name in xtask/mutants.json");
    let folder = cargo::target_folder(root)?.join("mutants");
    let copy = folder.join("clone");
    copy_clone(root, &copy)?;
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let noticed = try_out(mutant, &copy, &folder.join("target"))?;
        println!(
            "{} {}",
            if noticed { "noticed " } else { "SURVIVED" },
            mutant.name
        );
        if !noticed {
            survivors.push(&mutant.name);
        }
    }
    println!(
        "{} rules taken out, {} noticed",
        mutants.len(),
        mutants.len() - survivors.len()
    );
    Ok(if survivors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn read(path: &Path) -> Result<Vec<Mutant>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("{} is no list", path.display()))?;
    list.iter()
        .map(|value| {
            let text = |key: &str| {
                value[key]
                    .as_str()
                    .map(str::to_owned)
                    .with_context(|| format!("{}: an entry without {key}: {value}", path.display()))
            };
            Ok(Mutant {
                name: text("rule")?,
                file: text("file")?.into(),
                from: text("from")?,
                to: text("to")?,
                tests: text("tests")?.split_whitespace().map(str::to_owned).collect(),
            })
        })
        .collect()
}

/// Whether the tests fail without the rule. The code must still compile: a mutant that does not proves nothing.
fn try_out(mutant: &Mutant, copy: &Path, target: &Path) -> Result<bool> {
    let path = copy.join(&mutant.file);
    let whole = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        whole.matches(&mutant.from).count() == 1,
        "{}: the code of the rule \"{}\" is not there exactly once; mend xtask/mutants.json",
        mutant.file.display(),
        mutant.name
    );
    fs::write(&path, whole.replace(&mutant.from, &mutant.to))?;
    let outcome = test(mutant, copy, target);
    fs::write(&path, whole)?;
    outcome
}

fn test(mutant: &Mutant, copy: &Path, target: &Path) -> Result<bool> {
    let mut args = vec!["test", "--quiet"];
    args.extend(mutant.tests.iter().map(String::as_str));
    let run = |more: &[&str]| -> Result<bool> {
        let mut command: Command = cargo::command(copy, &[&args, more].concat());
        let status = command
            .env("CARGO_TARGET_DIR", target)
            .env("RUSTFLAGS", "--cap-lints allow")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("cargo does not run")?;
        Ok(status.success())
    };
    if !run(&["--no-run"])? {
        bail!(
            "without the rule \"{}\" the code does not compile; mend xtask/mutants.json",
            mutant.name
        );
    }
    Ok(!run(&[])?)
}

/// The files git knows or would know, as they are now.
fn copy_clone(root: &Path, copy: &Path) -> Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .context("git does not run")?;
    ensure!(
        listed.status.success(),
        "git cannot list the files of {}",
        root.display()
    );
    for name in listed
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = String::from_utf8_lossy(name).into_owned();
        let (from, to) = (root.join(&name), copy.join(&name));
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|known| known == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&to, &bytes).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_the_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for mutant in read(&root.join("xtask/mutants.json")).unwrap() {
            let whole = fs::read_to_string(root.join(&mutant.file)).unwrap();
            assert_eq!(
                whole.matches(&mutant.from).count(),
                1,
                "{}: {}",
                mutant.file.display(),
                mutant.name
            );
            assert_ne!(mutant.from, mutant.to);
        }
    }
}
