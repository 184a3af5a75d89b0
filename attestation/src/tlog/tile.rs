//! Tiles and entry bundles (C2SP tlog-tiles): names, contents, and proofs from them.
//!
//! A tile holds up to 256 hashes of one tree level in eight; the levels between are hashed again by the reader. An entry
//! bundle holds the entries under a tile of level 0, each behind a big-endian `u16` length.

use crate::merkle::{self, Hash, MerkleError, Tree, node_hash};
use std::fmt;
use std::str::FromStr;

/// Hashes in a full tile, entries in a full bundle.
pub const TILE_WIDTH: u16 = 256;

/// What a tile holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TileKind {
    /// Hashes of complete subtrees of `256^level` leaves; level 0 to 63.
    Hashes(u8),
    /// Entries.
    Entries,
}

/// Names one tile or entry bundle, written as its path: `tile/0/x001/x234/067.p/112`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    kind: TileKind,
    index: u64,
    width: u16,
}

/// What is wrong with a tile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// Not the path of a tile, or another spelling of one.
    #[error(
        "'{0}' is no tile: it must read tile/LEVEL/INDEX or tile/entries/INDEX, with .p/WIDTH when partial"
    )]
    Path(String),
    /// A width of 0 or over 256, or a level over 63.
    #[error("no tile has level {level} and width {width}: levels go to 63, widths from 1 to 256")]
    Shape {
        /// Level.
        level: u8,
        /// Width.
        width: u16,
    },
    /// Not as many hashes or entries as its name says, or bytes left over.
    #[error("{tile} does not hold what its name says; the file is damaged, or another log's")]
    Content {
        /// Which tile.
        tile: Tile,
    },
    /// An entry that no bundle can hold.
    #[error("an entry of {0} bytes does not fit a bundle: at most 65535 do")]
    EntryLength(usize),
    /// A tile that could not be had.
    #[error("{tile}: {reason}")]
    Missing {
        /// Which tile.
        tile: Tile,
        /// Why.
        reason: String,
    },
    /// What was asked for cannot be proved.
    #[error(transparent)]
    Merkle(#[from] MerkleError),
}

impl Tile {
    /// Names a tile of `width` hashes or entries.
    ///
    /// # Errors
    /// [`TileError::Shape`].
    pub fn new(kind: TileKind, index: u64, width: u16) -> Result<Self, TileError> {
        let level = kind.level();
        if level > MAX_LEVEL || !(1..=TILE_WIDTH).contains(&width) {
            return Err(TileError::Shape { level, width });
        }
        Ok(Self { kind, index, width })
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> TileKind {
        self.kind
    }

    /// Its number on its level.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Hashes or entries in it, 1 to 256.
    #[must_use]
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Whether it will not change any more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.width == TILE_WIDTH
    }

    /// The full tile in its place.
    #[must_use]
    pub fn full(self) -> Self {
        Self {
            width: TILE_WIDTH,
            ..self
        }
    }

    /// The bytes of a hash tile, from a tree that has all its leaves.
    ///
    /// # Errors
    /// [`TileError::Missing`] when it has not; [`TileError::Content`] for an entry bundle, which no tree holds.
    pub fn hashes(&self, tree: &Tree) -> Result<Vec<u8>, TileError> {
        let TileKind::Hashes(level) = self.kind else {
            return Err(TileError::Content { tile: *self });
        };
        let first = self.index.saturating_mul(u64::from(TILE_WIDTH));
        (0..u64::from(self.width))
            .map(|place| {
                first
                    .checked_add(place)
                    .and_then(|index| tree.node(HEIGHT.checked_mul(level)?, index))
                    .ok_or_else(|| TileError::Missing {
                        tile: *self,
                        reason: format!("a tree of {} leaves has it not", tree.size()),
                    })
            })
            .collect::<Result<Vec<Hash>, _>>()
            .map(|hashes| hashes.concat())
    }

