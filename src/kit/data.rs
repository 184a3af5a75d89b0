//! Frames for the clients of a new federation: the generator's, or shares of a folder somebody recorded.

use super::KitRequest;
use crate::config::{DataConfig, LearnerKind};
use std::path::{Path, PathBuf};

/// One client's share of a recorded folder.
pub(super) struct Shard {
    folder: PathBuf,
    /// This client takes every `of`-th frame, starting at `index`.
    index: usize,
    of: usize,
}

/// Deals the folders `data/clients/*` (or `data/*`) to the clients in order; clients that share a folder take turns
/// frame by frame, so nobody holds another's frames.
pub(super) fn shards(data: &Path, clients: u32) -> Result<Vec<Shard>, DataFolderError> {
    let root = if data.join("clients").is_dir() {
        data.join("clients")
    } else {
        data.to_path_buf()
    };
    let fault = |error| DataFolderError::Io {
        path: root.clone(),
        error,
    };
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&root)
        .map_err(fault)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(fault)?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.join("train").is_dir())
        .collect();
    folders.sort();
    if folders.is_empty() {
        return Err(DataFolderError::Empty { path: root });
    }
    let clients = clients as usize;
    Ok((0..clients)
        .map(|client| {
            // Neighbouring clients share a folder, so that clusters of neighbours see like places.
            let place = |client: usize| client * folders.len() / clients;
            let mates: Vec<usize> = (0..clients)
                .filter(|other| place(*other) == place(client))
                .collect();
            Shard {
                folder: folders.get(place(client)).cloned().unwrap_or_default(),
                index: mates.iter().position(|mate| *mate == client).unwrap_or(0),
                of: mates.len().max(1),
            }
        })
        .collect())
}

/// Makes a client's folder of links to its frames.
pub(super) fn link(shard: Option<&Shard>, to: &Path) -> Result<DataConfig, DataFolderError> {
    let Some(shard) = shard else {
        return Err(DataFolderError::Empty {
            path: to.to_path_buf(),
        });
    };
    let from = std::path::absolute(&shard.folder).map_err(|error| DataFolderError::Io {
        path: shard.folder.clone(),
        error,
    })?;
    for split in ["train", "test"] {
        for kind in ["rgb", "depth"] {
            let source = from.join(split).join(kind);
            if !source.is_dir() {
                continue;
            }
            let fault = |error| DataFolderError::Io {
                path: source.clone(),
                error,
            };
            let target = to.join(split).join(kind);
            std::fs::create_dir_all(&target).map_err(fault)?;
            let mut names: Vec<_> = std::fs::read_dir(&source)
                .map_err(fault)?
                .collect::<Result<Vec<_>, _>>()
                .map_err(fault)?
                .into_iter()
                .map(|entry| entry.file_name())
                .collect();
            names.sort();
            for name in names.iter().skip(shard.index).step_by(shard.of) {
                std::os::unix::fs::symlink(source.join(name), target.join(name)).map_err(fault)?;
            }
        }
    }
    let meta = from.join("meta.json");
    if meta.is_file() {
        std::os::unix::fs::symlink(&meta, to.join("meta.json"))
            .map_err(|error| DataFolderError::Io { path: meta, error })?;
    }
    Ok(DataConfig::Folder {
        path: "frames".into(),
        scale: None,
        on_fault: None,
        max_frames: None,
        memory_limit_mib: None,
    })
}

/// Generated frames, as the learner's demonstration has them: the first half of the clients indoors, the second in streets,
/// two robot types in turn in each place, and the last client of each half in the dark.
pub(super) fn generated(client: u32, request: &KitRequest) -> DataConfig {
    if request.learner == LearnerKind::Bev {
        return fleet(client, request);
    }
    let half = request.clients / 2;
    let indoor = client < half;
    let place = if indoor { client } else { client - half };
    let platform = match (indoor, place % 2) {
        (true, 0) => "ugv",
        (true, _) => "legged",
        (false, 0) => "humanoid",
        (false, _) => "uav",
    };
    let last = if indoor { half } else { request.clients - half }.saturating_sub(1);
    DataConfig::Generated {
        platform: platform.into(),
        place: if indoor { "indoor" } else { "street" }.into(),
        night: place == last,
        seed: request.seed.wrapping_mul(100).wrapping_add(u64::from(client)),
        train: request.frames.0,
        test: request.frames.1,
    }
}

/// Generated traffic: cars, trucks and buses in turn; every fourth vehicle has a forward camera only.
fn fleet(client: u32, request: &KitRequest) -> DataConfig {
    let vehicle = match client % 3 {
        0 => "car",
        1 => "truck",
        _ => "bus",
    };
    let cameras: &[&str] = if client % 4 == 3 {
        &["front"]
    } else {
        &["front", "left", "right", "rear"]
    };
    DataConfig::GeneratedFleet {
        vehicle: vehicle.into(),
        cameras: cameras.iter().map(|side| (*side).to_owned()).collect(),
        seed: request.seed.wrapping_mul(100).wrapping_add(u64::from(client)),
        train: request.frames.0,
        test: request.frames.1,
    }
}

/// A data folder that cannot be dealt out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataFolderError {
    /// Unreadable.
    #[error("cannot use the data folder {}: {error}", path.display())]
    Io {
        /// Which folder.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No client folder in it.
    #[error("{} holds no client folder (a folder with `train/rgb` and `train/depth`); docs/data.md shows the layout", path.display())]
    Empty {
        /// Which folder.
        path: PathBuf,
    },
}
