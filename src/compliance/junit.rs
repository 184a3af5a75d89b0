//! Results as `JUnit` XML, which every build server reads.

use super::page::escape;
use super::run::{Results, Row};
use std::fmt::Write;

/// The XML of a run. Times are in seconds.
#[must_use]
pub fn xml(results: &Results) -> String {
    let failures = results.rows.iter().filter(|row| !row.ok).count();
    let tests = results.rows.len() + results.not_built.len();
    let time: f64 = results.rows.iter().map(seconds).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" skipped=\"{}\" errors=\"0\" time=\"{time:.3}\"",
        results.not_built.len()
    );
    let _ = writeln!(out, "<testsuites name=\"veilsum compliance\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"scenarios\" {counts}>");
    for row in &results.rows {
        test_case(&mut out, row);
    }
    for gap in &results.not_built {
        let case = gap
            .case
            .as_deref()
            .map(|case| format!(", {case}"))
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "    <testcase classname=\"scenario-{:02}\" name=\"{}\" time=\"0\"><skipped message=\"not built: {}\"/></testcase>",
            gap.id,
            escape(&format!("{}{case}", gap.title)),
            escape(&gap.reason)
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn test_case(out: &mut String, row: &Row) {
    let _ = writeln!(
        out,
        "    <testcase classname=\"scenario-{:02}\" name=\"{}\" time=\"{:.3}\">",
        row.id,
        escape(&format!("{} [n {} k {} {}]", row.title, row.n, row.k, row.over)),
        seconds(row)
    );
    out.push_str("      <properties>\n");
    for (name, value) in [
        ("requirement", format!("scenario-{:02}", row.id)),
        ("seed", row.seed.to_string()),
        ("expected", row.expected.clone()),
        ("observed", row.observed.clone()),
        ("transcript", row.transcript.clone()),
    ] {
        let _ = writeln!(
            out,
            "        <property name=\"{name}\" value=\"{}\"/>",
            escape(&value)
        );
    }
    out.push_str("      </properties>\n");
    for case in row.cases.iter().filter(|case| !case.ok) {
        let _ = writeln!(
            out,
            "      <failure message=\"{}\">{}</failure>",
            escape(&format!("{} (seed {})", case.name, case.seed)),
            escape(&case.wrong.join("\n"))
        );
    }
    out.push_str("    </testcase>\n");
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
fn seconds(row: &Row) -> f64 {
    row.took_ms as f64 / 1000.0
}
