//! A vehicle's cameras.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bev::GeometryError;
use crate::bev::camera::Camera;
use crate::bev::pose::Pose;

/// Which quarter of the horizon a camera looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Within 45° of straight ahead.
    Front,
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// Within 45° of straight back.
    Rear,
}

impl Side {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Front, Self::Left, Self::Right, Self::Rear];

    /// The side a camera looks at, from its extrinsics. An index or a name says nothing: in one public data set camera
    /// 1 is documented as the right one and used as the left.
    #[must_use]
    pub fn of(camera: &Camera) -> Self {
        let [x, y, _] = camera.forward();
        if x.abs() >= y.abs() {
            if x >= 0.0 { Self::Front } else { Self::Rear }
        } else if y > 0.0 {
            Self::Left
        } else {
            Self::Right
        }
    }

    /// Lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Left => "left",
            Self::Right => "right",
            Self::Rear => "rear",
        }
    }

    /// A usual place to look at this side from: position and yaw to the left in degrees, after the default rig of
    /// `OpenCDA` on which OPV2V's cars were recorded.
    fn usual(self) -> ([f64; 3], f64) {
        match self {
            Self::Front => ([2.5, 0.0, 1.0], 0.0),
            Self::Left => ([0.0, 0.3, 1.8], 100.0),
            Self::Right => ([0.0, -0.3, 1.8], -100.0),
            Self::Rear => ([-2.0, 0.0, 1.5], 180.0),
        }
    }
}

/// One to many cameras in a fixed order.
#[derive(Clone, Debug, PartialEq)]
pub struct Rig {
    cameras: Vec<Camera>,
}

impl Rig {
    /// A rig of cameras with distinct names.
    ///
    /// # Errors
    ///
    /// [`GeometryError::NoCamera`] or [`GeometryError::RepeatedCamera`].
    pub fn new(cameras: Vec<Camera>) -> Result<Self, GeometryError> {
        if cameras.is_empty() {
            return Err(GeometryError::NoCamera);
        }
        let mut names = BTreeSet::new();
        if let Some(twin) = cameras.iter().find(|c| !names.insert(c.name.as_str())) {
            return Err(GeometryError::RepeatedCamera {
                camera: twin.name.clone(),
            });
        }
        Ok(Self { cameras })
    }

    /// The cameras.
    #[must_use]
    pub fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    /// Every camera's pictures resized.
    #[must_use]
    pub fn scaled(&self, width: usize, height: usize) -> Self {
        Self {
            cameras: self.cameras.iter().map(|c| c.scaled(width, height)).collect(),
        }
    }

    /// The sides looked at.
    #[must_use]
    pub fn sides(&self) -> BTreeSet<Side> {
        self.cameras.iter().map(Side::of).collect()
    }

    /// The rig with a camera of the usual pose for every side that none looks at, and how many were added. Their
    /// pictures are black: this is how a network without masks is given a fixed number of cameras.
    #[must_use]
    pub fn filled(&self) -> (Self, usize) {
        let seen = self.sides();
        let mut cameras = self.cameras.clone();
        let Some(first) = self.cameras.first() else {
            return (self.clone(), 0);
        };
        for side in Side::ALL.into_iter().filter(|side| !seen.contains(side)) {
            let (position, yaw) = side.usual();
            cameras.push(Camera {
                name: format!("absent-{}", side.name()),
                intrinsics: first.intrinsics,
                to_ego: Pose::of_camera(position, yaw.to_radians(), 0.0, 0.0),
            });
        }
        let added = cameras.len() - self.cameras.len();
        (Self { cameras }, added)
    }
}

impl fmt::Display for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, camera) in self.cameras.iter().enumerate() {
            let [x, y, z] = camera.to_ego.position();
            let [fx, fy, fz] = camera.forward();
            let k = camera.intrinsics;
            let view = 2.0 * (0.5 * k.size()[0] / k.fx).atan().to_degrees();
            write!(
                f,
                "{}{} looks {} from ({x:.2}, {y:.2}, {z:.2}) m, yaw {:.1} deg left, pitch {:.1} deg down, view {view:.0} deg",
                if i == 0 { "" } else { "\n" },
                camera.name,
                Side::of(camera).name(),
                fy.atan2(fx).to_degrees(),
                -fz.clamp(-1.0, 1.0).asin().to_degrees(),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bev::camera::Intrinsics;

    fn camera(name: &str, yaw: f64) -> Camera {
        Camera {
            name: name.to_owned(),
            intrinsics: Intrinsics {
                fx: 64.0,
                fy: 64.0,
                cx: 64.0,
                cy: 48.0,
                width: 128,
                height: 96,
            },
            to_ego: Pose::of_camera([0.0, 0.0, 1.5], yaw.to_radians(), 0.1, 0.0),
        }
    }

    /// The names and the order lie on purpose.
    #[test]
    fn sides_come_from_where_cameras_look() {
        let rig = Rig::new(vec![
            camera("camera1-left", -100.0),
            camera("camera2-right", 100.0),
            camera("camera0", 180.0),
            camera("rear", 20.0),
        ])
        .unwrap();
        let sides: Vec<Side> = rig.cameras().iter().map(Side::of).collect();
        assert_eq!(sides, [Side::Right, Side::Left, Side::Rear, Side::Front]);
        let text = rig.to_string();
        assert!(
            text.contains("camera1-left looks right from (0.00, 0.00, 1.50) m"),
            "{text}"
        );
        assert!(text.contains("pitch 5.7 deg down, view 90 deg"), "{text}");
    }

    #[test]
    fn absent_sides_are_filled_once() {
        let (rig, added) = Rig::new(vec![camera("a", 0.0), camera("b", 100.0)])
            .unwrap()
            .filled();
        assert_eq!((rig.cameras().len(), added), (4, 2));
        assert_eq!(rig.sides().len(), 4);
        assert_eq!(rig.filled().1, 0);
    }

    #[test]
    fn names_are_distinct_and_there_is_a_camera() {
        assert_eq!(Rig::new(vec![]), Err(GeometryError::NoCamera));
        assert!(matches!(
            Rig::new(vec![camera("a", 0.0), camera("a", 9.0)]),
            Err(GeometryError::RepeatedCamera { .. })
        ));
    }
}
