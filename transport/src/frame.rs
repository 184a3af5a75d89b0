//! What travels: one frame, and the bytes it becomes on a stream.
//!
//! On the wire a frame is `u32` little-endian length of (kind + body), one kind byte, the body. The lane is not written: it is the
//! stream the bytes arrive on. The decoder is a pure state machine: it says where to read to and is told how much came, so the same
//! code sits under QUIC, under the tests, and under a fuzzer.

use bytes::Bytes;

/// One of the two ordered byte streams of a link.
///
/// Order holds inside a lane, never between lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Short messages that somebody waits for.
    Control,
    /// Long uploads and downloads, cut into chunks.
    Bulk,
}

impl Lane {
    /// Both lanes, control first.
    pub const BOTH: [Self; 2] = [Self::Control, Self::Bulk];

    /// The other lane.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Control => Self::Bulk,
            Self::Bulk => Self::Control,
        }
    }

    /// The byte that opens this lane's QUIC stream. Not zero, so that a stream of zeros opens nothing.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Control => b'c',
            Self::Bulk => b'b',
        }
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Self::BOTH.into_iter().find(|lane| lane.tag() == tag)
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Bulk => "bulk",
        })
    }
}

/// One opaque message. The meaning of `kind` and `body` belongs to the layer above.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The lane it travels on.
    pub lane: Lane,
    /// A tag for the layer above; this crate never looks at it.
    pub kind: u8,
    /// The payload. Its length is capped per lane by [`Limits`](crate::Limits).
    pub body: Bytes,
}

impl Frame {
    /// A frame for the control lane.
    pub fn control(kind: u8, body: impl Into<Bytes>) -> Self {
        Self {
            lane: Lane::Control,
            kind,
            body: body.into(),
        }
    }

    /// A frame for the bulk lane.
    pub fn bulk(kind: u8, body: impl Into<Bytes>) -> Self {
        Self {
            lane: Lane::Bulk,
            kind,
            body: body.into(),
        }
    }

    /// Bytes this frame takes on the wire, header included.
    #[must_use]
    pub fn wire_len(&self) -> u64 {
        HEADER_LEN as u64 + self.body.len() as u64
    }

    /// Checks the body against its lane's cap.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] if the body is longer than `max` bytes.
    pub fn check(&self, max: u32) -> Result<(), FrameError> {
        let got = u64::try_from(self.body.len()).unwrap_or(u64::MAX);
        if got > u64::from(max) {
            return Err(FrameError::TooLarge {
                lane: self.lane,
                got,
                max,
            });
        }
        Ok(())
    }

    /// The five bytes that precede the body on the wire.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] if the body is longer than `max` bytes.
    pub fn header(&self, max: u32) -> Result<[u8; HEADER_LEN], FrameError> {
        self.check(max)?;
        let got = self.body.len() as u64;
        let [a, b, c, d] = u32::try_from(got + 1)
            .map_err(|_| FrameError::TooLarge {
                lane: self.lane,
                got,
                max,
            })?
            .to_le_bytes();
        Ok([a, b, c, d, self.kind])
    }
}

impl std::fmt::Debug for Frame {
    /// The size only: a body may be somebody's masked vector, and a log is read by others.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Frame({} kind {} {} bytes)",
            self.lane,
            self.kind,
            self.body.len()
        )
    }
}

/// Why bytes on a lane are not frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A body, or the claim of one, above the lane's cap.
    #[error("a frame of {got} bytes on the {lane} lane is above its cap of {max}")]
    TooLarge {
        /// The lane.
        lane: Lane,
        /// Body length, or the length the header claims, in bytes.
        got: u64,
        /// The cap in bytes.
        max: u32,
    },
    /// A header with length 0: there is not even a kind byte.
    #[error("a frame of length 0 on the {lane} lane has no kind byte")]
    Empty {
        /// The lane.
        lane: Lane,
    },
    /// The lane ended inside a frame.
    #[error("the {lane} lane ended inside a frame, at least {missing} bytes short")]
    Truncated {
        /// The lane.
        lane: Lane,
        /// Bytes that were still owed; where even the length was cut, the rest of the header.
        missing: u64,
    },
}

/// Turns one lane's bytes into frames, however they are cut up.
///
/// Memory: never more than [`READ_STEP`] bytes ahead of what has arrived, whatever the header claims.
#[derive(Debug)]
pub struct FrameDecoder {
    lane: Lane,
    max: u32,
    header: [u8; HEADER_LEN],
    header_len: usize,
    body: Vec<u8>,
    /// Bytes of `body` that hold data; the rest is room to read into.
    filled: usize,
    /// Body length the header claims; meaningful once the header is whole.
    wanted: usize,
}

