//! The verdict as one page for people who are no cryptographers: one file, no script, nothing fetched. The same verdict
//! gives the same bytes.
//!
//! Everything that comes from a file, a log or the command line goes through [`Escaped`].

mod draw;
mod words;

use super::verdict::{
    About, CheckName, Course, Finding, Overall, Place, ReleasedCluster, RoundSummary, Status, Step, Verdict,
};
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use veilsum_crypto::ClientId;

/// The page of a verdict on the file of that name.
#[must_use]
pub fn page(verdict: &Verdict, file: &str) -> String {
    let mut out = String::new();
    let federation = verdict.about.as_ref().map(|about| about.federation.as_str());
    begin(&mut out, federation, file);
    let (class, sentence) = sentence(verdict);
    let _ = writeln!(out, "<p class=\"verdict {class}\">{sentence}</p>");
    if let Some(about) = &verdict.about {
        introduce(&mut out, about);
    }
    broken(&mut out, verdict);
    rounds(&mut out, verdict);
    checks(&mut out, verdict);
    worth(&mut out, verdict);
    repeat(&mut out, verdict, file);
    out.push_str("</body>\n</html>\n");
    out
}

/// The page of a file that could not be read: it never says `verified`.
#[must_use]
pub fn unreadable(reason: &str, file: &str) -> String {
    let mut out = String::new();
    begin(&mut out, None, file);
    let _ = writeln!(
        out,
        "<p class=\"verdict bad\">This file cannot be read, so it proves nothing.</p>\n<p>{}</p>",
        Escaped(reason)
    );
    out.push_str("</body>\n</html>\n");
    out
}

fn begin(out: &mut String, federation: Option<&str>, file: &str) {
    let title = match federation {
        Some(name) => format!("Audit of {}", Escaped(name)),
        None => format!("Audit of {}", Escaped(file)),
    };
    let _ = writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>",
        include_str!("page/style.css")
    );
}

/// The verdict in one sentence, with how it is coloured.
fn sentence(verdict: &Verdict) -> (&'static str, String) {
    let broken = verdict.violations().count();
    let published = verdict.rounds.iter().filter(|round| round.aborted.is_none());
    let (attempts, sums) = published.fold((0usize, 0usize), |(attempts, sums), round| {
        (attempts + 1, sums + round.released.len())
    });
    let open = not_recomputed(verdict);
    let whole = verdict
        .about
        .as_ref()
        .is_some_and(|about| about.tier == "auditor");
    match verdict.overall {
        Overall::Violated => (
            "bad",
            format!("Do not rely on this record: rules were broken. {} found.", several(broken, "fault")),
        ),
        Overall::Verified if !whole => (
            "open",
            "Nothing wrong was found in what this file shows. It is a part of the record: no sum was recomputed.".to_owned(),
        ),
        Overall::Verified if sums == 0 => ("good", "Nothing wrong was found, and no sum was opened.".to_owned()),
        Overall::Verified if open == 0 => (
            "good",
            format!(
                "Nothing wrong was found. {} opened, and each is exactly the sum of what the clients named below sent in.",
                was(sums, "sum")
            ),
        ),
        Overall::Verified => (
            "open",
            format!(
                "Nothing wrong was found, but not everything was recomputed: the sums of {open} of {} are open. The \
                 checks below say why.",
                several(attempts, "round")
            ),
        ),
    }
}

/// Attempts whose vectors or sums are not checkable.
fn not_recomputed(verdict: &Verdict) -> usize {
    let open = verdict.findings.iter().filter(|finding| {
        [CheckName::Vectors, CheckName::Sums].contains(&finding.check)
            && matches!(finding.status, Status::NotCheckable(_))
    });
    let places: BTreeSet<_> = open.map(|finding| (finding.round, finding.attempt)).collect();
    places.len()
}

fn introduce(out: &mut String, about: &About) {
    let _ = writeln!(
        out,
        "<p>{} have agreed to train together in {}. Each sends in its update under masks that cancel only in a sum, so the \
         server learns sums and no single update. Every step needs {} clients, and nothing may be opened that would show \
         the sum of fewer than {} clients or of fewer than {}{}.</p>",
        several(about.clients as usize, "client"),
        several(usize::try_from(about.rounds).unwrap_or(usize::MAX), "round"),
        about.threshold,
        about.crowd,
        several(about.crowd_orgs as usize, "organisation"),
        match about.colluders {
            0 => String::new(),
            some => format!(", even if {some} of the clients work with the server"),
        }
    );
    if about.tier != "auditor" {
        let _ = writeln!(
            out,
            "<p class=\"dim\">This file is of the {} tier: it holds what its reader may see, each statement with a proof that \
             it is in the record.</p>",
            Escaped(&about.tier)
        );
    }
}

