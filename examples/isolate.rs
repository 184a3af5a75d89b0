//! An attack, and the rule that stops it: overlapping clusters, three dropouts, and one client's update out of two sums.
//!
//! `cargo run --example isolate`. The masks hold throughout; what gives the client away is which sums are opened together.

#[path = "isolate/federation.rs"]
mod federation;

use std::error::Error;

use federation::Federation;
use veilsum_aggregation::{Abort, Outcome};
use veilsum_attestation::disclosure::{CrowdRule, Membership, Verdict, check};
use veilsum_crypto::ClientId;

fn main() -> Result<(), Box<dyn Error>> {
    // Eight clients. The clusters share 0 to 3; 4 and 5 are in the first alone, 6 and 7 in the second.
    let clusters = vec![vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2, 3, 6, 7]];
    let gone = [5, 6, 7];
    let secret = Federation::update(4);

    println!("1. Without the rule: a policy with a crowd of 1, which hides nobody.");
    let outcome = Federation::new(1)?.round(&clusters, &gone)?;
    println!(
        "   opened: {:?}, withheld: {:?}",
        names(&outcome),
        outcome.withheld
    );
    let stolen = isolate(&clusters, &outcome).ok_or("the sums should isolate somebody")?;
    println!("   sum[0] - sum[1] = {stolen:?}");
    println!("   client 4 sent     {secret:?}");
    if stolen != secret {
        return Err("the difference of the sums is not client 4's update".into());
    }

    println!("2. With the rule: a crowd of 3, the same plan, the same dropouts.");
    let outcome = Federation::new(3)?.round(&clusters, &gone)?;
    println!(
        "   opened: {:?}, withheld: {:?}",
        names(&outcome),
        outcome.withheld
    );
    if outcome.withheld.is_empty() || isolate(&clusters, &outcome).is_some() {
        return Err("a cluster should have been withheld".into());
    }

    println!("3. A plan that gives client 7 away before anybody drops out.");
    let nested = vec![(0..8).collect(), (0..7).collect()];
    match Federation::new(3)?.round(&nested, &[]) {
        Err(Abort::PlanLeaks { clients }) if clients.contains(&ClientId(7)) => {
            println!("   refused: {}", Abort::PlanLeaks { clients });
            Ok(())
        }
        other => Err(format!("expected a refusal, got {other:?}").into()),
    }
}

/// What a server does that wants to know: finds a combination of the open sums that covers one client and computes it.
fn isolate(clusters: &[Vec<u32>], outcome: &Outcome) -> Option<Vec<i64>> {
    let survives = |client: &&u32| outcome.survivors.contains(&ClientId(**client));
    let rows: Vec<Vec<usize>> = clusters
        .iter()
        .map(|members| {
            let members = members.iter().filter(survives);
            members
                .filter_map(|client| usize::try_from(*client).ok())
                .collect()
        })
        .collect();
    let open: Vec<usize> = outcome
        .opened
        .iter()
        .map(|sum| usize::from(sum.cluster.0))
        .collect();
    let matrix = Membership::from_members(8, &rows).ok()?.release(&open);
    let alone = CrowdRule {
        crowd: 2,
        crowd_orgs: 1,
    };
    let Verdict::Exposed(exposure) = check(&matrix, &[0; 8], &alone) else {
        return None;
    };
    let mut total = [0_i64; federation::ENTRIES];
    for (cluster, factor) in &exposure.coefficients {
        let sum = outcome
            .opened
            .iter()
            .find(|sum| usize::from(sum.cluster.0) == *cluster)?;
        for (total, word) in total.iter_mut().zip(&sum.sum) {
            *total += factor * i64::from(*word);
        }
    }
    // The sums are modulo 2^m; updates lie around 0.
    let ring = 1_i64 << federation::modulus_bits();
    let centred = |value: &i64| (value + ring / 2).rem_euclid(ring) - ring / 2;
    Some(total.iter().map(centred).collect())
}

fn names(outcome: &Outcome) -> Vec<u16> {
    outcome.opened.iter().map(|sum| sum.cluster.0).collect()
}
