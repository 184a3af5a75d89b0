//! What both networks promise, once, for both.

use crate::quic_bed::QuicBed;
use crate::sim_bed::SimBed;
use bytes::Bytes;
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use veilsum_transport::{
    CloseCode, Connector, Frame, FrameReceiver, FrameSender, Lane, Limits, Link, Listener, PeerId,
    TransportError,
};

/// One network with one server, made for one test.
pub(crate) trait Bed: Sized + Send {
    type Listener: Listener;
    type Connector: Connector;

    /// A network in which server and clients have these limits.
    fn new(limits: Limits) -> Self;
    /// The server's end; called once.
    fn listener(&mut self) -> Self::Listener;
    /// Client number `n`.
    fn client(&self, n: u8) -> Self::Connector;
    /// Client number `n` with other limits than the server's.
    fn client_with(&self, n: u8, limits: Limits) -> Self::Connector;
    /// Client number `n`, whom [`kill`](Self::kill) can kill.
    fn mortal(&mut self, n: u8) -> Self::Connector;
    /// Makes client `n` vanish without a word.
    fn kill(&self, n: u8);
    /// Who client `n` is.
    fn id(&self, n: u8) -> PeerId;
    /// Who the server is.
    fn server_id(&self) -> PeerId;
}

/// Each promise under `#[tokio::test]` for each network.
macro_rules! promises {
    ($($name:ident),* $(,)?) => {
        mod over_sim { $(
            #[tokio::test(start_paused = true)]
            async fn $name() { super::in_time(super::$name::<super::SimBed>()).await; }
        )* }
        mod over_quic { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::in_time(super::$name::<super::QuicBed>()).await; }
        )* }
    };
}

promises!(
    frames_go_both_ways_in_order,
    an_empty_body_and_one_at_the_cap_pass,
    a_slow_reader_slows_the_sender_and_memory_stays_bounded,
    a_bulk_flood_does_not_starve_control,
    a_frame_above_our_own_cap_never_leaves,
    a_frame_above_the_peers_cap_closes_that_link_only,
    a_peer_killed_in_mid_upload_is_noticed,
    a_finished_direction_delivers_everything,
    one_direction_may_finish_while_the_other_goes_on,
    a_dropped_link_is_not_an_orderly_end,
    a_dropped_sending_half_is_not_an_orderly_end,
    a_dropped_receiving_half_is_noticed_by_the_sender,
    a_channel_binding_is_shared_by_the_two_ends_only,
    nothing_may_follow_finish,
    a_receive_that_is_dropped_loses_nothing,
    a_send_that_is_dropped_tears_nothing,
    thirty_two_clients_at_once,
    the_newest_link_of_a_key_lives,
    one_client_too_many_is_told_so,
    a_link_is_free_again_after_it_closed,
    nobody_there_is_unreachable,
);

async fn frames_go_both_ways_in_order<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let mut listener = bed.listener();
    let echo = tokio::spawn(async move {
        let link = listener.accept().await.unwrap();
        let (peer, meter) = (link.peer(), link.meter());
        let (mut tx, mut rx) = link.split();
        while let Some(frame) = rx.recv().await.unwrap() {
            tx.send(frame).await.unwrap();
        }
        tx.finish().await.unwrap();
        (peer, meter.stats())
    });
    let link = bed.client(1).connect().await.unwrap();
    assert_eq!(link.peer(), bed.server_id());
    let meter = link.meter();
    let (mut tx, mut rx) = link.split();
    let sent: Vec<Frame> = (0..120).map(numbered).collect();
    let sending = tokio::spawn({
        let sent = sent.clone();
        async move {
            for frame in sent {
                tx.send(frame).await.unwrap();
            }
            tx.finish().await.unwrap();
            tx
        }
    });
    let got = drain(&mut rx).await.unwrap();
    let _tx = sending.await.unwrap();
    for lane in Lane::BOTH {
        let of = |frames: &[Frame]| {
            frames
                .iter()
                .filter(|f| f.lane == lane)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&got), of(&sent), "{lane}");
    }
    let (peer, served) = echo.await.unwrap();
    assert_eq!(peer, bed.id(1));
    let wire: u64 = sent.iter().map(Frame::wire_len).sum();
    let mine = meter.stats();
    assert_eq!((mine.sent_bytes, mine.received_bytes), (wire, wire));
    assert_eq!((mine.sent_frames, mine.received_frames), (120, 120));
    assert_eq!(served, mine);
}

