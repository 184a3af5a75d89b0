//! `splits.mat`: which of the labelled frames are to train on and which to score on.
//!
//! Of MATLAB's v5 format (MAT-File Format, R2023b, chapter 1) only what that file holds is read: columns of whole numbers, each
//! variable as it is or compressed by zlib. It is little-endian, and a megabyte is more than it can be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;

use crate::data::DataError;

/// Numbers of frames, from 0.
#[derive(Debug)]
pub(super) struct Splits {
    pub(super) train: Vec<usize>,
    pub(super) test: Vec<usize>,
}

impl Splits {
    pub(super) fn read(path: &Path, frames: usize) -> Result<Self, DataError> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
            .map_err(|source| DataError::Io {
                path: path.to_owned(),
                source,
            })?;
        let fault = |reason: String| DataError::Meta {
            path: path.to_owned(),
            reason,
        };
        let variables = variables(&bytes)
            .ok_or_else(|| fault("is no whole MATLAB v5 file such as NYU's splits.mat".to_owned()))?;
        let numbers = |name: &str| {
            let numbers = variables
                .get(name)
                .ok_or_else(|| fault(format!("has no {name}; it must be NYU's splits.mat")))?;
            numbers
                .iter()
                .map(|number| number.checked_sub(1).filter(|&number| number < frames))
                .collect::<Option<Vec<usize>>>()
                .filter(|numbers| !numbers.is_empty())
                .ok_or_else(|| fault(format!("{name} must hold numbers from 1 to {frames}")))
        };
        let (train, test) = (numbers("trainNdxs")?, numbers("testNdxs")?);
        let trained: BTreeSet<usize> = train.iter().copied().collect();
        if let Some(both) = test.iter().find(|number| trained.contains(number)) {
            return Err(fault(format!(
                "frame {} is in trainNdxs and in testNdxs",
                both + 1
            )));
        }
        Ok(Self { train, test })
    }
}

/// The whole numbers of each variable that holds such; other variables are passed over.
fn variables(bytes: &[u8]) -> Option<BTreeMap<String, Vec<usize>>> {
    let (header, mut rest) = bytes.split_at_checked(HEADER)?;
    if header.get(HEADER - 2..)? != b"IM" {
        return None;
    }
    let mut found = BTreeMap::new();
    while !rest.is_empty() {
        let (kind, data) = element(&mut rest)?;
        let inflated;
        let (kind, data) = if kind == COMPRESSED {
            let mut out = Vec::new();
            ZlibDecoder::new(data)
                .take(MOST_BYTES)
                .read_to_end(&mut out)
                .ok()?;
            inflated = out;
            element(&mut inflated.as_slice())?
        } else {
            (kind, data)
        };
        if kind == MATRIX
            && let Some((name, numbers)) = matrix(data)
        {
            found.insert(name, numbers);
        }
    }
    Some(found)
}

/// Kind and data of the next element.
fn element<'a>(rest: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let (kind, after) = rest.split_first_chunk::<4>()?;
    let kind = u32::from_le_bytes(*kind);
    // Up to four bytes stand in the tag itself, their number in the upper half of the kind.
    let small = usize::try_from(kind >> 16).ok()?;
    if small > 0 {
        let (data, after) = after.split_at_checked(4)?;
        *rest = after;
        return Some((kind & 0xFFFF, data.get(..small)?));
    }
    let (length, after) = after.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let data = after.get(..length)?;
    // All but compressed elements are padded to eight bytes, which the file's last may lack.
    let padded = match kind {
        COMPRESSED => length,
        _ => length.next_multiple_of(8),
    };
    *rest = after.get(padded.min(after.len())..)?;
    Some((kind, data))
}

/// Name and numbers of a variable, if it is a table of whole numbers.
fn matrix(mut data: &[u8]) -> Option<(String, Vec<usize>)> {
    let (_flags, _sides, name) = (element(&mut data)?, element(&mut data)?, element(&mut data)?);
    let name = String::from_utf8(name.1.to_vec()).ok()?;
    let (kind, values) = element(&mut data)?;
    Some((name, numbers(kind, values)?))
}

/// MATLAB writes whole numbers in the smallest type that holds them, whatever the variable's own is.
fn numbers(kind: u32, data: &[u8]) -> Option<Vec<usize>> {
    fn each<const N: usize>(data: &[u8], of: impl Fn([u8; N]) -> Option<usize>) -> Option<Vec<usize>> {
        let (values, rest) = data.as_chunks::<N>();
        rest.is_empty()
            .then(|| values.iter().map(|value| of(*value)).collect())?
    }
    match kind {
        INT8 => each(data, |[byte]| usize::try_from(byte.cast_signed()).ok()),
        UINT8 => each(data, |[byte]| Some(usize::from(byte))),
        INT16 => each(data, |bytes| usize::try_from(i16::from_le_bytes(bytes)).ok()),
        UINT16 => each(data, |bytes| Some(usize::from(u16::from_le_bytes(bytes)))),
        INT32 => each(data, |bytes| usize::try_from(i32::from_le_bytes(bytes)).ok()),
        UINT32 => each(data, |bytes| usize::try_from(u32::from_le_bytes(bytes)).ok()),
        DOUBLE => each(data, |bytes| whole(f64::from_le_bytes(bytes))),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and small"
)]
fn whole(value: f64) -> Option<usize> {
    (value.fract() == 0.0 && (0.0..1e9).contains(&value)).then_some(value as usize)
}

