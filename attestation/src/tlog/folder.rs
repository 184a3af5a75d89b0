//! A log kept as the files of C2SP tlog-tiles: what a web server would serve as it stands.
//!
//! ```text
//! checkpoint                 the signed head, replaced as a whole
//! tile/entries/000.p/12      entries, before anything that names them
//! tile/0/000.p/12            hashes, before the head that needs them
//! ```
//!
//! Every file is written beside its place, made durable and renamed, so a crash leaves the old or the new and never half
//! of one. Order does the rest: [`LogFolder::append`] makes entries durable, [`LogFolder::publish`] writes the tiles and
//! then the head. Reopened after a crash, the log goes on from the last durable entry, signed or not; what was half
//! written is removed.

use super::tile::{TILE_WIDTH, Tile, TileError, TileKind, join_entries, split_entries, tiles};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::merkle::Tree;
use crate::note::{Note, NoteError};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A log in a folder. One process at a time.
#[derive(Debug)]
pub struct LogFolder {
    folder: PathBuf,
    tree: Tree,
    /// Entries of the last bundle while it is not full.
    partial: Vec<Vec<u8>>,
    /// Size of the signed head on disk.
    published: u64,
}

/// A folder as it was found.
#[derive(Debug)]
pub struct Reopened {
    /// The log.
    pub folder: LogFolder,
    /// Its entries, signed or not.
    pub entries: Vec<Vec<u8>>,
    /// The head on disk. Whose it is, the caller checks.
    pub head: Option<Note>,
    /// Files that were half written, or entries nobody signed that cannot be read; removed.
    pub removed: usize,
}