async fn an_empty_body_and_one_at_the_cap_pass<B: Bed>() {
    let limits = Limits {
        control_max: 1000,
        bulk_max: 300_000,
        ..Limits::default()
    };
    let mut bed = B::new(limits);
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    let frames = [
        Frame::control(0, Bytes::new()),
        Frame::control(255, vec![1; 1000]),
        Frame::bulk(0, Bytes::new()),
        Frame::bulk(255, vec![2; 300_000]),
    ];
    for frame in frames.clone() {
        tx.send(frame).await.unwrap();
    }
    let finish = tokio::spawn(async move { tx.finish().await.map(|()| tx) });
    let mut got = drain(&mut *rx).await.unwrap();
    got.sort_by_key(|frame| (frame.lane, frame.body.len()));
    assert_eq!(got, frames);
    finish.await.unwrap().unwrap();
}

async fn a_slow_reader_slows_the_sender_and_memory_stays_bounded<B: Bed>() {
    const FRAMES: u32 = 128;
    const BODY: usize = 64 * 1024;
    let limits = Limits {
        stream_window: 512 * 1024,
        send_window: 512 * 1024,
        ..Limits::default()
    };
    // One window, and the frame that is being written.
    let bound = u64::from(limits.stream_window) + 2 * BODY as u64;
    let mut bed = B::new(limits);
    let pair = pair(&mut bed, 1).await;
    let meter = pair.client_meter.clone();
    let (mut tx, mut rx) = pair.one_way();
    let sending = tokio::spawn(async move {
        for n in 0..FRAMES {
            tx.send(chunk(n, BODY)).await.unwrap();
        }
        tx.finish().await.unwrap();
        tx
    });
    // Nobody reads: the sender must come to a stand, far below the 8 MiB it has.
    sleep(Duration::from_millis(400)).await;
    let standing = meter.stats().sent_bytes;
    sleep(Duration::from_millis(400)).await;
    assert_eq!(
        meter.stats().sent_bytes,
        standing,
        "the sender went on without a reader"
    );
    assert!(
        standing > 0 && standing <= bound,
        "{standing} bytes taken from the sender, nothing read"
    );
    let mut read = 0u64;
    for n in 0..FRAMES {
        let frame = rx.recv().await.unwrap().unwrap();
        assert_eq!(frame, chunk(n, BODY));
        read += frame.wire_len();
        let ahead = meter.stats().sent_bytes.saturating_sub(read);
        assert!(ahead <= bound, "{ahead} bytes between sender and reader");
        if n % 8 == 0 {
            sleep(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(rx.recv().await.unwrap(), None);
    assert_eq!(rx.recv().await.unwrap(), None, "the end stays the end");
    sending.await.unwrap();
}

async fn a_bulk_flood_does_not_starve_control<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    for n in 0..12 {
        tx.send(chunk(n, 64 * 1024)).await.unwrap();
    }
    // The reader is in the middle of the flood when the control frames come.
    for n in 0..2 {
        assert_eq!(rx.recv().await.unwrap().unwrap(), chunk(n, 64 * 1024));
    }
    for _ in 0..3 {
        tx.send(Frame::control(9, &b"urgent"[..])).await.unwrap();
    }
    sleep(Duration::from_millis(300)).await;
    let mut order = Vec::new();
    while order.iter().filter(|lane| **lane == Lane::Control).count() < 3 {
        order.push(rx.recv().await.unwrap().unwrap().lane);
    }
    assert!(order.len() <= 6, "control waited behind the flood: {order:?}");
    assert!(order.len() >= 5, "control starved the flood: {order:?}");
}

async fn a_frame_above_our_own_cap_never_leaves<B: Bed>() {
    let limits = Limits {
        control_max: 100,
        bulk_max: 200,
        ..Limits::default()
    };
    let mut bed = B::new(limits);
    let server = bed.server_id();
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    for (frame, lane, got, max) in [
        (Frame::control(1, vec![0; 101]), Lane::Control, 101, 100),
        (Frame::bulk(1, vec![0; 201]), Lane::Bulk, 201, 200),
    ] {
        let refused = tx.send(frame).await.unwrap_err();
        assert_eq!(
            refused,
            TransportError::FrameTooLarge {
                lane,
                got,
                max,
                peer: server
            }
        );
    }
    tx.send(Frame::control(2, &b"still fine"[..])).await.unwrap();
    assert_eq!(rx.recv().await.unwrap().unwrap().kind, 2);
}

async fn a_frame_above_the_peers_cap_closes_that_link_only<B: Bed>() {
    let limits = Limits {
        bulk_max: 1000,
        ..Limits::default()
    };
    let mut bed = B::new(limits.clone());
    let mut listener = bed.listener();
    let good = bed.client(1).connect().await.unwrap();
    let good_server = listener.accept().await.unwrap();
    let loud = bed
        .client_with(
            2,
            Limits {
                bulk_max: 5000,
                ..limits
            },
        )
        .connect()
        .await
        .unwrap();
    let loud_server = listener.accept().await.unwrap();
    let ((mut loud_tx, mut loud_rx), (_tx, mut rx)) = (loud.split(), loud_server.split());
    loud_tx.send(Frame::bulk(1, vec![0; 1000])).await.unwrap();
    assert_eq!(rx.recv().await.unwrap().unwrap().body.len(), 1000);
    loud_tx.send(Frame::bulk(1, vec![0; 1001])).await.unwrap();
    let refused = TransportError::FrameTooLarge {
        lane: Lane::Bulk,
        got: 1001,
        max: 1000,
        peer: bed.id(2),
    };
    assert_eq!(rx.recv().await.unwrap_err(), refused);
    assert_eq!(rx.recv().await.unwrap_err(), refused, "the error stays");
    let told = loud_rx.recv().await.unwrap_err();
    assert!(
        matches!(
            told,
            TransportError::Closed {
                code: CloseCode::FrameTooLarge,
                ..
            }
        ),
        "{told}"
    );
    let (mut tx, _good_rx) = good.split();
    let (_good_tx, mut rx) = good_server.split();
    tx.send(Frame::bulk(7, vec![0; 1000])).await.unwrap();
    assert_eq!(rx.recv().await.unwrap().unwrap().kind, 7);
}

async fn a_peer_killed_in_mid_upload_is_noticed<B: Bed>() {
    let idle = Duration::from_millis(1500);
    let limits = Limits {
        idle_timeout: idle,
        keep_alive: Duration::from_millis(300),
        stream_window: 256 * 1024,
        send_window: 256 * 1024,
        ..Limits::default()
    };
    let mut bed = B::new(limits);
    let mut listener = bed.listener();
    let link = bed.mortal(1).connect().await.unwrap();
    let (mut tx, _rx_client) = link.split();
    let (_tx_server, mut rx) = listener.accept().await.unwrap().split();
    let sending = tokio::spawn(async move {
        for n in 0..1000 {
            tx.send(chunk(n, 64 * 1024)).await?;
        }
        Ok::<_, TransportError>(())
    });
    for n in 0..5 {
        assert_eq!(rx.recv().await.unwrap().unwrap(), chunk(n, 64 * 1024));
    }
    bed.kill(1);
    let killed = Instant::now();
    let mut next = 5;
    let error = loop {
        match timeout(idle * 3, rx.recv()).await.expect("never noticed") {
            Ok(Some(frame)) => {
                assert_eq!(frame, chunk(next, 64 * 1024), "only whole frames, in order");
                next += 1;
            }
            Ok(None) => panic!("a killed peer looked like an orderly end"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, TransportError::PeerGone { peer, .. } if peer == bed.id(1)),
        "{error}"
    );
    assert!(error.retry());
    assert!(
        killed.elapsed() < idle * 2,
        "noticed after {:?}",
        killed.elapsed()
    );
    assert!(next < 1000);
    assert!(
        sending.await.unwrap().is_err(),
        "the upload can not have succeeded"
    );
}

async fn a_finished_direction_delivers_everything<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    let sending = tokio::spawn(async move {
        for n in 0..300 {
            tx.send(numbered(n)).await.unwrap();
        }
        tx.finish().await.unwrap();
        tx.finish().await.unwrap();
        // Everything of this link is let go of the moment the peer's machine has it.
    });
    let mut control = 0;
    let mut bulk = 0;
    while let Some(frame) = rx.recv().await.unwrap() {
        sleep(Duration::from_millis(1)).await;
        match frame.lane {
            Lane::Control => control += 1,
            Lane::Bulk => bulk += 1,
        }
    }
    assert_eq!(control + bulk, 300);
    sending.await.unwrap();
}

async fn one_direction_may_finish_while_the_other_goes_on<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let Pair {
        client: (mut up, mut down),
        server: (mut server_tx, mut server_rx),
        ..
    } = pair(&mut bed, 1).await;
    up.send(Frame::control(1, &b"question"[..])).await.unwrap();
    up.finish().await.unwrap();
    assert_eq!(server_rx.recv().await.unwrap().unwrap().kind, 1);
    assert_eq!(server_rx.recv().await.unwrap(), None);
    for n in 0..20 {
        server_tx.send(numbered(n)).await.unwrap();
    }
    let answering = tokio::spawn(async move { server_tx.finish().await.map(|()| server_tx) });
    assert_eq!(drain(&mut down).await.unwrap().len(), 20);
    answering.await.unwrap().unwrap();
}

async fn a_dropped_link_is_not_an_orderly_end<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    tx.send(Frame::control(1, &b"last words"[..])).await.unwrap();
    drop(tx);
    let error = loop {
        match rx.recv().await {
            Ok(Some(frame)) => assert_eq!(frame.kind, 1),
            Ok(None) => panic!("an end nobody asked for"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TransportError::PeerGone { .. }), "{error}");
}

async fn a_dropped_sending_half_is_not_an_orderly_end<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let Pair {
        client: (mut tx, _down),
        server: (_up, mut rx),
        ..
    } = pair(&mut bed, 1).await;
    tx.send(Frame::control(1, Bytes::new())).await.unwrap();
    assert_eq!(rx.recv().await.unwrap().unwrap().kind, 1);
    drop(tx);
    let error = rx.recv().await.unwrap_err();
    assert!(matches!(error, TransportError::PeerGone { .. }), "{error}");
}

