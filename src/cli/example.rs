//! One example for each command: at the end of its help and of its manual page, and in a test that parses them all.

use clap::Command;

/// A command as it is typed after `veilsum`, and lines that show it.
type Example = (&'static str, &'static [&'static str]);

/// Puts the examples at the end of each command's help.
pub(super) fn attach(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (path, lines)| {
        let names: Vec<&str> = path.split(' ').collect();
        at(command, &names, &help(lines))
    })
}

fn at(command: Command, path: &[&str], help: &str) -> Command {
    let Some((name, rest)) = path.split_first() else {
        return command.after_help(help.to_owned());
    };
    if command.find_subcommand(name).is_none() {
        return command;
    }
    command.mut_subcommand(name, |sub| at(sub, rest, help))
}

fn help(lines: &[&str]) -> String {
    let title = if lines.len() == 1 { "Example:" } else { "Examples:" };
    let mut text = title.to_owned();
    for line in lines {
        text.push_str("\n  ");
        text.push_str(line);
    }
    text
}

/// All of them.
const EXAMPLES: &[Example] = &[
    (
        "demo",
        &[
            "veilsum demo",
            "veilsum demo --learner linear --rounds 3 --dir ./demo",
        ],
    ),
    (
        "init consortium",
        &[
            "veilsum init consortium --dir ./consortium --orgs 4 --clients 8 --addr 192.0.2.10:4433",
            "veilsum init consortium --dir ./consortium --clusters '0-4;3-7'",
            "veilsum init consortium --dir ./consortium --cluster-by gap",
        ],
    ),
    (
        "doctor",
        &[
            "veilsum doctor --config consortium/clients/client-03/client.toml",
            "veilsum doctor --config consortium/server --offline --format json",
        ],
    ),
    (
        "config show",
        &["veilsum config show --config consortium/server/server.toml"],
    ),
    ("serve", &["veilsum serve --config consortium/server/server.toml"]),
    (
        "join",
        &["veilsum join --config consortium/clients/client-03/client.toml"],
    ),
    (
        "witness",
        &[
            "veilsum witness --state ./witness --key witness.key --name witness.example/1 --log consortium/log.vkey --listen 127.0.0.1:8080",
        ],
    ),
    (
        "experiment run",
        &[
            "veilsum experiment run configs/experiments/hpe-mini.toml",
            "veilsum experiment run configs/experiments/bmr-mini.toml --seeds 2 --out ./bmr --format json",
        ],
    ),
    (
        "audit",
        &[
            "veilsum audit consortium/auditor/bundle.veil",
            "veilsum audit bundle.veil --trust auditor.toml --format json",
        ],
    ),
    (
        "audit fork",
        &[
            "veilsum audit fork mine.veil yours.veil --trust auditor.toml --out fork.veil",
            "veilsum audit fork --check fork.veil",
        ],
    ),
    (
        "export",
        &["veilsum export --config consortium/server/server.toml --out bundle.veil"],
    ),
    (
        "evidence",
        &["veilsum evidence --trust auditor.toml a/round-000002-0.veil b/round-000002-0.veil"],
    ),
    (
        "inspect",
        &[
            "veilsum inspect consortium/auditor/bundle.veil",
            "veilsum inspect consortium/auditor/bundle.veil --round 2",
        ],
    ),
    (
        "compliance run",
        &[
            "veilsum compliance run",
            "veilsum compliance run --scenario 7,29 --over quic --out ./results",
        ],
    ),
    ("compliance list", &["veilsum compliance list"]),
    (
        "plan make",
        &["veilsum plan make --divergences divergences.csv --overlap 0.3 --crowd 3 --out plan"],
    ),
    ("plan check", &["veilsum plan check plan.csv --crowd 3"]),
    ("plan explain", &["veilsum plan explain plan.json --client 3"]),
    (
        "plan route",
        &["veilsum plan route plan.json --descriptors depot-1.desc depot-2.desc --unseen tunnel.desc"],
    ),
    (
        "plan replay",
        &["veilsum plan replay auditor/bundle.veil --descriptors server/state/descriptors"],
    ),
    (
        "report",
        &["veilsum report target/demo/report.json --out page.html"],
    ),
    (
        "completions",
        &["veilsum completions bash > ~/.local/share/bash-completion/completions/veilsum"],
    ),
    ("man", &["veilsum man ~/.local/share/man/man1"]),
];