/// A folder that does not do what it must.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The disk.
    #[error("cannot {doing} {}: {error}; check free space and permissions", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Signed entries that are gone or changed.
    #[error(
        "{}: the head names {signed} entries and {held} of them are there unchanged; restore the folder from a copy",
        path.display()
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// Entries the head names.
        signed: u64,
        /// Entries found.
        held: u64,
    },
    /// Entries that do not hash to the head.
    #[error("{}: the entries do not hash to the signed head; restore the folder from a copy", path.display())]
    OtherEntries {
        /// The folder.
        path: PathBuf,
    },
    /// A head that is none.
    #[error("the head: {0}")]
    Note(#[from] NoteError),
    /// A head that is no checkpoint.
    #[error("the head: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// A head of other entries than the folder holds.
    #[error("the head to publish is of {size} entries and is not the head of the log, which has {held}")]
    OtherHead {
        /// Size of the head given.
        size: u64,
        /// Size of the log.
        held: u64,
    },
    /// An entry that fits no bundle, or a tile that cannot be.
    #[error(transparent)]
    Tile(#[from] TileError),
}

impl LogFolder {
    /// Opens a folder, or makes one.
    ///
    /// # Errors
    /// [`FolderError`]: never a shorter log than the head on disk says.
    pub fn open(folder: &Path) -> Result<Reopened, FolderError> {
        fs::create_dir_all(folder).map_err(io("make", folder))?;
        let mut removed = sweep(folder)?;
        let path = folder.join(HEAD);
        let head = match fs::read(&path) {
            Ok(bytes) => Some(Note::parse(&bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(io("read", &path)(error)),
        };
        let checkpoint: Option<Checkpoint> = head.as_ref().map(|note| note.text().parse()).transpose()?;
        let published = checkpoint.as_ref().map_or(0, Checkpoint::size);
        let mut entries: Vec<Vec<u8>> = Vec::new();
        for index in 0.. {
            let found = bundle(folder, index, published, &mut removed)?;
            let Some(found) = found else { break };
            let full = found.len() == usize::from(TILE_WIDTH);
            entries.extend(found);
            if !full {
                break;
            }
        }
        let mut tree = Tree::new();
        for entry in &entries {
            tree.append(entry);
        }
        if tree.size() < published {
            return Err(FolderError::Damaged {
                path: folder.to_path_buf(),
                signed: published,
                held: tree.size(),
            });
        }
        if checkpoint.is_some_and(|head| tree.root_at(published).ok() != Some(*head.root())) {
            return Err(FolderError::OtherEntries {
                path: folder.to_path_buf(),
            });
        }
        let whole = entries.len() - entries.len() % usize::from(TILE_WIDTH);
        let partial = entries.get(whole..).unwrap_or_default().to_vec();
        Ok(Reopened {
            folder: Self {
                folder: folder.to_path_buf(),
                tree,
                partial,
                published,
            },
            entries,
            head,
            removed,
        })
    }

    /// The tree over all entries, signed or not.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The size of the signed head on disk.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Appends entries and makes them durable before returning.
    ///
    /// # Errors
    /// [`FolderError`]: the entries must not be acted on then, and the folder must be opened anew. Some of them may be in
    /// the log by then, in order and without gaps.
    pub fn append<'a>(&mut self, entries: impl IntoIterator<Item = &'a [u8]>) -> Result<(), FolderError> {
        let entries: Vec<&[u8]> = entries.into_iter().collect();
        if let Some(long) = entries.iter().find(|entry| entry.len() > usize::from(u16::MAX)) {
            return Err(TileError::EntryLength(long.len()).into());
        }
        let (old, mut rest) = (self.tree.size(), entries.as_slice());
        while !rest.is_empty() {
            let room = usize::from(TILE_WIDTH).saturating_sub(self.partial.len());
            let (now, later) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            self.partial.extend(now.iter().map(|entry| entry.to_vec()));
            let index = self.tree.size() / u64::from(TILE_WIDTH);
            let width = u16::try_from(self.partial.len()).unwrap_or(TILE_WIDTH);
            let tile = Tile::new(TileKind::Entries, index, width)?;
            let bytes = join_entries(self.partial.iter().map(Vec::as_slice))?;
            write(&self.path(tile), &bytes)?;
            for entry in now {
                self.tree.append(entry);
            }
            if tile.is_full() {
                self.partial.clear();
            }
            rest = later;
        }
        // The narrower bundle is needed by nobody unless a head of that very size was signed.
        let width = u16::try_from(old % u64::from(TILE_WIDTH)).unwrap_or(0);
        if width > 0 && old != self.published && self.tree.size() > old {
            let tile = Tile::new(TileKind::Entries, old / u64::from(TILE_WIDTH), width)?;
            remove(&self.path(tile))?;
        }
        Ok(())
    }

    /// Writes the hash tiles a head needs, then the head. The head must be of the whole log; whether its signatures hold
    /// is the caller's to know.
    ///
    /// # Errors
    /// [`FolderError`]; the old head stands then.
    pub fn publish(&mut self, head: &Note) -> Result<(), FolderError> {
        let checkpoint: Checkpoint = head.text().parse()?;
        if (checkpoint.size(), *checkpoint.root()) != (self.tree.size(), self.tree.root()) {
            return Err(FolderError::OtherHead {
                size: checkpoint.size(),
                held: self.tree.size(),
            });
        }
        let new = tiles(self.published, checkpoint.size());
        for tile in &new {
            if tile.kind() != TileKind::Entries {
                write(&self.path(*tile), &tile.hashes(&self.tree)?)?;
            }
        }
        write(&self.folder.join(HEAD), head.to_string().as_bytes())?;
        self.published = checkpoint.size();
        for tile in new.iter().filter(|tile| tile.is_full()) {
            let mut partial = self.path(*tile).into_os_string();
            partial.push(".p");
            match fs::remove_dir_all(&partial) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(io("remove", Path::new(&partial))(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The bytes of a tile or bundle on disk; the full one where a partial one has grown up.
    ///
    /// # Errors
    /// [`FolderError::Io`] when there is none.
    pub fn read(&self, tile: Tile) -> Result<Vec<u8>, FolderError> {
        let path = self.path(tile);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !tile.is_full() => {
                let path = self.path(tile.full());
                fs::read(&path).map_err(io("read", &path))
            }
            other => other.map_err(io("read", &path)),
        }
    }

    fn path(&self, tile: Tile) -> PathBuf {
        self.folder.join(tile.to_string())
    }
}

/// The entries of bundle `index`: of the full file, or of the widest partial one. A file that cannot be read is removed
/// when no signed entry is in it and passed over otherwise.
fn bundle(
    folder: &Path,
    index: u64,
    published: u64,
    removed: &mut usize,
) -> Result<Option<Vec<Vec<u8>>>, FolderError> {
    let full = Tile::new(TileKind::Entries, index, TILE_WIDTH)?;
    let mut widths = vec![TILE_WIDTH];
    let mut partial = folder.join(full.to_string()).into_os_string();
    partial.push(".p");
    match fs::read_dir(&partial) {
        Ok(list) => {
            let mut narrow: Vec<u16> = list
                .filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok())
                .filter(|width| (1..TILE_WIDTH).contains(width))
                .collect();
            narrow.sort_unstable();
            widths.extend(narrow.into_iter().rev());
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(io("read", Path::new(&partial))(error)),
    }
    for width in widths {
        let tile = Tile::new(TileKind::Entries, index, width)?;
        let path = folder.join(tile.to_string());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(io("read", &path)(error)),
        };
        match split_entries(tile, &bytes) {
            Ok(entries) => return Ok(Some(entries.into_iter().map(<[u8]>::to_vec).collect())),
            Err(_) if index * u64::from(TILE_WIDTH) >= published => {
                remove(&path)?;
                *removed += 1;
            }
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Removes what was half written under the folder.
fn sweep(folder: &Path) -> Result<usize, FolderError> {
    let mut removed = 0;
    let list = fs::read_dir(folder).map_err(io("read", folder))?;
    for file in list {
        let file = file.map_err(io("read", folder))?;
        let path = file.path();
        let kind = file.file_type().map_err(io("read", &path))?;
        if kind.is_dir() {
            removed += sweep(&path)?;
        } else if path.extension().is_some_and(|end| end == BESIDE) {
            remove(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let parent = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(parent).map_err(io("make", parent))?;
    let mut beside = path.to_path_buf().into_os_string();
    beside.push(".");
    beside.push(BESIDE);
    let beside = PathBuf::from(beside);
    let mut file = File::create(&beside).map_err(io("write", &beside))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(io("write", &beside))?;
    fs::rename(&beside, path).map_err(io("put in place", path))?;
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(io("make durable", parent))
}

fn remove(path: &Path) -> Result<(), FolderError> {
    fs::remove_file(path).map_err(io("remove", path))
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
    let path = path.to_path_buf();
    move |error| FolderError::Io { doing, path, error }
}

const HEAD: &str = "checkpoint";

/// How a file that is being written ends.
const BESIDE: &str = "new";