impl FrameDecoder {
    /// A decoder for one lane with a body cap of `max` bytes.
    #[must_use]
    pub fn new(lane: Lane, max: u32) -> Self {
        Self {
            lane,
            max,
            header: [0; HEADER_LEN],
            header_len: 0,
            body: Vec::new(),
            filled: 0,
            wanted: 0,
        }
    }

    /// Where the next bytes go. Never empty, and never longer than the current frame still needs.
    pub fn space(&mut self) -> &mut [u8] {
        if self.header_len < HEADER_LEN {
            return self.header.get_mut(self.header_len..).unwrap_or_default();
        }
        if self.filled == self.body.len() {
            let step = (self.wanted - self.filled).min(READ_STEP);
            self.body.resize(self.filled + step, 0);
        }
        self.body.get_mut(self.filled..).unwrap_or_default()
    }

    /// Tells the decoder that `n` bytes were written to the front of [`space`](Self::space); returns a frame once one is whole.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] or [`FrameError::Empty`] as soon as the header is whole, before anything is allocated for it.
    /// After an error the decoder must not be used again: the stream has lost its place.
    pub fn advance(&mut self, n: usize) -> Result<Option<Frame>, FrameError> {
        if self.header_len < HEADER_LEN {
            self.header_len = (self.header_len + n).min(HEADER_LEN);
            self.check_length()?;
            if self.header_len < HEADER_LEN {
                return Ok(None);
            }
        } else {
            self.filled = (self.filled + n).min(self.body.len());
        }
        if self.filled < self.wanted {
            return Ok(None);
        }
        let [.., kind] = self.header;
        self.header_len = 0;
        self.filled = 0;
        self.wanted = 0;
        Ok(Some(Frame {
            lane: self.lane,
            kind,
            body: Bytes::from(std::mem::take(&mut self.body)),
        }))
    }

    /// Takes bytes from the front of `input` until a frame is whole or the input is used up.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        while !input.is_empty() {
            let space = self.space();
            let n = space.len().min(input.len());
            let (now, later) = input.split_at(n);
            if let Some(target) = space.get_mut(..n) {
                target.copy_from_slice(now);
            }
            *input = later;
            if let Some(frame) = self.advance(n)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Call at the end of the stream.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the stream ended inside a frame.
    pub fn end(&self) -> Result<(), FrameError> {
        let missing = match self.header_len {
            0 => return Ok(()),
            n if n < HEADER_LEN => HEADER_LEN - n,
            _ => self.wanted - self.filled,
        };
        Err(FrameError::Truncated {
            lane: self.lane,
            missing: missing as u64,
        })
    }

    /// Bytes of body memory held at this moment.
    #[must_use]
    pub fn held(&self) -> usize {
        self.body.capacity()
    }

    /// Refuses the length as soon as its four bytes are here.
    fn check_length(&mut self) -> Result<(), FrameError> {
        if self.header_len < LENGTH_LEN {
            return Ok(());
        }
        let [a, b, c, d, _] = self.header;
        let Some(body) = u32::from_le_bytes([a, b, c, d]).checked_sub(1) else {
            return Err(FrameError::Empty { lane: self.lane });
        };
        if body > self.max {
            return Err(FrameError::TooLarge {
                lane: self.lane,
                got: u64::from(body),
                max: self.max,
            });
        }
        self.wanted = usize::try_from(body).unwrap_or(usize::MAX);
        Ok(())
    }
}

/// Length of a frame's header: four bytes of length, one of kind.
pub const HEADER_LEN: usize = LENGTH_LEN + 1;

/// The most body bytes a decoder makes room for ahead of the bytes that have arrived.
pub const READ_STEP: usize = 64 * 1024;

