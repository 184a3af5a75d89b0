//! Writes a subset. What goes in is asked of the tier, one item at a time.

use super::{
    DESCRIPTOR_HEADER, MAGIC, MAX_CHANNELS, TAG_DESCRIPTOR, TAG_EXTENDS, TAG_LEAF, TAG_PROVEN, TAG_TIER, item,
};
use crate::bundle::head::{parse_cosigned, parse_head, verify_head};
use crate::bundle::record::{Body, Record};
use crate::bundle::tier::{Item, Tier};
use crate::bundle::writer::part;
use crate::bundle::{BundleError, HeadError, TAG_COSIGNED, TAG_END, TAG_HEAD};
use crate::log::Log;
use std::io::Write;
use veilsum_crypto::Digest;

/// A client's descriptor with the noise it declares: what a plan auditor may see of it.
#[derive(Clone, Copy, Debug)]
pub struct NoisedDescriptor<'a> {
    /// Digest of the encoder whose features it describes.
    pub source: [u8; 32],
    /// Standard deviation of the noise on a mean.
    pub mean_sd: f64,
    /// Standard deviation of the noise on a log variance.
    pub log_variance_sd: f64,
    /// Means, one a channel.
    pub means: &'a [f32],
    /// Variances, one a channel.
    pub variances: &'a [f32],
}

/// Writes one tier's file from a log.
pub struct SubsetWriter<'a, W> {
    sink: W,
    tier: Tier,
    log: &'a Log,
    records: Vec<Record>,
}

impl<'a, W: Write> SubsetWriter<'a, W> {
    /// Writes the tier, the signed head (of [`crate::bundle::sign_head`]) and the last cosigned head.
    ///
    /// # Errors
    /// [`BundleError::Tier`] for the auditor's tier, which is a bundle; [`BundleError::Entry`] or [`BundleError::NoPolicy`]
    /// for a log that is none; [`BundleError::Head`] for heads that are not of this log; [`BundleError::Io`].
    pub fn new(
        mut sink: W,
        tier: Tier,
        federation: &Digest,
        head: &str,
        cosigned: Option<&str>,
        log: &'a Log,
    ) -> Result<Self, BundleError> {
        if tier == Tier::Auditor {
            return Err(BundleError::OutOfPlace("the auditor's tier, which is a bundle,"));
        }
        let records: Vec<Record> = (0u64..)
            .zip(log.entries())
            .map(|(index, entry)| {
                Record::parse(index, entry).map_err(|source| BundleError::Entry { index, source })
            })
            .collect::<Result<_, _>>()?;
        let policy = records.iter().find_map(|record| match &record.body {
            Body::Policy(policy) => Some(policy),
            _ => None,
        });
        let policy = policy.ok_or(BundleError::NoPolicy)?;
        let (note, checkpoint) = parse_head(head.as_bytes())?;
        verify_head(&note, &checkpoint, federation, policy.server)?;
        let now = log.head();
        if (checkpoint.size(), *checkpoint.root()) != (now.size, now.root.0) {
            return Err(HeadError::OtherEntries.into());
        }
        let (number, client) = tier.number();
        sink.write_all(MAGIC)?;
        part(&mut sink, TAG_TIER, &[&[number], &client.to_le_bytes()])?;
        part(&mut sink, TAG_HEAD, &[head.as_bytes()])?;
        if let Some(cosigned) = cosigned {
            let (_, checkpoint) = parse_cosigned(cosigned.as_bytes())?;
            let proof = log
                .consistency(checkpoint.size(), now.size)
                .filter(|_| {
                    log.head_at(checkpoint.size())
                        .is_some_and(|head| head.root.0 == *checkpoint.root())
                })
                .ok_or(HeadError::OtherEntries)?;
            part(&mut sink, TAG_COSIGNED, &[cosigned.as_bytes()])?;
            part(&mut sink, TAG_EXTENDS, &[&joined(&proof)])?;
        }
        Ok(Self {
            sink,
            tier,
            log,
            records,
        })
    }

    /// Whether this file may hold something.
    ///
    /// # Errors
    /// [`BundleError::Tier`], naming it.
    pub fn offer(&self, item: Item) -> Result<(), BundleError> {
        Ok(self.tier.admits(item)?)
    }