fn broken(out: &mut String, verdict: &Verdict) {
    if verdict.overall == Overall::Verified {
        return;
    }
    out.push_str("<h2>What was broken</h2>\n<ul>\n");
    for finding in verdict.violations() {
        let _ = writeln!(
            out,
            "<li><span class=\"bad\">{}</span> ({}): {}</li>",
            finding.check,
            place(finding),
            Escaped(finding.status.reason().unwrap_or_default())
        );
    }
    out.push_str("</ul>\n");
}

fn rounds(out: &mut String, verdict: &Verdict) {
    out.push_str("<h2>What happened</h2>\n");
    if verdict.rounds.is_empty() {
        out.push_str("<p>This file shows no round.</p>\n");
    }
    let mut explained = false;
    for round in &verdict.rounds {
        let _ = writeln!(
            out,
            "<h3>{}</h3>\n<p>{}</p>",
            capital(&Place(Some(round.round), Some(round.attempt)).to_string()),
            told(round)
        );
        explained |= draw::membership(out, round, !explained);
        left(out, round);
        opened(out, verdict, round);
        closed(out, round);
    }
}

/// A round in one sentence or two.
fn told(round: &RoundSummary) -> String {
    let mut text = String::new();
    if !round.courses.is_empty() {
        let _ = write!(text, "{} invited. ", was(round.courses.len(), "client"));
    }
    if let Some(reason) = &round.aborted {
        let _ = write!(
            text,
            "The attempt opened nothing: {} (<code>{}</code>).",
            words::abort(reason),
            Escaped(reason)
        );
        return text;
    }
    if !round.survivors.is_empty() {
        let _ = write!(
            text,
            "The updates of {} count: {}. ",
            several(round.survivors.len(), "client"),
            numbers(&round.survivors)
        );
    }
    let _ = write!(text, "{} opened", was(round.released.len(), "sum"));
    match round.withheld.len() {
        0 => text.push('.'),
        shut => {
            let _ = write!(text, ", {shut} stayed closed.");
        }
    }
    text
}

/// Clients that did not stay to the end, each with when and how that is known.
fn left(out: &mut String, round: &RoundSummary) {
    let last = round.courses.iter().map(|course| course.step).max();
    let ended_early =
        |course: &&Course| !course.counts && (round.aborted.is_none() || Some(course.step) < last);
    let left: Vec<&Course> = round.courses.iter().filter(ended_early).collect();
    if left.is_empty() {
        if !round.courses.is_empty() && round.aborted.is_none() {
            out.push_str("<h4>Who left</h4>\n<p>Nobody.</p>\n");
        }
        return;
    }
    out.push_str(
        "<h4>Who left, and when</h4>\n<table class=\"stack\">\n<thead><tr><th>Client</th><th>When</th><th>How it is \
         known</th></tr></thead>\n",
    );
    for course in left {
        let from = course.organisation.map(|org| format!(" of {org}"));
        let _ = writeln!(
            out,
            "<tr><td>{}{}</td><td>{}</td><td>{}</td></tr>",
            course.client,
            from.unwrap_or_default(),
            words::left(course),
            words::known(course)
        );
    }
    out.push_str("</table>\n");
}

fn opened(out: &mut String, verdict: &Verdict, round: &RoundSummary) {
    if round.released.is_empty() {
        return;
    }
    out.push_str(
        "<h4>What was opened</h4>\n<table>\n<thead><tr><th>Sum of</th><th>Clients in it</th><th>Weight</th><th>New model, \
         first digits</th></tr></thead>\n",
    );
    for one in &round.released {
        row(out, round, one);
    }
    out.push_str("</table>\n");
    let whole = verdict
        .about
        .as_ref()
        .is_some_and(|about| about.tier == "auditor");
    if whole {
        let locks: u64 = round.released.iter().map(|one| u64::from(one.contributors)).sum();
        let dealt = |course: &&Course| !course.counts && course.step >= Step::Shares;
        let gone = round.courses.iter().filter(dealt).count();
        let _ = writeln!(
            out,
            "<p class=\"dim\">For this the clients that stayed opened {}: the outer lock of each update that counts, in each sum \
             it is in. {}</p>",
            several(usize::try_from(locks).unwrap_or(usize::MAX), "self-mask"),
            match gone {
                0 => "Nobody had left after dealing shares, so no mask secret was opened.".to_owned(),
                _ => format!(
                    "Of {} that had left after dealing shares, the mask secret was opened, to take off what others \
                     had added for it.",
                    several(gone, "client")
                ),
            }
        );
    }
}

