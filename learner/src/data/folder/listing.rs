//! Which files a split holds, and how one pair of them is read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::data::folder::{DepthScale, name_of};
use crate::data::split::{FrameFile, read_pair};
use crate::data::{DataError, Frame};

/// One name of a split with the files it should have.
pub(crate) struct Entry {
    name: String,
    rgb: Option<PathBuf>,
    depth: Option<PathBuf>,
    split: PathBuf,
}

impl FrameFile for Entry {
    fn path(&self) -> PathBuf {
        self.rgb
            .clone()
            .or_else(|| self.depth.clone())
            .unwrap_or_else(|| self.split.clone())
    }

    fn read(&self, scale: DepthScale, width: usize, height: usize) -> Result<Frame, DataError> {
        let file = format!("{}.png", self.name);
        let partner = |folder: &str| DataError::Partner {
            path: self.path(),
            missing: self.split.join(folder).join(&file),
        };
        let rgb_path = self.rgb.as_deref().ok_or_else(|| partner("rgb"))?;
        let depth_path = self.depth.as_deref().ok_or_else(|| partner("depth"))?;
        let name = format!("{}/{}", name_of(&self.split), self.name);
        read_pair(name, rgb_path, depth_path, scale)?.resized(width, height)
    }
}

/// The frames of a split, by name.
pub(crate) fn list(dir: &Path, split: &str) -> Result<Vec<Entry>, DataError> {
    let split = dir.join(split);
    let rgb = list_png(dir, &split.join("rgb"))?;
    let mut depth = list_png(dir, &split.join("depth"))?;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for (name, path) in rgb {
        let partner = depth.remove(&name);
        let entry = Entry {
            name: name.clone(),
            rgb: Some(path),
            depth: partner,
            split: split.clone(),
        };
        entries.insert(name, entry);
    }
    for (name, path) in depth {
        let entry = Entry {
            name: name.clone(),
            rgb: None,
            depth: Some(path),
            split: split.clone(),
        };
        entries.insert(name, entry);
    }
    if entries.is_empty() {
        return Err(DataError::Empty { path: split });
    }
    Ok(entries.into_values().collect())
}

fn list_png(client: &Path, dir: &Path) -> Result<BTreeMap<String, PathBuf>, DataError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(DataError::Layout {
                path: dir.to_owned(),
                found: describe(client),
            });
        }
        Err(source) => {
            return Err(DataError::Io {
                path: dir.to_owned(),
                source,
            });
        }
    };
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry
            .map_err(|source| DataError::Io {
                path: dir.to_owned(),
                source,
            })?
            .path();
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png"))
            && let Some(stem) = path.file_stem().and_then(OsStr::to_str)
        {
            files.insert(stem.to_owned(), path);
        }
    }
    Ok(files)
}

/// The first entries of a folder, for an error about what is missing in it.
fn describe(dir: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return "no such client folder".to_owned();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.truncate(6);
    if names.is_empty() {
        "an empty folder".to_owned()
    } else {
        names.join(", ")
    }
}
