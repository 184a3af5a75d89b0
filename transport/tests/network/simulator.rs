//! What only the simulator has: seeds, faults that fire exactly, partitions, and a clock that jumps.

use crate::conformance::{chunk, drain, numbered};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use veilsum_transport::{
    Connector, Delivery, Fault, Frame, FrameReceiver, FrameSender, Lane, Limits, Link, Listener, PeerId,
    SimConfig, SimLink, SimListener, SimNet, TransportError,
};

/// Three clients talk to an echoing server; what was delivered, where and when.
async fn run(seed: u64) -> Vec<Delivery> {
    let net = SimNet::new(
        seed,
        SimConfig {
            record: true,
            ..SimConfig::default()
        },
    );
    let mut listener = net.listener();
    let clients: Vec<_> = (0..3)
        .map(|n| {
            let connector = net.connector(peer(n));
            tokio::spawn(async move {
                let (mut tx, mut rx) = connector.connect().await.unwrap().split();
                for i in 0..20 {
                    tx.send(numbered(i)).await.unwrap();
                }
                tx.finish().await.unwrap();
                drain(&mut rx).await.unwrap()
            })
        })
        .collect();
    let mut echoes = Vec::new();
    for _ in 0..3 {
        let (mut tx, mut rx) = listener.accept().await.unwrap().split();
        echoes.push(tokio::spawn(async move {
            while let Some(frame) = rx.recv().await.unwrap() {
                tx.send(frame).await.unwrap();
            }
            tx.finish().await.unwrap();
        }));
    }
    for client in clients {
        let got = client.await.unwrap();
        assert_eq!(got.len(), 20);
    }
    net.deliveries()
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let paused = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(seed))
    };
    let first = paused(1);
    assert_eq!(first.len(), 2 * 3 * 20);
    assert_eq!(first, paused(1));
    assert_ne!(first, paused(2));
}

