//! Picture files: 8-bit colour, as PNG or JPEG; 16-bit depth and masks as PNG.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use png::{BitDepth, ColorType, Decoder, Encoder, Limits, Transformations};

use crate::data::DataError;

mod jpeg;

/// Width, height and row-major samples of a picture.
pub struct Picture<T> {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Samples.
    pub samples: Vec<T>,
}

/// Reads an 8-bit RGB PNG, three bytes a pixel. An alpha channel is dropped; gray and palette files are refused.
///
/// # Errors
///
/// [`DataError::Png`] if the file is no PNG or cut short, [`DataError::Format`] for other kinds.
pub fn read_rgb(path: &Path) -> Result<Picture<u8>, DataError> {
    let raw = read(path)?;
    let samples = match (raw.color, raw.depth) {
        (ColorType::Rgb, BitDepth::Eight) => raw.bytes,
        (ColorType::Rgba, BitDepth::Eight) => raw
            .bytes
            .as_chunks::<4>()
            .0
            .iter()
            .flat_map(|&[r, g, b, _]| [r, g, b])
            .collect(),
        _ => return Err(raw.wrong(path, "8-bit RGB")),
    };
    Ok(Picture {
        width: raw.width,
        height: raw.height,
        samples,
    })
}

/// Reads a colour picture: a JPEG, or what [`read_rgb`] reads. Which of the two is told by the file's first bytes.
///
/// # Errors
///
/// As [`read_rgb`]; [`DataError::Jpeg`] for a JPEG that is cut short, and [`DataError::Format`] for one in gray.
pub fn read_colour(path: &Path) -> Result<Picture<u8>, DataError> {
    if jpeg::is_jpeg(path)? {
        jpeg::read(path)
    } else {
        read_rgb(path)
    }
}

/// Reads a 16-bit gray PNG.
///
/// # Errors
///
/// As [`read_rgb`].
pub fn read_depth(path: &Path) -> Result<Picture<u16>, DataError> {
    let raw = read(path)?;
    if (raw.color, raw.depth) != (ColorType::Grayscale, BitDepth::Sixteen) {
        return Err(raw.wrong(path, "16-bit gray"));
    }
    let samples = raw
        .bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|&pair| u16::from_be_bytes(pair))
        .collect();
    Ok(Picture {
        width: raw.width,
        height: raw.height,
        samples,
    })
}

/// Reads a mask: a gray or palette-free PNG of 1, 2, 4, 8 or 16 bits, or RGB, of which every non-zero pixel is true.
///
/// # Errors
///
/// [`DataError::Png`] if the file is no PNG or cut short, [`DataError::Format`] for a palette, whose numbers are no
/// brightness.
pub fn read_mask(path: &Path) -> Result<Picture<bool>, DataError> {
    let raw = read(path)?;
    let channels = match raw.color {
        ColorType::Indexed => return Err(raw.wrong(path, "a gray picture")),
        // Only colours count: an opaque black pixel is black.
        ColorType::Grayscale => (1, 1),
        ColorType::GrayscaleAlpha => (2, 1),
        ColorType::Rgb => (3, 3),
        ColorType::Rgba => (4, 3),
    };
    let bits = usize::from(raw.depth as u8);
    let stride = (raw.width * channels.0 * bits).div_ceil(8);
    let mut samples = Vec::with_capacity(raw.width * raw.height);
    for row in raw.bytes.chunks(stride.max(1)) {
        for x in 0..raw.width {
            samples.push(match bits {
                8 | 16 => {
                    let bytes = bits / 8;
                    let from = x * channels.0 * bytes;
                    row.iter().skip(from).take(channels.1 * bytes).any(|&b| b != 0)
                }
                _ => {
                    let byte = row.get(x * bits / 8).copied().unwrap_or(0);
                    let shift = 8 - bits - (x * bits) % 8;
                    (byte >> shift) & ((1 << bits) - 1) != 0
                }
            });
        }
    }
    Ok(Picture {
        width: raw.width,
        height: raw.height,
        samples,
    })
}

