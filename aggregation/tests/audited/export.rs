//! Exporting a run: what a server would do with its store, and what it must not do.

use crate::run::{Run, audit, two_clusters};
use crate::world::{Death, Setup, identity};
use veilsum_attestation::bundle::{BundleError, BundleWriter, Due, Forbidden, VectorName, sign_head};
use veilsum_crypto::*;

pub(crate) fn writer(run: &Run) -> Result<BundleWriter<Vec<u8>>, BundleError> {
    let federation = *run.federation().book.federation();
    let head = sign_head(&run.log.head(), &federation, &identity(2, 0))?;
    let entries = run.log.entries().iter().map(Vec::as_slice);
    BundleWriter::new(Vec::new(), &federation, &head, entries)
}

pub(crate) fn export(run: &Run) -> Result<Vec<u8>, BundleError> {
    let mut writer = writer(run)?;
    while let Some(due) = writer.due() {
        match due {
            Due::Vector(name) => writer.vector(name, &run.vectors[&name])?,
            Due::Model(digest) => match run.models.get(&digest) {
                Some(model) => writer.model(model)?,
                None => writer.skip_model(),
            },
        }
    }
    writer.finish()
}

fn name(round: u64, attempt: u32, client: u32, cluster: u16) -> VectorName {
    VectorName {
        round: RoundId(round),
        attempt: Attempt(attempt),
        client: ClientId(client),
        cluster: ClusterId(cluster),
    }
}

/// Three clusters of which the third is withheld when two of its members are gone.
pub(crate) fn with_a_withheld_cluster() -> Run {
    let setup = Setup {
        clients: 9,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4], vec![4, 5, 6, 7, 8, 3, 2], vec![5, 6, 7, 8]],
        entries: 12,
        crowd: 2,
        orgs: 3,
    };
    let mut run = Run::new(setup, 11);
    // They deal shares and die before they upload.
    let gone = Death {
        after_sends: 2,
        noticed: true,
        in_flight_lost: false,
    };
    run.attempt(1, 0, &[(5, gone), (6, gone), (7, gone)]);
    assert_eq!(run.world.outcome.as_ref().unwrap().withheld, [ClusterId(2)]);
    run
}

#[test]
fn vectors_of_dropped_clients_withheld_clusters_and_aborted_attempts_are_never_exported() {
    let run = with_a_withheld_cluster();
    let mut writer = writer(&run).unwrap();
    let some = vec![0; 10];
    let refused = |writer: &mut BundleWriter<Vec<u8>>, name, bytes: &[u8]| match writer.vector(name, bytes) {
        Err(BundleError::ExportForbidden { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&mut writer, name(1, 0, 5, 1), &some),
        Forbidden::NotSurvivor
    );
    assert_eq!(
        refused(&mut writer, name(1, 0, 8, 2), &run.vectors[&name(1, 0, 8, 2)]),
        Forbidden::NotReleased
    );
    assert_eq!(
        refused(&mut writer, name(1, 1, 8, 1), &some),
        Forbidden::NotPublished
    );
    assert_eq!(
        refused(&mut writer, name(1, 0, 2, 0), &some),
        Forbidden::OutOfOrder
    );
    let first = name(1, 0, 0, 0);
    assert!(matches!(
        writer.vector(first, &run.vectors[&name(1, 0, 1, 0)]),
        Err(BundleError::Mismatch(_))
    ));
    let verdict = audit(run.federation(), &run.bundle());
    assert!(verdict.is_verified(), "{verdict}");
    assert_eq!(verdict.rounds[0].withheld, [ClusterId(2)]);

    // An aborted attempt whose vectors the server holds: none of them is due, and none is let through.
    let mut run = Run::new(two_clusters(), 12);
    let mute = Death {
        after_sends: 4,
        noticed: true,
        in_flight_lost: false,
    };
    run.attempt(1, 0, &[(0, mute), (1, mute), (5, mute), (6, mute)]);
    assert_eq!(run.world.aborted.as_ref().unwrap().name(), "TooFewAgree");
    assert!(run.vectors.len() >= 8, "the server holds the vectors");
    let mut writer = self::writer(&run).unwrap();
    assert_eq!(writer.due(), None);
    for (name, bytes) in &run.vectors {
        assert_eq!(refused(&mut writer, *name, bytes), Forbidden::NotPublished);
    }
}

#[test]
fn a_bundle_is_not_finished_early_nor_over_another_log() {
    let run = Run::of(two_clusters(), 13, &[&[]]);
    assert!(
        matches!(writer(&run).unwrap().finish(), Err(BundleError::Missing(first)) if first == name(1, 0, 0, 0))
    );
    let federation = *run.federation().book.federation();
    let head = sign_head(&run.log.head(), &federation, &identity(2, 0)).unwrap();
    let short = run.log.entries().iter().skip(1).map(Vec::as_slice);
    assert!(BundleWriter::new(Vec::new(), &federation, &head, short).is_err());
    let forged = sign_head(&run.log.head(), &federation, &identity(3, 0)).unwrap();
    let entries = run.log.entries().iter().map(Vec::as_slice);
    assert!(matches!(
        BundleWriter::new(Vec::new(), &federation, &forged, entries),
        Err(BundleError::Head(_))
    ));
}
