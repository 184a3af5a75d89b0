//! Whose data: recorded frames, or small counterparts of FeDepth's two scenarios by the built-in generator.
//!
//! *HPE*, heterogeneous platforms and environments: 41 training sequences are the clients and 11 sequences that belong to
//! nobody the test, one for each pair of platform and environment. Numbers of sequences are those of M3ED with public ground
//! truth (car, falcon, spot become `ugv`, `uav`, `legged`; 55 in 11 pairs, less one of each pair for the test, less one of
//! each of the three largest). *BMR*, bimodal: 15 room clients like NYU's scene types and 17 street clients like KITTI's
//! drives, each tested on its own. Common start: frames of a fourth platform in every place, which no client has.

use super::ExperimentError;
use crate::config::{DataConfig, Frames};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::{DataError, DepthDataset, DepthRange, Frame, LearnError};

/// Which scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioKind {
    /// 41 clients, 11 unseen sequences.
    Hpe,
    /// 15 rooms, 17 streets.
    Bmr,
    /// What the file names: clients, unseen sequences and public frames, each as `[data]` of a client.
    Recorded,
}

/// A scenario and its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Which.
    pub kind: ScenarioKind,
    /// Clients of each kind, as a share of the scenario's; at least one of each is left.
    #[serde(default = "whole")]
    pub share: f64,
    /// Training frames of the smallest generated clients; others have two or four more.
    #[serde(default)]
    pub train: usize,
    /// Test frames of a generated client or unseen sequence.
    #[serde(default)]
    pub test: usize,
    /// Recorded clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client: Vec<Recorded>,
    /// Recorded sequences that belong to nobody. With any, they are routed and scored in place of the clients' test frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Recorded>,
    /// Recorded frames that the common start is trained on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public: Vec<Recorded>,
    /// Recorded clients by a rule: one for each sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Each>,
}

/// One client for each sequence of a data set: each drive of KITTI, each type of scenes of NYU, each sequence of M3ED.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// Fewest annotated frames of a client.
    #[serde(default)]
    pub at_least: usize,
    /// The last sequence in the order of names belongs to nobody: it is routed and scored.
    #[serde(default)]
    pub hold_out_last: bool,
    /// What they are, for tables.
    pub domain: String,
    /// The data set.
    pub data: DataConfig,
}

/// Somebody's recorded frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// What it is one of, for tables; its name without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its frames, as in a client's file; paths are relative to the experiment's.
    pub data: DataConfig,
}

fn whole() -> f64 {
    1.0
}

/// One client's or unseen sequence's frames.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its name.
    pub name: String,
    /// Platform, place and light, or the family.
    pub domain: String,
    /// The frames. An unseen sequence is described by its training frames, which nobody trains on.
    pub data: DepthDataset,
}

impl Sequence {
    /// The frames it is described by: those to train on, or for want of any those it is scored on.
    ///
    /// # Errors
    /// [`ExperimentError`], never for frames of a data set.
    pub fn shown(&self) -> Result<DepthDataset, ExperimentError> {
        if !self.data.train().is_empty() {
            return Ok(self.data.clone());
        }
        let size = (self.data.width(), self.data.height());
        let frames = self.data.test().to_vec();
        DepthDataset::new(self.name.clone(), size, self.data.range(), frames, Vec::new()).map_err(fault)
    }
}

/// All frames of one seed.
pub struct Drawn {
    /// The clients.
    pub clients: Vec<Sequence>,
    /// Sequences that belong to nobody.
    pub unseen: Vec<Sequence>,
    /// What the common start is trained on.
    pub public: Vec<DepthDataset>,
    /// What readers found, used and left out, a text for each recording.
    pub notes: Vec<String>,
}

