//! QUIC over a bad line: loss, reordering, and an address that changes under an upload.

use crate::conformance::{Bed, chunk};
use crate::quic_bed::QuicBed;
use crate::relay::Line;
use std::time::Duration;
use veilsum_transport::{Connector, FrameReceiver, FrameSender, Limits, Link, Listener};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_survives_loss_reordering_and_a_new_address() {
    const FRAMES: u32 = 48;
    let mut bed = QuicBed::new(Limits {
        idle_timeout: Duration::from_secs(20),
        ..Limits::default()
    });
    let mut listener = bed.listener();
    let connector = bed.relayed(
        1,
        Line {
            loss_per_mille: 100,
            late_per_mille: 200,
        },
    );
    let link = connector.connect().await.unwrap();
    let served = listener.accept().await.unwrap();
    let before = served.remote_addr();
    let ((mut tx, _down), (up, mut rx)) = (link.split(), served.split());
    let sending = tokio::spawn(async move {
        for n in 0..FRAMES {
            tx.send(chunk(n, 8 * 1024)).await.unwrap();
        }
        tx.finish().await.unwrap();
        tx
    });
    for n in 0..FRAMES {
        if n == FRAMES / 3 {
            bed.relay(1).change_address();
        }
        assert_eq!(rx.recv().await.unwrap().unwrap(), chunk(n, 8 * 1024));
    }
    assert_eq!(rx.recv().await.unwrap(), None);
    sending.await.unwrap();
    assert!(
        bed.relay(1).passed() > 100,
        "the upload did not go through the relay"
    );
    assert_ne!(
        up.remote_addr(),
        before,
        "the server did not follow the client to its new address"
    );
}
