//! The parts of the page, in the order in which they stand on it.

use super::figure::{Facts, escape};
use super::words::{self, VERIFIED};
use crate::report::chart::{Chart, Dot, Series};
use crate::report::{Example, Point, Shot};

mod table;

use table::Table;

/// Title, verdict and the figures to see first.
pub(super) fn head(facts: &Facts<'_>) -> String {
    let report = facts.report;
    let (class, verdict) = if report.outcome.passed {
        ("good", "This run did what it should")
    } else {
        ("bad", "This run did not do what it should")
    };
    let errors: String = report
        .curves
        .iter()
        .enumerate()
        .filter(|(_, curve)| curve.abs_rel_change.is_some())
        .map(|(index, curve)| {
            tile(
                &format!("AbsRel, cluster {}", curve.cluster),
                &facts.change(&format!("/curves/{index}/abs_rel_change")),
            )
        })
        .collect();
    let audit = match &report.audit {
        Some(_) => facts.text("/audit/overall"),
        None => "not run".to_owned(),
    };
    let tiles = [
        tile("Audit verdict", &audit),
        errors,
        tile("Rounds finished", &report.rounds.len().to_string()),
        tile(
            "Clients / organisations",
            &format!("{} / {}", report.clients.len(), report.organisations.len()),
        ),
        tile("Whole run", &facts.time("/took_ms")),
    ]
    .concat();
    format!(
        r#"<header>
<p class="kicker">veilsum {version} · demo report</p>
<h1>Federation {federation}</h1>
<p class="pill {class}">{verdict}</p>
<p class="meta">{started} · learner {learner} · frames: {data} · seed {seed}</p>
<div class="tiles">{tiles}</div>
</header>
"#,
        version = facts.text("/veilsum"),
        federation = facts.text("/federation"),
        started = escape(&date(report.started_unix_s)),
        learner = facts.text("/learner"),
        data = facts.text("/data"),
        seed = facts.count("/seed"),
    )
}

/// What the run shows and what it does not.
pub(super) fn claims(facts: &Facts<'_>) -> String {
    let list = |sentences: Vec<String>| -> String {
        let items: Vec<String> = sentences
            .into_iter()
            .map(|sentence| format!("<li>{sentence}</li>\n"))
            .collect();
        items.concat()
    };
    let shown = words::shown(facts);
    let shown = if shown.is_empty() {
        "<p>Nothing: no round was finished.</p>".to_owned()
    } else {
        format!("<ul>{}</ul>", list(shown))
    };
    format!(
        r#"<div class="pair">
<section class="card"><h2>What this run shows</h2>{shown}</section>
<section class="card"><h2>What it does not show</h2><ul>{}</ul></section>
</div>
"#,
        list(words::not_shown(facts))
    )
}

/// Loss and AbsRel by round and cluster: two charts and their figures.
pub(super) fn curves(facts: &Facts<'_>) -> String {
    let report = facts.report;
    let mark = report
        .kill
        .as_ref()
        .map(|kill| (kill.round, format!("client {} killed", kill.client)));
    let chart = |title, field: &str, of: fn(&Point) -> f64| {
        let series = report
            .curves
            .iter()
            .enumerate()
            .map(|(index, curve)| Series {
                name: format!("cluster {}", curve.cluster),
                points: curve
                    .points
                    .iter()
                    .enumerate()
                    .map(|(at, point)| Dot {
                        round: point.round,
                        value: of(point),
                        path: format!("/curves/{index}/points/{at}/{field}"),
                    })
                    .collect(),
            })
            .collect();
        let chart = Chart {
            title,
            series,
            mark: mark.clone(),
        };
        format!(
            "<figure><figcaption>{title}</figcaption>{}{}</figure>",
            chart.legend(),
            chart.svg()
        )
    };
    let mut table = Table::new(&[
        "Round",
        "Cluster",
        "AbsRel",
        "Loss",
        "RMSE, m",
        "δ < 1.25",
        "Clients",
        "Test frames",
    ]);
    for (index, curve) in report.curves.iter().enumerate() {
        for at in 0..curve.points.len() {
            let path = |field: &str| format!("/curves/{index}/points/{at}/{field}");
            table.row(vec![
                facts.count(&path("round")),
                facts.count(&format!("/curves/{index}/cluster")),
                facts.score(&path("abs_rel")),
                facts.score(&path("loss")),
                facts.score(&path("rmse")),
                facts.score(&path("delta1")),
                facts.count(&path("clients")),
                facts.count(&path("images")),
            ]);
        }
    }
    section(
        "Error by round and cluster",
        &format!(
            r#"<p>Each cluster's model, scored by its members on their own test frames, which are never trained on; the mean over those members. Lower is better. Round 0 is the model before any training. Single scores stay on the client's machine: the server sees none of this.</p>
<div class="pair charts">{}{}</div>
<details><summary>All figures</summary>{}</details>"#,
            chart("AbsRel (relative depth error)", "abs_rel", |point| point.abs_rel),
            chart("Loss", "loss", |point| point.loss),
            table.html("dense"),
        ),
    )
}

