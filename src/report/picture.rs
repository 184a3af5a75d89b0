//! Example pictures: read with limits, made small, and written anew so that nothing but pixels goes into a page.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Limits, Transformations};

/// Reads a PNG and gives it back as base64 of a new 8-bit RGB PNG at most [`MAX_WIDTH`] pixels wide.
///
/// # Errors
/// [`PictureError`]: unreadable, no PNG, cut short, or too large.
pub fn embed(path: &Path) -> Result<String, PictureError> {
    let file = File::open(path).map_err(PictureError::Io)?;
    let rgb = decode(BufReader::new(file.take(MAX_FILE)))?;
    Ok(STANDARD.encode(encode(&rgb.narrowed(MAX_WIDTH))?))
}

/// Checks that a text is base64 of a PNG that decodes.
///
/// # Errors
/// [`PictureError`] as for [`embed`].
pub fn check_base64(text: &str) -> Result<(), PictureError> {
    let bytes = STANDARD.decode(text).map_err(|_| PictureError::Base64)?;
    decode(Cursor::new(bytes)).map(drop)
}

/// Widest picture in a page, in pixels.
pub const MAX_WIDTH: usize = 720;

/// Why a picture is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// Unreadable.
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
    /// Not base64.
    #[error("not base64")]
    Base64,
    /// No PNG, or cut short.
    #[error("not a whole PNG: {0}")]
    Png(#[from] png::DecodingError),
    /// It cannot be written again.
    #[error("cannot be made smaller: {0}")]
    Encode(#[from] png::EncodingError),
    /// Too large for a page.
    #[error("{width}x{height} pixels; a page takes at most {MAX_SIDE} a side")]
    Size {
        /// Width.
        width: u32,
        /// Height.
        height: u32,
    },
    /// A colour type this reader does not expand to RGB.
    #[error("its colours cannot be read as RGB")]
    Colours,
}

/// 8-bit RGB, row by row.
#[derive(Debug)]
struct Rgb {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

impl Rgb {
    /// Averages squares of pixels until the picture is at most `widest` wide.
    fn narrowed(self, widest: usize) -> Self {
        let factor = self.width.div_ceil(widest.max(1)).max(1);
        if factor == 1 {
            return self;
        }
        let (width, height) = (self.width / factor, (self.height / factor).max(1));
        let mut bytes = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            for x in 0..width {
                for channel in 0..3 {
                    let mut sum = 0_usize;
                    let mut count = 0_usize;
                    for row in (y * factor..(y + 1) * factor).take_while(|row| *row < self.height) {
                        for column in x * factor..(x + 1) * factor {
                            let at = 3 * (row * self.width + column) + channel;
                            sum += usize::from(self.bytes.get(at).copied().unwrap_or(0));
                            count += 1;
                        }
                    }
                    bytes.push(u8::try_from((sum + count / 2) / count.max(1)).unwrap_or(u8::MAX));
                }
            }
        }
        Self { width, height, bytes }
    }
}

fn decode<R: std::io::BufRead + std::io::Seek>(source: R) -> Result<Rgb, PictureError> {
    let mut decoder = Decoder::new_with_limits(source, Limits { bytes: MAX_MEMORY });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let (width, height) = (reader.info().width, reader.info().height);
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(PictureError::Size { width, height });
    }
    let size = reader.output_buffer_size().filter(|size| *size <= MAX_MEMORY);
    let mut bytes = vec![0; size.ok_or(PictureError::Size { width, height })?];
    let frame = reader.next_frame(&mut bytes)?;
    bytes.truncate(frame.buffer_size());
    let bytes = match (frame.color_type, frame.bit_depth) {
        (ColorType::Rgb, BitDepth::Eight) => bytes,
        (ColorType::Rgba, BitDepth::Eight) => {
            let (pixels, _) = bytes.as_chunks::<4>();
            pixels.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect()
        }
        (ColorType::Grayscale, BitDepth::Eight) => bytes.iter().flat_map(|&grey| [grey; 3]).collect(),
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => {
            let (pixels, _) = bytes.as_chunks::<2>();
            pixels.iter().flat_map(|&[grey, _]| [grey; 3]).collect()
        }
        _ => return Err(PictureError::Colours),
    };
    Ok(Rgb {
        width: width as usize,
        height: height as usize,
        bytes,
    })
}

fn encode(rgb: &Rgb) -> Result<Vec<u8>, PictureError> {
    let mut out = Vec::new();
    let size = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
    let mut encoder = Encoder::new(&mut out, size(rgb.width), size(rgb.height));
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::High);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgb.bytes)?;
    writer.finish()?;
    Ok(out)
}

const MAX_SIDE: u32 = 8_192;
const MAX_FILE: u64 = 32 << 20;
const MAX_MEMORY: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(width: usize, height: usize) -> Rgb {
        let bytes = (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| [x.to_le_bytes()[0], y.to_le_bytes()[0], 7]))
            .collect();
        Rgb { width, height, bytes }
    }

    fn saved(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn embedded(bytes: &[u8]) -> Result<Rgb, PictureError> {
        let text = embed(saved(bytes).path())?;
        check_base64(&text)?;
        decode(Cursor::new(STANDARD.decode(text).unwrap()))
    }

    #[test]
    fn small_pictures_keep_their_pixels() {
        let before = gradient(MAX_WIDTH, 3);
        let after = embedded(&encode(&before).unwrap()).unwrap();
        assert_eq!((after.width, after.height), (MAX_WIDTH, 3));
        assert_eq!(after.bytes, before.bytes);
    }

    #[test]
    fn wide_pictures_are_averaged() {
        let after = embedded(&encode(&gradient(2 * MAX_WIDTH, 4)).unwrap()).unwrap();
        assert_eq!((after.width, after.height), (MAX_WIDTH, 2));
        // Mean of columns 2 and 3 is 2.5, of rows 2 and 3 is 2.5; halves go up.
        assert_eq!(after.bytes[3 * (MAX_WIDTH + 1)..][..3], [3, 3, 7]);
    }

    #[test]
    fn grey_and_deep_pictures_become_rgb() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, 2, 1);
        encoder.set_color(ColorType::Grayscale);
        encoder.set_depth(BitDepth::Sixteen);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[0x12, 0x34, 0xff, 0xff]).unwrap();
        writer.finish().unwrap();
        assert_eq!(
            embedded(&out).unwrap().bytes,
            [0x12, 0x12, 0x12, 0xff, 0xff, 0xff]
        );
    }

    #[test]
    fn what_is_no_picture_is_refused_by_name() {
        let whole = encode(&gradient(40, 30)).unwrap();
        for cut in [0, 7, 20, whole.len() / 2, whole.len() - 20] {
            let error = embedded(&whole[..cut]).unwrap_err();
            assert!(matches!(error, PictureError::Png(_)), "{cut}: {error}");
        }
        assert!(matches!(
            embed(Path::new("/nowhere/x.png")),
            Err(PictureError::Io(_))
        ));
        assert!(matches!(check_base64("no base64!"), Err(PictureError::Base64)));
        assert!(matches!(check_base64("aGVsbG8="), Err(PictureError::Png(_))));
        // A header that promises a picture of 2^31 pixels a side.
        let mut huge = whole;
        huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        assert!(embedded(&huge).is_err());
    }
}
