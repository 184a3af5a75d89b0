//! Vehicles with different cameras train one bird's-eye view in real processes, and what belongs to a vehicle stays with it.
//! Needs libtorch: without it there is no network.
#![cfg(feature = "torch")]
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

use player::{Player, client_toml, edit, text, veilsum};
use std::fs;
use std::path::{Path, PathBuf};

const CLIENTS: u32 = 4;

fn fleet(dir: &Path) -> PathBuf {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap().to_string();
    drop(socket);
    let kit = dir.join("kit");
    let made = veilsum(&[
        "init",
        "consortium",
        "--dir",
        kit.to_str().unwrap(),
        "--learner",
        "bev",
        "--clients",
        "4",
        "--orgs",
        "2",
        "--clusters",
        "0-3",
        "--rounds",
        "2",
        "--addr",
        &addr,
        "--crowd",
        "2",
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    for client in 0..CLIENTS {
        edit(
            &client_toml(&kit, client),
            &[
                ("steps = 20", "steps = 3"),
                ("train = 256", "train = 8"),
                ("test = 32", "test = 4"),
            ],
        );
    }
    kit
}

#[test]
fn camera_embeddings_stay_with_their_vehicle() {
    let dir = tempfile::tempdir().unwrap();
    let kit = fleet(dir.path());
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..CLIENTS)
        .map(|client| Player::client(&kit, client, &[]))
        .collect();
    assert_eq!(server.exit(), 0, "{}", server.said());
    for client in &mut clients {
        assert_eq!(client.exit(), 0, "{}", client.said());
        assert!(
            client.said().contains("\"event\":\"evaluated_bev\""),
            "{}",
            client.said()
        );
    }
    let bundle = kit.join("auditor/bundle.veil");
    let audited = veilsum(&["audit", bundle.to_str().unwrap()]);
    assert!(audited.status.success(), "{}", text(&audited.stdout));
    // Each keeps its own, sealed, and no two alike; neither their bytes nor their names are anywhere else.
    let sealed: Vec<Vec<u8>> = (0..CLIENTS)
        .map(|client| fs::read(kit.join(format!("clients/client-{client:02}/state/private.sealed"))).unwrap())
        .collect();
    assert!(sealed.windows(2).all(|pair| pair[0] != pair[1]));
    let everything = [
        fs::read(&bundle).unwrap(),
        fs::read(kit.join("server/state/log.veil")).unwrap(),
    ];
    for bytes in &everything {
        for needle in [b"cam_embed".as_slice(), b"img_embed", b"camera"] {
            assert!(!bytes.windows(needle.len()).any(|window| window == needle));
        }
    }
    assert!(
        !sealed
            .iter()
            .any(|bytes| bytes.windows(5).any(|window| window == b"embed"))
    );
    // Changed on disk, it is no start to go on from.
    let path = kit.join("clients/client-02/state/private.sealed");
    let mut bent = sealed[2].clone();
    *bent.last_mut().unwrap() ^= 1;
    fs::write(&path, bent).unwrap();
    let mut again = Player::client(&kit, 2, &[]);
    assert_eq!(again.exit(), 3, "{}", again.said());
    assert!(again.said().contains("private.sealed"), "{}", again.said());
}
