//! How much one peer may take from us: sizes, times, counts.

use crate::error::TransportError;
use crate::frame::{FrameError, Lane};
use std::time::Duration;

/// The limits of one endpoint. Both networks enforce them in the same way.
///
/// Memory one link can hold on the receiving side: `stream_window` per lane (data not yet read) plus one frame in the making per
/// lane, at most its cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest body of a control frame, bytes.
    pub control_max: u32,
    /// Longest body of a bulk frame, bytes.
    pub bulk_max: u32,
    /// A link on which nothing has arrived for this long is lost. This is how a killed peer is noticed.
    pub idle_timeout: Duration,
    /// An idle link says that it is alive this often. Well below `idle_timeout`, so that some may be lost.
    pub keep_alive: Duration,
    /// From the first packet to an open link, on both sides.
    pub handshake_timeout: Duration,
    /// Links, and handshakes on the way to be links, at one time. The next one is refused as [`Busy`](crate::TransportError::Busy).
    pub max_connections: usize,
    /// Handshakes from addresses that have not shown they receive our packets. Above it, each must answer a retry packet first.
    pub max_unproven_handshakes: usize,
    /// Streams a peer may have open in one link. Two lanes need two; more is a protocol violation.
    pub max_streams: u32,
    /// Bytes a peer may have sent on one lane that our driver has not read yet. This is the back-pressure.
    pub stream_window: u32,
    /// Bytes of one link that are sent and not yet acknowledged, both lanes together.
    pub send_window: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            control_max: 4 * MIB,
            bulk_max: MIB,
            idle_timeout: Duration::from_secs(5),
            keep_alive: Duration::from_secs(1),
            handshake_timeout: Duration::from_secs(10),
            max_connections: 2048,
            max_unproven_handshakes: 256,
            max_streams: 2,
            stream_window: MIB,
            send_window: 2 * u64::from(MIB),
        }
    }
}

impl Limits {
    /// The body cap of a lane, bytes.
    #[must_use]
    pub fn frame_max(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Control => self.control_max,
            Lane::Bulk => self.bulk_max,
        }
    }

    /// Whether these settings can work together.
    ///
    /// # Errors
    /// [`BadSetting`](crate::TransportError::BadSetting) names the first that cannot.
    pub fn validate(&self) -> Result<(), TransportError> {
        let bad = |setting, value: String| Err(TransportError::BadSetting { setting, value });
        match self {
            Self {
                keep_alive,
                idle_timeout,
                ..
            } if keep_alive >= idle_timeout => bad(
                "keep_alive",
                format!("{keep_alive:?}, which is not below the idle timeout of {idle_timeout:?}"),
            ),
            Self {
                handshake_timeout, ..
            } if handshake_timeout.is_zero() => bad("handshake_timeout", "zero".into()),
            Self {
                max_connections: 0, ..
            } => bad("max_connections", "zero".into()),
            Self {
                max_streams: 0 | 1, ..
            } => bad("max_streams", "below 2: a link has two lanes".into()),
            Self { stream_window: 0, .. } => bad("stream_window", "zero: nothing could ever be sent".into()),
            Self { send_window: 0, .. } => bad("send_window", "zero: nothing could ever be sent".into()),
            _ => Ok(()),
        }
    }

    /// Checks a body length against its lane's cap.
    pub(crate) fn check(&self, frame: &crate::Frame) -> Result<(), FrameError> {
        frame.check(self.frame_max(frame.lane))
    }
}

const MIB: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_together() {
        let limits = Limits::default();
        assert_eq!(limits.validate(), Ok(()));
        assert!(
            limits.keep_alive * 3 < limits.idle_timeout,
            "a lost keep-alive or two must not lose the link"
        );
        assert!(limits.max_streams >= 2, "two lanes need two streams");
        assert!(u64::from(limits.stream_window) <= limits.send_window);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let ok = Limits::default;
        let idle = ok().idle_timeout;
        for (limits, name) in [
            (
                Limits {
                    keep_alive: idle,
                    ..ok()
                },
                "keep_alive",
            ),
            (
                Limits {
                    handshake_timeout: Duration::ZERO,
                    ..ok()
                },
                "handshake_timeout",
            ),
            (
                Limits {
                    max_connections: 0,
                    ..ok()
                },
                "max_connections",
            ),
            (
                Limits {
                    max_streams: 1,
                    ..ok()
                },
                "max_streams",
            ),
            (
                Limits {
                    stream_window: 0,
                    ..ok()
                },
                "stream_window",
            ),
            (
                Limits {
                    send_window: 0,
                    ..ok()
                },
                "send_window",
            ),
        ] {
            let Err(TransportError::BadSetting { setting, .. }) = limits.validate() else {
                panic!("{name} passed")
            };
            assert_eq!(setting, name);
        }
    }
}
