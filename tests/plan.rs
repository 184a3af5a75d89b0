//! `veilsum plan` as people type it: what it prints, writes and refuses.
#![allow(
    missing_docs,
    clippy::format_push_string,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use veilsum_learner::descriptor::{FeatureMap, Noise, Pooling, Summary};

/// Exit code, standard output and standard error of a command run in `dir`.
fn veilsum(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_veilsum"))
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

const NESTED: &str = "cluster,c0,c1,c2,c3,c4,c5\norg,A,A,B,B,C,C\n0,1,1,1,1,0,0\n1,1,1,1,1,1,0\n";

#[test]
fn a_plan_that_gives_a_client_away_is_refused_with_the_combination() {
    let dir = folder(&[("plan.csv", NESTED)]);
    let (code, out, err) = veilsum(
        dir.path(),
        &["plan", "check", "plan.csv", "--crowd", "2", "--margin", "1"],
    );
    assert_eq!((code, err.as_str()), (4, ""));
    let golden = "              0
              012345
cluster    0  ####..  4
cluster    1  #####.  5
client     0  c0 (A)
client     1  c1 (A)
client     2  c2 (B)
client     3  c3 (B)
client     4  c4 (C)
client     5  c5 (C)

NOT SAFE: at least 3 client(s) and 1 organisation(s) must be covered, and
  sum[0] - sum[1] covers 1 client(s): c4 of C
effective crowd 1.00: the sums tell most about client c4, 100 % of its variance
modulo 2 the least cover is 1 (sums [0, 1]); integer noise hides parities

clusters 6 clients can have with an effective crowd of crowd + margin, floor(N / (crowd + margin)):
  crowd  margin    0     1     2     4
      2            3     2*    1     1
      3            2     1     1     0
      4            1     1     1     0
      5            1     1     0     0
      6            1     0     0     0
      8            0     0     0     0
     10            0     0     0     0
     12            0     0     0     0
";
    assert_eq!(out, golden);
}

#[test]
fn the_same_for_programs() {
    let dir = folder(&[
        ("plan.csv", NESTED),
        ("plan.json", "{\"matrix\": [[1,1,1,0,0,0],[0,0,0,1,1,1]]}"),
    ]);
    let check = |file, crowd| {
        let (code, out, _) = veilsum(
            dir.path(),
            &["plan", "check", file, "--crowd", crowd, "--format", "json"],
        );
        (code, serde_json::from_str::<Value>(&out).unwrap())
    };
    let (code, report) = check("plan.csv", "2");
    assert_eq!(code, 4);
    assert_eq!(report["verdict"], "exposed");
    assert_eq!(report["detail"]["clients"], serde_json::json!(["c4"]));
    assert_eq!(
        report["detail"]["coefficients"],
        serde_json::json!([{"cluster": 0, "factor": 1}, {"cluster": 1, "factor": -1}])
    );
    let (code, report) = check("plan.json", "3");
    assert_eq!((code, report["verdict"].as_str()), (0, Some("safe")));
    assert!((report["effective_crowd"].as_f64().unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(report["clusters_you_can_have"], 2);
}

#[test]
fn larger_coefficients_are_whole_numbers() {
    // The corners of a triangle: sum0 + sum1 - sum2 is twice client b.
    let dir = folder(&[("plan.csv", "a,b,c\n1,1,0\n0,1,1\n1,0,1\n")]);
    let (code, out, _) = veilsum(dir.path(), &["plan", "check", "plan.csv", "--crowd", "2"]);
    assert_eq!(code, 4);
    let line = out.lines().find(|line| line.contains(" covers ")).unwrap();
    assert!(
        line.matches("sum[").count() == 3 && line.contains("covers 1 client(s): "),
        "{line}"
    );
}

#[test]
fn organisations_count_once() {
    let plan = "org,A,A,A,B,B,B\n1,1,1,0,0,0\n1,1,1,1,1,1\n";
    let dir = folder(&[("plan.csv", plan), ("bare.csv", "1,1,1,0,0,0\n1,1,1,1,1,1\n")]);
    let check = |file, orgs| {
        veilsum(
            dir.path(),
            &["plan", "check", file, "--crowd", "3", "--orgs", orgs],
        )
    };
    assert_eq!(check("plan.csv", "1").0, 0);
    let (code, out, _) = check("plan.csv", "2");
    assert_eq!(code, 4);
    assert!(
        out.contains("sum[0] covers 1 organisation(s): 0, 1, 2 of A"),
        "{out}"
    );
    let (code, _, err) = check("bare.csv", "2");
    assert_eq!(code, 3);
    assert!(err.contains("a line that starts with `org`"), "{err}");
}

#[test]
fn every_bad_file_is_named_with_line_and_column() {
    let cases = [
        ("", "line 1, column 1: the file is empty"),
        ("\n \n", "line 1, column 1: the file is empty"),
        ("a,b\n", "line 1, column 1: there is nothing in it"),
        ("1,0\n1,2\n", "line 2, column 2: `2` is neither 0 nor 1"),
        ("a,b\n1,x\n", "line 2, column 2: `x` is neither 0 nor 1"),
        ("cluster,a,b\n0,1,\n", "line 2, column 3: `` is neither 0 nor 1"),
        (
            "1,0\n\n1,0,1\n",
            "line 3, column 3: 3 values where there are 2 clients",
        ),
        (
            "a,b,c\n1,0\n",
            "line 2, column 3: 2 values where there are 3 clients",
        ),
        (
            "a,b,a\n1,0,1\n",
            "line 1, column 3: `a` stands in column 1 already",
        ),
        ("a,,c\n1,0,1\n", "line 1, column 2: a name has 1 to 128"),
        (
            "a,b\norg,X\n1,1\n",
            "line 2, column 3: 1 organisations for 2 clients",
        ),
        ("a,b\norg,X,\n1,1\n", "line 2, column 3: a name has 1 to 128"),
        ("\"a\",b\n1,1\n", "line 1, column 1: quoted cells are not read"),
        ("0.5,1\n", "line 1, column 1: `0.5` is neither 0 nor 1"),
        ("[[1,0],[1]]", "matrix row 2: 1 values where the first row has 2"),
        ("[[1,0],[1,3]]", "matrix row 2, column 2: `3` is neither 0 nor 1"),
        ("[]", "the matrix is empty"),
        ("[[1,0],\n[1,-1]]", "line 2, column 5: invalid value"),
        (
            "{\"matrix\": [[1]], \"colour\": 3}",
            "line 1, column 26: unknown field `colour`",
        ),
        ("{\"schema\": \"x/1\", \"matrix\": [[1]]}", "another schema"),
        (
            "{\"matrix\": [[1,1]], \"clients\": [\"a\"]}",
            "1 clients for 2 columns",
        ),
        (
            "{\"matrix\": [[1,1]], \"clients\": [\"a\",\"a\"]}",
            "client `a` stands in columns 1 and 2",
        ),
        ("{\"matrix\": [[1", "line 1, column 14: EOF"),
    ];
    for (text, expected) in cases {
        let dir = folder(&[("plan.csv", text)]);
        let (code, out, err) = veilsum(dir.path(), &["plan", "check", "plan.csv", "--crowd", "2"]);
        assert_eq!((code, out.as_str()), (3, ""), "{text:?}: {err}");
        assert!(
            err.starts_with("veilsum: plan.csv") && err.contains(expected),
            "{text:?}: {err}"
        );
    }
    let dir = folder(&[]);
    fs::write(dir.path().join("plan.csv"), [0xff, 0xfe, 0x00]).unwrap();
    let (code, _, err) = veilsum(dir.path(), &["plan", "check", "plan.csv", "--crowd", "2"]);
    assert!(code == 3 && err.contains("plan.csv is not text"), "{err}");
    let (code, _, err) = veilsum(dir.path(), &["plan", "check", "gone.csv", "--crowd", "2"]);
    assert!(code == 3 && err.contains("cannot read gone.csv"), "{err}");
    assert_eq!(
        veilsum(dir.path(), &["plan", "check", "plan.csv", "--crowd", "0"]).0,
        2
    );
    assert_eq!(veilsum(dir.path(), &["plan", "check", "plan.csv"]).0, 2);
}

/// Clients on a line; divergences are squared distances.
fn line(points: &[f64]) -> String {
    let mut text = format!(
        "client,{}\n",
        (0..points.len())
            .map(|i| format!("r{i:02}"))
            .collect::<Vec<_>>()
            .join(",")
    );
    text.push_str(&format!(
        "org,{}\n",
        (0..points.len())
            .map(|i| ["A", "B", "C"][i % 3])
            .collect::<Vec<_>>()
            .join(",")
    ));
    for (i, a) in points.iter().enumerate() {
        let cells: Vec<String> = points.iter().map(|b| (a - b).powi(2).to_string()).collect();
        text.push_str(&format!("r{i:02},{}\n", cells.join(",")));
    }
    text
}

const PLACES: [f64; 12] = [0.0, 1.0, 2.0, 3.0, 4.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 6.5];

#[test]
fn a_plan_is_made_repaired_written_checked_and_explained() {
    let dir = folder(&[("d.csv", &line(&PLACES))]);
    let make = [
        "plan",
        "make",
        "--divergences",
        "d.csv",
        "--overlap",
        "0.35",
        "--crowd",
        "4",
        "--margin",
        "1",
        "--orgs",
        "2",
        "--out",
        "plan",
    ];
    let (code, out, err) = veilsum(dir.path(), &make);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for part in [
        "threshold overlap 0.35: tau 9.0000, 34.8 % of the pairs within it\n",
        "soft clusters: 5, 75 % of the clients in several, 52 % of the pairs together\n",
        "repair: 5 step(s), 2 clusters left, 8 client(s) share with others than before, cost 83.250\n",
        "  step 1: r11 left cluster 1, because sum[0] - sum[1] covers 2 client(s): r00, r11 of A, C where 5 are required",
        "client     0  \\###=:..   -\n",
        "cluster    1  .....#######  7\n",
        "SAFE: every combination of the sums covers at least 5 client(s) and 2 organisation(s).\n",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let csv = fs::read_to_string(dir.path().join("plan.csv")).unwrap();
    assert_eq!(
        csv,
        "cluster,r00,r01,r02,r03,r04,r05,r06,r07,r08,r09,r10,r11\norg,A,B,C,A,B,C,A,B,C,A,B,C\n\
         0,1,1,1,1,1,0,0,0,0,0,0,0\n1,0,0,0,0,0,1,1,1,1,1,1,1\n"
    );
    for file in ["plan.csv", "plan.json"] {
        let (code, out, err) = veilsum(
            dir.path(),
            &[
                "plan",
                "check",
                file,
                "--crowd",
                "5",
                "--orgs",
                "2",
                "--divergences",
                "d.csv",
            ],
        );
        assert_eq!(code, 0, "{out}{err}");
    }
    let (code, out, _) = veilsum(dir.path(), &["plan", "explain", "plan.json", "--client", "r11"]);
    assert_eq!(code, 0);
    for part in [
        "step 2: cluster 1 was dropped, for it lay inside cluster 0\n",
        "cluster 1 is made of soft cluster(s) [3, 4]\n",
        "r00 and r11 apart: divergence 42.2500 > tau 9.0000\n",
        "r01 and r11 apart: divergence 30.2500 > tau 9.0000, but both are within it of r04; step 1: r11 left cluster 1\n",
        "r04 and r11 apart: divergence 6.2500 <= tau 9.0000; step 3: r04 left cluster 2\n",
        "r05 and r11 share [1]: divergence 6.2500 <= tau 9.0000\n",
        "r10 and r11 share [1]: divergence 56.2500 > tau 9.0000; step 5: clusters 3 and 4 became one",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert_eq!(out.lines().filter(|line| line.contains(" and r11 ")).count(), 11);
    // A plan from elsewhere has no history; a client that is not there has a name.
    let (code, out, _) = veilsum(dir.path(), &["plan", "explain", "plan.csv"]);
    assert!(
        code == 0
            && out.starts_with("the plan does not say how it was made")
            && out.contains("r00 and r01 share [0]\n")
    );
    let (code, _, err) = veilsum(dir.path(), &["plan", "explain", "plan.json", "--client", "r99"]);
    assert!(code == 3 && err.contains("no client `r99`"), "{err}");
    // The same files again, byte for byte.
    let json = fs::read(dir.path().join("plan.json")).unwrap();
    veilsum(dir.path(), &make);
    assert_eq!(fs::read(dir.path().join("plan.json")).unwrap(), json);
}

#[test]
fn a_gap_parts_two_domains() {
    let dir = folder(&[("d.csv", &line(&[0.0, 0.1, 0.25, 0.4, 7.0, 7.1, 7.3, 7.35]))]);
    let (code, out, _) = veilsum(
        dir.path(),
        &[
            "plan",
            "make",
            "--divergences",
            "d.csv",
            "--gap",
            "--crowd",
            "4",
            "--out",
            "plan",
            "--format",
            "json",
        ],
    );
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["clusters"], &report["steps"]),
        (0, &Value::from(2), &Value::from(0))
    );
    assert!((report["check"]["effective_crowd"].as_f64().unwrap() - 4.0).abs() < 1e-9);
}

#[test]
fn where_no_plan_is_safe_nothing_is_written() {
    let dir = folder(&[("d.csv", &line(&PLACES))]);
    let (code, _, err) = veilsum(
        dir.path(),
        &[
            "plan",
            "make",
            "--divergences",
            "d.csv",
            "--tau",
            "2",
            "--crowd",
            "13",
            "--out",
            "plan",
        ],
    );
    assert_eq!(code, 4);
    assert!(
        err.contains("no plan of these 12 clients covers 13 clients"),
        "{err}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn bad_divergences_and_settings_are_named() {
    let cases = [
        ("0,1\n1,0\n2,2\n", "line 3, column 1: 3 rows of 2 divergences"),
        ("0,1\n2,0\n", "line 2, column 1: row 1 says 2 for client 0"),
        (
            "a,b\n0,-1\n-1,0\n",
            "line 2, column 2: the divergence of clients 0 and 1 is -1",
        ),
        (
            "client,a,b\na,1,1\nb,1,0\n",
            "line 2, column 2: the divergence of client 0 to itself is 1",
        ),
        (
            "0,NaN\n1,0\n",
            "line 1, column 2: the divergence of clients 0 and 1 is not a finite number",
        ),
        ("0,x\n1,0\n", "line 1, column 2: `x` is no number"),
        ("a,b\n0,x\nx,0\n", "line 2, column 2: `x` is no number"),
    ];
    for (text, expected) in cases {
        let dir = folder(&[("d.csv", text)]);
        let args = [
            "plan",
            "make",
            "--divergences",
            "d.csv",
            "--gap",
            "--crowd",
            "2",
            "--out",
            "plan",
        ];
        let (code, _, err) = veilsum(dir.path(), &args);
        assert!(code == 3 && err.contains(expected), "{text:?}: {code} {err}");
    }
    let dir = folder(&[
        ("d.csv", &line(&PLACES)),
        ("o.csv", "r00,A\nr77,B\n"),
        ("p.csv", "r00,A\nr00,B\n"),
    ]);
    let make = |more: &[&str]| {
        let args = [
            "plan",
            "make",
            "--divergences",
            "d.csv",
            "--crowd",
            "2",
            "--out",
            "plan",
        ];
        let (code, _, err) = veilsum(dir.path(), &[&args, more].concat());
        (code, err)
    };
    for (more, expected) in [
        (&["--overlap", "1.5"][..], "an overlap of 1.5 is no share"),
        (&["--tau", "inf"], "inf is no threshold"),
        (
            &["--gap", "--organisations", "o.csv"],
            "o.csv, line 2, column 1: there is no client `r77`",
        ),
        (
            &["--gap", "--organisations", "p.csv"],
            "p.csv, line 2, column 1: client `r00` stands here twice",
        ),
    ] {
        let (code, err) = make(more);
        assert!(code == 3 && err.contains(expected), "{more:?}: {err}");
    }
    assert_eq!(make(&[]).0, 2);
    assert_eq!(make(&["--gap", "--tau", "1"]).0, 2);
}

/// Descriptors of clients around two places, 16 images each.
fn summary(client: u8, clip: Option<f64>) -> Summary {
    let mut summary = Summary::new(Pooling::default(), clip).unwrap();
    for image in 0..16_u8 {
        let centre = if client < 4 { 1.0 } else { 3.0 };
        let wave = f32::from(image) / 40.0 * (1.0 + f32::from(client * client) / 200.0);
        let values = [centre + wave, 2.0 - wave, centre * wave + 0.1];
        summary.add(&FeatureMap::new(1, 1, 3, &values).unwrap()).unwrap();
    }
    summary
}

#[test]
fn descriptors_are_clustered_and_strangers_among_them_named() {
    let dir = folder(&[]);
    let mut names: Vec<String> = Vec::new();
    for client in 0..8 {
        let name = format!("depot-{client}.desc");
        fs::write(
            dir.path().join(&name),
            summary(client, None).descriptor([1; 32]).unwrap().encode(),
        )
        .unwrap();
        names.push(name);
    }
    let make = |names: &[String]| {
        let mut args = vec![
            "plan",
            "make",
            "--gap",
            "--crowd",
            "4",
            "--out",
            "plan",
            "--descriptors",
        ];
        args.extend(names.iter().map(String::as_str));
        veilsum(dir.path(), &args)
    };
    let (code, out, err) = make(&names);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let csv = fs::read_to_string(dir.path().join("plan.csv")).unwrap();
    assert!(csv.ends_with("0,1,1,1,1,0,0,0,0\n1,0,0,0,0,1,1,1,1\n"), "{csv}");
    assert!(csv.starts_with("cluster,depot-0,depot-1,"), "{csv}");
    let put = |name: &str, bytes: Vec<u8>| {
        fs::write(dir.path().join(name), bytes).unwrap();
        let mut with = names.clone();
        with.push(name.to_owned());
        make(&with)
    };
    let (code, _, err) = put(
        "other.desc",
        summary(1, None).descriptor([2; 32]).unwrap().encode(),
    );
    assert!(
        code == 3 && err.contains("other.desc: its features are of another encoder"),
        "{err}"
    );
    let (code, _, err) = put(
        "cut.desc",
        summary(1, None).descriptor([1; 32]).unwrap().encode()[..50].to_vec(),
    );
    assert!(
        code == 3 && err.contains("cut.desc: a descriptor has 50 bytes where 66 are due"),
        "{err}"
    );
    let noise = Noise {
        clip: 5.0,
        variance_floor: 0.5,
        multiplier: 0.01,
    };
    let mut rng = <chacha20::ChaCha20Rng as rand_core::SeedableRng>::seed_from_u64(1);
    let noised = summary(1, Some(5.0)).noised([1; 32], &noise, &mut rng).unwrap();
    let (code, _, err) = put("noised.desc", noised.encode());
    assert!(
        code == 3 && err.contains("noised.desc: its noise is of another size"),
        "{err}"
    );
    // All noised alike: estimates, and said so.
    for (client, name) in (0..8).zip(&names) {
        let noised = summary(client, Some(5.0))
            .noised([1; 32], &noise, &mut rng)
            .unwrap();
        fs::write(dir.path().join(name), noised.encode()).unwrap();
    }
    let (code, out, _) = make(&names);
    assert!(
        code == 0 && out.contains("note: the descriptors are noised"),
        "{out}"
    );
}

#[test]
fn a_sequence_of_nobody_is_sent_to_the_clusters_near_it() {
    let dir = folder(&[]);
    let mut names: Vec<String> = Vec::new();
    for client in 0..8 {
        let name = format!("depot-{client}.desc");
        let bytes = summary(client, None).descriptor([1; 32]).unwrap().encode();
        fs::write(dir.path().join(&name), bytes).unwrap();
        names.push(name);
    }
    for (client, name) in [(2, "hall.desc"), (9, "street.desc")] {
        let bytes = summary(client, None).descriptor([1; 32]).unwrap().encode();
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let run = |head: &[&str], tail: &[&str]| {
        let mut args = head.to_vec();
        args.extend(names.iter().map(String::as_str));
        args.extend(tail);
        veilsum(dir.path(), &args)
    };
    let made = run(
        &[
            "plan",
            "make",
            "--gap",
            "--crowd",
            "4",
            "--out",
            "plan",
            "--descriptors",
        ],
        &[],
    );
    assert_eq!(made.0, 0, "{}", made.2);
    let route = |more: &[&str]| {
        let mut tail = vec!["--unseen", "hall.desc", "street.desc", "--format", "json"];
        tail.extend(more);
        run(&["plan", "route", "plan.json", "--descriptors"], &tail)
    };
    let (code, out, err) = route(&[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["schema"], "veilsum-plan-route/1");
    // Cluster 0 holds depots 0 to 3, cluster 1 the others.
    for (place, name, cluster) in [(0, "hall", 0), (1, "street", 1)] {
        let route = &json["routes"][place];
        assert_eq!(route["sequence"], name);
        assert_eq!(route["clusters"], serde_json::json!([cluster]), "{route}");
        assert_eq!(route["within_tau"], true);
    }
    // Nothing is that near: the nearest serves all the same, and it is said.
    let (code, out, _) = route(&["--tau", "1e-9"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &json["routes"][0]["within_tau"]),
        (0, &serde_json::json!(false))
    );
    assert_eq!(json["routes"][0]["clusters"], serde_json::json!([0]));
    // A client of the plan without its descriptor is named.
    let (code, _, err) = veilsum(
        dir.path(),
        &[
            "plan",
            "route",
            "plan.json",
            "--descriptors",
            "depot-0.desc",
            "--unseen",
            "hall.desc",
        ],
    );
    assert!(
        code == 3 && err.contains("no descriptor of client `depot-1`"),
        "{err}"
    );
}
