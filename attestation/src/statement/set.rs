//! A set of clients with one encoding: a bit string, low bit first, without trailing zero bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::ops::Deref;
use veilsum_crypto::{BoundedVec, ClientId};

/// A set of clients, at most [`ClientSet::MAX_CLIENTS`] of them numbered from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientSet(BTreeSet<ClientId>);

impl ClientSet {
    /// One past the largest client number a set can hold.
    pub const MAX_CLIENTS: u32 = 4096;
}

impl FromIterator<ClientId> for ClientSet {
    /// Collects clients; numbers beyond the bound are left out, and the policy's constructor refuses them before.
    fn from_iter<I: IntoIterator<Item = ClientId>>(clients: I) -> Self {
        Self(
            clients
                .into_iter()
                .filter(|client| client.0 < Self::MAX_CLIENTS)
                .collect(),
        )
    }
}

impl Deref for ClientSet {
    type Target = BTreeSet<ClientId>;
    fn deref(&self) -> &BTreeSet<ClientId> {
        &self.0
    }
}

impl Serialize for ClientSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let length = self.0.last().map_or(0, |last| last.0 as usize / 8 + 1);
        let mut bytes = vec![0u8; length];
        for client in &self.0 {
            if let Some(byte) = bytes.get_mut(client.0 as usize / 8) {
                *byte |= 1 << (client.0 % 8);
            }
        }
        bytes.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ClientSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = BoundedVec::<u8, MAX_BYTES>::deserialize(deserializer)?;
        if bytes.last() == Some(&0) {
            return Err(serde::de::Error::custom("a set of clients ends in a zero byte"));
        }
        let clients = (0u32..).zip(bytes.iter()).flat_map(|(at, byte)| {
            (0..8)
                .filter(move |bit| byte >> bit & 1 == 1)
                .map(move |bit| ClientId(at * 8 + bit))
        });
        Ok(Self(clients.collect()))
    }
}

const MAX_BYTES: usize = ClientSet::MAX_CLIENTS as usize / 8;

#[cfg(test)]
mod tests {
    use super::*;
    use veilsum_crypto::wire::{Wire, decode, encode};

    impl Wire for ClientSet {
        const KIND: &'static str = "client set";
        const MAX_LEN: usize = 1024;
    }

    #[test]
    fn sets_are_bit_strings_without_trailing_zeros() {
        let set: ClientSet = [0, 3, 9].map(ClientId).into_iter().collect();
        let bytes = encode(&set).unwrap();
        assert_eq!(bytes, [2, 0, 0, 0, 0, 0, 0, 0, 0b1001, 0b10]);
        assert_eq!(decode::<ClientSet>(&bytes).unwrap(), set);
        assert_eq!(encode(&ClientSet::default()).unwrap(), [0; 8]);
        assert!(decode::<ClientSet>(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 0]).is_err());
        let full: ClientSet = (0..ClientSet::MAX_CLIENTS).map(ClientId).collect();
        assert_eq!(decode::<ClientSet>(&encode(&full).unwrap()).unwrap(), full);
    }
}
