//! The canonical encoding gate: the only file that touches bincode.
//!
//! Fixed-width little-endian integers, `u64` lengths, no maps, floats, `usize` or recursion. A value has exactly one
//! encoding: [`decode`] caps the length, demands that every byte is consumed and that encoding the value again gives the
//! same bytes. Why bincode 2.0.1 and how to leave it: `docs/adr/0001-wire.md`.

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::ops::Deref;

/// A type with one canonical encoding of at most [`Wire::MAX_LEN`] bytes.
pub trait Wire: Serialize + DeserializeOwned {
    /// What it is called in errors.
    const KIND: &'static str;
    /// The longest encoding accepted, in bytes.
    const MAX_LEN: usize;
}

/// Why bytes are not the canonical encoding of a `Wire` type. Always the fault of whoever made the bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The input is longer than the kind allows; it was not parsed.
    #[error("{kind}: {got} bytes, at most {max} are allowed; the sender does not follow the protocol")]
    TooLong {
        /// The kind that was expected.
        kind: &'static str,
        /// Bytes given.
        got: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The bytes do not parse: truncated, an unknown tag, or a list over its bound.
    #[error("{0}: malformed bytes (truncated, unknown tag or a list over its bound)")]
    Malformed(&'static str),
    /// Bytes are left over after the value.
    #[error("{kind}: {extra} bytes left over after the value")]
    Trailing {
        /// The kind that was parsed.
        kind: &'static str,
        /// Bytes left over.
        extra: usize,
    },
    /// The bytes parse but are not the canonical form of the value.
    #[error("{0}: not the canonical encoding of its value")]
    NonCanonical(&'static str),
    /// A value of ours would exceed its own bound: a bug on this side, not the peer's fault.
    #[error(
        "{kind}: encoding takes {got} bytes, over its bound of {max}; the parameters of this round are too large"
    )]
    OwnTooLong {
        /// The kind that was encoded.
        kind: &'static str,
        /// Bytes needed.
        got: usize,
        /// Bytes allowed.
        max: usize,
    },
}

/// The canonical bytes of `value`.
///
/// # Errors
/// [`WireError::OwnTooLong`] when they would exceed `T::MAX_LEN`.
pub fn encode<T: Wire>(value: &T) -> Result<Vec<u8>, WireError> {
    let bytes = bincode::serde::encode_to_vec(value, CONFIG).map_err(|_| WireError::Malformed(T::KIND))?;
    if bytes.len() > T::MAX_LEN {
        return Err(WireError::OwnTooLong {
            kind: T::KIND,
            got: bytes.len(),
            max: T::MAX_LEN,
        });
    }
    Ok(bytes)
}

/// Reads a value from exactly its canonical bytes.
///
/// # Errors
/// [`WireError`] naming the kind and what is wrong; nothing is allocated beyond the length of the input.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, WireError> {
    if bytes.len() > T::MAX_LEN {
        return Err(WireError::TooLong {
            kind: T::KIND,
            got: bytes.len(),
            max: T::MAX_LEN,
        });
    }
    let (value, used): (T, usize) =
        bincode::serde::borrow_decode_from_slice(bytes, CONFIG).map_err(|_| WireError::Malformed(T::KIND))?;
    if used != bytes.len() {
        return Err(WireError::Trailing {
            kind: T::KIND,
            extra: bytes.len().saturating_sub(used),
        });
    }
    // Catches whatever serde or bincode would accept in two spellings, including those nobody thought of.
    if encode(&value)? != bytes {
        return Err(WireError::NonCanonical(T::KIND));
    }
    Ok(value)
}

