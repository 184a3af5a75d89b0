//! Scores of a model that says one ln depth a cell.

use crate::data::DepthDataset;
use crate::error::LearnError;
use crate::learner::{DepthExample, Evaluation, Example, Scores};
use crate::metrics::{DepthMetrics, MetricsError};
use crate::toy::cells::{Cells, cell_of_pixels};

/// Scores predictions on the test frames; those without valid depth are left out.
pub(super) fn score(
    data: &DepthDataset,
    predict: impl Fn(&Cells) -> Vec<f32>,
) -> Result<Evaluation, LearnError> {
    let range = data.range();
    let mut scores = Vec::new();
    let mut losses = 0.0;
    let mut example = None;
    for frame in data.test() {
        let cells = Cells::of(frame);
        let logs = predict(&cells);
        let prediction: Vec<f32> = cell_of_pixels(frame)
            .map(|cell| {
                logs.get(cell)
                    .map_or(range.min_m, |l| l.exp().clamp(range.min_m, range.cap_m))
            })
            .collect();
        match DepthMetrics::of_image(frame.depth(), &prediction, range) {
            Ok(score) => scores.push(score),
            Err(MetricsError::NoValidPixel { .. }) => continue,
            Err(error) => return Err(error.into()),
        }
        losses += cells.mean_square(&logs);
        example.get_or_insert_with(|| DepthExample {
            name: frame.name().to_owned(),
            width: frame.width(),
            height: frame.height(),
            rgb: frame.rgb().to_vec(),
            truth: frame.depth().to_vec(),
            prediction,
            cap_m: range.cap_m,
        });
    }
    let metrics = DepthMetrics::mean(&scores)?;
    let images = u32::try_from(scores.len()).unwrap_or(u32::MAX);
    Ok(Evaluation {
        images,
        scores: Scores::Depth(metrics),
        loss: losses / f64::from(images),
        example: example.map(Example::Depth),
    })
}