    /// Writes all that the tier may see of the log: the statements admitted, and for the public where the sums stand.
    ///
    /// # Errors
    /// [`BundleError::Io`].
    pub fn statements(&mut self) -> Result<(), BundleError> {
        for index in 0..self.records.len() {
            let admitted = self
                .records
                .get(index)
                .is_some_and(|record| self.offer(item(record)).is_ok());
            if admitted {
                self.statement(index)?;
            }
        }
        if self.tier == Tier::Public {
            let sums: Vec<&Record> = self
                .records
                .iter()
                .filter(|record| matches!(record.body, Body::Sums(_)))
                .collect();
            for record in sums {
                let proof = self.proof(record.index)?;
                let index = record.index.to_le_bytes();
                part(&mut self.sink, TAG_LEAF, &[&index, &record.leaf.0, &proof])?;
            }
        }
        Ok(())
    }

    /// Writes the statement of a number with its proof.
    ///
    /// # Errors
    /// [`BundleError::Tier`] for one that this tier must not hold, [`BundleError::OutOfPlace`] for a number the log does not
    /// have, [`BundleError::Io`].
    pub fn statement(&mut self, index: usize) -> Result<(), BundleError> {
        let (Some(record), Some(entry)) = (self.records.get(index), self.log.entries().get(index)) else {
            return Err(BundleError::OutOfPlace("a statement the log does not have"));
        };
        self.offer(item(record))?;
        let proof = self.proof(record.index)?;
        let count = u8::try_from(proof.len() / 32).unwrap_or(u8::MAX);
        let pieces: [&[u8]; 4] = [&record.index.to_le_bytes(), &[count], &proof, entry];
        part(&mut self.sink, TAG_PROVEN, &pieces)
    }

    /// Writes a descriptor under its salted number.
    ///
    /// # Errors
    /// [`BundleError::Tier`] for another tier and for a descriptor without noise, [`BundleError::Length`] for one of no or
    /// too many channels or of unequal lists, [`BundleError::Io`].
    pub fn descriptor(
        &mut self,
        number: [u8; 16],
        descriptor: &NoisedDescriptor<'_>,
    ) -> Result<(), BundleError> {
        let sound = |size: f64| size.is_normal() && size > 0.0;
        self.offer(
            if sound(descriptor.mean_sd) && sound(descriptor.log_variance_sd) {
                Item::NoisedDescriptor
            } else {
                Item::RawDescriptor
            },
        )?;
        let channels = descriptor.means.len();
        if channels != descriptor.variances.len() || !(1..=MAX_CHANNELS).contains(&channels) {
            return Err(BundleError::Length {
                part: "a descriptor",
                got: descriptor.variances.len() as u64,
                want: channels as u64,
            });
        }
        let mut bytes = Vec::with_capacity(DESCRIPTOR_HEADER + 8 * channels);
        bytes.extend(number);
        bytes.extend(descriptor.source);
        bytes.extend(descriptor.mean_sd.to_le_bytes());
        bytes.extend(descriptor.log_variance_sd.to_le_bytes());
        bytes.extend(u32::try_from(channels).unwrap_or(u32::MAX).to_le_bytes());
        for value in descriptor.means.iter().chain(descriptor.variances) {
            bytes.extend(value.to_le_bytes());
        }
        part(&mut self.sink, TAG_DESCRIPTOR, &[&bytes])
    }

    /// Writes the end and gives the sink back.
    ///
    /// # Errors
    /// [`BundleError::Io`].
    pub fn finish(mut self) -> Result<W, BundleError> {
        part(&mut self.sink, TAG_END, &[])?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn proof(&self, index: u64) -> Result<Vec<u8>, BundleError> {
        let proof = self.log.inclusion(index, self.log.head().size);
        Ok(joined(&proof.ok_or(BundleError::OutOfPlace(
            "a statement the log does not have",
        ))?))
    }
}

fn joined(proof: &[Digest]) -> Vec<u8> {
    proof.iter().flat_map(|hash| hash.0).collect()
}
