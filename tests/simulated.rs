//! The real drivers over the simulated network: rounds complete, a lost client counts as dropped and comes back, and no
//! frame holds a private tensor or a plain update.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "simulated/clustering.rs"]
mod clustering;
#[path = "simulated/world.rs"]
mod world;

use veilsum::events::{ClientEvent, Stamped};
use veilsum_attestation::audit::Overall;
use veilsum_transport::Fault;
use world::{audit, contains, federation, run, survivors};

#[tokio::test(start_paused = true)]
async fn no_frame_holds_a_private_tensor_or_a_plain_update() {
    let federation = federation(2);
    let run = run(&federation, 1, 5_000, |_, _| ()).await;
    assert_eq!(survivors(&run), vec![(0..8).collect::<Vec<u32>>(); 2]);
    assert_eq!(audit(&federation), Overall::Verified);
    for (events, result) in &run.clients {
        assert!(result.is_ok(), "{result:?}");
        assert!(matches!(events.last().unwrap().event, ClientEvent::Finished));
    }
    let mut searched = 0;
    for (tape, secrets) in run.tapes.iter().zip(&run.secrets) {
        let frames = tape.lock().unwrap();
        assert!(frames.len() > 10);
        for secret in secrets.lock().unwrap().iter() {
            assert!(secret.iter().any(|value| *value != 0.0), "nothing to search for");
            // Eight bytes, two neighbouring values: no accident in a few hundred kilobytes. One value where there is one.
            for pair in secret.windows(secret.len().min(2)) {
                if pair.iter().all(|value| *value == 0.0) {
                    continue;
                }
                let bytes: Vec<u8> = pair.iter().flat_map(|value| value.to_le_bytes()).collect();
                for frame in frames.iter() {
                    searched += 1;
                    assert!(!contains(frame, &bytes), "a frame holds plain values");
                }
            }
        }
    }
    assert!(searched > 1000);
    // The search itself finds what is there: a model part on its way down is plain, and so would an update be.
    let model = run.secrets[0].lock().unwrap()[0].clone();
    let frame: Vec<u8> = model.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(contains(&frame, &frame[4..12]));
}

#[tokio::test(start_paused = true)]
async fn a_client_cut_off_in_mid_upload_is_dropped_and_comes_back() {
    let federation = federation(3);
    // Frames of client 3 in the first round: hello, keys, shares, masked, one chunk for each of its two clusters.
    let run = run(&federation, 2, 5_000, |net, peers| {
        net.inject(Fault::CutAfterFrames {
            peer: peers[3],
            frames: 5,
        });
    })
    .await;
    let all: Vec<u32> = (0..8).collect();
    let without: Vec<u32> = all.iter().copied().filter(|client| *client != 3).collect();
    assert_eq!(survivors(&run), [without, all.clone(), all]);
    assert_eq!(audit(&federation), Overall::Verified);
}

#[tokio::test(start_paused = true)]
async fn a_client_cut_off_in_mid_upload_goes_on_where_it_was() {
    let federation = federation(2);
    // The network takes 5 s to notice; there is time to come back before the deadline.
    let run = run(&federation, 3, 20_000, |net, peers| {
        net.inject(Fault::CutAfterFrames {
            peer: peers[3],
            frames: 5,
        });
    })
    .await;
    assert_eq!(survivors(&run), vec![(0..8).collect::<Vec<u32>>(); 2]);
    assert_eq!(audit(&federation), Overall::Verified);
    let events = &run.clients[3].0;
    let cut = |stamped: &Stamped<ClientEvent>| matches!(stamped.event, ClientEvent::Disconnected { .. });
    assert!(events.iter().any(cut));
    // One full upload a round, and nothing of it twice: a vector that arrived whole before the cut is not sent again.
    let uploads = events
        .iter()
        .filter(|stamped| matches!(stamped.event, ClientEvent::Upload { round: 1, .. }))
        .count();
    assert_eq!(uploads, 2, "one chunk for each of its two clusters");
}
