//! Which model a new cluster starts from when the clients are clustered anew.
//!
//! A new cluster takes the model of the old cluster with which it shares most clients; of equals the one with the lowest
//! number; where it shares none, the policy's initial model. Nothing is averaged: an auditor follows models by their
//! digests, and a client that is in several clusters starts from their mean anyway.

use crate::statement::ClientSet;

/// For each new cluster the place of the old one whose model it takes; `None` where it shares no client with any.
pub fn heirs<'a>(
    old: &'a [ClientSet],
    new: impl IntoIterator<Item = &'a ClientSet> + 'a,
) -> impl Iterator<Item = Option<usize>> + 'a {
    new.into_iter().map(move |cluster| {
        let shared = |other: &ClientSet| other.iter().filter(|client| cluster.contains(client)).count();
        let mut best = None;
        for (place, other) in old.iter().enumerate() {
            let count = shared(other);
            if count > best.map_or(0, |(_, most)| most) {
                best = Some((place, count));
            }
        }
        best.map(|(place, _)| place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use veilsum_crypto::ClientId;

    fn set(clients: &[u32]) -> ClientSet {
        clients.iter().copied().map(ClientId).collect()
    }

    #[test]
    fn most_shared_clients_win_and_the_lowest_number_of_equals() {
        let old = [set(&[0, 1, 2]), set(&[2, 3, 4, 5]), set(&[6])];
        let new = [
            set(&[0, 1, 2]),
            set(&[4, 5, 6]),
            set(&[2, 7]),
            set(&[7, 8]),
            set(&[0, 3]),
        ];
        let got: Vec<_> = heirs(&old, &new).collect();
        assert_eq!(got, [Some(0), Some(1), Some(0), None, Some(0)]);
        assert_eq!(heirs(&[], &new).flatten().count(), 0);
    }
}
