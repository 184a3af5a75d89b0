//! Checkpoints (C2SP tlog-checkpoint): a log's name, size and root as the text of a signed note.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::merkle::Hash;

/// One head of a log. Written and read in exactly one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    origin: String,
    size: u64,
    root: Hash,
    extensions: Vec<String>,
}

/// What is wrong with a checkpoint. The fault of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Fewer than three lines, or a last line without newline.
    #[error("a checkpoint has an origin, a size and a root, each a whole line")]
    Lines,
    /// An empty origin, or one with control characters.
    #[error("the origin must be one line of text, and not empty")]
    Origin,
    /// Not a decimal below 2^64, or with a sign or leading zero.
    #[error("the size must be a decimal number below 2^64 without sign or leading zero")]
    Size,
    /// Not the base64 of 32 bytes.
    #[error("the root must be 32 bytes in standard base64 with padding")]
    Root,
    /// An extension line that is empty or has control characters.
    #[error("extension line {0} must be one line of text, and not empty")]
    Extension(usize),
}

impl Checkpoint {
    /// A head without extension lines.
    ///
    /// # Errors
    /// [`CheckpointError::Origin`] if the origin is empty or has control characters.
    pub fn new(origin: impl Into<String>, size: u64, root: Hash) -> Result<Self, CheckpointError> {
        let origin = origin.into();
        if !is_line(&origin) {
            return Err(CheckpointError::Origin);
        }
        Ok(Self {
            origin,
            size,
            root,
            extensions: Vec::new(),
        })
    }

    /// The same head with extension lines. Discouraged: no monitor can check them.
    ///
    /// # Errors
    /// [`CheckpointError::Extension`], counted from 1, for a line that is empty or has control characters.
    pub fn with_extensions(self, extensions: Vec<String>) -> Result<Self, CheckpointError> {
        match extensions.iter().position(|line| !is_line(line)) {
            Some(index) => Err(CheckpointError::Extension(index + 1)),
            None => Ok(Self { extensions, ..self }),
        }
    }

    /// Which log this is.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Number of entries.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Root of the Merkle tree over them.
    #[must_use]
    pub fn root(&self) -> &Hash {
        &self.root
    }

    /// Lines after the root, usually none.
    #[must_use]
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }
}

impl fmt::Display for Checkpoint {
    /// The text of the note, with its final newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}\n{}\n{}",
            self.origin,
            self.size,
            STANDARD.encode(self.root)
        )?;
        self.extensions.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl FromStr for Checkpoint {
    type Err = CheckpointError;

    /// Reads the text of a note. Accepts exactly what [`Checkpoint`] writes.
    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let mut lines = text.strip_suffix('\n').ok_or(CheckpointError::Lines)?.split('\n');
        let mut line = || lines.next().ok_or(CheckpointError::Lines);
        let (origin, size, root) = (line()?, line()?, line()?);
        let number: u64 = size.parse().map_err(|_| CheckpointError::Size)?;
        if number.to_string() != size {
            return Err(CheckpointError::Size);
        }
        let root = STANDARD.decode(root).ok().and_then(|bytes| bytes.try_into().ok());
        Self::new(origin, number, root.ok_or(CheckpointError::Root)?)?
            .with_extensions(lines.map(str::to_owned).collect())
    }
}

