//! Sizes of federations: parameters from formulas, and overlapping clusters that the disclosure rule lets.

use super::scenario::{Layout, PolicySpec};
use std::collections::BTreeSet;
use veilsum_aggregation::cluster::too_few_alike;
use veilsum_attestation::disclosure::{self, CrowdRule, Membership};
use veilsum_crypto::ClientId;

/// The numbers of one federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Clients.
    pub n: u32,
    /// Clusters.
    pub k: u32,
    /// Threshold.
    pub t: u32,
    /// Colluders assumed.
    pub m: u32,
    /// Dropouts planned for.
    pub s: u32,
    /// Least crowd.
    pub c: u32,
    /// Least crowd in organisations.
    pub c_orgs: u32,
    /// Organisations.
    pub orgs: u32,
    /// Clients counted together, all or none; 0 for each by itself.
    pub blocks: u32,
}

impl Size {
    /// The parameters of a scenario at `n` clients and `k` clusters. Without further words: no colluders and one dropout
    /// below 32 clients, one and two from there on; the least safe threshold; a crowd of two clients and one organisation.
    ///
    /// # Errors
    /// A sentence: a formula that is not understood.
    pub fn of(n: u32, k: u32, spec: &PolicySpec) -> Result<Self, String> {
        let large = n >= 32;
        let mut size = Self {
            n,
            k,
            t: 0,
            m: u32::from(large),
            s: 1 + u32::from(large),
            c: 2,
            c_orgs: 1,
            orgs: n.min(4),
            blocks: 0,
        };
        if let Some(text) = &spec.colluders {
            size.m = size.number(text)?;
        }
        if let Some(text) = &spec.dropouts {
            size.s = size.number(text)?;
        }
        size.t = n.midpoint(size.m) + 1;
        if let Some(text) = &spec.threshold {
            size.t = size.number(text)?;
        }
        if let Some(text) = &spec.crowd {
            size.c = size.number(text)?;
        }
        if let Some(text) = &spec.orgs {
            size.orgs = size.number(text)?.max(1);
        }
        if let Some(text) = &spec.crowd_orgs {
            size.c_orgs = size.number(text)?;
        }
        if let Some(text) = &spec.blocks {
            size.blocks = size.number(text)?;
        }
        Ok(size)
    }

    /// The value of a formula: a sum of `n`, `k`, `t`, `m`, `s`, `c`, `n/2` and integers.
    ///
    /// # Errors
    /// A sentence: a word that is not understood, or a value below zero.
    pub fn number(&self, text: &str) -> Result<u32, String> {
        let mut total = 0i64;
        let mut sign = 1;
        for word in text.split_whitespace() {
            let value = match word {
                "+" => {
                    sign = 1;
                    continue;
                }
                "-" => {
                    sign = -1;
                    continue;
                }
                "n" => self.n,
                "k" => self.k,
                "t" => self.t,
                "m" => self.m,
                "s" => self.s,
                "c" => self.c,
                "n/2" => self.n / 2,
                word => word.parse().map_err(|_| {
                    format!("`{word}` in `{text}` is neither a number nor one of n k t m s c n/2")
                })?,
            };
            total += sign * i64::from(value);
        }
        u32::try_from(total).map_err(|_| format!("`{text}` is {total} here"))
    }

    /// Clients that every combination of the plan's sums must cover: `c + m + s`, where a dropout takes its group along.
    #[must_use]
    pub fn need(&self) -> u32 {
        self.c + self.m + self.s * (self.blocks * 2).saturating_sub(1).max(1)
    }

    /// The organisation of a client.
    #[must_use]
    pub fn org(&self, client: u32, layout: Layout) -> u32 {
        match layout {
            // The first cluster, the first half of the clients or all of them, belongs to one maker.
            Layout::OneMaker if client < self.n.div_ceil(self.k) => 0,
            _ => client % self.orgs,
        }
    }

