//! Results as one page that needs no network, no script and no other file.

use super::coverage::{Actor, Coverage, Phase};
use super::run::{Results, Row};
use super::scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The page of a run. `took` is in seconds.
#[must_use]
pub fn html(scenarios: &[Scenario], results: &Results, seed: u64, took: f64) -> String {
    let (word, class) = if results.passed() {
        ("as expected", "good")
    } else {
        ("not as expected", "bad")
    };
    let sections = [
        head(results, seed, took, word, class),
        coverage(scenarios, results),
        rows(results),
        failures(results),
        not_built(results),
        skipped(results),
        limits(),
    ]
    .concat();
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>veilsum compliance: {word}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{sections}</main>
</body>
</html>
"#
    )
}

fn head(results: &Results, seed: u64, took: f64, word: &str, class: &str) -> String {
    let cases: usize = results.rows.iter().map(|row| row.cases.len()).sum();
    let scenarios: BTreeSet<u32> = results.rows.iter().map(|row| row.id).collect();
    let tile = |name: &str, figure: String| {
        format!(
            "<div class=\"tile\"><span class=\"name\">{name}</span><span class=\"figure\">{figure}</span></div>\n"
        )
    };
    format!(
        "<p class=\"kicker\">veilsum {}</p>\n<h1>Compliance run <span class=\"pill {class}\">{word}</span></h1>\n\
         <p class=\"meta\">seed {seed}, {took:.1} s. Every row ran the real client and server machines with real message bytes; \
         the same seed gives the same transcripts.</p>\n<div class=\"tiles\">\n{}{}{}{}{}</div>\n",
        env!("CARGO_PKG_VERSION"),
        tile(
            "rows as expected",
            format!("{} of {}", results.good(), results.rows.len())
        ),
        tile("scenarios run", scenarios.len().to_string()),
        tile("cases", cases.to_string()),
        tile(
            "coverage cells",
            format!("{} of {}", results.gate.mapped, results.gate.cells)
        ),
        tile(
            "scenarios not built",
            results
                .not_built
                .iter()
                .filter(|gap| gap.case.is_none())
                .count()
                .to_string()
        ),
    )
}