impl Scenario {
    /// The frames of a seed at a size of `width` × `height`. Recorded frames are the same for all seeds.
    ///
    /// # Errors
    /// [`ExperimentError`] for settings the generator refuses, and for recordings that cannot be read.
    pub fn draw(
        &self,
        seed: u64,
        (width, height): (usize, usize),
        base: &Path,
    ) -> Result<Drawn, ExperimentError> {
        if self.kind == ScenarioKind::Recorded {
            return self.recorded((width, height), base);
        }
        let make = |platform, place, light, train, number: u64| {
            let generator = Generator {
                platform,
                place,
                light,
                width,
                height,
                train,
                test: self.test,
                seed: seed.wrapping_mul(1_000).wrapping_add(number),
            };
            let data = generator.dataset().map_err(LearnError::from)?;
            Ok::<_, ExperimentError>((generator.name(), data))
        };
        let mut drawn = Drawn {
            clients: Vec::new(),
            unseen: Vec::new(),
            public: Vec::new(),
            notes: Vec::new(),
        };
        let mut number = 0;
        for &(platform, place, light, count) in self.cells() {
            let name = domain(platform, place, light);
            for _ in 0..self.scaled(count) {
                let train = self.train + 2 * (drawn.clients.len() % 3);
                let (sequence, data) = make(platform, place, light, train, number)?;
                number += 1;
                drawn.clients.push(Sequence {
                    name: sequence,
                    domain: name.clone(),
                    data,
                });
            }
            if self.kind == ScenarioKind::Hpe {
                let (sequence, data) = make(platform, place, light, self.train, 500 + number)?;
                drawn.unseen.push(Sequence {
                    name: sequence,
                    domain: name,
                    data,
                });
            }
        }
        for (number, (place, light)) in (900..).zip(PUBLIC) {
            let (_, data) = make(PUBLIC_PLATFORM, *place, *light, PUBLIC_FRAMES, number)?;
            drawn.public.push(data);
        }
        Ok(drawn)
    }

    fn recorded(&self, size: (usize, usize), base: &Path) -> Result<Drawn, ExperimentError> {
        let (mut client, mut unseen) = (self.client.clone(), self.unseen.clone());
        for each in &self.each {
            let dealt = each.data.each(base, each.at_least);
            let mut dealt = dealt.map_err(|error| ExperimentError::Setting {
                key: "scenario.each",
                reason: format!("{}: {error}", each.domain),
            })?;
            let recorded = |(name, data)| Recorded {
                name,
                domain: Some(each.domain.clone()),
                data,
            };
            if each.hold_out_last {
                let last = dealt.pop();
                unseen.extend(last.map(|(name, data)| recorded((name, data.scored()))));
            }
            client.extend(dealt.into_iter().map(recorded));
        }
        if client.len() < 2 {
            return Err(ExperimentError::Setting {
                key: "scenario.each",
                reason: "fewer than two clients come of it; look at `at_least`".to_owned(),
            });
        }
        let mut notes = Vec::new();
        let mut read = |all: &[Recorded]| {
            all.iter()
                .map(|recorded| {
                    let setting = |reason: String| ExperimentError::Setting {
                        key: "scenario",
                        reason: format!("{}: {reason}", recorded.name),
                    };
                    let loaded = recorded
                        .data
                        .load(base, size)
                        .map_err(|error| setting(error.to_string()))?;
                    notes.push(loaded.summary);
                    let Frames::Depth(data) = loaded.frames else {
                        return Err(setting("its frames have no depth".to_owned()));
                    };
                    Ok(Sequence {
                        name: recorded.name.clone(),
                        domain: recorded.domain.clone().unwrap_or_else(|| recorded.name.clone()),
                        data,
                    })
                })
                .collect::<Result<Vec<_>, ExperimentError>>()
        };
        let (clients, unseen, public) = (read(&client)?, read(&unseen)?, read(&self.public)?);
        let scored = if unseen.is_empty() { &clients } else { &unseen };
        for (sequences, lacks, what) in [
            (
                &clients,
                DepthDataset::train as fn(&DepthDataset) -> &[Frame],
                "training",
            ),
            (&public, DepthDataset::train, "training"),
            (scored, DepthDataset::test, "test"),
        ] {
            if let Some(bare) = sequences.iter().find(|sequence| lacks(&sequence.data).is_empty()) {
                return Err(ExperimentError::Setting {
                    key: "scenario",
                    reason: format!("{} has no {what} frames", bare.name),
                });
            }
        }
        Ok(Drawn {
            clients,
            unseen,
            public: public.into_iter().map(|sequence| sequence.data).collect(),
            notes,
        })
    }

