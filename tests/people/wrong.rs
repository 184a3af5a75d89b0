//! Wrong flags, files, keys, permissions and versions, with the exit code and the words each is answered with. Nothing starts.

use crate::kit::{Consortium, consortium, edit, text, veilsum};
use std::fs;
use std::os::unix::fs::PermissionsExt;

type Break = fn(&Consortium);

/// Arguments (`{kit}`, `{client}` and `{server}` stand for the folder and the two configurations), exit code, words.
type Flags<'a> = (&'a str, i32, &'a [&'a str]);

/// What is broken first, the command, exit code, words.
type Files<'a> = (Break, &'a str, i32, &'a [&'a str]);

const FLAGS: &[Flags] = &[
    ("", 2, &["Usage: veilsum"]),
    ("frobnicate", 2, &["unrecognized subcommand 'frobnicate'"]),
    ("serv", 2, &["similar subcommand", "serve"]),
    ("serve", 2, &["--config"]),
    ("serve --confg x", 2, &["--confg", "--config"]),
    (
        "join --config {client} --format yaml",
        2,
        &["yaml", "human, json"],
    ),
    ("join --config", 2, &["a value is required", "--config"]),
    ("join --config {kit}/none.toml", 3, &["cannot read", "none.toml"]),
    (
        "serve --config {client}",
        3,
        &["client.toml", "`client` is a key of a client.toml"],
    ),
    ("serve --config {kit}", 3, &["cannot read"]),
    (
        "config show --config {kit}/auditor/auditor.toml",
        3,
        &["neither a server's nor a client's"],
    ),
    (
        "config show --config {kit}/auditor",
        3,
        &["server.toml", "client.toml"],
    ),
    ("init consortium", 2, &["--dir"]),
    ("init consortium --dir {kit}", 3, &["exists and is not empty"]),
    (
        "init consortium --dir {kit}/new --clients many",
        2,
        &["many", "--clients"],
    ),
    (
        "init consortium --dir {kit}/new --clients 2",
        2,
        &["between 3 and 4096"],
    ),
    (
        "init consortium --dir {kit}/new --orgs 9",
        2,
        &["9 organisations for 8 clients"],
    ),
    ("init consortium --dir {kit}/new --rounds 0", 2, &["at least 1"]),
    (
        "init consortium --dir {kit}/new --addr localhost:4433",
        2,
        &["localhost:4433", "IP address"],
    ),
    (
        "init consortium --dir {kit}/new --addr 0.0.0.0:4433",
        2,
        &["not one clients can reach"],
    ),
    (
        "init consortium --dir {kit}/new --clusters 3-1",
        2,
        &["`3-1` is not a range"],
    ),
    (
        "init consortium --dir {kit}/new --clusters 0-99",
        2,
        &["there are clients 0 to 7"],
    ),
    (
        "init consortium --dir {kit}/new --clusters 0-6;0-7",
        2,
        &["would expose clients [7]"],
    ),
    (
        "init consortium --dir {kit}/new --cluster-by far",
        2,
        &["`gap`, `overlap:0.2` or `tau:3.5`"],
    ),
    (
        "init consortium --dir {kit}/new --cluster-by overlap:2",
        2,
        &["`2` is not a number from 0 to 1"],
    ),
    (
        "init consortium --dir {kit}/new --cluster-by gap --clusters 0-7",
        2,
        &["cannot be used with"],
    ),
    ("init consortium --dir {kit}/new --images 3", 2, &["--cluster-by"]),
    (
        "init consortium --dir {kit}/new --learner big",
        2,
        &["big", "depth, linear"],
    ),
    (
        "init consortium --dir {kit}/new --learner linear --data {kit}/none",
        3,
        &["cannot use the data folder"],
    ),
    (
        "init consortium --dir {kit}/new --learner linear --data {kit}/server",
        3,
        &["docs/data.md"],
    ),
    ("demo --clients 3", 2, &["3 is not in 8..=64"]),
    ("completions tcsh", 2, &["tcsh", "bash"]),
    ("man {client}", 3, &["client.toml"]),
    ("plan check {kit}/plan.csv", 2, &["--crowd"]),
    ("plan check {kit}/plan.csv --crowd 3", 3, &["plan.csv"]),
    ("plan check {client} --crowd 3", 3, &["client.toml"]),
    ("compliance run --scenario seven", 2, &["seven"]),
    ("compliance run --scenario 999", 2, &["999"]),
    ("compliance run --key {kit}/none.key", 2, &["--out"]),
    ("audit", 2, &["<BUNDLE>"]),
    ("audit {kit}/none.veil", 3, &["auditor.toml", "--trust FILE"]),
    (
        "audit {client} --trust {kit}/auditor/auditor.toml",
        6,
        &["no veilsum bundle of version 1"],
    ),
    ("audit fork {client}", 2, &["<SECOND>"]),
    (
        "inspect {client} --trust {kit}/auditor/auditor.toml",
        2,
        &["--trust"],
    ),
    ("inspect {client}", 6, &["bundle"]),
    ("evidence {client}", 2, &["--trust"]),
    (
        "evidence --trust {kit}/auditor/auditor.toml {client}",
        3,
        &["client.toml"],
    ),
    ("report {kit}/none.json", 3, &["none.json"]),
    ("report {client}", 3, &["client.toml"]),
    ("export --config {client}", 3, &["unknown field `client`"]),
];

