//! The two halves of a QUIC link: one sends frames, one receives them.

use super::wire::Wire;
use crate::error::{CloseCode, TransportError};
use crate::frame::{Frame, FrameDecoder, HEADER_LEN, Lane};
use crate::limits::Limits;
use crate::link::{FrameReceiver, FrameSender};
use bytes::Bytes;
use quinn::{ConnectionError, ReadError, RecvStream, SendStream, StoppedError, WriteError};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Both directions of one lane's stream.
pub(super) type LaneStreams = (SendStream, RecvStream);

/// The sending half of a [`QuicLink`](super::QuicLink).
pub struct QuicSender {
    wire: Arc<Wire>,
    control: SendLane,
    bulk: SendLane,
    limits: Limits,
    finishing: bool,
    delivered: bool,
}

impl QuicSender {
    pub(super) fn new(wire: Arc<Wire>, [control, bulk]: [SendStream; 2], limits: &Limits) -> Self {
        // Control overtakes bulk inside our own send buffer as well. A closed stream says so at the next send.
        let _ = control.set_priority(1);
        Self {
            wire,
            control: SendLane::new(control),
            bulk: SendLane::new(bulk),
            limits: limits.clone(),
            finishing: false,
            delivered: false,
        }
    }

    /// The peer's address at this moment; it may change when the peer moves.
    #[must_use]
    pub fn remote_addr(&self) -> std::net::SocketAddr {
        self.wire.connection().remote_address()
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    async fn deliver_all(&mut self) -> Result<(), TransportError> {
        for lane in [&mut self.control, &mut self.bulk] {
            lane.flush()
                .await
                .map_err(|error| explain_write(&self.wire, error))?;
            // Already finished by a call whose future was dropped: fine.
            let _ = lane.stream.finish();
        }
        for lane in [&self.control, &self.bulk] {
            match lane.stream.stopped().await {
                Ok(None) => {}
                // The peer closed after reading both lanes to their end; its acknowledgement was overtaken by that.
                Err(StoppedError::ConnectionLost(ConnectionError::ApplicationClosed(close)))
                    if CloseCode::from_wire(close.error_code.into_inner()) == CloseCode::Done => {}
                Ok(Some(_)) => return Err(self.wire.gone(STOPPED_READING)),
                Err(StoppedError::ConnectionLost(error)) => return Err(self.wire.lost(&error)),
                Err(StoppedError::ZeroRttRejected) => return Err(self.wire.gone(NO_ZERO_RTT)),
            }
        }
        Ok(())
    }
}

impl FrameSender for QuicSender {
    async fn send(&mut self, frame: Frame) -> Result<(), TransportError> {
        let peer = self.wire.peer();
        if self.finishing {
            return Err(TransportError::SendAfterFinish { peer });
        }
        let header = frame
            .header(self.limits.frame_max(frame.lane))
            .map_err(|error| TransportError::from_frame(error, peer))?;
        let lane = match frame.lane {
            Lane::Control => &mut self.control,
            Lane::Bulk => &mut self.bulk,
        };
        let size = frame.wire_len();
        lane.send(Bytes::copy_from_slice(&header), frame.body)
            .await
            .map_err(|error| explain_write(&self.wire, error))?;
        self.wire.meter().sent(size);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), TransportError> {
        self.finishing = true;
        if !self.delivered {
            self.deliver_all().await?;
            self.delivered = true;
        }
        Ok(())
    }
}

impl Drop for QuicSender {
    /// quinn would end the streams in order; an end nobody asked for must not look like one.
    fn drop(&mut self) {
        if !self.delivered {
            for lane in [&mut self.control, &mut self.bulk] {
                let _ = lane.stream.reset(CloseCode::Dropped.to_wire().into());
            }
        }
    }
}

struct SendLane {
    stream: SendStream,
    /// Header and body of a frame not yet handed over in full: if the future that sends it is dropped, the next call goes on.
    pending: [Bytes; 2],
}

impl SendLane {
    fn new(stream: SendStream) -> Self {
        Self {
            stream,
            pending: [Bytes::new(), Bytes::new()],
        }
    }

    async fn send(&mut self, header: Bytes, body: Bytes) -> Result<(), WriteError> {
        self.flush().await?;
        self.pending = [header, body];
        self.flush().await
    }