    /// Whether there are sequences that belong to nobody.
    #[must_use]
    pub fn routes(&self) -> bool {
        let held_out = self.each.iter().any(|each| each.hold_out_last);
        self.kind == ScenarioKind::Hpe || held_out || !self.unseen.is_empty()
    }

    /// What is wrong with it before anything is read.
    pub(super) fn fault(&self, warm: bool) -> Option<(&'static str, &'static str)> {
        let lists = [&self.client, &self.unseen, &self.public];
        let recordings = !self.each.is_empty() || lists.iter().any(|list| !list.is_empty());
        if self.kind != ScenarioKind::Recorded {
            if recordings {
                return Some(("scenario.kind", "recordings need `recorded`"));
            }
            if !(8..=10_000).contains(&self.train) || self.test == 0 || self.test > 10_000 {
                return Some((
                    "scenario.train",
                    "between 8 and 10000 training frames and 1 to 10000 test frames",
                ));
            }
            if !(self.share > 0.0 && self.share <= 1.0) {
                return Some(("scenario.share", "it must be above 0 and at most 1"));
            }
            return None;
        }
        let all = || lists.iter().flat_map(|list| list.iter());
        let names: BTreeSet<&str> = all().map(|recorded| recorded.name.as_str()).collect();
        if self.train != 0 || self.test != 0 || self.share < 1.0 {
            return Some((
                "scenario",
                "`train`, `test` and `share` are for generated frames; recordings have `max_frames`",
            ));
        }
        if self.client.len() < 2 && self.each.is_empty() {
            return Some(("scenario.client", "at least two clients are needed"));
        }
        if names.len() != all().count() {
            return Some(("scenario", "each recording needs a name of its own"));
        }
        if warm && self.public.is_empty() {
            return Some((
                "scenario.public",
                "the common start needs frames: name some, or set warm_start.steps = 0",
            ));
        }
        None
    }

    /// Platform, place, light and number of clients.
    fn cells(&self) -> &'static [(Platform, Place, Light, usize)] {
        match self.kind {
            ScenarioKind::Hpe => HPE,
            ScenarioKind::Bmr => BMR,
            ScenarioKind::Recorded => &[],
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts below a hundred"
    )]
    fn scaled(&self, count: usize) -> usize {
        ((count as f64 * self.share).round() as usize).max(1)
    }
}

fn domain(platform: Platform, place: Place, light: Light) -> String {
    let light = match light {
        Light::Day => "day",
        Light::Night => "night",
    };
    format!("{}-{}-{light}", platform.name(), place.name())
}

/// Depths of every network in an experiment.
pub const RANGE: DepthRange = DepthRange {
    min_m: 0.2,
    cap_m: 80.0,
};

/// All training frames in one data set.
///
/// # Errors
/// [`ExperimentError`] for frames of several sizes.
pub fn pooled<'a>(
    name: &str,
    sets: impl IntoIterator<Item = &'a DepthDataset>,
) -> Result<DepthDataset, ExperimentError> {
    let mut frames = Vec::new();
    let mut size = (0, 0);
    for set in sets {
        size = (set.width(), set.height());
        frames.extend_from_slice(set.train());
    }
    DepthDataset::new(name, size, RANGE, frames, Vec::new()).map_err(fault)
}