    /// The hashes in the bytes of a tile.
    ///
    /// # Errors
    /// [`TileError::Content`] when there are fewer or more.
    pub fn read_hashes(&self, bytes: &[u8]) -> Result<Vec<Hash>, TileError> {
        let (hashes, rest) = bytes.as_chunks::<32>();
        if !rest.is_empty() || hashes.len() != usize::from(self.width) || self.kind == TileKind::Entries {
            return Err(TileError::Content { tile: *self });
        }
        Ok(hashes.to_vec())
    }
}

impl TileKind {
    fn level(self) -> u8 {
        match self {
            Self::Hashes(level) => level,
            Self::Entries => 0,
        }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Hashes(level) => write!(f, "tile/{level}/")?,
            TileKind::Entries => f.write_str("tile/entries/")?,
        }
        let mut groups = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(rest % 1000);
            rest /= 1000;
        }
        for (place, group) in groups.iter().enumerate().rev() {
            if place > 0 {
                write!(f, "x{group:03}/")?;
            } else {
                write!(f, "{group:03}")?;
            }
        }
        if self.is_full() {
            Ok(())
        } else {
            write!(f, ".p/{}", self.width)
        }
    }
}

impl FromStr for Tile {
    type Err = TileError;

    /// Reads exactly what is written.
    fn from_str(path: &str) -> Result<Self, TileError> {
        let malformed = || TileError::Path(path.chars().take(80).collect());
        let (kind, rest) = path
            .strip_prefix("tile/")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(malformed)?;
        let kind = match kind {
            "entries" => TileKind::Entries,
            level => TileKind::Hashes(level.parse().map_err(|_| malformed())?),
        };
        let (number, width) = match rest.split_once(".p/") {
            Some((number, width)) => (number, width.parse().map_err(|_| malformed())?),
            None => (rest, TILE_WIDTH),
        };
        let mut index: u64 = 0;
        for group in number.split('/') {
            let digits = group.strip_prefix('x').unwrap_or(group);
            index = digits
                .parse::<u64>()
                .ok()
                .and_then(|group| index.checked_mul(1000)?.checked_add(group))
                .ok_or_else(malformed)?;
        }
        let tile = Self::new(kind, index, width).map_err(|_| malformed())?;
        if tile.to_string() == path {
            Ok(tile)
        } else {
            Err(malformed())
        }
    }
}

/// Every tile and entry bundle of a log of `size` entries that one of `old` entries has not, bundles first, then level by
/// level: what is written before a checkpoint of that size is.
#[must_use]
pub fn tiles(old: u64, size: u64) -> Vec<Tile> {
    let mut list = Vec::new();
    row(TileKind::Entries, old, size, &mut list);
    for level in 0..=MAX_LEVEL {
        let shift = u32::from(HEIGHT) * u32::from(level);
        let (old, size) = (
            old.checked_shr(shift).unwrap_or(0),
            size.checked_shr(shift).unwrap_or(0),
        );
        if size == 0 {
            break;
        }
        row(TileKind::Hashes(level), old, size, &mut list);
    }
    list
}

/// The tiles of one row of `size` hashes or entries that one of `old` has not.
fn row(kind: TileKind, old: u64, size: u64, list: &mut Vec<Tile>) {
    let width = u64::from(TILE_WIDTH);
    let mut at = old - old % width;
    while at < size {
        let here = (size - at).min(width);
        // A tile that the old row had in this very width is there already.
        if at + here > old {
            list.push(Tile {
                kind,
                index: at / width,
                width: u16::try_from(here).unwrap_or(TILE_WIDTH),
            });
        }
        at += width;
    }
}

/// The bytes of an entry bundle.
///
/// # Errors
/// [`TileError::EntryLength`].
pub fn join_entries<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, TileError> {
    let mut bytes = Vec::new();
    for entry in entries {
        let length = u16::try_from(entry.len()).map_err(|_| TileError::EntryLength(entry.len()))?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(entry);
    }
    Ok(bytes)
}

