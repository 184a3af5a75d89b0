use super::file::ParseError;
use super::*;
use serde_json::Value;
use std::collections::BTreeSet;

/// One marked figure of a page.
#[derive(Debug)]
struct Figure {
    path: String,
    value: String,
    /// Unit and shown text; dots of charts have none.
    shown: Option<(String, String)>,
    y: Option<f64>,
}

/// All elements of a page that carry `data-path`. Written apart from the code that makes the page.
fn figures(page: &str) -> Vec<Figure> {
    let mut found = Vec::new();
    for start in page.match_indices(" data-path=\"").map(|(at, _)| at) {
        let open = page[..start].rfind('<').unwrap();
        let close = start + page[start..].find('>').unwrap();
        let tag = &page[open..close];
        let attribute = |name: &str| {
            let from = tag.find(&format!(" {name}=\""))? + name.len() + 3;
            let text = &tag[from..from + tag[from..].find('"').unwrap()];
            Some(unescaped(text))
        };
        let shown = attribute("data-unit").map(|unit| {
            let rest = &page[close + 1..];
            let inner = &rest[..rest.find("</span>").unwrap()];
            (unit, unescaped(&without_tags(inner)))
        });
        found.push(Figure {
            path: attribute("data-path").unwrap(),
            value: attribute("data-value").unwrap(),
            shown,
            y: attribute("data-y").map(|y| y.parse().unwrap()),
        });
    }
    found
}