    /// Clusters of a layout.
    ///
    /// # Errors
    /// Why there are none at this size: a sentence with the numbers.
    pub fn clusters(&self, layout: Layout) -> Result<Vec<BTreeSet<ClientId>>, String> {
        let all: Vec<u32> = (0..self.n).collect();
        match layout {
            Layout::Overlap => self.chain(&all, self.k, layout),
            Layout::Tight => {
                if self.k == 1 {
                    return Ok(vec![ids(&all)]);
                }
                let (rest, tight) = all
                    .split_at_checked((self.n.saturating_sub(self.need())) as usize)
                    .ok_or("too few clients")?;
                let mut clusters = self.chain(rest, self.k - 1, layout)?;
                clusters.push(ids(tight));
                self.safe(&clusters, layout).then_some(clusters).ok_or_else(|| {
                    format!(
                        "no cluster of {} beside others of {} clients",
                        self.need(),
                        rest.len()
                    )
                })
            }
            Layout::Isolating => {
                let mut clusters = vec![ids(&all)];
                clusters.resize(self.k.max(2) as usize - 1, ids(&all));
                clusters.push(ids(all.get(1..).unwrap_or_default()));
                Ok(clusters)
            }
            Layout::Empty => {
                let mut clusters = self.chain(&all, self.k, Layout::Overlap)?;
                clusters.push(BTreeSet::new());
                Ok(clusters)
            }
            Layout::Outsider => self.chain(all.get(1..).unwrap_or_default(), self.k, layout),
            Layout::OneMaker => {
                let each = self.n.div_ceil(self.k) as usize;
                Ok(all.chunks(each).map(ids).collect())
            }
        }
    }

    /// A chain of `k` clusters over `clients`, neighbours sharing as many as the rule lets; disjoint ones if it lets none.
    fn chain(&self, clients: &[u32], k: u32, layout: Layout) -> Result<Vec<BTreeSet<ClientId>>, String> {
        let (count, k) = (clients.len(), k as usize);
        if k == 1 {
            let one = vec![ids(clients)];
            return self
                .safe(&one, layout)
                .then_some(one)
                .ok_or_else(|| format!("one cluster of {count} is below c + m + s = {}", self.need()));
        }
        let base = count / k;
        for overlap in (0..=base).rev() {
            let clusters: Vec<BTreeSet<ClientId>> = (0..k)
                .map(|number| {
                    let (start, end) = (number * count / k, (number + 1) * count / k);
                    let end = if number + 1 < k {
                        (end + overlap).min(count)
                    } else {
                        end
                    };
                    ids(clients.get(start..end).unwrap_or_default())
                })
                .collect();
            let distinct: BTreeSet<_> = clusters.iter().collect();
            if distinct.len() == k && self.safe(&clusters, layout) {
                return Ok(clusters);
            }
        }
        Err(format!(
            "{k} independent clusters of {count} clients leave some combination at most {} (clients / rank), below c + m + s = {}",
            count / k,
            self.need()
        ))
    }

    fn safe(&self, clusters: &[BTreeSet<ClientId>], layout: Layout) -> bool {
        let rows: Vec<Vec<usize>> = clusters
            .iter()
            .map(|set| set.iter().map(|client| client.0 as usize).collect())
            .collect();
        let orgs: Vec<u32> = (0..self.n).map(|client| self.org(client, layout)).collect();
        let rule = CrowdRule {
            crowd: self.need(),
            crowd_orgs: self.c_orgs,
        };
        Membership::from_members(self.n as usize, &rows).is_ok_and(|matrix| {
            too_few_alike(&matrix, self.blocks).is_none()
                && disclosure::check(&matrix, &orgs, &rule).is_safe()
        })
    }
}

fn ids(clients: &[u32]) -> BTreeSet<ClientId> {
    clients.iter().copied().map(ClientId).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas() {
        let size = Size::of(12, 3, &PolicySpec::default()).unwrap();
        assert_eq!((size.t, size.m, size.s, size.need()), (7, 0, 1, 3));
        assert_eq!(size.number("n - t + 1"), Ok(6));
        assert_eq!(size.number("n/2"), Ok(6));
        assert!(size.number("q").is_err() && size.number("t - n").is_err());
    }

    #[test]
    fn five_clients_cannot_hide_in_three_clusters() {
        let size = Size::of(5, 3, &PolicySpec::default()).unwrap();
        let why = size.clusters(Layout::Overlap).unwrap_err();
        assert!(why.contains("at most 1") && why.contains("= 3"), "{why}");
    }

    #[test]
    fn large_federations_overlap() {
        for (n, k) in [(12, 3), (32, 3), (32, 5), (41, 3), (41, 5)] {
            let size = Size::of(n, k, &PolicySpec::default()).unwrap();
            let clusters = size.clusters(Layout::Overlap).unwrap();
            assert_eq!(clusters.len(), k as usize);
            let memberships: usize = clusters.iter().map(BTreeSet::len).sum();
            println!("{n} {k}: {memberships}");
            assert!(memberships >= n as usize);
        }
    }
}
