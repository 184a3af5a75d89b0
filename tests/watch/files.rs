//! What documentation, alert rules and dashboard say is what the endpoint has.

use crate::facts;
use crate::grammar::{Exposition, read};
use std::collections::BTreeSet;
use std::path::Path;
use veilsum::events::{ServerEvent, WitnessWord};
use veilsum::watch::{ClientWatch, Facts, Subject, Watch};
use veilsum_aggregation::Abort;

/// Every sample there can be.
fn everything() -> Exposition {
    let watch = Watch::new(Facts {
        witnesses: vec!["w".to_owned()],
        ..facts()
    });
    watch.observe(&ServerEvent::Witnessed {
        entries: 1,
        quorum: true,
        witnesses: vec![WitnessWord {
            name: "w".to_owned(),
            cosigned_at: Some(1),
            reason: None,
        }],
    });
    watch.observe(&ServerEvent::RoundAborted {
        round: 1,
        attempt: 0,
        reason: "TooFewMasked".to_owned(),
        detail: String::new(),
        bytes_in: 0,
        bytes_out: 0,
        head: None,
    });
    watch.observe(&ServerEvent::RoundDone {
        round: 1,
        attempt: 1,
        survivors: Vec::new(),
        dropped: Vec::new(),
        released: Vec::new(),
        withheld: Vec::new(),
        withheld_why: Vec::new(),
        weights: Vec::new(),
        window_rounds: 1,
        window_crowd_milli: 1,
        bytes_in: 0,
        bytes_out: 0,
        head: facts().head,
    });
    read(&watch.openmetrics()).unwrap()
}

/// The metric names in a text.
fn named(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("veilsum_"))
        .map(str::to_owned)
        .collect()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let client = read(&ClientWatch::new().openmetrics()).unwrap();
    let mut names = everything().names();
    names.extend(client.names());
    assert_eq!(named(&file("docs/watch.md")), names);
    for (name, family) in everything().0.into_iter().chain(client.0) {
        assert!(family.help.is_some_and(|help| help.len() > 5), "{name}");
    }
}

/// Every `name{label="value",…}` of an expression, with the labels it must have exactly.
fn selectors(expr: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    for (at, _) in expr.match_indices("veilsum_") {
        let rest = &expr[at..];
        let end = rest
            .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
            .unwrap_or(rest.len());
        let inside = rest[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(inside, _)| inside);
        let labels = inside
            .split(',')
            .filter_map(|label| label.trim().split_once("=\""))
            .map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned()))
            .filter(|(key, _)| !["job", "instance"].contains(&key.as_str()))
            .collect();
        found.push((rest[..end].to_owned(), labels));
    }
    found
}

/// Whether the endpoint has what an expression asks for.
fn there_is(seen: &Exposition, expr: &str) {
    let mut asked = selectors(expr);
    assert!(!asked.is_empty() || expr.starts_with("up{"), "{expr}");
    // Which reasons there are is the protocol's: what is checked is that one can be named.
    asked
        .iter_mut()
        .for_each(|(_, labels)| labels.retain(|(key, _)| key != "reason"));
    for (name, labels) in asked {
        let fits = seen
            .0
            .values()
            .flat_map(|family| &family.samples)
            .any(|(found, has, _)| *found == name && labels.iter().all(|label| has.contains(label)));
        assert!(fits, "no {name} with {labels:?} for `{expr}`");
    }
}

/// Aborts that rules name, by the protocol's own list.
fn is_reason(reason: &str) -> bool {
    let client = veilsum_crypto::ClientId(0);
    [
        Abort::BadDealer { client },
        Abort::ServerLost,
        Abort::ReleaseLeaks,
    ]
    .iter()
    .any(|abort| abort.name() == reason)
}

#[test]
fn alert_rules_ask_for_what_there_is_and_say_what_to_do() {
    let seen = everything();
    let text = file("configs/watch/alerts.yml");
    let rules: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() >= 10);
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        assert!(
            ["page", "ticket", "note"].contains(&rule["labels"]["severity"].as_str().unwrap()),
            "{name}"
        );
        assert!(
            rule["annotations"]["summary"].as_str().unwrap().len() > 15,
            "{name}"
        );
        assert!(
            rule["annotations"]["description"].as_str().unwrap().len() > 60,
            "{name}"
        );
        let expr = rule["expr"].as_str().unwrap();
        there_is(&seen, expr);
        for reason in expr.split("reason=\"").skip(1) {
            let reason = reason.split('"').next().unwrap();
            assert!(is_reason(reason), "{reason}");
        }
    }
    // What the descriptions name is there too.
    assert!(named(&text).is_subset(&seen.names()), "{:?}", named(&text));
    let scrape: serde_json::Value = serde_saphyr::from_str(&file("configs/watch/prometheus.yml")).unwrap();
    assert_eq!(scrape["rule_files"][0], "alerts.yml");
    assert_eq!(scrape["scrape_configs"][0]["job_name"], "veilsum");
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let seen = everything();
    let text = file("configs/watch/dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(named(&text).is_subset(&seen.names()));
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(panel["description"].as_str().unwrap().len() > 15, "{title}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{title} lies on another panel");
            }
        }
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            there_is(&seen, expr);
            assert!(expr.contains("job=\"$job\",instance=\"$instance\""), "{title}");
            // A legend's label is one of the series.
            for label in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                let (name, _) = selectors(expr).remove(0);
                let known = seen.0.values().flat_map(|family| &family.samples);
                let mut of_name = known.filter(|(found, ..)| *found == name);
                assert!(
                    of_name.any(|(_, has, _)| has.iter().any(|(key, _)| key == label)),
                    "{title}: {label}"
                );
            }
        }
    }
    // Nothing of one installation: the data source is chosen by whoever loads it.
    assert!(!text.contains("http") && text.contains("${datasource}"));
}