fn without_tags(html: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for character in html.chars() {
        match character {
            '<' => inside = true,
            '>' => inside = false,
            other if !inside => out.push(other),
            _ => {}
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// The number a person reads, and half of its last digit.
fn read_back(shown: &str) -> (f64, f64) {
    let plain = shown.replace(['\u{202f}', '+'], "").replace('\u{2212}', "-");
    if let Some((minutes, seconds)) = plain.split_once("\u{a0}min ") {
        let seconds: f64 = seconds.strip_suffix("\u{a0}s").unwrap().parse().unwrap();
        return (
            60_000.0 * minutes.parse::<f64>().unwrap() + 1_000.0 * seconds,
            500.0,
        );
    }
    let (digits, unit) = plain.split_once(['\u{a0}', ' ']).unwrap_or((&plain, ""));
    let factor = match unit {
        "" | "B" | "ms" => 1.0,
        "kB" | "s" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "%" => 1e-2,
        other => panic!("unit {other}"),
    };
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = factor * 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap());
    (factor * digits.parse::<f64>().unwrap(), half * (1.0 + 1e-9))
}

fn agree(page: &str, json: &Value) -> usize {
    let figures = figures(page);
    for figure in &figures {
        let value = json
            .pointer(&figure.path)
            .unwrap_or_else(|| panic!("{figure:?} is not in the JSON"));
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if figure.shown.is_none() {
            // A chart writes a number by itself.
            let drawn: f64 = figure.value.parse().unwrap();
            assert_eq!(drawn.to_bits(), value.as_f64().unwrap().to_bits(), "{figure:?}");
            continue;
        }
        assert_eq!(figure.value, text, "{figure:?}");
        let Some((unit, shown)) = &figure.shown else {
            continue;
        };
        match unit.as_str() {
            "text" => assert_eq!(*shown, text, "{figure:?}"),
            "stem" => assert!(
                text.starts_with(shown.trim_end_matches('…')) && shown.len() > 8,
                "{figure:?}"
            ),
            "ids" => {
                let mut ids = Vec::new();
                for part in shown.split(", ").filter(|part| *part != "none") {
                    let (first, last) = part.split_once('–').unwrap_or((part, part));
                    ids.extend(first.parse::<u64>().unwrap()..=last.parse().unwrap());
                }
                assert_eq!(serde_json::to_value(ids).unwrap(), *value, "{figure:?}");
            }
            "counts" => assert_eq!(
                format!("[{}]", shown.replace(['\u{202f}', ' '], "")),
                text,
                "{figure:?}"
            ),
            "count" => assert_eq!(shown.replace('\u{202f}', ""), text, "{figure:?}"),
            "bytes" | "ms" | "score" | "change" => {
                let (number, half) = read_back(shown);
                assert!((number - value.as_f64().unwrap()).abs() <= half, "{figure:?}");
            }
            other => panic!("unit {other}"),
        }
    }
    figures.len()
}

#[test]
fn the_page_shows_what_the_json_holds() {
    let report = sample::report();
    let page = html::page(&report).unwrap();
    let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let count = agree(&page, &json);
    assert!(count > 250, "{count}");
    assert!(!page.contains(r#"class="none""#), "a figure was not found");

    // Every round, client, point, check and kill is on the page.
    let paths: BTreeSet<String> = figures(&page).into_iter().map(|figure| figure.path).collect();
    for (list, fields) in [
        (
            "rounds",
            &[
                "round",
                "survivors",
                "dropped",
                "released",
                "withheld",
                "weights",
                "took_ms",
                "bytes_in",
                "bytes_out",
                "head/size",
                "head/root",
            ][..],
        ),
        (
            "clients",
            &["id", "robot", "place", "sent_bytes", "received_bytes"],
        ),
        (
            "curves/0/points",
            &["round", "loss", "abs_rel", "rmse", "delta1", "clients", "images"],
        ),
        ("curves/1/points", &["loss", "abs_rel"]),
        ("audit/checks", &["name", "status", "says"]),
        ("outcome/checks", &["name", "says"]),
    ] {
        let length = json
            .pointer(&format!("/{list}"))
            .unwrap()
            .as_array()
            .unwrap()
            .len();
        for index in 0..length {
            for field in fields {
                let path = format!("/{list}/{index}/{field}");
                assert!(paths.contains(&path), "{path}");
            }
        }
    }
    for path in [
        "/kill/client",
        "/kill/killed_ms",
        "/kill/restarted_ms",
        "/kill/back_in_round",
        "/audit/overall",
    ] {
        assert!(paths.contains(path), "{path}");
    }
}

#[test]
fn a_changed_figure_is_noticed() {
    // The comparison above must be able to fail.
    let report = sample::report();
    let page = html::page(&report).unwrap();
    let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    for (from, to) in [
        ("data-value=\"0.612\"", "data-value=\"0.613\""),
        ("data-value=\"4512103\"", "data-value=\"4512104\""),
        (">4.51\u{a0}MB<", ">4.52\u{a0}MB<"),
        (">0–7<", ">0–6<"),
        (">2 min", ">3 min"),
        (">verified<", ">violated<"),
    ] {
        let from = from.replace(" min", "\u{a0}min");
        let to = to.replace(" min", "\u{a0}min");
        assert!(page.contains(&from), "{from}");
        let forged = page.replace(&from, &to);
        assert!(
            std::panic::catch_unwind(|| agree(&forged, &json)).is_err(),
            "{from} -> {to}"
        );
    }
}

#[test]
fn dots_stand_at_the_height_of_their_figures() {
    let page = html::page(&sample::report()).unwrap();
    let mut dots = 0;
    for chart in page.split("<svg ").filter(|chart| chart.contains("data-low")) {
        let attribute = |name: &str| -> f64 {
            let from = chart.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
            chart[from..from + chart[from..].find('"').unwrap()]
                .parse()
                .unwrap()
        };
        let (low, high) = (attribute("data-low"), attribute("data-high"));
        let (top, bottom) = (attribute("data-top"), attribute("data-bottom"));
        for figure in figures(&format!("<svg {}", &chart[..chart.find("</svg>").unwrap()])) {
            let value: f64 = figure.value.parse().unwrap();
            let expected = bottom - (value - low) / (high - low) * (bottom - top);
            assert!((figure.y.unwrap() - expected).abs() < 1e-3, "{figure:?}");
            assert!((top..=bottom).contains(&figure.y.unwrap()));
            dots += 1;
        }
    }
    assert_eq!(dots, 24);
}

#[test]
fn the_page_needs_nothing_else() {
    let page = html::page(&sample::report()).unwrap();
    for outside in [
        "http:",
        "https:",
        "//cdn",
        "<script",
        "<link",
        "<iframe",
        "@import",
        "url(",
        "javascript:",
        "src=\"/",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(
        page.matches("src=").count(),
        page.matches("src=\"data:image/png;base64,").count()
    );
    assert_eq!(page.matches("<img ").count(), 8);
    assert!(page.contains("Content-Security-Policy"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    assert!(page.len() < 300_000, "{}", page.len());
}

#[test]
fn texts_cannot_leave_their_place() {
    let mut report = sample::report();
    let evil = "</td><script>alert(1)</script>\"' onload='x";
    report.federation = evil.to_owned();
    report.organisations[0] = evil.to_owned();
    report.clients[0].robot = evil.to_owned();
    report.examples[0].robot = evil.to_owned();
    report.rounds[0].head.root = evil.to_owned();
    report.data = evil.to_owned();
    report.outcome.checks[0].says = evil.to_owned();
    report.audit.as_mut().unwrap().checks[0].says = evil.to_owned();
    report.files.bundle = evil.to_owned();
    report.examples[0].last.png_base64 = evil.to_owned();
    let page = html::page(&report).unwrap();
    assert!(!page.contains("<script"), "{page}");
    assert!(!page.contains("' onload"), "{page}");
    assert!(!page.contains("\" onload"), "{page}");
}

#[test]
fn a_run_that_failed_early_has_a_page_too() {
    let mut report = sample::report();
    report.outcome.passed = false;
    report.outcome.exit_code = 5;
    report.rounds.clear();
    report.curves.clear();
    report.examples.clear();
    report.kill = None;
    report.audit = None;
    report.aborted = vec![AbortedAttempt {
        round: 1,
        attempt: 0,
        reason: "TooFewKeys".to_owned(),
        detail: "2 clients sent keys and 6 are needed".to_owned(),
    }];
    let page = html::page(&report).unwrap();
    agree(&page, &serde_json::to_value(&report).unwrap());
    for text in [
        "did not do what it should",
        "no round was finished",
        "TooFewKeys",
        "before the audit",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("NaN"));
}

#[test]
fn claims_follow_the_facts() {
    let mut report = sample::report();
    let recomputed = "recomputed every released sum";
    assert!(html::page(&report).unwrap().contains(recomputed));
    report.audit.as_mut().unwrap().overall = "violated".to_owned();
    assert!(!html::page(&report).unwrap().contains(recomputed));
    report.audit = None;
    assert!(!html::page(&report).unwrap().contains(recomputed));

    let killed = "counted for nothing";
    assert!(html::page(&report).unwrap().contains(killed));
    report.rounds[1].dropped.clear();
    assert!(!html::page(&report).unwrap().contains(killed));

    let worked = "Training worked";
    report.curves[0].abs_rel_change = Some(0.1);
    report.curves[1].abs_rel_change = None;
    assert!(!html::page(&report).unwrap().contains(worked));
}

#[test]
fn json_there_and_back() {
    let report = sample::report();
    let text = report.to_json().unwrap();
    let again = Report::parse(&text).unwrap();
    assert_eq!(again, report);
    assert_eq!(again.to_json().unwrap(), text);
    let grown = text.replacen('{', "{\"colour\": [1, {}],", 1);
    assert_eq!(Report::parse(&grown).unwrap(), report);
    assert!(matches!(
        Report::parse(&text.replace("veilsum-demo/1", "veilsum-demo/2")),
        Err(ParseError::Schema(found)) if found == "veilsum-demo/2"
    ));
    assert!(matches!(
        Report::parse(&text[..text.len() / 2]),
        Err(ParseError::Json(_))
    ));
    assert!(matches!(Report::parse("[]"), Err(ParseError::Json(_))));
    let mut torn = report;
    torn.examples[0].first.png_base64.truncate(200);
    assert!(matches!(
        Report::parse(&torn.to_json().unwrap()),
        Err(ParseError::Picture(_))
    ));
}

#[test]
fn files_appear_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (
        folder.path().join("report.json"),
        folder.path().join("report.html"),
    );
    let report = sample::report();
    report.write(&json, &page).unwrap();
    assert_eq!(Report::read(&json).unwrap(), report);
    assert_eq!(
        std::fs::read_to_string(&page).unwrap(),
        html::page(&report).unwrap()
    );
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["report.html", "report.json"]);

    let error = report
        .write(&folder.path().join("no/report.json"), &page)
        .unwrap_err();
    assert!(error.to_string().contains("no/report.json"), "{error}");
    // A folder is in the way: the fresh file goes away again.
    let blocked = folder.path().join("blocked");
    std::fs::create_dir(&blocked).unwrap();
    std::fs::write(blocked.join("x"), "").unwrap();
    assert!(file::write_whole(&blocked, "x").is_err());
    assert!(!folder.path().join("blocked.new").exists());

    std::fs::write(&json, "{}").unwrap();
    let error = Report::read(&json).unwrap_err().to_string();
    assert!(
        error.contains("report.json") && error.contains("schema"),
        "{error}"
    );
}

#[test]
fn rounded_figures_read_back_as_the_same_number() {
    assert_eq!(rounded(f64::NAN), None);
    assert_eq!(rounded(f64::INFINITY), None);
    assert_eq!(rounded(-1e-9).unwrap().to_bits(), 0.0_f64.to_bits());
    let mut state = 1_u64;
    for _ in 0..10_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_precision_loss, reason = "any number will do")]
        let figure = rounded((state >> 11) as f64 / 2_f64.powi(46) - 64.0).unwrap();
        let text = serde_json::to_string(&figure).unwrap();
        assert_eq!(
            serde_json::from_str::<f64>(&text).unwrap().to_bits(),
            figure.to_bits(),
            "{text}"
        );
    }
}

/// Writes the made-up report where one can look at it: `VEILSUM_SAMPLE=folder cargo test`.
#[test]
fn sample_for_the_eye() {
    if let Some(folder) = std::env::var_os("VEILSUM_SAMPLE") {
        let folder = std::path::PathBuf::from(folder);
        sample::report()
            .write(&folder.join("report.json"), &folder.join("report.html"))
            .unwrap();
    }
}
