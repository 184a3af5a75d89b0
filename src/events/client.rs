//! What a client says about itself, on its own machine only.

use std::fmt;

use serde::{Deserialize, Serialize};
use veilsum_learner::DepthMetrics;
use veilsum_learner::bev::BevMetrics;

use super::names;

/// One thing that happened at a client. `round` counts from 1; `evaluated` also knows round 0, before any training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientEvent {
    /// The server accepted this client.
    Joined {
        /// This client.
        client: u32,
        /// The server's address.
        addr: String,
    },
    /// The connection ended; another try follows.
    Disconnected {
        /// Why, as a sentence.
        reason: String,
        /// Milliseconds until the next try.
        retry_ms: u64,
    },
    /// Local training starts.
    Training {
        /// Round.
        round: u64,
    },
    /// Local training ended.
    Trained {
        /// Round.
        round: u64,
        /// Optimiser steps.
        steps: u32,
        /// Frames used, counting repeats.
        samples: u32,
        /// Loss of the first step.
        loss_first: f64,
        /// Loss of the last step.
        loss_last: f64,
        /// Frames without valid depth that were left out.
        skipped: u32,
    },
    /// The client said what its data looks like.
    Described {
        /// Number of the clustering.
        clustering: u64,
        /// Bytes of the descriptor.
        bytes: u64,
        /// What all its descriptors have cost, as epsilon at delta 10^-6; nothing where they protect nothing.
        epsilon: Option<f64>,
    },
    /// The client could not say what its data looks like and is in no cluster until the next clustering.
    NotDescribed {
        /// Number of the clustering.
        clustering: u64,
        /// Why, as a sentence.
        reason: String,
    },
    /// What this client does in the round now.
    Phase {
        /// Round.
        round: u64,
        /// `advertise`, `share`, `mask`, `agree` or `unmask`.
        doing: String,
    },
    /// The masked vectors are on their way.
    Upload {
        /// Round.
        round: u64,
        /// Bytes sent so far.
        sent_bytes: u64,
        /// Bytes of all chunks.
        total_bytes: u64,
    },
    /// The upload stopped on purpose, as `--stall-upload-in-round` asks; for demos and tests.
    Stalled {
        /// Round.
        round: u64,
        /// Bytes sent.
        sent_bytes: u64,
        /// Bytes of all chunks.
        total_bytes: u64,
    },
    /// The score of a guess that needs no network: at every pixel the mean depth of this client's training frames.
    Baseline {
        /// Test frames.
        images: u32,
        /// Its scores on them.
        metrics: DepthScores,
    },
    /// A cluster's model, scored on this client's own test frames.
    Evaluated {
        /// The model after this round; 0 is the model before any training.
        round: u64,
        /// Whose model.
        cluster: u32,
        /// Test frames.
        images: u32,
        /// Mean training loss over them.
        loss: f64,
        /// Mean scores over them.
        metrics: DepthScores,
        /// A PNG: picture, truth and prediction side by side.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
    },
    /// A cluster's bird's-eye-view model with this client's own part, scored on its own test frames.
    EvaluatedBev {
        /// The model after this round; 0 is the model before any training.
        round: u64,
        /// Whose model.
        cluster: u32,
        /// Test frames.
        images: u32,
        /// Mean training loss over them.
        loss: f64,
        /// Scores on them.
        metrics: BevScores,
        /// Something that is wrong whatever the score, such as predictions that are all background.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alarm: Option<String>,
        /// A PNG: truth and prediction side by side.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
    },
    /// The round's sums are published.
    RoundDone {
        /// Round.
        round: u64,
        /// Clusters that were opened.
        released: Vec<u32>,
        /// Clusters that stay closed.
        withheld: Vec<u32>,
        /// Bytes this client sent in the round.
        bytes_sent: u64,
        /// Bytes this client received in the round.
        bytes_received: u64,
    },
    /// This client's part in the round ended without a sum.
    RoundEnded {
        /// Round.
        round: u64,
        /// Why, as a sentence.
        reason: String,
    },
    /// The metrics are at this address.
    Watching {
        /// Address and port, TCP.
        addr: String,
    },
    /// All rounds are done.
    Finished,
    /// The client gives up.
    Failed {
        /// The reason's name.
        reason: String,
        /// The reason as a sentence.
        detail: String,
    },
    /// An event of a newer version.
    #[serde(other, skip_serializing)]
    Other,
}

