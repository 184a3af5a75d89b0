//! Which tensors a model has, and which of them may travel.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What may happen to a tensor.
///
/// Uploads are an allow-list: only [`Shared`](TensorClass::Shared) and [`Buffer`](TensorClass::Buffer) tensors have a
/// place in the flat vector that leaves the machine. Private tensors have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TensorClass {
    /// Trained here and averaged with the other clients.
    Shared,
    /// Trained here and kept here. Never uploaded, never overwritten by a download.
    Private,
    /// Not trained, but averaged like weights: running means and variances. Floats only; integer step counters are no
    /// part of a layout.
    Buffer,
}

impl TensorClass {
    /// Whether tensors of this class travel.
    #[must_use]
    pub fn is_uploaded(self) -> bool {
        match self {
            Self::Shared | Self::Buffer => true,
            Self::Private => false,
        }
    }

    /// The byte that stands for the class in [`Layout::digest`].
    fn code(self) -> u8 {
        match self {
            Self::Shared => 0,
            Self::Private => 1,
            Self::Buffer => 2,
        }
    }
}

/// Name, shape and class of one `f32` tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Unique in its layout, such as `decoder.up1.weight`. At most [`TensorSpec::MAX_NAME`] bytes.
    pub name: String,
    /// Sizes, outermost first. Empty for a single number.
    pub shape: Vec<usize>,
    /// What may happen to it.
    pub class: TensorClass,
}

impl TensorSpec {
    /// Longest name in bytes.
    pub const MAX_NAME: usize = 256;
    /// Highest rank.
    pub const MAX_RANK: usize = 8;

    /// A spec from its parts.
    pub fn new(name: impl Into<String>, shape: impl Into<Vec<usize>>, class: TensorClass) -> Self {
        Self {
            name: name.into(),
            shape: shape.into(),
            class,
        }
    }

    /// How many numbers the tensor holds; `None` if that does not fit a `usize`.
    #[must_use]
    pub fn checked_len(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))
    }

    /// How many numbers the tensor holds. Saturates, which a spec inside a [`Layout`] never does.
    #[must_use]
    pub fn len(&self) -> usize {
        self.checked_len().unwrap_or(usize::MAX)
    }

    /// Always false inside a [`Layout`], which refuses empty tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The ordered tensors of a model. Cheap to clone.
///
/// The order of the uploaded tensors is the order of the numbers in [`Weights`](crate::Weights) and
/// [`Delta`](crate::Delta).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<TensorSpec>", into = "Vec<TensorSpec>")]
pub struct Layout {
    specs: Arc<[TensorSpec]>,
    upload_len: usize,
    digest: [u8; 32],
}

impl Layout {
    /// Most numbers a model may upload: 2³¹ − 1, about 30 times the largest network planned.
    pub const MAX_UPLOAD: usize = i32::MAX as usize;
    /// Most tensors a model may have.
    pub const MAX_TENSORS: usize = 1 << 16;

    /// Checks and fixes a list of tensors.
    ///
    /// # Errors
    ///
    /// Refuses repeated, empty or over-long names, ranks above 8, empty tensors, more than [`Layout::MAX_TENSORS`]
    /// tensors, and models that would upload nothing or more than [`Layout::MAX_UPLOAD`] numbers.
    pub fn new(specs: Vec<TensorSpec>) -> Result<Self, LayoutError> {
        if specs.len() > Self::MAX_TENSORS {
            return Err(LayoutError::TooManyTensors { count: specs.len() });
        }
        let mut names = BTreeSet::new();
        let mut upload_len = 0_usize;
        for spec in &specs {
            if spec.name.is_empty() || spec.name.len() > TensorSpec::MAX_NAME {
                return Err(LayoutError::Name {
                    name: spec.name.chars().take(40).collect(),
                });
            }
            if !names.insert(spec.name.as_str()) {
                return Err(LayoutError::Repeated {
                    name: spec.name.clone(),
                });
            }
            let len = spec.checked_len().unwrap_or(usize::MAX);
            if spec.shape.len() > TensorSpec::MAX_RANK || len == 0 || len > Self::MAX_UPLOAD {
                return Err(LayoutError::Shape {
                    name: spec.name.clone(),
                    shape: spec.shape.clone(),
                });
            }
            if spec.class.is_uploaded() {
                upload_len = upload_len.saturating_add(len);
            }
        }
        if upload_len == 0 || upload_len > Self::MAX_UPLOAD {
            return Err(LayoutError::UploadLength { len: upload_len });
        }
        let digest = schema_digest(&specs);
        Ok(Self {
            specs: specs.into(),
            upload_len,
            digest,
        })
    }

