//! The page: one HTML file that needs no network, no script and no other file.
//!
//! Every figure is looked up in the report's JSON by its pointer and carries pointer and value as `data-path` and
//! `data-value`, so that a program can compare the page with the JSON beside it.

mod figure;
mod section;
mod words;

use super::Report;
use figure::Facts;

pub(super) use figure::escape;

/// The page of a report.
///
/// # Errors
/// A figure that is not finite; [`rounded`](super::rounded) keeps those out.
pub fn page(report: &Report) -> Result<String, serde_json::Error> {
    let facts = Facts::new(report)?;
    let verdict = if report.outcome.passed { "passed" } else { "failed" };
    let sections = [
        section::head(&facts),
        section::claims(&facts),
        section::curves(&facts),
        section::examples(&facts),
        section::rounds(&facts),
        section::kill(&facts),
        section::members(&facts),
        section::traffic(&facts),
        section::audit(&facts),
        section::checks(&facts),
        section::again(&facts),
    ]
    .concat();
    Ok(format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>veilsum demo: {federation}, {verdict}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{sections}</main>
</body>
</html>
"#,
        federation = escape(&report.federation),
    ))
}

const STYLE: &str = include_str!("html/style.css");