/// The entries of a bundle.
///
/// # Errors
/// [`TileError::Content`] when there are fewer or more than the tile's width, or bytes are left over.
pub fn split_entries(tile: Tile, bytes: &[u8]) -> Result<Vec<&[u8]>, TileError> {
    let damaged = || TileError::Content { tile };
    let (mut entries, mut rest) = (Vec::with_capacity(usize::from(tile.width)), bytes);
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (entry, after) = after
            .split_at_checked(usize::from(u16::from_be_bytes(*length)))
            .ok_or_else(damaged)?;
        entries.push(entry);
        rest = after;
    }
    if !rest.is_empty() || entries.len() != usize::from(tile.width) || tile.kind != TileKind::Entries {
        return Err(damaged());
    }
    Ok(entries)
}

/// A tree of which only the tiles are at hand. Nothing is believed: compare [`TileTree::root`] with a signed head before
/// using a proof, or hand the proof to somebody who checks it.
pub struct TileTree<F> {
    size: u64,
    fetch: F,
}

impl<F: FnMut(Tile) -> Result<Vec<u8>, String>> TileTree<F> {
    /// The tree of `size` leaves whose tiles `fetch` gets. A partial tile that is gone may be answered with the full one.
    pub fn new(size: u64, fetch: F) -> Self {
        Self { size, fetch }
    }

    /// The root.
    ///
    /// # Errors
    /// [`TileError::Missing`] or [`TileError::Content`].
    pub fn root(&mut self) -> Result<Hash, TileError> {
        let size = self.size;
        merkle::root(size, &mut |level, index| self.node(level, index))
    }

    /// The proof that entry `index` is in the tree.
    ///
    /// # Errors
    /// [`TileError`].
    pub fn inclusion_proof(&mut self, index: u64) -> Result<Vec<Hash>, TileError> {
        let size = self.size;
        merkle::prove_inclusion(index, size, &mut |level, index| self.node(level, index))
    }

    /// The proof that the tree extends that of `old` leaves.
    ///
    /// # Errors
    /// [`TileError`].
    pub fn consistency_proof(&mut self, old: u64) -> Result<Vec<Hash>, TileError> {
        let size = self.size;
        merkle::prove_consistency(old, size, &mut |level, index| self.node(level, index))
    }

    /// The hash over `2^level` leaves, from the tile whose hashes are nearest below.
    fn node(&mut self, level: u8, index: u64) -> Result<Hash, TileError> {
        let (row, inner) = (level / HEIGHT, level % HEIGHT);
        let first = index << inner;
        let width = u64::from(TILE_WIDTH);
        let held = self
            .size
            .checked_shr(u32::from(HEIGHT) * u32::from(row))
            .unwrap_or(0);
        let here = (held - (first - first % width).min(held)).min(width);
        let tile = Tile::new(
            TileKind::Hashes(row),
            first / width,
            u16::try_from(here).unwrap_or(TILE_WIDTH),
        )?;
        let bytes = (self.fetch)(tile).map_err(|reason| TileError::Missing { tile, reason })?;
        // The full tile begins with the partial one.
        let bytes = if bytes.len() == usize::from(TILE_WIDTH) * 32 {
            bytes.get(..usize::from(tile.width) * 32).unwrap_or(&bytes)
        } else {
            &bytes
        };
        let hashes = tile.read_hashes(bytes)?;
        let start = usize::try_from(first % width).unwrap_or(usize::MAX);
        let mut row: Vec<Hash> = hashes
            .get(start..start.saturating_add(1 << inner))
            .ok_or(TileError::Content { tile })?
            .to_vec();
        while let [_, _, ..] = row.as_slice() {
            row = row
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[left, right]| node_hash(left, right))
                .collect();
        }
        row.first().copied().ok_or(TileError::Content { tile })
    }
}

/// Tree levels in a tile.
const HEIGHT: u8 = 8;

/// The highest tile level the text allows.
const MAX_LEVEL: u8 = 63;