#[tokio::test(start_paused = true)]
async fn lanes_overtake_each_other_and_frames_of_one_lane_do_not() {
    let (mut tx, mut rx, _net) = upload(SimConfig {
        delay_ms: 0..=50,
        ..SimConfig::default()
    })
    .await;
    for n in 0..60 {
        tx.send(numbered(n)).await.unwrap();
    }
    tx.finish().await.unwrap();
    let got = drain(&mut rx).await.unwrap();
    let number = |frame: &Frame| u32::from_le_bytes(frame.body[..4].try_into().unwrap());
    let order: Vec<u32> = got.iter().map(number).collect();
    assert!(
        order.windows(2).any(|two| two[0] > two[1]),
        "nothing was reordered: {order:?}"
    );
    for lane in Lane::BOTH {
        let lane: Vec<u32> = got
            .iter()
            .filter(|frame| frame.lane == lane)
            .map(number)
            .collect();
        assert!(lane.is_sorted(), "{lane:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_after_frames_lets_exactly_those_through() {
    for frames in [0, 1, 7] {
        let (mut tx, mut rx, net) = upload(SimConfig::default()).await;
        net.inject(Fault::CutAfterFrames {
            peer: peer(1),
            frames,
        });
        let sending = tokio::spawn(async move {
            for n in 0..20 {
                tx.send(chunk(n, 1000)).await?;
            }
            Ok::<_, TransportError>(())
        });
        for n in 0..frames {
            assert_eq!(
                rx.recv().await.unwrap().unwrap(),
                chunk(u32::try_from(n).unwrap(), 1000)
            );
        }
        let cut = Instant::now();
        assert!(gone(&rx.recv().await.unwrap_err()));
        assert!(cut.elapsed() <= Limits::default().idle_timeout);
        assert!(gone(&sending.await.unwrap().unwrap_err()));
        let again = net.connector(peer(1)).connect().await;
        assert!(again.is_ok(), "a cut line is no dead client");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_after_bytes_lets_no_partial_frame_through() {
    let (mut tx, mut rx, net) = upload(SimConfig::default()).await;
    // Two frames of 1005 bytes, and half of the third.
    net.inject(Fault::CutAfterBytes {
        peer: peer(1),
        bytes: 2500,
    });
    for n in 0..3 {
        tx.send(chunk(n, 1000)).await.unwrap();
    }
    assert!(
        gone(&tx.finish().await.unwrap_err()),
        "an upload that was cut is not finished"
    );
    assert_eq!(rx.recv().await.unwrap().unwrap(), chunk(0, 1000));
    assert_eq!(rx.recv().await.unwrap().unwrap(), chunk(1, 1000));
    assert!(gone(&rx.recv().await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn a_killed_client_is_down_until_it_is_revived() {
    let config = SimConfig {
        delay_ms: 50..=50,
        ..SimConfig::default()
    };
    let (mut tx, mut rx, net) = upload(config).await;
    tx.send(chunk(0, 10)).await.unwrap();
    sleep(Duration::from_millis(60)).await;
    tx.send(chunk(1, 10)).await.unwrap();
    net.kill(peer(1));
    assert!(gone(&tx.send(chunk(2, 10)).await.unwrap_err()));
    assert_eq!(
        rx.recv().await.unwrap().unwrap(),
        chunk(0, 10),
        "what had arrived can be read"
    );
    let at = Instant::now();
    assert!(gone(&rx.recv().await.unwrap_err()), "what was in flight is lost");
    assert_eq!(at.elapsed(), Limits::default().idle_timeout);
    let dead = net.connector(peer(1)).connect().await;
    assert!(matches!(dead.err(), Some(TransportError::Unreachable { .. })));
    net.revive(peer(1));
    assert!(net.connector(peer(1)).connect().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_kill_in_mid_flight_leaves_a_prefix_of_each_lane() {
    for seed in 0..20 {
        let net = SimNet::new(
            seed,
            SimConfig {
                delay_ms: 0..=50,
                ..SimConfig::default()
            },
        );
        let mut listener = net.listener();
        let (mut tx, _down) = net.connector(peer(1)).connect().await.unwrap().split();
        let (_up, mut rx) = listener.accept().await.unwrap().split();
        for n in 0..20 {
            tx.send(chunk(n, 100)).await.unwrap();
        }
        sleep(Duration::from_millis(20)).await;
        net.kill(peer(1));
        let mut expected = 0;
        while let Ok(frame) = rx.recv().await {
            assert_eq!(frame, Some(chunk(expected, 100)), "seed {seed}");
            expected += 1;
        }
        assert!(expected < 20);
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_server_is_back_with_a_new_listener() {
    let net = SimNet::new(4, SimConfig::default());
    let server = SimConfig::default().server;
    let mut listener = net.listener();
    let (_tx, mut rx) = net.connector(peer(1)).connect().await.unwrap().split();
    let (mut server_tx, _server_rx) = listener.accept().await.unwrap().split();
    net.kill(server);
    assert!(gone(&server_tx.send(chunk(0, 10)).await.unwrap_err()));
    assert!(gone(&rx.recv().await.unwrap_err()));
    assert!(matches!(
        listener.accept().await.err(),
        Some(TransportError::ListenerClosed)
    ));
    let nobody = net.connector(peer(1)).connect().await;
    assert!(matches!(nobody.err(), Some(TransportError::Unreachable { .. })));
    let mut listener = net.listener();
    assert!(net.connector(peer(1)).connect().await.is_ok());
    listener.accept().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_heals_in_time_loses_nothing() {
    let (mut tx, mut rx, net) = upload(SimConfig::default()).await;
    tx.send(chunk(0, 10)).await.unwrap();
    assert_eq!(rx.recv().await.unwrap().unwrap(), chunk(0, 10));
    net.partition([peer(1)]);
    tx.send(chunk(1, 10)).await.unwrap();
    assert!(
        timeout(Duration::from_secs(4), rx.recv()).await.is_err(),
        "nothing passes a partition"
    );
    net.heal();
    tx.send(chunk(2, 10)).await.unwrap();
    tx.finish().await.unwrap();
    assert_eq!(drain(&mut rx).await.unwrap(), [chunk(1, 10), chunk(2, 10)]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_lasts_is_a_lost_peer_on_both_sides() {
    let (mut tx, mut rx, net) = upload(SimConfig::default()).await;
    net.partition([peer(1)]);
    let start = Instant::now();
    tx.send(chunk(0, 10)).await.unwrap();
    let (ours, theirs) = tokio::join!(tx.finish(), rx.recv());
    assert!(gone(&ours.unwrap_err()) && gone(&theirs.unwrap_err()));
    assert_eq!(start.elapsed(), Limits::default().idle_timeout);
    let cut_off = net.connector(peer(1)).connect().await;
    assert!(matches!(cut_off.err(), Some(TransportError::Unreachable { .. })));
    assert!(
        net.connector(peer(2)).connect().await.is_ok(),
        "others are not cut off"
    );
    let waiting = tokio::spawn({
        let connector = net.connector(peer(1));
        async move { connector.connect().await.map(drop) }
    });
    sleep(Duration::from_secs(3)).await;
    net.heal();
    waiting.await.unwrap().unwrap();
    assert!(
        gone(&rx.recv().await.unwrap_err()),
        "healing does not bring the old link back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_partition_longer_than_the_idle_time_that_nobody_watched_is_noticed_after_it() {
    let (mut tx, mut rx, net) = upload(SimConfig::default()).await;
    net.partition([peer(1)]);
    sleep(Duration::from_secs(6)).await;
    net.heal();
    assert!(gone(&tx.send(chunk(0, 10)).await.unwrap_err()));
    assert!(gone(&rx.recv().await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn delay_bandwidth_and_loss_take_the_time_they_should() {
    let config = |delay| SimConfig {
        delay_ms: delay,
        ..SimConfig::default()
    };
    assert_eq!(seconds_for(1, config(30..=30)).await, Duration::from_millis(30));
    // 100 frames of 1005 bytes at 100,500 bytes a second.
    let slow = SimConfig {
        bytes_per_second: Some(100_500),
        ..config(0..=0)
    };
    assert_eq!(seconds_for(100, slow).await, Duration::from_secs(1));
    // At 50 % loss each frame costs one retransmission of 100 ms on average, but they overlap: the slowest counts.
    let lossy = SimConfig {
        loss_per_mille: 500,
        ..config(10..=10)
    };
    let took = seconds_for(100, lossy).await;
    assert!(
        took > Duration::from_millis(400) && took < Duration::from_secs(2),
        "{took:?}"
    );
    let (mut tx, mut rx, net) = upload(config(1..=1)).await;
    net.set_delay(peer(1), 900..=900);
    let start = Instant::now();
    tx.send(chunk(0, 10)).await.unwrap();
    rx.recv().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(900));
}

/// How long `frames` frames of 1,000 bytes take from the first send to the last receive.
async fn seconds_for(frames: u32, config: SimConfig) -> Duration {
    let (mut tx, mut rx, _net) = upload(config).await;
    let start = Instant::now();
    for n in 0..frames {
        tx.send(chunk(n, 1000)).await.unwrap();
    }
    for _ in 0..frames {
        rx.recv().await.unwrap();
    }
    start.elapsed()
}

type Up = <SimLink as Link>::Sender;
type Down = <SimLink as Link>::Receiver;

/// Client 1's sending half and the server's receiving half. The other halves are leaked: they stay open.
async fn upload(config: SimConfig) -> (Up, Down, SimNet) {
    let net = SimNet::new(3, config);
    let mut listener: SimListener = net.listener();
    let (tx, client_rx) = net.connector(peer(1)).connect().await.unwrap().split();
    let (server_tx, rx) = listener.accept().await.unwrap().split();
    Box::leak(Box::new((client_rx, server_tx, listener)));
    (tx, rx, net)
}

fn gone(error: &TransportError) -> bool {
    matches!(error, TransportError::PeerGone { .. })
}

fn peer(n: u8) -> PeerId {
    PeerId([n; 32])
}