/// Writes a mask as an 8-bit gray PNG: 255 for true.
///
/// # Errors
///
/// As [`write_rgb`].
pub fn write_mask(path: &Path, width: usize, height: usize, samples: &[bool]) -> Result<(), DataError> {
    let bytes: Vec<u8> = samples.iter().map(|&s| 255 * u8::from(s)).collect();
    write(path, width, height, ColorType::Grayscale, BitDepth::Eight, &bytes)
}

/// Writes an 8-bit RGB PNG.
///
/// # Errors
///
/// [`DataError::Io`] if the file cannot be written, [`DataError::Png`] if the samples do not fill the size.
pub fn write_rgb(path: &Path, width: usize, height: usize, samples: &[u8]) -> Result<(), DataError> {
    write(path, width, height, ColorType::Rgb, BitDepth::Eight, samples)
}

/// Writes a 16-bit gray PNG.
///
/// # Errors
///
/// As [`write_rgb`].
pub fn write_depth(path: &Path, width: usize, height: usize, samples: &[u16]) -> Result<(), DataError> {
    let bytes: Vec<u8> = samples.iter().flat_map(|v| v.to_be_bytes()).collect();
    write(
        path,
        width,
        height,
        ColorType::Grayscale,
        BitDepth::Sixteen,
        &bytes,
    )
}

struct Raw {
    width: usize,
    height: usize,
    color: ColorType,
    depth: BitDepth,
    bytes: Vec<u8>,
}

impl Raw {
    fn wrong(&self, path: &Path, expected: &'static str) -> DataError {
        let kind = match self.color {
            ColorType::Grayscale => "gray",
            ColorType::Rgb => "RGB",
            ColorType::Indexed => "palette",
            ColorType::GrayscaleAlpha => "gray with alpha",
            ColorType::Rgba => "RGB with alpha",
        };
        let found = format!("{}-bit {kind}", self.depth as u8);
        DataError::Format {
            path: path.to_owned(),
            found,
            expected,
        }
    }
}