const FILES: &[Files] = &[
    (
        |kit| edit(&kit.client("client.toml"), "client = 3", "client = three"),
        "join --config {client}",
        3,
        &["line 4, column 10", "in quotation marks"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "client = 3", "client = -3"),
        "join --config {client}",
        3,
        &["line 4", "-3", "a whole number"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "client = 3", "client = 3\nclient = 4"),
        "join --config {client}",
        3,
        &["line 5, column 1", "duplicate key"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "[floors]", "[floor]"),
        "join --config {client}",
        3,
        &["unknown field `floor`", "Did you mean `floors`?"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "[trust]", "steps = 3\n[trust]"),
        "join --config {client}",
        3,
        &["`steps` belongs under [training]"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "crowd_orgs = ", "# crowd_orgs = "),
        "join --config {client}",
        3,
        &["missing field `crowd_orgs` in the section at line"],
    ),
    (
        |kit| {
            edit(
                &kit.client("client.toml"),
                "kind = \"linear\"",
                "kind = \"liner\"",
            )
        },
        "join --config {client}",
        3,
        &["Did you mean `linear`?"],
    ),
    (
        |kit| {
            edit(
                &kit.client("client.toml"),
                "kind = \"generated\"",
                "kind = \"generatd\"",
            )
        },
        "join --config {client}",
        3,
        &["Did you mean `generated`?", "line"],
    ),
    (
        |kit| {
            let text = fs::read_to_string(kit.client("client.toml")).unwrap();
            let (rest, _) = text.split_once("[data]").unwrap();
            let data = "kind = \"kitti\"\npath = \"raw\"\ndepth = \"gt\"\nsequence = [\"x\"]\n";
            fs::write(kit.client("client.toml"), format!("{rest}[data]\n{data}")).unwrap();
        },
        "join --config {client}",
        3,
        &["sequence", "Did you mean `sequences`?"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "night = ", "nihgt = "),
        "join --config {client}",
        3,
        &["nihgt", "Did you mean `night`?", "line"],
    ),
    (
        |kit| {
            edit(
                &kit.client("client.toml"),
                "server = \"127",
                "server = \"depot-127",
            )
        },
        "join --config {client}",
        3,
        &["line 5, column 10", "192.0.2.10:4433"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "authority = \"", "authority = \"zz"),
        "join --config {client}",
        3,
        &["trust.authority", "64 hexadecimal characters"],
    ),
    (
        |kit| {
            edit(
                &kit.client("client.toml"),
                "federation = \"demo",
                "federation = \"other",
            )
        },
        "join --config {client}",
        3,
        &["does not hold under the authority key"],
    ),
    (
        |kit| fs::write(kit.client("policy.veil"), b"veilsum-policy/2\n").unwrap(),
        "join --config {client}",
        3,
        &["veilsum-policy/2", "another version"],
    ),
    (
        |kit| fs::remove_file(kit.client("policy.veil")).unwrap(),
        "join --config {client}",
        3,
        &["cannot read the policy file", "policy.veil"],
    ),
    (
        |kit| fs::set_permissions(kit.client("tls.key"), fs::Permissions::from_mode(0o604)).unwrap(),
        "join --config {client}",
        3,
        &["mode 604", "chmod 600"],
    ),
    (
        |kit| fs::write(kit.client("client.key"), "00".repeat(31)).unwrap(),
        "join --config {client}",
        3,
        &["client.key is not a signing key"],
    ),
    (
        |kit| fs::write(kit.client("tls.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap(),
        "join --config {client}",
        3,
        &["the certificate file"],
    ),
    (
        |kit| fs::write(kit.client("ca.pem"), "").unwrap(),
        "join --config {client}",
        3,
        &["the authority's certificate file", "no PEM certificate"],
    ),
    (
        |kit| fs::write(kit.client("state"), "").unwrap(),
        "join --config {client}",
        3,
        &["state"],
    ),
    (
        |kit| edit(&kit.client("client.toml"), "max_rounds = ", "max_rounds = 1 # "),
        "join --config {client}",
        4,
        &["the number of rounds", "at most 1"],
    ),
    (
        |kit| {
            fs::copy(kit.client("client.key"), kit.server("server.key"))
                .map(drop)
                .unwrap()
        },
        "serve --config {server}",
        3,
        &["server.key is not the key"],
    ),
    (
        |kit| fs::write(kit.server("initial.f32"), [0; 7]).unwrap(),
        "serve --config {server}",
        3,
        &["initial model"],
    ),
    (
        |kit| edit(&kit.server("server.toml"), "clusters = [[", "clusters = [] # [["),
        "serve --config {server}",
        3,
        &["round.clusters names no cluster"],
    ),
    (
        |kit| {
            edit(
                &kit.server("server.toml"),
                "listen = \"127.0.0.1:",
                "listen = \"192.0.2.1:",
            )
        },
        "serve --config {server}",
        3,
        &["cannot listen on 192.0.2.1:"],
    ),
    (
        |kit| fs::write(kit.path("auditor/bundle.veil"), "veilsum-bundle/9\n").unwrap(),
        "audit {kit}/auditor/bundle.veil",
        6,
        &["bundle"],
    ),
    (
        |kit| fs::write(kit.path("auditor/bundle.veil"), "").unwrap(),
        "audit {kit}/auditor/bundle.veil",
        6,
        &["bundle"],
    ),
];

fn check(kit: &Consortium, line: &str, exit: i32, words: &[&str]) -> Result<(), String> {
    let [folder, client, server] = [kit.path(""), kit.client("client.toml"), kit.server("server.toml")];
    let args: Vec<String> = line
        .split_whitespace()
        .map(|word| {
            word.replace("{kit}", folder.to_str().unwrap().trim_end_matches('/'))
                .replace("{client}", client.to_str().unwrap())
                .replace("{server}", server.to_str().unwrap())
        })
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = veilsum(&args);
    let said = text(&ran.stderr);
    println!("$ veilsum {line}\n{said}");
    let all = format!("`{line}` said:\n{said}");
    if ran.status.code() != Some(exit) {
        return Err(format!("{:?} and not {exit}: {all}", ran.status.code()));
    }
    match words.iter().find(|words| !said.contains(**words)) {
        Some(missing) => Err(format!("without `{missing}`: {all}")),
        None if said.contains("panicked") || says_twice(&said) => Err(all),
        None => Ok(()),
    }
}

/// Whether a part of a message stands in it again, as a cause that its error has already told.
fn says_twice(said: &str) -> bool {
    let parts: Vec<&str> = said.trim().split(": ").filter(|part| part.len() > 20).collect();
    let mut seen = std::collections::BTreeSet::new();
    parts.iter().any(|part| !seen.insert(*part))
}

#[test]
fn wrong_flags_are_answered_by_name() {
    let kit = consortium();
    let wrong: Vec<String> = FLAGS
        .iter()
        .filter_map(|(line, exit, words)| check(&kit, line, *exit, words).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!kit.path("new").exists(), "nothing half made");
}

#[test]
fn wrong_files_are_answered_by_name_and_place() {
    let wrong: Vec<String> = FILES
        .iter()
        .filter_map(|(broken, line, exit, words)| {
            let kit = consortium();
            broken(&kit);
            check(&kit, line, *exit, words).err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