    /// `write_all_chunks` empties each chunk as it goes, so what a dropped future leaves in `pending` is what is still to be sent.
    async fn flush(&mut self) -> Result<(), WriteError> {
        if self.pending.iter().all(Bytes::is_empty) {
            return Ok(());
        }
        self.stream.write_all_chunks(&mut self.pending).await
    }
}

/// The receiving half of a [`QuicLink`](super::QuicLink).
pub struct QuicReceiver {
    wire: Arc<Wire>,
    control: RecvLane,
    bulk: RecvLane,
    /// The lane that is asked first: the one that did not give the last frame.
    first: Lane,
    failed: Option<TransportError>,
}

impl QuicReceiver {
    pub(super) fn new(wire: Arc<Wire>, [control, bulk]: [RecvStream; 2], limits: &Limits) -> Self {
        Self {
            wire,
            control: RecvLane::new(control, Lane::Control, limits),
            bulk: RecvLane::new(bulk, Lane::Bulk, limits),
            first: Lane::Control,
            failed: None,
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, TransportError>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.clone()));
        }
        let mut waiting = false;
        let mut failed = None;
        for lane in [self.first, self.first.other()] {
            let reader = match lane {
                Lane::Control => &mut self.control,
                Lane::Bulk => &mut self.bulk,
            };
            match reader.poll_frame(cx) {
                Poll::Ready(Ok(Some(frame))) => {
                    self.first = lane.other();
                    self.wire.meter().received(frame.wire_len());
                    return Poll::Ready(Ok(Some(frame)));
                }
                Poll::Ready(Ok(None)) => {}
                // The other lane may still hold whole frames that arrived before: they come first.
                Poll::Ready(Err(error)) => failed = failed.or(Some(error)),
                Poll::Pending => waiting = true,
            }
        }
        if let Some(error) = failed {
            let error = self.explain(error);
            self.failed = Some(error.clone());
            return Poll::Ready(Err(error));
        }
        if waiting {
            return Poll::Pending;
        }
        self.wire.read_everything();
        Poll::Ready(Ok(None))
    }

    fn explain(&self, error: LaneError) -> TransportError {
        match error {
            LaneError::Frame(error) => self
                .wire
                .fail(TransportError::from_frame(error, self.wire.peer())),
            LaneError::Read(ReadError::ConnectionLost(error)) => self.wire.lost(&error),
            LaneError::Read(ReadError::Reset(_)) => {
                self.wire.gone("its program let go of the link before closing it")
            }
            LaneError::Read(_) => self.wire.gone(NO_ZERO_RTT),
        }
    }
}

impl FrameReceiver for QuicReceiver {
    async fn recv(&mut self) -> Result<Option<Frame>, TransportError> {
        // A peer that floods us is always ready; give the other tasks of this thread their turn.
        tokio::task::consume_budget().await;
        poll_fn(|cx| self.poll_recv(cx)).await
    }
}

struct RecvLane {
    stream: RecvStream,
    decoder: FrameDecoder,
    ended: bool,
}

impl RecvLane {
    fn new(stream: RecvStream, lane: Lane, limits: &Limits) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::new(lane, limits.frame_max(lane)),
            ended: false,
        }
    }

    /// All state is in the decoder, so a dropped `recv` loses nothing.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, LaneError>> {
        while !self.ended {
            let n = match self.stream.poll_read(cx, self.decoder.space()) {
                Poll::Ready(Ok(n)) => n,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(LaneError::Read(error))),
                Poll::Pending => return Poll::Pending,
            };
            if n == 0 {
                self.ended = true;
                self.decoder.end().map_err(LaneError::Frame)?;
            } else if let Some(frame) = self.decoder.advance(n).map_err(LaneError::Frame)? {
                return Poll::Ready(Ok(Some(frame)));
            }
        }
        Poll::Ready(Ok(None))
    }
}

enum LaneError {
    Frame(crate::frame::FrameError),
    Read(ReadError),
}

fn explain_write(wire: &Wire, error: WriteError) -> TransportError {
    match error {
        WriteError::ConnectionLost(error) => wire.lost(&error),
        WriteError::Stopped(_) => wire.gone(STOPPED_READING),
        WriteError::ClosedStream => TransportError::SendAfterFinish { peer: wire.peer() },
        WriteError::ZeroRttRejected => wire.gone(NO_ZERO_RTT),
    }
}

const STOPPED_READING: &str = "its program stopped reading";
const NO_ZERO_RTT: &str = "the stream was in a state this program never makes";

// The header is copied into its own chunk; a chunk per frame is nothing beside a datagram per 1,200 bytes.
const _: () = assert!(HEADER_LEN < 16);