/// Opens a plain file. Opening a pipe would wait for somebody to write into it.
fn open(path: &Path) -> Result<File, DataError> {
    let fault = |source| DataError::Io {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(fault)?.is_file() {
        let kind = std::io::ErrorKind::InvalidInput;
        return Err(fault(std::io::Error::new(kind, "it is no plain file")));
    }
    File::open(path).map_err(fault)
}

fn read(path: &Path) -> Result<Raw, DataError> {
    let broken = |reason: String| DataError::Png {
        path: path.to_owned(),
        reason,
    };
    let file = open(path)?;
    let mut decoder = Decoder::new_with_limits(BufReader::new(file), Limits { bytes: MAX_BYTES });
    // Samples as stored: a palette or 8-bit depth file must be seen for what it is.
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(|e| broken(e.to_string()))?;
    // The header alone decides how much is reserved, so it is checked before anything is.
    let size = reader.output_buffer_size().filter(|&n| n <= MAX_BYTES);
    let size = size.ok_or_else(|| broken(format!("declares more than {} MiB of pixels", MAX_BYTES >> 20)))?;
    let mut bytes = vec![0; size];
    let info = reader.next_frame(&mut bytes).map_err(|e| broken(e.to_string()))?;
    bytes.truncate(info.buffer_size());
    Ok(Raw {
        width: info.width as usize,
        height: info.height as usize,
        color: info.color_type,
        depth: info.bit_depth,
        bytes,
    })
}

fn write(
    path: &Path,
    width: usize,
    height: usize,
    color: ColorType,
    depth: BitDepth,
    bytes: &[u8],
) -> Result<(), DataError> {
    let broken = |reason: String| DataError::Png {
        path: path.to_owned(),
        reason,
    };
    let side = |n: usize| u32::try_from(n).map_err(|_| broken(format!("a side of {n} pixels")));
    let file = File::create(path).map_err(|source| DataError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut encoder = Encoder::new(BufWriter::new(file), side(width)?, side(height)?);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().map_err(|e| broken(e.to_string()))?;
    writer
        .write_image_data(bytes)
        .map_err(|e| broken(e.to_string()))?;
    writer.finish().map_err(|e| broken(e.to_string()))
}

/// Most memory one picture may take: 256 MiB, about 90 megapixels of RGB.
const MAX_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        write_rgb(&path, 2, 1, &[1, 2, 3, 250, 251, 252]).unwrap();
        let rgb = read_rgb(&path).unwrap();
        assert_eq!(
            (rgb.width, rgb.height, rgb.samples),
            (2, 1, vec![1, 2, 3, 250, 251, 252])
        );
        write_depth(&path, 1, 3, &[0, 256, 65535]).unwrap();
        assert_eq!(read_depth(&path).unwrap().samples, [0, 256, 65535]);
    }

    #[test]
    fn other_kinds_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        write_rgb(&path, 1, 1, &[1, 2, 3]).unwrap();
        let error = read_depth(&path).err().unwrap().to_string();
        assert!(
            error.contains("8-bit RGB") && error.contains("16-bit gray"),
            "{error}"
        );
        write(&path, 1, 1, ColorType::Grayscale, BitDepth::Eight, &[9]).unwrap();
        let error = read_depth(&path).err().unwrap().to_string();
        assert!(error.contains("8-bit gray"), "{error}");
        write_depth(&path, 1, 1, &[9]).unwrap();
        assert!(matches!(read_rgb(&path), Err(DataError::Format { .. })));
        write(&path, 1, 1, ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 4]).unwrap();
        assert_eq!(read_rgb(&path).unwrap().samples, [1, 2, 3]);
    }

    /// Ten pixels a row, so that rows of 1, 2 and 4 bits end inside a byte.
    #[test]
    fn masks_of_every_depth_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let expected: Vec<bool> = (0..20).map(|i| i % 3 == 0).collect();
        for (depth, bits) in [
            (BitDepth::One, 1_usize),
            (BitDepth::Two, 2),
            (BitDepth::Four, 4),
            (BitDepth::Eight, 8),
        ] {
            let mut bytes = Vec::new();
            for row in expected.chunks(10) {
                let mut packed = vec![0_u8; (10 * bits).div_ceil(8)];
                for (x, &set) in row.iter().enumerate() {
                    let at = x * bits;
                    packed[at / 8] |= u8::from(set) << (8 - bits - at % 8);
                }
                bytes.extend(packed);
            }
            write(&path, 10, 2, ColorType::Grayscale, depth, &bytes).unwrap();
            let mask = read_mask(&path).unwrap();
            assert_eq!((mask.width, mask.height), (10, 2));
            assert_eq!(mask.samples, expected, "{bits} bits");
        }
        write_depth(&path, 2, 1, &[0, 1]).unwrap();
        assert_eq!(read_mask(&path).unwrap().samples, [false, true]);
        write(
            &path,
            2,
            1,
            ColorType::Rgba,
            BitDepth::Eight,
            &[0, 0, 0, 255, 0, 0, 1, 0],
        )
        .unwrap();
        assert_eq!(
            read_mask(&path).unwrap().samples,
            [false, true],
            "alpha is no brightness"
        );
        write_mask(&path, 2, 1, &[true, false]).unwrap();
        assert_eq!(read_mask(&path).unwrap().samples, [true, false]);
    }

    #[test]
    fn cut_files_are_refused_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let samples: Vec<u16> = (0..64).map(|i| i * 997).collect();
        write_depth(&path, 8, 8, &samples).unwrap();
        let whole = std::fs::read(&path).unwrap();
        // The closing chunk (12 bytes) carries no pixel; whatever is cut before it must be noticed.
        for len in 0..whole.len() - 12 {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(
                matches!(read_depth(&path), Err(DataError::Png { .. })),
                "cut to {len}"
            );
        }
    }

    #[test]
    fn a_header_of_gigapixels_reserves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        write_depth(&path, 1, 1, &[9]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]); // 65536 x 65536
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(read_depth(&path), Err(DataError::Png { .. })));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read_rgb(Path::new("nowhere/0001.png")).err().unwrap();
        assert!(matches!(&error, DataError::Io { .. }) && error.to_string().contains("0001.png"));
    }
}
