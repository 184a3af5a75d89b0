//! Real processes killed between every two things they keep or send, and started again: no contribution is lost without a
//! name or counted twice, no vector is masked twice, and the auditor agrees.
#![allow(
    missing_docs,
    dead_code,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report; the players serve several tests"
)]

#[path = "processes/player.rs"]
mod player;

use player::{Player, client_toml, consortium_with, edit, text, veilsum};
use std::path::Path;

/// What became of one run.
struct Run {
    /// The process died at the step; otherwise it was done before.
    crashed: bool,
    /// Survivors of each published round, as the auditor says.
    survivors: Vec<String>,
    /// Names of aborted attempts.
    aborted: Vec<String>,
}

fn run(victim: Option<u32>, step: u64) -> Run {
    run_with(victim, step, &[])
}

fn run_with(victim: Option<u32>, step: u64, flags: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium_with(dir.path(), 2, flags);
    // Whoever comes back finds everybody; nobody waits long for one that does not.
    edit(
        &kit.join("server/server.toml"),
        &[
            ("share_s = 20", "share_s = 4"),
            ("start_after_s = 4", "start_after_s = 40"),
        ],
    );
    for client in 0..8 {
        edit(
            &client_toml(&kit, client),
            &[("give_up_after_s = 6", "give_up_after_s = 20")],
        );
    }
    let step = step.to_string();
    let crash = ["--crash-at-step", step.as_str()];
    let mut server = match victim {
        None => Player::server_with(&kit, &crash),
        Some(_) => Player::server(&kit),
    };
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..8)
        .map(|client| {
            let more: &[&str] = if victim == Some(client) { &crash } else { &[] };
            Player::client(&kit, client, more)
        })
        .collect();
    let mut said = String::new();
    let crashed = match victim {
        None => {
            let code = server.exit();
            if code != 0 {
                said = server.said();
                server = Player::server(&kit);
            }
            code != 0
        }
        Some(client) => {
            let code = clients[client as usize].exit();
            if code != 0 {
                clients[client as usize] = Player::client(&kit, client, &[]);
            }
            code != 0
        }
    };
    assert_eq!(server.exit(), 0, "step {step}: {}", server.said());
    said += &server.said();
    for (number, client) in (0u32..).zip(&mut clients) {
        let code = client.exit();
        // One that crashed at the very end finds nobody when it is back: the rounds are over.
        let fine = code == 0 || (crashed && victim == Some(number) && code == 75);
        assert!(fine, "step {step}: {code}: {}\nserver: {said}", client.said());
    }
    let verdict = audit(&kit, &step);
    let rounds = verdict["rounds"].as_array().unwrap();
    let (published, aborted): (Vec<_>, Vec<_>) = rounds.iter().partition(|round| round["aborted"].is_null());
    let numbers: std::collections::BTreeSet<_> =
        published.iter().map(|round| round["round"].to_string()).collect();
    assert_eq!(
        numbers.len(),
        published.len(),
        "step {step}: a round published twice"
    );
    Run {
        crashed,
        survivors: published
            .iter()
            .map(|round| round["survivors"].to_string())
            .collect(),
        aborted: aborted.iter().map(|round| round["aborted"].to_string()).collect(),
    }
}

/// The auditor's verdict, which must be `verified`.
fn audit(kit: &Path, step: &str) -> serde_json::Value {
    let bundle = kit.join("auditor/bundle.veil");
    let audited = veilsum(&["audit", bundle.to_str().unwrap(), "--format", "json"]);
    assert!(audited.status.success(), "step {step}: {}", text(&audited.stdout));
    serde_json::from_slice(&audited.stdout).unwrap()
}

/// Every `stride`-th step until the victim is done before it comes to it. A loop over all steps that was broken off goes on
/// from the step that `VEILSUM_FROM_STEP` names.
fn every(victim: Option<u32>, stride: usize) {
    let (mut crashes, mut named, mut full) = (0, 0, 0);
    let first = std::env::var("VEILSUM_FROM_STEP").map_or(1, |step| step.parse().expect("a step"));
    for step in (first..).step_by(stride) {
        let run = run(victim, step);
        println!(
            "step {step}: crashed {}, survivors {:?}, aborted {:?}",
            run.crashed, run.survivors, run.aborted
        );
        if !run.crashed {
            break;
        }
        crashes += 1;
        for name in &run.aborted {
            assert_eq!(name, "\"ServerLost\"", "step {step}");
            named += 1;
        }
        // A round is done once, over everybody or everybody but the one that crashed.
        assert!(
            run.survivors.len() <= 2 && run.survivors.len() + run.aborted.len() >= 2,
            "step {step}"
        );
        let all = "[0,1,2,3,4,5,6,7]";
        full += run.survivors.iter().filter(|set| *set == all).count();
        if let Some(client) = victim {
            let without = all.replace(&format!("{client},"), "");
            for set in &run.survivors {
                assert!(set == all || *set == without, "step {step}: {set}");
            }
        }
    }
    println!("{crashes} crashes, {named} attempts ended by name, {full} rounds over everybody");
    assert!(crashes > 3);
}

#[test]
fn a_client_killed_at_some_steps_says_the_same_again_or_nothing() {
    every(Some(3), 9);
}

#[test]
fn a_server_killed_at_some_steps_goes_on_or_says_so() {
    every(None, 61);
    // The last steps of the last round: all is published and nobody was told yet.
    assert!(run(None, 265).crashed);
}

/// Clusters of what the clients see, made anew for each round.
const CLUSTERED: [&str; 4] = ["--cluster-by", "overlap:1", "--recluster", "1"];

/// The server's first steps are the eight descriptors; a client's are hello, the ledger's entry and its answer.
fn while_describing(server: impl Iterator<Item = u64>, client: impl Iterator<Item = u64>) {
    for (victim, step) in server
        .map(|step| (None, step))
        .chain(client.map(|step| (Some(3), step)))
    {
        let run = run_with(victim, step, &CLUSTERED);
        println!("{victim:?}, step {step}: {:?}, {:?}", run.survivors, run.aborted);
        assert!(run.crashed, "step {step}");
        assert!(!run.survivors.is_empty(), "step {step}");
    }
}

#[test]
fn whoever_is_killed_while_data_is_described_says_the_same_again() {
    while_describing([5].into_iter(), [4].into_iter());
}

#[test]
#[ignore = "the test above takes some steps"]
fn whoever_is_killed_at_any_step_of_describing_says_the_same_again() {
    while_describing(1..=12, 1..=8);
}

#[test]
#[ignore = "every step takes minutes; the tests above take some"]
fn a_client_killed_at_every_step_says_the_same_again_or_nothing() {
    every(Some(3), 1);
}

#[test]
#[ignore = "every step takes minutes; the tests above take some"]
fn a_server_killed_at_every_step_goes_on_or_says_so() {
    every(None, 1);
}