async fn a_dropped_receiving_half_is_noticed_by_the_sender<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let Pair {
        client: (mut tx, _down),
        server: (_up, rx),
        ..
    } = pair(&mut bed, 1).await;
    tx.send(chunk(0, 1000)).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    drop(rx);
    sleep(Duration::from_millis(100)).await;
    let error = tx.finish().await.unwrap_err();
    assert!(matches!(error, TransportError::PeerGone { .. }), "{error}");
}

async fn a_channel_binding_is_shared_by_the_two_ends_only<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let mut listener = bed.listener();
    let mut seen = Vec::new();
    for n in 1..4 {
        let client = bed.client(n).connect().await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(client.channel_binding(), server.channel_binding());
        assert!(!seen.contains(&client.channel_binding()));
        seen.push(client.channel_binding());
    }
}

async fn nothing_may_follow_finish<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let server = bed.server_id();
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    tx.finish().await.unwrap();
    let refused = tx.send(Frame::control(1, Bytes::new())).await.unwrap_err();
    assert_eq!(refused, TransportError::SendAfterFinish { peer: server });
    assert_eq!(rx.recv().await.unwrap(), None);
}

async fn a_receive_that_is_dropped_loses_nothing<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    let sending = tokio::spawn(async move {
        for n in 0..40 {
            tx.send(chunk(n, 100_000)).await.unwrap();
            sleep(Duration::from_millis(3)).await;
        }
        tx.finish().await.unwrap();
        tx
    });
    let mut next = 0;
    let mut dropped = 0;
    loop {
        match timeout(Duration::from_millis(1), rx.recv()).await {
            Err(_) => dropped += 1,
            Ok(Ok(Some(frame))) => {
                assert_eq!(frame, chunk(next, 100_000));
                next += 1;
            }
            Ok(end) => break assert_eq!(end.unwrap(), None),
        }
    }
    assert_eq!(next, 40);
    assert!(
        dropped > 10,
        "only {dropped} receives were dropped: nothing was tested"
    );
    sending.await.unwrap();
}