/// The 42 cells, each with its scenarios; those that failed in this run are marked.
fn coverage(scenarios: &[Scenario], results: &Results) -> String {
    let coverage = Coverage::of(scenarios);
    let failed: BTreeSet<u32> = results
        .rows
        .iter()
        .filter(|row| !row.ok)
        .map(|row| row.id)
        .collect();
    let mut out = String::from(
        "<section class=\"card\"><h2>Who fails, and when</h2>\n<p>Scenario numbers. Those in brackets are not built yet.</p>\n\
         <div class=\"scroll\"><table class=\"grid\"><thead><tr><th>phase</th>",
    );
    for actor in Actor::ALL {
        let _ = write!(out, "<th>{}</th>", actor.name());
    }
    out.push_str("</tr></thead><tbody>\n");
    for phase in Phase::ALL {
        let _ = write!(out, "<tr><td>{}</td>", phase.name());
        for actor in Actor::ALL {
            let rows = coverage.rows(phase, actor);
            let built = rows.built.iter().map(|id| {
                let class = if failed.contains(id) { "no" } else { "yes" };
                format!("<span class=\"{class}\">{id}</span>")
            });
            let waiting = rows
                .not_built
                .difference(&rows.built)
                .map(|id| format!("<span class=\"off\">({id})</span>"));
            let cell: Vec<String> = built.chain(waiting).collect();
            let cell = if cell.is_empty() {
                "<span class=\"no\">none</span>".to_owned()
            } else {
                cell.join(" ")
            };
            let _ = write!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

/// Each scenario, with its sizes.
fn rows(results: &Results) -> String {
    let mut by_scenario: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
    for row in &results.rows {
        by_scenario.entry(row.id).or_default().push(row);
    }
    let mut out = String::from(
        "<section class=\"card\"><h2>Scenarios</h2>\n<div class=\"scroll\"><table><thead><tr><th>no.</th><th>scenario</th>\
         <th>expected</th><th>clients × clusters</th></tr></thead><tbody>\n",
    );
    for (id, rows) in by_scenario {
        let title = rows.first().map(|row| escape(&row.title)).unwrap_or_default();
        let expected: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row.cases.iter().map(|case| case.expected.as_str()))
            .collect();
        let expected: Vec<String> = expected.into_iter().map(escape).collect();
        let sizes: Vec<String> = rows
            .iter()
            .map(|row| {
                let class = if row.ok { "yes" } else { "no" };
                let over = if row.over == "sim" { "" } else { " over QUIC" };
                format!("<span class=\"{class}\">{}×{}{over}</span>", row.n, row.k)
            })
            .collect();
        let _ = writeln!(
            out,
            "<tr><td data-label=\"no.\">{id}</td><td data-label=\"scenario\">{title}</td><td data-label=\"expected\">{}</td>\
             <td data-label=\"clients × clusters\">{}</td></tr>",
            expected.join("<br>"),
            sizes.join(" ")
        );
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

fn failures(results: &Results) -> String {
    let mut out = String::new();
    for row in results.rows.iter().filter(|row| !row.ok) {
        for case in row.cases.iter().filter(|case| !case.ok) {
            let wrong: Vec<String> = case
                .wrong
                .iter()
                .map(|wrong| format!("<li>{}</li>", escape(wrong)))
                .collect();
            let _ = writeln!(
                out,
                "<h3>{} at n {} k {}: {}</h3><p>expected {}; observed {}</p><ul>{}</ul>\
                 <pre>veilsum compliance run --scenario {} --n {} --k {} --seed {}</pre>",
                row.id,
                row.n,
                row.k,
                escape(&case.name),
                escape(&case.expected),
                escape(&case.observed),
                wrong.concat(),
                row.id,
                row.n,
                row.k,
                row.seed
            );
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("<section class=\"card\"><h2>Not as expected</h2>\n{out}</section>\n")
}

fn not_built(results: &Results) -> String {
    if results.not_built.is_empty() {
        return String::new();
    }
    let items: Vec<String> = results
        .not_built
        .iter()
        .map(|gap| {
            let case = gap
                .case
                .as_deref()
                .map(|case| format!(", {case}"))
                .unwrap_or_default();
            format!(
                "<li>{}: {}: {}</li>\n",
                gap.id,
                escape(&format!("{}{case}", gap.title)),
                escape(&gap.reason)
            )
        })
        .collect();
    format!(
        "<section class=\"card\"><h2>Not built, and not counted as passed</h2>\n<ul>{}</ul></section>\n",
        items.concat()
    )
}

fn skipped(results: &Results) -> String {
    if results.skipped.is_empty() {
        return String::new();
    }
    let mut reasons: BTreeMap<(u32, u32, &str), BTreeSet<u32>> = BTreeMap::new();
    for skipped in &results.skipped {
        reasons
            .entry((skipped.n, skipped.k, &skipped.reason))
            .or_default()
            .insert(skipped.id);
    }
    let items: Vec<String> = reasons
        .into_iter()
        .map(|((n, k, reason), ids)| {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            format!(
                "<li>{n} clients, {k} clusters: {} (scenarios {})</li>\n",
                escape(reason),
                ids.join(", ")
            )
        })
        .collect();
    format!(
        "<section class=\"card\"><h2>Sizes that make no sense</h2>\n<ul>{}</ul></section>\n",
        items.concat()
    )
}

fn limits() -> String {
    "<section class=\"card\"><h2>What this does not show</h2>\n<ul>\
     <li>Faults that nobody thought of. The schedules are random, the scenarios are not.</li>\
     <li>That clients put in honest updates: nobody sees single updates, and poisoning is not found.</li>\
     <li>Anything about a client whose machine is taken over, or about time a scheduler in one process does not have.</li>\
     <li>A certificate of conformity to any standard. It is evidence for those who ask for evidence.</li></ul></section>\n"
        .to_owned()
}

/// Text as XML and HTML hold it.
#[must_use]
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}

const STYLE: &str = include_str!("../report/html/style.css");