const LENGTH_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(frames: &[Frame]) -> Vec<u8> {
        frames
            .iter()
            .flat_map(|frame| {
                let mut bytes = frame.header(u32::MAX - 1).unwrap().to_vec();
                bytes.extend_from_slice(&frame.body);
                bytes
            })
            .collect()
    }

    /// Feeds `bytes` in the pieces that `cuts` describe and collects the frames.
    fn decode_cut(bytes: &[u8], cuts: &[usize], max: u32) -> Result<Vec<Frame>, FrameError> {
        let mut decoder = FrameDecoder::new(Lane::Bulk, max);
        let mut out = Vec::new();
        let mut rest = bytes;
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let (mut piece, later) = rest.split_at(cut.min(rest.len()));
            rest = later;
            while !piece.is_empty() {
                out.extend(decoder.feed(&mut piece)?);
            }
        }
        decoder.end()?;
        Ok(out)
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(kind, body)| Frame::bulk(kind, body))
    }

    /// Written by hand from the format: 3 = kind + two body bytes.
    #[test]
    fn the_bytes_are_length_kind_body() {
        let frame = Frame::control(7, vec![0xAA, 0xBB]);
        assert_eq!(frame.header(2).unwrap(), [3, 0, 0, 0, 7]);
        assert_eq!(frame.wire_len(), 7);
        let mut input: &[u8] = &[3, 0, 0, 0, 7, 0xAA, 0xBB, 1];
        let mut decoder = FrameDecoder::new(Lane::Control, 2);
        assert_eq!(decoder.feed(&mut input).unwrap(), Some(frame));
        assert_eq!(input, [1], "bytes of the next frame stay with the caller");
    }

    #[test]
    fn an_empty_body_is_a_frame_and_length_zero_is_not() {
        let mut input: &[u8] = &[1, 0, 0, 0, 9];
        let frame = FrameDecoder::new(Lane::Bulk, 0).feed(&mut input).unwrap();
        assert_eq!(frame, Some(Frame::bulk(9, Vec::new())));
        let refused = FrameDecoder::new(Lane::Bulk, 10).feed(&mut [0u8, 0, 0, 0].as_slice());
        assert_eq!(refused, Err(FrameError::Empty { lane: Lane::Bulk }));
    }

    #[test]
    fn the_cap_is_on_the_body_and_exact() {
        assert!(Frame::bulk(0, vec![0; 10]).header(10).is_ok());
        let over = FrameError::TooLarge {
            lane: Lane::Bulk,
            got: 11,
            max: 10,
        };
        assert_eq!(Frame::bulk(0, vec![0; 11]).header(10), Err(over));
        assert!(
            FrameDecoder::new(Lane::Bulk, 10)
                .feed(&mut [11u8, 0, 0, 0].as_slice())
                .is_ok()
        );
        assert_eq!(
            FrameDecoder::new(Lane::Bulk, 10).feed(&mut [12u8, 0, 0, 0].as_slice()),
            Err(over)
        );
    }

    #[test]
    fn a_hostile_length_is_refused_on_its_fourth_byte_and_allocates_nothing() {
        let mut decoder = FrameDecoder::new(Lane::Control, 1 << 20);
        let refused = decoder.feed(&mut u32::MAX.to_le_bytes().as_slice());
        let got = u64::from(u32::MAX) - 1;
        assert_eq!(
            refused,
            Err(FrameError::TooLarge {
                lane: Lane::Control,
                got,
                max: 1 << 20
            })
        );
        assert_eq!(decoder.held(), 0);
    }

    #[test]
    fn a_claimed_length_buys_one_step_of_memory_at_most() {
        let mut decoder = FrameDecoder::new(Lane::Bulk, u32::MAX);
        decoder
            .feed(&mut [0xFF, 0xFF, 0xFF, 0xFF, 1, 2].as_slice())
            .unwrap();
        assert!(
            decoder.held() <= READ_STEP,
            "{} bytes held for one byte received",
            decoder.held()
        );
        assert!(matches!(decoder.end(), Err(FrameError::Truncated { .. })));
    }

    #[test]
    fn a_frame_prints_its_size_and_not_its_bytes() {
        let text = format!("{:?}", Frame::bulk(3, b"secret".to_vec()));
        assert_eq!(text, "Frame(bulk kind 3 6 bytes)");
    }

    proptest! {
        #[test]
        fn any_cutting_of_the_stream_gives_the_same_frames(
            frames in proptest::collection::vec(any_frame(), 0..6),
            cuts in proptest::collection::vec(0usize..40, 0..80),
        ) {
            prop_assert_eq!(decode_cut(&encode(&frames), &cuts, 300).unwrap(), frames);
        }

        #[test]
        fn a_cut_stream_is_truncated_unless_cut_between_frames(
            frames in proptest::collection::vec(any_frame(), 1..4),
            at in any::<proptest::sample::Index>(),
        ) {
            let bytes = encode(&frames);
            let at = at.index(bytes.len() + 1);
            let ends: Vec<usize> = (0..=frames.len()).map(|n| encode(&frames[..n]).len()).collect();
            match decode_cut(&bytes[..at], &[], 300) {
                Ok(got) => {
                    prop_assert!(ends.contains(&at));
                    prop_assert_eq!(&got[..], &frames[..got.len()]);
                }
                Err(FrameError::Truncated { missing, .. }) => {
                    prop_assert!(!ends.contains(&at));
                    let next = ends.iter().find(|end| **end > at).unwrap();
                    prop_assert!(missing > 0 && missing <= (*next - at) as u64);
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }

        #[test]
        fn no_bytes_at_all_make_it_panic_or_hoard(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            max in 0u32..400,
        ) {
            let mut decoder = FrameDecoder::new(Lane::Control, max);
            let mut input = bytes.as_slice();
            while let Ok(Some(frame)) = decoder.feed(&mut input) {
                prop_assert!(frame.body.len() <= max as usize);
            }
            prop_assert!(decoder.held() <= max as usize);
        }
    }
}