async fn a_send_that_is_dropped_tears_nothing<B: Bed>() {
    let limits = Limits {
        stream_window: 100_000,
        send_window: 100_000,
        ..Limits::default()
    };
    let mut bed = B::new(limits);
    let (mut tx, mut rx) = pair(&mut bed, 1).await.one_way();
    let sending = tokio::spawn(async move {
        let mut sure = Vec::new();
        let mut dropped = 0;
        for n in 0..60 {
            match timeout(Duration::from_millis(1), tx.send(chunk(n, 60_000))).await {
                Ok(done) => done.map(|()| sure.push(n)).unwrap(),
                Err(_) => dropped += 1,
            }
        }
        tx.finish().await.unwrap();
        (tx, sure, dropped)
    });
    let mut got = Vec::new();
    while let Some(frame) = rx.recv().await.unwrap() {
        let n = u32::from_le_bytes(frame.body[..4].try_into().unwrap());
        assert_eq!(frame, chunk(n, 60_000), "whole or not at all");
        assert!(got.last().is_none_or(|last| *last < n), "in order, and once");
        got.push(n);
        sleep(Duration::from_millis(4)).await;
    }
    let (_tx, sure, dropped) = sending.await.unwrap();
    assert!(dropped > 0, "no send was dropped: nothing was tested");
    assert!(
        sure.iter().all(|n| got.contains(n)),
        "a send that succeeded was lost"
    );
}