/// Pictures, truth and predictions.
pub(super) fn examples(facts: &Facts<'_>) -> String {
    let report = facts.report;
    if report.examples.is_empty() {
        return String::new();
    }
    let shot = |example: &Example, which: &str, index: usize, shot: &Shot| {
        let when = match shot.round {
            0 => "before training".to_owned(),
            _ => format!(
                "after round {}",
                facts.count(&format!("/examples/{index}/{which}/round"))
            ),
        };
        format!(
            r#"<figure><img alt="Test frame of a {robot} robot, its true depth and the predicted depth" src="data:image/png;base64,{png}"><figcaption>{when}</figcaption></figure>"#,
            robot = escape(&example.robot),
            png = escape(&shot.png_base64),
        )
    };
    let cards: Vec<String> = report
        .examples
        .iter()
        .enumerate()
        .map(|(index, example)| {
            format!(
                r#"<div class="example"><h3>{robot} <small>client {client}, model of cluster {cluster}</small></h3><p class="over"><span>picture</span><span>truth</span><span>prediction</span></p>{first}{last}</div>"#,
                robot = facts.text(&format!("/examples/{index}/robot")),
                client = facts.count(&format!("/examples/{index}/client")),
                cluster = facts.count(&format!("/examples/{index}/cluster")),
                first = shot(example, "first", index, &example.first),
                last = shot(example, "last", index, &example.last),
            )
        })
        .collect();
    section(
        "What the network sees",
        &format!(r#"<div class="examples">{}</div>"#, cards.concat()),
    )
}

/// One line per round.
pub(super) fn rounds(facts: &Facts<'_>) -> String {
    let report = facts.report;
    let mut table = Table::new(&[
        "Round",
        "Survivors",
        "Dropped",
        "Opened",
        "Withheld",
        "Weights",
        "In",
        "Out",
        "Time",
        "Log",
        "Log root",
    ]);
    for index in 0..report.rounds.len() {
        let path = |field: &str| format!("/rounds/{index}/{field}");
        table.row(vec![
            facts.count(&path("round")),
            facts.ids(&path("survivors")),
            facts.ids(&path("dropped")),
            facts.ids(&path("released")),
            facts.ids(&path("withheld")),
            facts.counts(&path("weights")),
            facts.bytes(&path("bytes_in")),
            facts.bytes(&path("bytes_out")),
            facts.time(&path("took_ms")),
            facts.count(&path("head/size")),
            facts.stem(&path("head/root"), 12),
        ]);
    }
    let mut lost = String::new();
    if !report.aborted.is_empty() {
        let mut table = Table::new(&["Round", "Attempt", "Reason", "Detail"]);
        for index in 0..report.aborted.len() {
            let path = |field: &str| format!("/aborted/{index}/{field}");
            table.row(vec![
                facts.count(&path("round")),
                facts.count(&path("attempt")),
                facts.text(&path("reason")),
                facts.text(&path("detail")),
            ]);
        }
        lost = format!("<h3>Attempts that opened nothing</h3>{}", table.html(""));
    }
    section(
        "Rounds",
        &format!(
            r"<p>Clients and clusters by number. <em>Weights</em> is the sum of the training frames behind each opened cluster, itself added under masks. <em>In</em> and <em>out</em> are the server's bytes from the round's start to its end; a model still on its way when a round starts counts in that round.</p>{}{lost}",
            table.html("dense"),
        ),
    )
}

/// Who was killed, and who came back.
pub(super) fn kill(facts: &Facts<'_>) -> String {
    let Some(kill) = &facts.report.kill else {
        return String::new();
    };
    let again = match kill.restarted_ms {
        Some(_) => format!("at {}", facts.time("/kill/restarted_ms")),
        None => "never".to_owned(),
    };
    let back = match kill.back_in_round {
        Some(_) => format!("in round {}", facts.count("/kill/back_in_round")),
        None => "in no round".to_owned(),
    };
    let mut table = Table::new(&[
        "Client",
        "Round",
        "Uploaded",
        "Killed",
        "Started again",
        "Counted again",
    ]);
    table.row(vec![
        facts.count("/kill/client"),
        facts.count("/kill/round"),
        format!(
            "{} of {}",
            facts.bytes("/kill/sent_bytes"),
            facts.bytes("/kill/total_bytes")
        ),
        format!("at {}", facts.time("/kill/killed_ms")),
        again,
        back,
    ]);
    section(
        "Killed in the middle of an upload",
        &format!(
            "<p>The operating system ended the process at once (SIGKILL), with no chance to say goodbye. Times count from the start of the run.</p>{}",
            table.html("")
        ),
    )
}

/// Who belongs to which cluster, and who counted in which round.
pub(super) fn members(facts: &Facts<'_>) -> String {
    let report = facts.report;
    let mut names = vec!["Client".to_owned()];
    names.extend(report.clusters.iter().map(|cluster| format!("C{}", cluster.id)));
    names.extend(report.rounds.iter().map(|round| format!("R{}", round.round)));
    names.extend(["Organisation".to_owned(), "Robot".to_owned()]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut table = Table::new(&names);
    for (index, client) in report.clients.iter().enumerate() {
        let mut cells = vec![facts.count(&format!("/clients/{index}/id"))];
        cells.extend(report.clusters.iter().map(|cluster| {
            if cluster.members.contains(&client.id) {
                sign("member", "●", "member")
            } else {
                sign("off", "·", "not a member")
            }
        }));
        cells.extend(report.rounds.iter().map(|round| {
            let killed = report
                .kill
                .as_ref()
                .is_some_and(|kill| kill.client == client.id && kill.round == round.round);
            if round.survivors.contains(&client.id) {
                sign("yes", "✓", "counted")
            } else if killed {
                sign("no", "✕", "killed")
            } else if round.dropped.contains(&client.id) {
                sign("no", "–", "dropped")
            } else {
                sign("off", "·", "not in the plan")
            }
        }));
        cells.push(facts.text(&format!("/organisations/{}", client.organisation)));
        cells.push(format!(
            "{} <small>{}</small>",
            facts.text(&format!("/clients/{index}/robot")),
            facts.text(&format!("/clients/{index}/place"))
        ));
        table.row(cells);
    }
    section(
        "Membership and rounds",
        &format!(
            "<p>● member of the cluster · ✓ counted in the round · – dropped · ✕ killed. Clients in two clusters train on both models.</p>{}",
            table.html("grid")
        ),
    )
}

/// Bytes per client.
pub(super) fn traffic(facts: &Facts<'_>) -> String {
    let report = facts.report;
    let most = report
        .clients
        .iter()
        .map(|client| client.sent_bytes.max(client.received_bytes))
        .max()
        .unwrap_or(0)
        .max(1);
    let bar = |class: &str, bytes: u64, figure: String| {
        // At most 100: `bytes` is at most `most`.
        let share = u128::from(bytes) * 100 / u128::from(most);
        format!(r#"<span class="bar {class}" style="width:{share}%"></span>{figure}"#)
    };
    let mut table = Table::new(&["Client", "Sent", "Received"]);
    for (index, client) in report.clients.iter().enumerate() {
        table.row(vec![
            facts.count(&format!("/clients/{index}/id")),
            bar(
                "up",
                client.sent_bytes,
                facts.bytes(&format!("/clients/{index}/sent_bytes")),
            ),
            bar(
                "down",
                client.received_bytes,
                facts.bytes(&format!("/clients/{index}/received_bytes")),
            ),
        ]);
    }
    section(
        "Bytes per client",
        &format!(
            "<p>As each client counted them, in the rounds it finished. A client in two clusters sends two masked vectors.</p>{}",
            table.html("bars")
        ),
    )
}

/// The verdict, check by check.
pub(super) fn audit(facts: &Facts<'_>) -> String {
    let Some(audit) = &facts.report.audit else {
        return section("Audit", "<p>The run ended before the audit.</p>");
    };
    let class = if audit.overall == VERIFIED { "good" } else { "bad" };
    let mut table = Table::new(&["Check", "Status", "Found"]);
    for (index, check) in audit.checks.iter().enumerate() {
        let path = |field: &str| format!("/audit/checks/{index}/{field}");
        let class = match check.status.as_str() {
            VERIFIED => "yes",
            "violated" => "no",
            _ => "off",
        };
        table.row(vec![
            facts.text(&path("name")),
            format!(r#"<span class="{class}">{}</span>"#, facts.text(&path("status"))),
            facts.text(&path("says")),
        ]);
    }
    section(
        "Audit",
        &format!(
            r#"<p class="pill {class}">{}</p><p>Replayed offline in {} from the bundle alone, with nothing but the federation's name and its authority's key as given.</p>{}"#,
            facts.text("/audit/overall"),
            facts.time("/audit/took_ms"),
            table.html(""),
        ),
    )
}

/// The conditions of a good run.
pub(super) fn checks(facts: &Facts<'_>) -> String {
    let mut table = Table::new(&["Condition", "Holds", "Found"]);
    for (index, check) in facts.report.outcome.checks.iter().enumerate() {
        let path = |field: &str| format!("/outcome/checks/{index}/{field}");
        let holds = if check.passed {
            sign("yes", "✓", "yes")
        } else {
            sign("no", "✕", "no")
        };
        table.row(vec![facts.text(&path("name")), holds, facts.text(&path("says"))]);
    }
    section(
        "Conditions of this demo",
        &format!(
            "<p>The command's exit code was {}.</p>{}",
            facts.count("/outcome/exit_code"),
            table.html("")
        ),
    )
}

/// How to check the run oneself.
pub(super) fn again(facts: &Facts<'_>) -> String {
    let files = &facts.report.files;
    section(
        "Check it yourself",
        &format!(
            "<p>The bundle holds everything an auditor needs. What the processes said is in <code>{}</code>.</p>\n\
             <pre>veilsum audit {} --trust {}</pre>",
            facts.text("/files/logs"),
            escape(&quoted(&files.bundle)),
            escape(&quoted(&files.trust)),
        ),
    )
}

fn section(title: &str, body: &str) -> String {
    format!("<section class=\"card\"><h2>{title}</h2>{body}</section>\n")
}

fn tile(name: &str, figure: &str) -> String {
    format!(r#"<div class="tile"><span class="name">{name}</span><span class="figure">{figure}</span></div>"#)
}

/// A sign, and the word for those who do not see it.
fn sign(class: &str, sign: &str, word: &str) -> String {
    format!(r#"<span class="{class}" title="{word}" role="img" aria-label="{word}">{sign}</span>"#)
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:@%".contains(character);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// `2026-11-29 21:47 UTC`. Proleptic Gregorian calendar, counted in 400-year cycles.
fn date(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    // Days since 1 March of year 0, so that a leap day is a year's last.
    let day = days + 719_468;
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = day - (153 * shifted + 2) / 5 + 1;
    let year = 400 * cycle + year + u64::from(month < 3);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        seconds / 3_600,
        seconds / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        // From `date -u -d @N`.
        for (unix, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_796_000_000, "2026-11-30 00:53 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(unix), text);
        }
    }

    #[test]
    fn paths_for_a_shell() {
        assert_eq!(quoted("target/demo/bundle"), "target/demo/bundle");
        assert_eq!(quoted("my demo"), "'my demo'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
