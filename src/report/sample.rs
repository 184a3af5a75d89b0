//! A made-up report for tests and for looking at the page.

use super::{
    Audit, AuditCheck, Check, Client, Cluster, Curve, Example, Files, Kill, Outcome, Point, Policy, Report,
    Round, SCHEMA, Shot, rounded,
};
use crate::events::LogHead;

/// Eight clients of four organisations, two clusters, five rounds, client 3 killed in round 2.
pub(crate) fn report() -> Report {
    let members: [Vec<u32>; 2] = [(0..6).collect(), (2..8).collect()];
    Report {
        schema: SCHEMA.to_owned(),
        veilsum: "0.1.0".to_owned(),
        federation: "demo".to_owned(),
        started_unix_s: 1_796_000_000,
        took_ms: 143_512,
        learner: "depth".to_owned(),
        data: "built-in generator".to_owned(),
        seed: 7,
        outcome: Outcome {
            passed: true,
            exit_code: 0,
            checks: vec![
                check("all rounds done", "5 of 5 rounds finished"),
                check(
                    "killed and dropped",
                    "client 3 was killed in round 2, which ended without it",
                ),
                check("back in the next round", "client 3 is a survivor of round 3"),
                check("audit", "verified"),
                check(
                    "training works",
                    "AbsRel of cluster 0 fell by 57.4 %, of cluster 1 by 58.7 %; 25 % is asked for",
                ),
            ],
        },
        policy: Policy {
            threshold: 6,
            crowd: 4,
            crowd_orgs: 2,
        },
        organisations: [
            "Aurora Motors",
            "Borealis Robotics",
            "Cirrus Cars",
            "Dune Dynamics",
        ]
        .map(str::to_owned)
        .to_vec(),
        clients: (0..8_u32)
            .map(|id| Client {
                id,
                organisation: id / 2,
                robot: ["ugv", "legged", "uav", "humanoid"][id as usize / 2].to_owned(),
                place: ["indoor, day", "street, night"][id as usize % 2].to_owned(),
                clusters: (0..2)
                    .filter(|cluster| members[*cluster as usize].contains(&id))
                    .collect(),
                sent_bytes: 1_812_004 * (1 + u64::from((2..6).contains(&id))) + u64::from(id) * 97,
                received_bytes: 3_100_400 + u64::from(id) * 1_013,
            })
            .collect(),
        clusters: members
            .iter()
            .zip(0..)
            .map(|(members, id)| Cluster {
                id,
                members: members.clone(),
            })
            .collect(),
        rounds: (1..=5).map(round).collect(),
        aborted: Vec::new(),
        curves: vec![
            curve(0, [0.612, 0.413, 0.345_678_9, 0.301, 0.279, 0.2607]),
            curve(1, [0.734, 0.498, 0.42, 0.371, 0.333, 0.303]),
        ],
        kill: Some(Kill {
            client: 3,
            round: 2,
            sent_bytes: 196_608,
            total_bytes: 393_216,
            killed_ms: 41_230,
            restarted_ms: Some(58_004),
            back_in_round: Some(3),
        }),
        examples: vec![
            example(0, "ugv"),
            example(2, "legged"),
            example(4, "uav"),
            example(6, "humanoid"),
        ],
        audit: Some(Audit {
            overall: "verified".to_owned(),
            took_ms: 812,
            checks: [
                "signatures",
                "log chain",
                "survivor agreement",
                "sums",
                "one share kind per client",
                "crowd",
            ]
            .into_iter()
            .map(|name| AuditCheck {
                name: name.to_owned(),
                status: "verified".to_owned(),
                says: "holds in all 5 rounds".to_owned(),
            })
            .collect(),
        }),
        files: Files {
            bundle: "target/demo/consortium/auditor/bundle.veil".to_owned(),
            trust: "target/demo/consortium/auditor/auditor.toml".to_owned(),
            logs: "target/demo/logs".to_owned(),
        },
    }
}

fn check(name: &str, says: &str) -> Check {
    Check {
        name: name.to_owned(),
        passed: true,
        says: says.to_owned(),
    }
}

fn round(round: u64) -> Round {
    let dropped: Vec<u32> = if round == 2 { vec![3] } else { Vec::new() };
    Round {
        round,
        attempt: 0,
        survivors: (0..8).filter(|id| !dropped.contains(id)).collect(),
        dropped,
        released: vec![0, 1],
        withheld: Vec::new(),
        weights: vec![240 + round, 4_294_967_296],
        took_ms: 17_034 + 211 * round,
        bytes_in: 4_512_090 + 13 * round,
        bytes_out: 5_130_777 + 7 * round,
        head: LogHead {
            size: 2 + 42 * round,
            root: format!("{:064x}", u128::from(round) * 0x1234_5678_9abc_def0_1234_5678),
        },
    }
}

fn curve(cluster: u32, errors: [f64; 6]) -> Curve {
    Curve {
        cluster,
        points: errors
            .into_iter()
            .zip(0..)
            .map(|(abs_rel, round)| Point {
                round,
                clients: 6,
                images: 48,
                loss: rounded(abs_rel * 5.3 - 0.4).unwrap(),
                abs_rel: rounded(abs_rel).unwrap(),
                rmse: rounded(abs_rel * 7.0).unwrap(),
                delta1: rounded(1.0 - abs_rel).unwrap(),
            })
            .collect(),
        mean_picture_abs_rel: rounded(errors[5] * 1.2),
        abs_rel_change: rounded(errors[5] / errors[0] - 1.0),
    }
}

fn example(client: u32, robot: &str) -> Example {
    let shot = |round| Shot {
        round,
        png_base64: picture(u8::try_from(60 * client / 2 + 30).unwrap(), round > 0),
    };
    Example {
        client,
        robot: robot.to_owned(),
        cluster: client / 4,
        first: shot(0),
        last: shot(5),
    }
}

/// Three panels of 80 by 60 pixels: something like a picture, its depth, and a prediction.
fn picture(tint: u8, sharp: bool) -> String {
    use base64::Engine as _;
    let (width, height) = (240_u32, 60_u32);
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| {
            (0..width).flat_map(move |x| {
                let (panel, column) = (x / 80, x % 80);
                let thing = (20..45).contains(&column) && (15..50).contains(&y);
                let depth = if thing { 90 } else { 4 * y.min(59) };
                let byte = |value: u32| u8::try_from(value.min(255)).unwrap();
                match panel {
                    0 => [tint, byte(2 * y + column), if thing { 200 } else { byte(column) }],
                    1 => [byte(depth), byte(depth / 2), byte(255 - depth)],
                    _ if sharp => [byte(depth + 10), byte(depth / 2), byte(250 - depth)],
                    _ => [128, 64, 127],
                }
            })
        })
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