/// The same frames with the geometric mean of each one's depths at 5 m: what is near and what far, and nothing of scale.
///
/// # Errors
/// [`ExperimentError`], never for frames of a data set.
pub fn relative(data: &DepthDataset) -> Result<DepthDataset, ExperimentError> {
    let frames = data.train().iter().map(|frame| {
        let known = frame.depth().iter().filter(|depth| **depth > 0.0);
        let (sum, count) = known.fold((0.0_f64, 0.0_f64), |(sum, n), d| {
            (sum + f64::from(*d).ln(), n + 1.0)
        });
        #[expect(clippy::cast_possible_truncation, reason = "a factor near 1")]
        let factor = if count > 0.0 {
            5.0 / (sum / count).exp()
        } else {
            1.0
        } as f32;
        let depth = frame.depth().iter().map(|depth| depth * factor).collect();
        Frame::new(
            frame.name(),
            frame.width(),
            frame.height(),
            frame.rgb().to_vec(),
            depth,
        )
    });
    let frames = frames.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    DepthDataset::new(
        data.name(),
        (data.width(), data.height()),
        RANGE,
        frames,
        Vec::new(),
    )
    .map_err(fault)
}

fn fault(error: DataError) -> ExperimentError {
    LearnError::from(error).into()
}

const HPE: &[(Platform, Place, Light, usize)] = &[
    (Platform::Ugv, Place::Forest, Light::Day, 3),
    (Platform::Ugv, Place::Street, Light::Day, 5),
    (Platform::Ugv, Place::Street, Light::Night, 5),
    (Platform::Uav, Place::Forest, Light::Day, 5),
    (Platform::Uav, Place::Indoor, Light::Day, 2),
    (Platform::Uav, Place::Street, Light::Day, 5),
    (Platform::Uav, Place::Street, Light::Night, 2),
    (Platform::Legged, Place::Forest, Light::Day, 4),
    (Platform::Legged, Place::Indoor, Light::Day, 3),
    (Platform::Legged, Place::Street, Light::Day, 6),
    (Platform::Legged, Place::Street, Light::Night, 1),
];

const BMR: &[(Platform, Place, Light, usize)] = &[
    (Platform::Humanoid, Place::Indoor, Light::Day, 15),
    (Platform::Ugv, Place::Street, Light::Day, 17),
];

const PUBLIC: &[(Place, Light)] = &[
    (Place::Indoor, Light::Day),
    (Place::Street, Light::Day),
    (Place::Street, Light::Night),
    (Place::Forest, Light::Day),
];
const PUBLIC_PLATFORM: Platform = Platform::Humanoid;
const PUBLIC_FRAMES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_scenarios() {
        let total =
            |cells: &[(Platform, Place, Light, usize)]| cells.iter().map(|cell| cell.3).sum::<usize>();
        assert_eq!((total(HPE), HPE.len()), (41, 11));
        assert_eq!((BMR[0].3, BMR[1].3), (15, 17));
        assert!(HPE.iter().all(|cell| cell.0 != PUBLIC_PLATFORM));
    }

    #[test]
    fn a_share_leaves_one_of_each_and_scale_goes() {
        let small = Scenario {
            kind: ScenarioKind::Hpe,
            share: 0.1,
            train: 2,
            test: 1,
            client: Vec::new(),
            unseen: Vec::new(),
            public: Vec::new(),
            each: Vec::new(),
        };
        let drawn = small.draw(3, (16, 12), Path::new("")).unwrap();
        assert_eq!((drawn.clients.len(), drawn.unseen.len()), (11, 11));
        let flat = relative(&drawn.public[1]).unwrap();
        for (frame, before) in flat.train().iter().zip(drawn.public[1].train()) {
            let logs: Vec<f64> = frame
                .depth()
                .iter()
                .filter(|d| **d > 0.0)
                .map(|d| f64::from(*d).ln())
                .collect();
            let all = before.depth().iter().filter(|d| **d > 0.0).count();
            // What goes beyond the range by it is unknown from then on.
            if logs.len() == all {
                #[expect(clippy::cast_precision_loss, reason = "a few pixels")]
                let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
                assert!((mean - 5.0).abs() < 1e-4, "{mean}");
            }
        }
        assert_eq!(
            pooled("all", drawn.public.iter()).unwrap().train().len(),
            4 * PUBLIC_FRAMES
        );
    }
}
