//! JPEG files, as NYU Depth v2 has them.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{MAX_BYTES, Picture, open};
use crate::data::DataError;

/// Whether a file begins like a JPEG.
pub(super) fn is_jpeg(path: &Path) -> Result<bool, DataError> {
    let mut start = Vec::new();
    open(path)?
        .take(2)
        .read_to_end(&mut start)
        .map_err(|source| DataError::Io {
            path: path.to_owned(),
            source,
        })?;
    Ok(start == [0xFF, 0xD8])
}

/// Whether a file ends with the mark of the end of a picture; zeros behind it are padding.
fn is_whole(path: &Path) -> Result<bool, DataError> {
    let fault = |source| DataError::Io {
        path: path.to_owned(),
        source,
    };
    let mut file = open(path)?;
    let length = file.metadata().map_err(fault)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_PADDING)))
        .map_err(fault)?;
    let mut end = Vec::new();
    file.take(LONGEST_PADDING).read_to_end(&mut end).map_err(fault)?;
    while end.pop_if(|byte| *byte == 0).is_some() {}
    Ok(end.ends_with(&[0xFF, 0xD9]))
}

/// Reads three bytes a pixel. Decoders may differ from one another by one level.
pub(super) fn read(path: &Path) -> Result<Picture<u8>, DataError> {
    let broken = |reason: String| DataError::Jpeg {
        path: path.to_owned(),
        reason,
    };
    // A file that is cut short must not come back half gray: decoders make up what is missing at the end.
    if !is_whole(path)? {
        return Err(broken("the mark of the end is missing".to_owned()));
    }
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(BufReader::new(open(path)?), options);
    decoder
        .decode_headers()
        .map_err(|error| broken(error.to_string()))?;
    let size = decoder.output_buffer_size().filter(|&size| size <= MAX_BYTES);
    let size = size.ok_or_else(|| broken(format!("declares more than {} MiB of pixels", MAX_BYTES >> 20)))?;
    if let Some(ColorSpace::Luma) = decoder.input_colorspace() {
        return Err(DataError::Format {
            path: path.to_owned(),
            found: "a gray JPEG".to_owned(),
            expected: "a colour JPEG",
        });
    }
    let mut samples = vec![0; size];
    decoder
        .decode_into(&mut samples)
        .map_err(|error| broken(error.to_string()))?;
    let (width, height) = decoder
        .dimensions()
        .ok_or_else(|| broken("has no size".to_owned()))?;
    Ok(Picture {
        width,
        height,
        samples,
    })
}

/// Longest side of a picture.
const MAX_SIDE: usize = 1 << 14;
/// Most bytes that are looked at for the end of a picture.
const LONGEST_PADDING: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::super::read_colour;
    use super::*;
    use jpeg_encoder::{ColorType, Encoder};

    fn write(path: &Path, colour: ColorType, width: u16, height: u16, samples: &[u8]) {
        Encoder::new_file(path, 100)
            .unwrap()
            .encode(samples, width, height, colour)
            .unwrap();
    }

    #[test]
    fn a_picture_comes_back_nearly_as_written() {
        let dir = tempfile::tempdir().unwrap();
        // The name says nothing: files are known by how they begin.
        let path = dir.path().join("a.png");
        let samples: Vec<u8> = (0..16 * 8_u32)
            .flat_map(|i| [200, u8::try_from(i).unwrap(), 30])
            .collect();
        write(&path, ColorType::Rgb, 16, 8, &samples);
        let picture = read_colour(&path).unwrap();
        assert_eq!((picture.width, picture.height), (16, 8));
        let worst = samples
            .iter()
            .zip(&picture.samples)
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        assert!(worst <= Some(12), "{worst:?}");
    }

    #[test]
    fn a_file_cut_at_any_length_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jpg");
        let samples: Vec<u8> = (0..32 * 32 * 3_u32)
            .map(|i| u8::try_from(i * 37 % 251).unwrap())
            .collect();
        write(&path, ColorType::Rgb, 32, 32, &samples);
        let whole = std::fs::read(&path).unwrap();
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let error = read_colour(&path).err().unwrap_or_else(|| panic!("cut to {len}"));
            assert!(
                matches!(error, DataError::Jpeg { .. } | DataError::Png { .. }),
                "cut to {len}: {error}"
            );
        }
        std::fs::write(&path, [whole, vec![0; 100]].concat()).unwrap();
        assert!(read_colour(&path).is_ok(), "padded");
    }

    #[test]
    fn gray_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jpg");
        write(&path, ColorType::Luma, 8, 8, &[9; 64]);
        let error = read_colour(&path).err().unwrap();
        assert!(error.to_string().contains("a gray JPEG"), "{error}");
    }
}