    /// Every tensor, private ones too, in order.
    #[must_use]
    pub fn specs(&self) -> &[TensorSpec] {
        &self.specs
    }

    /// The tensors that travel, in the order in which they lie in the flat vector.
    pub fn uploaded(&self) -> impl Iterator<Item = &TensorSpec> {
        self.specs.iter().filter(|spec| spec.class.is_uploaded())
    }

    /// The tensors that stay.
    pub fn private(&self) -> impl Iterator<Item = &TensorSpec> {
        self.specs.iter().filter(|spec| !spec.class.is_uploaded())
    }

    /// Numbers in an upload: all shared tensors and float buffers.
    #[must_use]
    pub fn upload_len(&self) -> usize {
        self.upload_len
    }

    /// SHA-256 of the uploaded schema.
    ///
    /// Hashed bytes, integers little-endian: tensor count (u32), then for each uploaded tensor its name's length (u32),
    /// the name in UTF-8, a class byte (0 shared, 2 buffer), the rank (u32) and the sizes (u64 each). Private tensors do
    /// not enter, so clients with different private parts agree on the digest.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Which tensor the flat position `index` belongs to, and where in it. `None` past the end.
    #[must_use]
    pub fn locate(&self, index: usize) -> Option<(&TensorSpec, usize)> {
        let mut rest = index;
        for spec in self.uploaded() {
            if rest < spec.len() {
                return Some((spec, rest));
            }
            rest -= spec.len();
        }
        None
    }

    /// The spec with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&TensorSpec> {
        self.specs.iter().find(|spec| spec.name == name)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("tensors", &self.specs.len())
            .field("private", &self.private().count())
            .field("upload_len", &self.upload_len)
            .finish_non_exhaustive()
    }
}

impl TryFrom<Vec<TensorSpec>> for Layout {
    type Error = LayoutError;

    fn try_from(specs: Vec<TensorSpec>) -> Result<Self, LayoutError> {
        Self::new(specs)
    }
}

impl From<Layout> for Vec<TensorSpec> {
    fn from(layout: Layout) -> Self {
        layout.specs.to_vec()
    }
}

/// Why a list of tensors is no layout. The fault is the model definition's (or the sender's of a serialised layout).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Empty or over-long name.
    #[error(
        "tensor name '{name}' is empty or longer than {} bytes: shorten it in the model definition",
        TensorSpec::MAX_NAME
    )]
    Name {
        /// The name, cut to 40 characters.
        name: String,
    },
    /// Two tensors share a name.
    #[error("tensor '{name}' is listed twice: every tensor of a model needs its own name")]
    Repeated {
        /// The name.
        name: String,
    },
    /// Empty tensor, rank above 8 or a size that overflows.
    #[error("tensor '{name}' has the shape {shape:?}: sizes must be positive and the rank at most 8")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Nothing, or too much, to upload.
    #[error(
        "the model would upload {len} numbers: mark at least one tensor shared, and stay below {}",
        Layout::MAX_UPLOAD
    )]
    UploadLength {
        /// Numbers counted.
        len: usize,
    },
    /// More tensors than any model has.
    #[error("the model lists {count} tensors, more than {}", Layout::MAX_TENSORS)]
    TooManyTensors {
        /// Tensors counted.
        count: usize,
    },
}