/// Whether it can stand on a line of its own in a note.
fn is_line(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte >= b' ')
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;
    use crate::note::Note;

    /// The Go checksum database, as served for golang.org/x/sync@v0.1.0, and its published key.
    const GO: &str = "go.sum database tree\n65209736\n5+uGFjx6xBZG8ip1+wi77v+grwbhhukIrxEUS8PXvRo=\n\n\
        \u{2014} sum.golang.org Az3grnbssgK7ubgFX36gVETtNv0U23qxyAhAMai2QUfeGa3nB/akvkMdlUErfcZz7l/R3cVtYspg3dxXABkGZZKdsQ8=\n";
    const GO_KEY: &str = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";

    /// The example of C2SP tlog-checkpoint; its key is not published.
    const SOFA: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";

    #[test]
    fn a_real_checkpoint_verifies_and_reads() {
        let note = Note::parse(GO.as_bytes()).unwrap();
        let keys = [GO_KEY.parse().unwrap()];
        let check = |public: &[u8; 32], text: &[u8], signature: &[u8; 64]| {
            UnparsedPublicKey::new(&ED25519, public)
                .verify(text, signature)
                .is_ok()
        };
        assert_eq!(note.verify(&keys, &check).unwrap(), [&keys[0]]);
        let head: Checkpoint = note.text().parse().unwrap();
        assert_eq!((head.origin(), head.size()), ("go.sum database tree", 65_209_736));
        assert_eq!(head.to_string(), note.text());
        let changed = Note::parse(GO.replace("65209736", "65209737").as_bytes()).unwrap();
        assert!(changed.verify(&keys, &check).is_err());
    }

    #[test]
    fn the_example_of_the_specification_reads() {
        let note = Note::parse(SOFA.as_bytes()).unwrap();
        let head: Checkpoint = note.text().parse().unwrap();
        assert_eq!(
            (head.origin(), head.size()),
            ("example.com/behind-the-sofa", 20_852_163)
        );
        assert_eq!(head.root()[..3], [0x0a, 0xc5, 0x18]);
        assert_eq!(
            (head.to_string(), note.to_string()),
            (note.text().to_owned(), SOFA.to_owned())
        );
    }

    #[test]
    fn reading_undoes_writing() {
        for size in [0, 1, 9, 10, u64::MAX] {
            let head = Checkpoint::new("fleet.example/consortium a", size, [3; 32]).unwrap();
            assert_eq!(head.to_string().parse(), Ok(head.clone()));
            let head = head.with_extensions(vec!["x".into(), "y z".into()]).unwrap();
            assert_eq!(head.to_string().parse(), Ok(head.clone()));
            assert_eq!(head.extensions(), ["x", "y z"]);
        }
    }

    #[test]
    fn only_one_way_of_writing_is_read() {
        let root = STANDARD.encode([3; 32]);
        let read = |text: &str| text.parse::<Checkpoint>().unwrap_err();
        for size in [
            "",
            "-1",
            "+1",
            "01",
            "00",
            " 1",
            "1 ",
            "0x1",
            "1_0",
            "18446744073709551616",
            "\u{0661}",
        ] {
            assert_eq!(
                read(&format!("o\n{size}\n{root}\n")),
                CheckpointError::Size,
                "{size:?}"
            );
        }
        let short = STANDARD.encode([3; 31]);
        let long = STANDARD.encode([3; 33]);
        let unpadded = root.trim_end_matches('=');
        // The last character's two low bits belong to no byte.
        let loose = format!("{}N=", &root[..42]);
        for root in [&short, &long, unpadded, "", "?", &format!("{root} "), &loose] {
            assert_eq!(
                read(&format!("o\n1\n{root}\n")),
                CheckpointError::Root,
                "{root:?}"
            );
        }
        for text in ["", "o", "o\n1\n", "o\n1", &format!("o\n1\n{root}")] {
            assert_eq!(read(text), CheckpointError::Lines, "{text:?}");
        }
        assert_eq!(read(&format!("\n1\n{root}\n")), CheckpointError::Origin);
        assert_eq!(read(&format!("o\r\n1\n{root}\n")), CheckpointError::Origin);
        assert_eq!(read(&format!("o\n1\n{root}\n\n")), CheckpointError::Extension(1));
        assert_eq!(
            read(&format!("o\n1\n{root}\nx\n\ny\n")),
            CheckpointError::Extension(2)
        );
        assert_eq!(Checkpoint::new("a\nb", 1, [0; 32]), Err(CheckpointError::Origin));
    }
}
