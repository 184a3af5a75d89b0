//! Help, completions and manual pages come from one definition and leave no command out.

use crate::kit::{text, veilsum};
use clap::Command;
use std::collections::BTreeSet;
use veilsum::cli::command;

/// Every command with its words, `help` itself left out.
fn commands() -> Vec<(Vec<String>, Command)> {
    fn walk(command: &Command, path: &[String], into: &mut Vec<(Vec<String>, Command)>) {
        into.push((path.to_vec(), command.clone()));
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let mut path = path.to_vec();
            path.push(sub.get_name().to_owned());
            walk(sub, &path, into);
        }
    }
    let mut into = Vec::new();
    walk(&command(), &["veilsum".to_owned()], &mut into);
    into
}

/// The words of an example as a shell would hand them over: quotes off, what is redirected left out.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" > ").next().unwrap();
    line.split_whitespace()
        .map(|word| word.trim_matches('\'').to_owned())
        .collect()
}

#[test]
fn every_command_shows_an_example_that_the_program_takes() {
    let mut examples = 0;
    for (path, found) in commands() {
        let leaf = found.get_subcommands().next().is_none();
        let Some(help) = found.get_after_help() else {
            assert!(!leaf, "`{}` has no example in src/cli/example.rs", path.join(" "));
            continue;
        };
        let help = help.to_string();
        let lines: Vec<&str> = help.lines().skip(1).map(str::trim).collect();
        assert!(help.starts_with("Example") && !lines.is_empty(), "{help}");
        for line in lines {
            let words = words(line);
            assert!(
                words.starts_with(&path),
                "`{line}` is no example of `{}`",
                path.join(" ")
            );
            let parsed = command().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "`{line}`: {}", parsed.unwrap_err());
            examples += 1;
        }
    }
    assert!(examples >= 20, "{examples}");
}

#[test]
fn every_command_and_flag_says_what_it_is() {
    for (path, found) in commands() {
        let path = path.join(" ");
        assert!(found.get_about().is_some(), "{path}");
        for arg in found.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let name = arg.get_id();
            if name != "help" && name != "version" {
                assert!(arg.get_help().is_some(), "{path} --{name}");
            }
        }
    }
}

#[test]
fn examples_that_need_nothing_run() {
    for line in ["veilsum completions bash", "veilsum compliance list"] {
        let all: Vec<String> = commands()
            .iter()
            .filter_map(|(_, command)| Some(command.get_after_help()?.to_string()))
            .collect();
        assert!(all.iter().any(|help| help.contains(line)), "{line}");
        let words = words(line);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let ran = veilsum(&words);
        assert!(
            ran.status.success() && !ran.stdout.is_empty(),
            "{}",
            text(&ran.stderr)
        );
    }
}

#[test]
fn there_is_a_completion_script_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = veilsum(&["completions", shell]);
        assert!(ran.status.success(), "{shell}: {}", text(&ran.stderr));
        let script = text(&ran.stdout);
        for (path, _) in commands() {
            let name = path.last().unwrap();
            assert!(script.contains(name.as_str()), "{shell} does not know `{name}`");
        }
    }
}

#[test]
fn bash_completes_commands_and_flags() {
    let script = r#"
        source <(printf '%s' "$SCRIPT")
        complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _veilsum veilsum "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; echo "${COMPREPLY[@]}"; }
        complete_line veilsum doc
        complete_line veilsum config sh
        complete_line veilsum doctor --off
    "#;
    let source = text(&veilsum(&["completions", "bash"]).stdout);
    let Ok(ran) = std::process::Command::new("bash")
        .args(["-c", script])
        .env("SCRIPT", &source)
        .output()
    else {
        println!("left out: there is no bash");
        return;
    };
    assert_eq!(
        text(&ran.stdout),
        "doctor\nshow\n--offline\n",
        "{}",
        text(&ran.stderr)
    );
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man1");
    let ran = veilsum(&["man", man.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let wanted: BTreeSet<String> = commands()
        .iter()
        .map(|(path, _)| format!("{}.1", path.join("-")))
        .collect();
    let made: BTreeSet<String> = std::fs::read_dir(&man)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(made, wanted);
    let page = std::fs::read_to_string(man.join("veilsum-doctor.1")).unwrap();
    assert!(
        page.contains(".TH veilsum-doctor 1") && page.contains("\\-\\-offline"),
        "{page}"
    );
    assert!(page.contains("client\\-03"), "the example is in the page: {page}");
    // A hidden flag stays hidden.
    let page = std::fs::read_to_string(man.join("veilsum-serve.1")).unwrap();
    assert!(!page.contains("crash"), "{page}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let ran = veilsum(&["man", file.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(3), "{}", text(&ran.stderr));
}
