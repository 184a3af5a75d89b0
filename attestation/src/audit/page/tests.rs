use super::*;
use crate::audit::verdict::{Closed, HeadSummary};
use veilsum_crypto::{Attempt, ClusterId, OrgId, RoundId};

const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{202e}evil\u{200b}\u{0}\u{1b}[31m\u{2028}x\u{85}";

fn verdict(status: Status) -> Verdict {
    let course = |client, step, late, counts| Course {
        client: ClientId(client),
        organisation: Some(OrgId(client / 2)),
        step,
        entry: (step != Step::Invited).then_some(20 + u64::from(client)),
        late,
        counts,
    };
    Verdict {
        overall: if matches!(status, Status::Violated(_)) {
            Overall::Violated
        } else {
            Overall::Verified
        },
        findings: vec![
            Finding {
                check: CheckName::Signatures,
                round: None,
                attempt: None,
                status: Status::Verified,
            },
            Finding {
                check: CheckName::Sums,
                round: Some(RoundId(1)),
                attempt: Some(Attempt(0)),
                status,
            },
        ],
        rounds: vec![RoundSummary {
            round: RoundId(1),
            attempt: Attempt(0),
            survivors: [0, 1, 2].map(ClientId).to_vec(),
            dropped: vec![ClientId(3), ClientId(4)],
            released: vec![ReleasedCluster {
                cluster: ClusterId(0),
                contributors: 3,
                weight: 9,
                model: "ab".repeat(32),
            }],
            withheld: vec![ClusterId(1)],
            head: HeadSummary {
                size: 40,
                root: "cd".repeat(32),
            },
            aborted: None,
            clusters: vec![
                [0, 1, 2, 3].map(ClientId).to_vec(),
                [2, 3, 4, 5].map(ClientId).to_vec(),
            ],
            courses: vec![
                course(0, Step::Reveal, None, true),
                course(1, Step::Reveal, None, true),
                course(2, Step::Agree, None, true),
                course(3, Step::Shares, None, false),
                course(4, Step::Shares, Some(33), false),
                course(5, Step::Invited, None, false),
            ],
            closed: vec![Closed {
                cluster: ClusterId(1),
                reason: "only 1 of its clients count, and a sum is of 3 at least".to_owned(),
            }],
        }],
        about: Some(About {
            federation: HOSTILE.to_owned(),
            tier: "auditor".to_owned(),
            clients: 6,
            threshold: 4,
            colluders: 1,
            crowd: 2,
            crowd_orgs: 2,
            rounds: 3,
            head: HeadSummary {
                size: 40,
                root: "cd".repeat(32),
            },
        }),
    }
}

/// The page's text with every tag taken out; panics where a tag is none the page itself writes.
fn tags(page: &str) -> Vec<String> {
    page.split('<')
        .skip(1)
        .map(|rest| rest.split(['>', ' ']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn what_comes_from_outside_is_text_and_is_seen() {
    let mut hostile = verdict(Status::Violated(HOSTILE.to_owned()));
    hostile.rounds[0].aborted = Some(HOSTILE.to_owned());
    hostile.rounds[0].released[0].model = HOSTILE.to_owned();
    hostile.rounds[0].closed[0].reason = HOSTILE.to_owned();
    let mut part = hostile.clone();
    part.rounds[0].aborted = None;
    part.about.as_mut().unwrap().tier = HOSTILE.to_owned();
    let honest = tags(&page(&verdict(Status::Verified), "bundle.veil"));
    for page in [
        page(&hostile, HOSTILE),
        page(&part, HOSTILE),
        unreadable(HOSTILE, HOSTILE),
    ] {
        for tag in tags(&page) {
            assert!(
                honest.contains(&tag) || ["strong", "ul", "/ul"].contains(&&*tag),
                "{tag}"
            );
        }
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\u{202e}evil\\u{200b}"));
        let seen = |letter: char| letter == '\n' || !is_hidden(letter);
        assert!(page.chars().all(seen));
        assert!(page.contains("\\u{1b}[31m\\u{2028}x\\u{85}"));
    }
}

#[test]
fn nothing_is_fetched_or_run_and_the_same_verdict_is_the_same_page() {
    let verdict = verdict(Status::Verified);
    let made = page(&verdict, "bundle.veil");
    assert_eq!(made, page(&verdict.clone(), "bundle.veil"));
    for word in [
        "http://", "https://", "src=", "href=", "<script", "url(", "@import", "onload",
    ] {
        assert!(!made.contains(word), "{word}");
    }
    assert!(made.contains("default-src 'none'"));
}

#[test]
fn the_first_sentence_says_what_was_found_and_no_more() {
    let said = |verdict: &Verdict| sentence(verdict).1;
    let good = verdict(Status::Verified);
    assert!(said(&good).contains("1 sum was opened, and each is exactly"));
    let broken = verdict(Status::Violated("the sum is another".to_owned()));
    assert!(said(&broken).starts_with("Do not rely"));
    let page_of = page(&broken, "b");
    assert!(page_of.contains("What was broken") && page_of.contains("the sum is another"));
    let open = verdict(Status::NotCheckable("vectors gone by retention".to_owned()));
    assert!(said(&open).contains("not everything was recomputed: the sums of 1 of 1 round are open"));
    let mut part = good.clone();
    part.about.as_mut().unwrap().tier = "member".to_owned();
    assert!(said(&part).contains("no sum was recomputed"));
    let mut none = good.clone();
    none.rounds.clear();
    assert!(said(&none).contains("no sum was opened"));
    for made in [said(&broken), unreadable("cut off", "b")] {
        assert!(!made.contains("verified"), "{made}");
    }
}

#[test]
fn who_left_when_and_why_it_is_known() {
    let made = page(&verdict(Status::Verified), "bundle.veil");
    assert_eq!(numbers(&[0, 1, 2, 4, 6, 7].map(ClientId)), "0-2, 4, 6-7");
    for line in [
        "6 clients were invited. The updates of 3 clients count: 0-2. 1 sum was opened, 1 stayed closed.",
        "<td>client 3 of organisation 1</td><td>after it handed out its shares, before its update arrived</td><td>entry 23 is \
         the last",
        "<td>client 4 of organisation 2</td><td>sent its update too late</td><td>the server logged it as late, in entry 33",
        "<td>client 5 of organisation 2</td><td>did not join</td><td>the record holds nothing of it",
        "<li>cluster 1: only 1 of its clients count",
        "<td>cluster 0</td><td>3 of 4</td><td>9</td>",
    ] {
        assert!(made.contains(line), "{line}\n{made}");
    }
    assert!(
        !made.contains("<td>client 2"),
        "it counts, whatever it did at the end"
    );
}