fn schema_digest(specs: &[TensorSpec]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let put = |hash: &mut Sha256, n: usize| hash.update(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
    let uploaded = || specs.iter().filter(|spec| spec.class.is_uploaded());
    put(&mut hash, uploaded().count());
    for spec in uploaded() {
        put(&mut hash, spec.name.len());
        hash.update(spec.name.as_bytes());
        hash.update([spec.class.code()]);
        put(&mut hash, spec.shape.len());
        for &size in &spec.shape {
            hash.update((size as u64).to_le_bytes());
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<TensorSpec> {
        vec![
            TensorSpec::new("a.weight", [2, 3], TensorClass::Shared),
            TensorSpec::new("a.embed", [4], TensorClass::Private),
            TensorSpec::new("a.mean", [], TensorClass::Buffer),
        ]
    }

    #[test]
    fn counts_only_what_travels() {
        let layout = Layout::new(sample()).unwrap();
        assert_eq!(layout.upload_len(), 7);
        assert_eq!(
            layout.uploaded().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["a.weight", "a.mean"]
        );
        assert_eq!(
            layout.private().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["a.embed"]
        );
        assert_eq!(
            layout.locate(5).map(|(s, i)| (s.name.as_str(), i)),
            Some(("a.weight", 5))
        );
        assert_eq!(
            layout.locate(6).map(|(s, i)| (s.name.as_str(), i)),
            Some(("a.mean", 0))
        );
        assert!(layout.locate(7).is_none());
    }

    /// Expected value from Python: `hashlib.sha256(struct.pack(...))` over the documented bytes.
    #[test]
    fn digest_is_the_documented_bytes() {
        let layout = Layout::new(sample()).unwrap();
        let expected = "c2bbbbfd3c4d4fcda1a49a19678cf4ac62d9806555ad075d2a45e10244e1eebb";
        let bytes: Vec<u8> = (0..32)
            .map(|i| u8::from_str_radix(&expected[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert_eq!(layout.digest().as_slice(), bytes);
    }

    #[test]
    fn digest_ignores_private_and_sees_everything_else() {
        let base = Layout::new(sample()).unwrap().digest();
        let mut other_private = sample();
        other_private[1].shape = vec![9, 9];
        assert_eq!(Layout::new(other_private).unwrap().digest(), base);
        let changes: [fn(&mut Vec<TensorSpec>); 5] = [
            |s| s[0].shape = vec![3, 2],
            |s| s[0].name = "b.weight".into(),
            |s| s[2].class = TensorClass::Shared,
            |s| s.swap(0, 2),
            |s| s[1].class = TensorClass::Shared,
        ];
        for change in changes {
            let mut specs = sample();
            change(&mut specs);
            assert_ne!(Layout::new(specs).unwrap().digest(), base);
        }
    }

    #[test]
    fn refuses_lists_that_are_no_layout() {
        let with = |change: fn(&mut Vec<TensorSpec>)| {
            let mut specs = sample();
            change(&mut specs);
            Layout::new(specs).unwrap_err()
        };
        assert!(matches!(
            with(|s| s[1].name = "a.weight".into()),
            LayoutError::Repeated { .. }
        ));
        assert!(matches!(
            with(|s| s[1].name = String::new()),
            LayoutError::Name { .. }
        ));
        assert!(matches!(
            with(|s| s[1].name = "x".repeat(257)),
            LayoutError::Name { .. }
        ));
        assert!(matches!(
            with(|s| s[0].shape = vec![2, 0]),
            LayoutError::Shape { .. }
        ));
        assert!(matches!(
            with(|s| s[0].shape = vec![1; 9]),
            LayoutError::Shape { .. }
        ));
        assert!(matches!(
            with(|s| s[0].shape = vec![usize::MAX, 2]),
            LayoutError::Shape { .. }
        ));
        assert!(matches!(
            with(|s| s.retain(|t| t.class == TensorClass::Private)),
            LayoutError::UploadLength { len: 0 }
        ));
    }

    #[test]
    fn survives_json_and_is_checked_on_the_way_in() {
        let layout = Layout::new(sample()).unwrap();
        let text = serde_json::to_string(&layout).unwrap();
        let back: Layout = serde_json::from_str(&text).unwrap();
        assert_eq!(back, layout);
        assert!(serde_json::from_str::<Layout>(&text.replace("a.mean", "a.weight")).is_err());
    }
}
