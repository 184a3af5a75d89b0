//! `veilsum config show`.

use crate::kit::{consortium, edit, text, veilsum};
use std::fs;
use std::path::Path;
use veilsum::config::{ClientConfig, ServerConfig};

fn show(path: &Path, more: &[&str]) -> String {
    let mut args = vec!["config", "show", "--config", path.to_str().unwrap()];
    args.extend(more);
    let ran = veilsum(&args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    text(&ran.stdout)
}

fn setting(shown: &str, key: &str) -> serde_json::Value {
    let all: serde_json::Value = serde_json::from_str(shown).unwrap();
    let settings = all["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {shown}")).clone()
}

#[test]
fn what_is_shown_can_be_read_again_and_comes_to_the_same() {
    let kit = consortium();
    let server = kit.server("server.toml");
    edit(&server, "reconnect_s = 2\n", "");
    let shown = show(&server, &[]);
    let again: ServerConfig = toml::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
    let first: ServerConfig = toml::from_str(&fs::read_to_string(&server).unwrap()).unwrap();
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
    assert!(shown.contains("reconnect_s = 2"), "{shown}");
    let client = kit.client("client.toml");
    let shown = show(&client, &[]);
    let again: ClientConfig = toml::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
    let first: ClientConfig = toml::from_str(&fs::read_to_string(&client).unwrap()).unwrap();
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
}

#[test]
fn every_value_says_where_it_comes_from() {
    let kit = consortium();
    let path = kit.client("client.toml");
    edit(&path, "orgs = 2\n", "");
    // A folder does as well as its file.
    let shown = show(path.parent().unwrap(), &["--format", "json"]);
    let orgs = setting(&shown, "floors.orgs");
    assert_eq!(
        (&orgs["value"], &orgs["origin"]),
        (&1.into(), &"default".into()),
        "{orgs}"
    );
    assert!(orgs.get("line").is_none());
    let steps = setting(&shown, "training.steps");
    assert_eq!(steps["origin"], "file");
    let line = usize::try_from(steps["line"].as_u64().unwrap()).unwrap();
    let file = fs::read_to_string(&path).unwrap();
    assert!(
        file.lines().nth(line - 1).unwrap().starts_with("steps = "),
        "line {line}"
    );
    let unset = setting(&shown, "floors.max_epsilon");
    assert!(unset["value"].is_null() && unset["note"].is_string(), "{unset}");
    let key = setting(&shown, "tls.key");
    assert_eq!(key["path"], kit.client("tls.key").display().to_string());
}

#[test]
fn no_secret_is_shown() {
    let kit = consortium();
    let seed = fs::read_to_string(kit.client("client.key")).unwrap();
    let tls = fs::read_to_string(kit.client("tls.key")).unwrap();
    let path = kit.client("client.toml");
    for format in ["human", "json"] {
        let shown = show(&path, &["--format", format]);
        assert!(!shown.contains(seed.trim()));
        assert!(
            tls.lines()
                .filter(|line| line.len() > 30)
                .all(|line| !shown.contains(line))
        );
    }
    // Not even where somebody put the key itself in the place of its file's name.
    edit(
        &path,
        "key = \"client.key\"",
        &format!("key = \"{}\"", seed.trim()),
    );
    for format in ["human", "json"] {
        let shown = show(&path, &["--format", format]);
        assert!(
            !shown.contains(seed.trim()) && shown.contains("looks like a key itself"),
            "{shown}"
        );
    }
}

#[test]
fn a_file_of_no_role_is_refused() {
    let kit = consortium();
    let path = kit.path("auditor/auditor.toml");
    let ran = veilsum(&["config", "show", "--config", path.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(3));
    assert!(
        text(&ran.stderr).contains("neither a server's nor a client's"),
        "{}",
        text(&ran.stderr)
    );
}