/// Text, an offset, a version and the order of bytes.
const HEADER: usize = 128;
/// Most bytes of the file, and of a variable once it is unpacked.
const MOST_BYTES: u64 = 1 << 20;
const INT8: u32 = 1;
const UINT8: u32 = 2;
const INT16: u32 = 3;
const UINT16: u32 = 4;
const INT32: u32 = 5;
const UINT32: u32 = 6;
const DOUBLE: u32 = 9;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    /// What `scipy.io.savemat` (`SciPy` 1.17.1) writes for two columns of `uint16`, [[1], [3]] and [[2], [4], [6]], after its
    /// header, as it is and compressed.
    #[test]
    fn scipys_files_are_read() {
        for variables in [PLAIN, PACKED] {
            let mut file = vec![b' '; HEADER - 4];
            file.extend([0, 1, b'I', b'M']);
            file.extend(variables);
            let found = super::variables(&file).unwrap();
            assert_eq!(found.len(), 2);
            assert_eq!(
                (&found["trainNdxs"][..], &found["testNdxs"][..]),
                (&[1, 3][..], &[2, 4, 6][..])
            );
        }
    }

    #[test]
    fn every_type_of_whole_numbers_is_read() {
        let doubles: Vec<u8> = [3.0_f64, 700.0].iter().flat_map(|n| n.to_le_bytes()).collect();
        for (kind, data, want) in [
            (INT8, &[1, 127][..], Some(vec![1, 127])),
            (INT8, &[255], None),
            (UINT8, &[255], Some(vec![255])),
            (INT16, &[1, 0, 0, 128], None),
            (UINT16, &[1, 0, 0, 128], Some(vec![1, 32_768])),
            (UINT16, &[1, 0, 0], None),
            (INT32, &[1, 0, 1, 0], Some(vec![65_537])),
            (UINT32, &[0, 0, 0, 1], Some(vec![1 << 24])),
            (DOUBLE, &doubles, Some(vec![3, 700])),
            (DOUBLE, &0.5_f64.to_le_bytes(), None),
            (DOUBLE, &f64::NAN.to_le_bytes(), None),
            (7, &[0; 4], None),
        ] {
            assert_eq!(numbers(kind, data), want, "{kind} {data:?}");
        }
    }

    #[test]
    fn a_cut_or_foreign_file_is_no_splits() {
        let mut file = vec![0; HEADER - 2];
        file.extend(b"IM");
        file.extend(PACKED);
        for len in 0..file.len() {
            // Cut between two variables it is a whole file of one.
            let found = variables(&file[..len]);
            assert!(found.is_none_or(|found| found.len() < 2), "cut to {len}");
        }
        file[HEADER - 2..HEADER].copy_from_slice(b"MI");
        assert!(variables(&file).is_none());
    }

    const PLAIN: &[u8] = &[
        14, 0, 0, 0, 64, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 2,
        0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 116, 114, 97, 105, 110, 78, 100, 120, 115, 0, 0, 0, 0,
        0, 0, 0, 4, 0, 4, 0, 1, 0, 3, 0, 14, 0, 0, 0, 64, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0, 11, 0, 0, 0, 0, 0,
        0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 116, 101, 115, 116, 78,
        100, 120, 115, 4, 0, 0, 0, 6, 0, 0, 0, 2, 0, 4, 0, 6, 0, 0, 0,
    ];
    const PACKED: &[u8] = &[
        15, 0, 0, 0, 50, 0, 0, 0, 120, 156, 227, 99, 96, 96, 112, 0, 98, 54, 32, 230, 0, 98, 110, 6, 8, 96,
        133, 242, 153, 128, 152, 17, 138, 57, 129, 184, 164, 40, 49, 51, 207, 47, 165, 162, 24, 170, 142, 5,
        8, 25, 25, 152, 25, 0, 105, 197, 4, 73, 15, 0, 0, 0, 48, 0, 0, 0, 120, 156, 227, 99, 96, 96, 112, 0,
        98, 54, 32, 230, 0, 98, 110, 6, 8, 96, 133, 242, 153, 129, 152, 17, 138, 65, 252, 146, 212, 226, 18,
        191, 148, 138, 98, 22, 168, 30, 38, 6, 22, 48, 13, 0, 100, 164, 3, 245,
    ];
}