/// A list of at most `MAX` elements. The claimed length is checked before anything is read or allocated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundedVec<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> BoundedVec<T, MAX> {
    /// An element of size zero would make a claimed length free of cost: refused when compiled.
    const SIZED: () = assert!(
        size_of::<T>() > 0,
        "a bounded list of zero-sized elements has no bound"
    );

    /// Wraps a list.
    ///
    /// # Errors
    /// Gives the list back when it has more than `MAX` elements.
    pub fn new(items: Vec<T>) -> Result<Self, Vec<T>> {
        let () = Self::SIZED;
        if items.len() > MAX {
            Err(items)
        } else {
            Ok(Self(items))
        }
    }

    /// The elements.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> Default for BoundedVec<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> Deref for BoundedVec<T, MAX> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, T, const MAX: usize> IntoIterator for &'a BoundedVec<T, MAX> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Serialize + 'static, const MAX: usize> Serialize for BoundedVec<T, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Bytes go in one piece: as a list of elements they are the same bytes, ten times slower.
        let list: &dyn Any = &self.0;
        match list.downcast_ref::<Vec<u8>>() {
            Some(bytes) if !serializer.is_human_readable() => serializer.serialize_bytes(bytes),
            _ => self.0.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de> + 'static, const MAX: usize> Deserialize<'de> for BoundedVec<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + 'static, const MAX: usize> Visitor<'de> for Bounded<T, MAX> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a list of at most {MAX} elements")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
                if seq.size_hint().is_some_and(|claimed| claimed > MAX) {
                    return Err(A::Error::custom("list over its bound"));
                }
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() == MAX {
                        return Err(A::Error::custom("list over its bound"));
                    }
                    items.push(item);
                }
                Ok(items)
            }
            /// Only asked for where the elements are bytes.
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<T>, E> {
                if bytes.len() > MAX {
                    return Err(E::custom("list over its bound"));
                }
                let list: Box<dyn Any> = Box::new(bytes.to_vec());
                let list = list.downcast().map_err(|_| E::custom("not a list of bytes"))?;
                Ok(*list)
            }
        }
        let () = Self::SIZED;
        let bounded = Bounded::<T, MAX>(PhantomData);
        let bytes = TypeId::of::<T>() == TypeId::of::<u8>() && !deserializer.is_human_readable();
        let items = if bytes {
            deserializer.deserialize_bytes(bounded)
        } else {
            deserializer.deserialize_seq(bounded)
        };
        items.map(Self)
    }
}

/// No message is longer; a claimed length beyond it is refused before it is allocated.
const WIRE_LIMIT: usize = 64 << 20;

type Config = bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Fixint,
    bincode::config::Limit<WIRE_LIMIT>,