/// The seven usual scores of monocular depth (Eigen, Puhrsch and Fergus 2014), means over images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthScores {
    /// mean |g − p| / g.
    pub abs_rel: f64,
    /// mean (g − p)² / g, metres.
    pub sq_rel: f64,
    /// √ mean (g − p)², metres.
    pub rmse: f64,
    /// √ mean (ln g − ln p)².
    pub rmse_log: f64,
    /// Share of pixels with max(g/p, p/g) below 1.25.
    pub delta1: f64,
    /// The same below 1.25².
    pub delta2: f64,
    /// The same below 1.25³.
    pub delta3: f64,
}

/// Scores of vehicles in a bird's-eye view.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BevScores {
    /// Mean over frames of each frame's `IoU` of the vehicle cells; a frame that is rightly empty scores 0.
    pub miou: f64,
    /// Intersections over unions, summed over frames.
    pub pooled_iou: f64,
}

impl From<BevMetrics> for BevScores {
    fn from(metrics: BevMetrics) -> Self {
        Self {
            miou: metrics.miou,
            pooled_iou: metrics.pooled_iou,
        }
    }
}

impl From<DepthMetrics> for DepthScores {
    fn from(metrics: DepthMetrics) -> Self {
        Self {
            abs_rel: metrics.abs_rel,
            sq_rel: metrics.sq_rel,
            rmse: metrics.rmse,
            rmse_log: metrics.rmse_log,
            delta1: metrics.delta1,
            delta2: metrics.delta2,
            delta3: metrics.delta3,
        }
    }
}

impl fmt::Display for ClientEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined { client, addr } => write!(f, "joined {addr} as client {client}"),
            Self::Disconnected { reason, retry_ms } => {
                write!(f, "disconnected: {reason}; next try in {retry_ms} ms")
            }
            Self::Watching { addr } => write!(f, "metrics at http://{addr}/metrics"),
            Self::Training { round } => write!(f, "round {round}: training"),
            Self::EvaluatedBev {
                round,
                cluster,
                images,
                metrics,
                alarm,
                ..
            } => {
                write!(
                    f,
                    "round {round}, cluster {cluster}: IoU {:.3} over {images} frames",
                    metrics.pooled_iou
                )?;
                match alarm {
                    Some(alarm) => write!(f, "; {alarm}"),
                    None => Ok(()),
                }
            }
            Self::Described {
                clustering,
                bytes,
                epsilon,
            } => {
                write!(
                    f,
                    "clustering {clustering}: said what the data looks like in {bytes} bytes"
                )?;
                match epsilon {
                    Some(epsilon) => write!(f, ", epsilon {epsilon:.3} spent so far"),
                    None => f.write_str(", without noise"),
                }
            }
            Self::NotDescribed { clustering, reason } => {
                write!(
                    f,
                    "clustering {clustering}: could not say what the data looks like: {reason}"
                )
            }
            Self::Trained {
                round,
                steps,
                samples,
                loss_first,
                loss_last,
                skipped,
            } => {
                write!(
                    f,
                    "round {round}: trained {steps} steps on {samples} frames, loss {loss_first:.3} to {loss_last:.3}"
                )?;
                if *skipped > 0 {
                    write!(f, "; {skipped} frames without valid depth left out")?;
                }
                Ok(())
            }
            Self::Phase { round, doing } => write!(f, "round {round}: {doing}"),
            Self::Upload {
                round,
                sent_bytes,
                total_bytes,
            } => write!(f, "round {round}: uploaded {sent_bytes} of {total_bytes} bytes"),
            Self::Stalled {
                round,
                sent_bytes,
                total_bytes,
            } => write!(
                f,
                "round {round}: stopped the upload after {sent_bytes} of {total_bytes} bytes, as asked"
            ),
            Self::Baseline { images, metrics } => write!(
                f,
                "the mean picture of the training frames: AbsRel {:.3} on {images} frames",
                metrics.abs_rel
            ),
            Self::Evaluated {
                round,
                cluster,
                images,
                loss,
                metrics,
                ..
            } => write!(
                f,
                "after round {round}, cluster {cluster}: AbsRel {:.3}, loss {loss:.3} on {images} frames",
                metrics.abs_rel
            ),
            Self::RoundDone {
                round,
                released,
                withheld,
                ..
            } => {
                write!(f, "round {round} done: opened clusters: {}", names(released))?;
                if !withheld.is_empty() {
                    write!(f, "; withheld: {}", names(withheld))?;
                }
                Ok(())
            }
            Self::RoundEnded { round, reason } => write!(f, "round {round} ended without a sum: {reason}"),
            Self::Finished => write!(f, "finished"),
            Self::Failed { reason, detail } => write!(f, "failed ({reason}): {detail}"),
            Self::Other => Ok(()),
        }
    }
}