async fn thirty_two_clients_at_once<B: Bed>() {
    const CLIENTS: u8 = 32;
    let mut bed = B::new(Limits::default());
    let mut listener = bed.listener();
    let server = tokio::spawn(async move {
        let mut serving = Vec::new();
        for _ in 0..CLIENTS {
            let link = listener.accept().await.unwrap();
            serving.push(tokio::spawn(async move {
                let (mut tx, mut rx) = link.split();
                let mut bytes = 0u64;
                while let Some(frame) = rx.recv().await.unwrap() {
                    bytes += frame.body.len() as u64;
                }
                tx.send(Frame::control(1, bytes.to_le_bytes().to_vec()))
                    .await
                    .unwrap();
                tx.finish().await.unwrap();
            }));
        }
        for task in serving {
            task.await.unwrap();
        }
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let connector = bed.client(n);
            tokio::spawn(async move {
                let (mut tx, mut rx) = connector.connect().await.unwrap().split();
                for i in 0..10 {
                    tx.send(chunk(i, 1000 * (usize::from(n) + 1))).await.unwrap();
                }
                tx.finish().await.unwrap();
                let answer = rx.recv().await.unwrap().unwrap();
                let counted = u64::from_le_bytes(answer.body[..].try_into().unwrap());
                assert_eq!(counted, 10 * 1000 * (u64::from(n) + 1));
                assert_eq!(rx.recv().await.unwrap(), None);
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    server.await.unwrap();
}

async fn the_newest_link_of_a_key_lives<B: Bed>() {
    let mut bed = B::new(Limits::default());
    let mut listener = bed.listener();
    let connector = bed.client(1);
    let old = connector.connect().await.unwrap();
    let (_old_tx, mut old_rx) = listener.accept().await.unwrap().split();
    let new = connector.connect().await.unwrap();
    let (_new_tx, mut new_rx) = listener.accept().await.unwrap().split();
    let superseded = |error: &TransportError| {
        matches!(
            error,
            TransportError::Closed {
                code: CloseCode::Superseded,
                ..
            }
        )
    };
    let error = old_rx.recv().await.unwrap_err();
    assert!(superseded(&error), "{error}");
    let error = old.split().1.recv().await.unwrap_err();
    assert!(superseded(&error) && !error.retry(), "{error}");
    let (mut tx, _rx) = new.split();
    tx.send(Frame::control(5, Bytes::new())).await.unwrap();
    assert_eq!(new_rx.recv().await.unwrap().unwrap().kind, 5);
}

async fn one_client_too_many_is_told_so<B: Bed>() {
    let mut bed = B::new(Limits {
        max_connections: 2,
        ..Limits::default()
    });
    let mut listener = bed.listener();
    let _one = (
        bed.client(1).connect().await.unwrap(),
        listener.accept().await.unwrap(),
    );
    let _two = (
        bed.client(2).connect().await.unwrap(),
        listener.accept().await.unwrap(),
    );
    let Err(error) = bed.client(3).connect().await else {
        panic!("a third client got in")
    };
    assert!(
        matches!(error, TransportError::Busy { .. }) && error.retry(),
        "{error}"
    );
}

async fn a_link_is_free_again_after_it_closed<B: Bed>() {
    let mut bed = B::new(Limits {
        max_connections: 1,
        ..Limits::default()
    });
    let mut listener = bed.listener();
    for n in 1..4 {
        let link = bed.client(n).connect().await.unwrap();
        let served = listener.accept().await.unwrap();
        let ((mut tx, mut rx), (mut stx, mut srx)) = (link.split(), served.split());
        tx.finish().await.unwrap();
        assert_eq!(srx.recv().await.unwrap(), None);
        stx.finish().await.unwrap();
        assert_eq!(rx.recv().await.unwrap(), None);
    }
}

async fn nobody_there_is_unreachable<B: Bed>() {
    let mut bed = B::new(Limits {
        handshake_timeout: Duration::from_millis(800),
        ..Limits::default()
    });
    drop(bed.listener());
    let connector = bed.client(1);
    let Err(error) = connector.connect().await else {
        panic!("connected to nobody")
    };
    assert!(
        matches!(error, TransportError::Unreachable { .. }) && error.retry(),
        "{error}"
    );
}

/// Client 1 and the server, both ends open.
async fn pair<B: Bed>(
    bed: &mut B,
    n: u8,
) -> Pair<<B::Connector as Connector>::Link, <B::Listener as Listener>::Link> {
    let mut listener = bed.listener();
    let client = bed.client(n).connect().await.unwrap();
    let server = listener.accept().await.unwrap();
    Pair {
        client_meter: client.meter(),
        client: client.split(),
        server: server.split(),
    }
}

struct Pair<C: Link, S: Link> {
    client_meter: veilsum_transport::Meter,
    client: (C::Sender, C::Receiver),
    server: (S::Sender, S::Receiver),
}

impl<C: Link, S: Link> Pair<C, S> {
    /// Client to server; the other direction's halves are kept alive with them.
    fn one_way(self) -> (Sending<C>, Receiving<S>) {
        (
            Kept(self.client.0, self.client.1),
            Kept(self.server.1, self.server.0),
        )
    }
}

type Sending<L> = Kept<<L as Link>::Sender, <L as Link>::Receiver>;
type Receiving<L> = Kept<<L as Link>::Receiver, <L as Link>::Sender>;

/// One half in use, the other only kept open.
struct Kept<T, U>(T, U);

impl<T, U> std::ops::Deref for Kept<T, U> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T, U> std::ops::DerefMut for Kept<T, U> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A hang is a failure, and says which test it was.
async fn in_time(promise: impl Future<Output = ()>) {
    timeout(Duration::from_mins(1), promise)
        .await
        .expect("the test hangs");
}

/// Everything up to the peer's end.
pub(crate) async fn drain(rx: &mut impl FrameReceiver) -> Result<Vec<Frame>, TransportError> {
    let mut frames = Vec::new();
    while let Some(frame) = rx.recv().await? {
        frames.push(frame);
    }
    Ok(frames)
}

/// Frame number `n`: lanes in turn, sizes all over the place, contents that tell frames apart.
pub(crate) fn numbered(n: u32) -> Frame {
    let len = (n as usize * 7919) % 20_000;
    let body: Vec<u8> = n
        .to_le_bytes()
        .into_iter()
        .chain((0..len).map(|i| (i * 31 + n as usize) as u8))
        .collect();
    let kind = (n % 256) as u8;
    if n.is_multiple_of(3) {
        Frame::bulk(kind, body)
    } else {
        Frame::control(kind, body)
    }
}

/// Chunk number `n` of an upload: its number, then a pattern.
pub(crate) fn chunk(n: u32, len: usize) -> Frame {
    let mut body = vec![(n % 251) as u8; len];
    body[..4].copy_from_slice(&n.to_le_bytes());
    Frame::bulk(2, body)
}