>;
const CONFIG: Config = bincode::config::legacy().with_limit::<WIRE_LIMIT>();

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        a: u16,
        b: Option<u32>,
        list: BoundedVec<u32, 4>,
        flag: bool,
        tail: [u8; 3],
    }
    impl Wire for Sample {
        const KIND: &'static str = "sample";
        const MAX_LEN: usize = 64;
    }

    #[derive(wincode::SchemaWrite)]
    struct Twin {
        a: u16,
        b: Option<u32>,
        list: Vec<u32>,
        flag: bool,
        tail: [u8; 3],
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Bytes {
        before: u16,
        short: BoundedVec<u8, 300>,
        lists: BoundedVec<BoundedVec<u8, 4>, 3>,
    }
    impl Wire for Bytes {
        const KIND: &'static str = "bytes";
        const MAX_LEN: usize = 400;
    }

    #[derive(wincode::SchemaWrite)]
    struct BytesTwin {
        before: u16,
        bytes: Vec<u8>,
        lists: Vec<Vec<u8>>,
    }

    fn bytes(before: u16, bytes: &[u8], lists: &[Vec<u8>]) -> Bytes {
        Bytes {
            before,
            short: BoundedVec::new(bytes.to_vec()).unwrap(),
            lists: BoundedVec::new(
                lists
                    .iter()
                    .map(|list| BoundedVec::new(list.clone()).unwrap())
                    .collect(),
            )
            .unwrap(),
        }
    }

    fn sample() -> Sample {
        Sample {
            a: 0x0102,
            b: Some(7),
            list: BoundedVec::new(vec![1, 2]).unwrap(),
            flag: true,
            tail: [9, 8, 7],
        }
    }

    #[test]
    fn layout_is_fixed_width_little_endian() {
        let bytes = encode(&sample()).unwrap();
        assert_eq!(
            bytes,
            [
                2, 1, 1, 7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 9, 8, 7
            ]
        );
        assert_eq!(decode::<Sample>(&bytes).unwrap(), sample());
    }

    #[test]
    fn trailing_truncated_and_hostile_bytes_are_named() {
        let good = encode(&sample()).unwrap();
        let mut long = good.clone();
        long.push(0);
        assert_eq!(
            decode::<Sample>(&long),
            Err(WireError::Trailing {
                kind: "sample",
                extra: 1
            })
        );
        for cut in 0..good.len() {
            assert_eq!(
                decode::<Sample>(&good[..cut]),
                Err(WireError::Malformed("sample"))
            );
        }
        let mut bomb = good.clone();
        bomb[7..15].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(decode::<Sample>(&bomb), Err(WireError::Malformed("sample")));
        let mut five = good.clone();
        five[7] = 5;
        assert_eq!(decode::<Sample>(&five), Err(WireError::Malformed("sample")));
        let mut flag = good;
        flag[23] = 2;
        assert_eq!(decode::<Sample>(&flag), Err(WireError::Malformed("sample")));
        assert!(matches!(
            decode::<Sample>(&[0; 65]),
            Err(WireError::TooLong { .. })
        ));
    }

    #[test]
    fn bytes_are_bounded_and_nothing_is_allocated_for_a_claim() {
        let good = encode(&bytes(1, &[7; 300], &[vec![1, 2], Vec::new()])).unwrap();
        assert_eq!(good.len(), 2 + 8 + 300 + 8 + 10 + 8);
        assert_eq!(
            decode::<Bytes>(&good).unwrap(),
            bytes(1, &[7; 300], &[vec![1, 2], Vec::new()])
        );
        for (place, claim) in [
            (2, 301),
            (2, u64::MAX),
            (2, 1 << 40),
            (2, 299),
            (310, 4),
            (318, 5),
        ] {
            let mut bad = good.clone();
            bad[place..place + 8].copy_from_slice(&u64::to_le_bytes(claim));
            assert!(decode::<Bytes>(&bad).is_err(), "{place} {claim}");
        }
        let long = [&301_u64.to_le_bytes()[..], &[7; 301], &[0; 8]].concat();
        assert_eq!(
            decode::<Bytes>(&[&[1, 0], &long[..]].concat()),
            Err(WireError::Malformed("bytes"))
        );
        // As text they are a list of numbers, as ever.
        let text = serde_json::to_string(&bytes(1, &[7, 8], &[])).unwrap();
        assert_eq!(text, r#"{"before":1,"short":[7,8],"lists":[]}"#);
        assert_eq!(
            serde_json::from_str::<Bytes>(&text).unwrap(),
            bytes(1, &[7, 8], &[])
        );
        assert!(serde_json::from_str::<Bytes>(r#"{"before":1,"short":"78","lists":[]}"#).is_err());
    }

    proptest! {
        #[test]
        fn an_independent_codec_writes_the_same_bytes_in_one_piece(
            before: u16,
            list in prop::collection::vec(any::<u8>(), 0..300),
            lists in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..3),
        ) {
            let ours = encode(&bytes(before, &list, &lists)).unwrap();
            let theirs = wincode::serialize(&BytesTwin { before, bytes: list.clone(), lists: lists.clone() }).unwrap();
            prop_assert_eq!(&ours, &theirs);
            prop_assert_eq!(decode::<Bytes>(&ours).unwrap(), bytes(before, &list, &lists));
        }

        #[test]
        fn an_independent_codec_writes_the_same_bytes(
            a: u16, b: Option<u32>, list in prop::collection::vec(any::<u32>(), 0..=4), flag: bool, tail: [u8; 3],
        ) {
            let ours = encode(&Sample { a, b, list: BoundedVec::new(list.clone()).unwrap(), flag, tail }).unwrap();
            let theirs = wincode::serialize(&Twin { a, b, list, flag, tail }).unwrap();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn whatever_decodes_encodes_to_itself(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = decode::<Sample>(&bytes) {
                prop_assert_eq!(encode(&value).unwrap(), bytes);
            }
        }
    }
}