fn row(out: &mut String, round: &RoundSummary, one: &ReleasedCluster) {
    let planned = round.clusters.get(usize::from(one.cluster.0)).map(Vec::len);
    let _ = writeln!(
        out,
        "<tr><td>{}</td><td>{}{}</td><td>{}</td><td><code>{}</code></td></tr>",
        one.cluster,
        one.contributors,
        planned
            .map(|planned| format!(" of {planned}"))
            .unwrap_or_default(),
        one.weight,
        Escaped(one.model.get(..12).unwrap_or(&one.model))
    );
}

fn closed(out: &mut String, round: &RoundSummary) {
    if round.aborted.is_some() || round.withheld.is_empty() {
        return;
    }
    out.push_str("<h4>What stayed closed, and why</h4>\n<ul>\n");
    for cluster in &round.withheld {
        let why = round.closed.iter().find(|closed| closed.cluster == *cluster);
        let why = why.map_or("this file does not show why", |closed| closed.reason.as_str());
        let _ = writeln!(out, "<li>{cluster}: {}</li>", Escaped(why));
    }
    out.push_str("</ul>\n");
}

fn checks(out: &mut String, verdict: &Verdict) {
    out.push_str(
        "<h2>What was checked</h2>\n<table class=\"stack\">\n<thead><tr><th>Check</th><th>Question</th><th>Answer</th></tr>\
         </thead>\n",
    );
    for check in CheckName::ALL {
        let all: Vec<&Finding> = verdict
            .findings
            .iter()
            .filter(|finding| finding.check == *check)
            .collect();
        if all.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "<tr><td><strong>{check}</strong></td><td>{}</td><td class=\"long\">",
            words::question(*check)
        );
        let holding = all.iter().filter(|finding| finding.status == Status::Verified);
        let (count, log) = holding.fold((0usize, false), |(count, log), finding| {
            (count + 1, log || finding.round.is_none())
        });
        if count > 0 {
            out.push_str("<span class=\"word good\">verified</span>");
            if !log {
                let _ = write!(out, " in {}", several(count, "attempt"));
            }
            out.push_str("<br>");
        }
        for finding in all {
            if let Some(reason) = finding.status.reason() {
                let class = if matches!(finding.status, Status::Violated(_)) {
                    "bad"
                } else {
                    "open"
                };
                let _ = write!(
                    out,
                    "<span class=\"word {class}\">{}</span> ({}{})<br>",
                    finding.status.word(),
                    match finding.round {
                        Some(_) => format!("{}: ", place(finding)),
                        None => String::new(),
                    },
                    Escaped(reason)
                );
            }
        }
        out.push_str("</td></tr>\n");
    }
    out.push_str("</table>\n");
}

fn worth(out: &mut String, verdict: &Verdict) {
    let whole = verdict
        .about
        .as_ref()
        .is_some_and(|about| about.tier == "auditor");
    let (proves, not) = if whole { words::WHOLE } else { words::PART };
    for (title, lines) in [
        ("What a record without faults proves", proves),
        ("What it does not prove", not),
    ] {
        let _ = writeln!(out, "<h2>{title}</h2>\n<ul>");
        for line in lines {
            let _ = writeln!(out, "<li>{line}</li>");
        }
        out.push_str("</ul>\n");
    }
}

fn repeat(out: &mut String, verdict: &Verdict, file: &str) {
    out.push_str("<h2>To check it again</h2>\n");
    if let Some(about) = &verdict.about {
        let _ = writeln!(
            out,
            "<p>The record has {} and ends in the head</p>\n<p><code>{}</code></p>\n<p>Compare these digits with what a \
             member holds: whoever was shown another record has others.</p>",
            several(
                usize::try_from(about.head.size).unwrap_or(usize::MAX),
                "statement"
            ),
            Escaped(&about.head.root)
        );
    }
    let _ = writeln!(
        out,
        "<p class=\"dim\">File: <code>{}</code>. <code>veilsum-audit</code> with this file and the authority's key gives this \
         page again, byte for byte. Client and organisation numbers are those of the federation's enrolment.</p>",
        Escaped(file)
    );
}

fn place(finding: &Finding) -> String {
    Place(finding.round, finding.attempt).to_string()
}

fn several(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn was(count: usize, noun: &str) -> String {
    format!(
        "{} {}",
        several(count, noun),
        if count == 1 { "was" } else { "were" }
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Clients by number, ascending, as runs: `0-4, 7`.
fn numbers(clients: &[ClientId]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for client in clients {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(client.0) => *last = client.0,
            _ => runs.push((client.0, client.0)),
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        })
        .collect();
    runs.join(", ")
}

/// Text from outside: markup means nothing in it, and what would not be seen, or would turn what stands around it, is shown
/// as its number.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                hidden if is_hidden(hidden) => write!(f, "\\u{{{:x}}}", u32::from(hidden))?,
                plain => f.write_char(plain)?,
            }
        }
        Ok(())
    }
}

/// Controls, marks of direction, joiners, separators of lines, and what has no width.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests;
