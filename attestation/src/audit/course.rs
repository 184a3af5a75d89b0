//! How far each client came in an attempt, and why a cluster stayed closed: the attempt for people.

use super::agreement::Agreed;
use super::scene::Scene;
use super::verdict::{Closed, Course, Step};
use crate::statement::ClientSet;
use veilsum_crypto::{ClientId, ClusterId};

/// The course of every client the plan invites, ascending.
pub(super) fn courses(scene: &Scene<'_>, survivors: &ClientSet) -> Vec<Course> {
    let invited = scene.plan().invited();
    invited
        .iter()
        .map(|client| course(scene, survivors, *client))
        .collect()
}

fn course(scene: &Scene<'_>, survivors: &ClientSet, client: ClientId) -> Course {
    let attempt = scene.attempt;
    let agreed = attempt.agrees.iter().find(|(signer, _)| *signer == client);
    let revealed = attempt.reveals.iter().find(|(signer, _)| *signer == client);
    // In the order of the phases: the last that is there is how far the client came.
    let said = [
        (Step::Keys, attempt.keys.get(&client).map(|said| said.index)),
        (Step::Shares, attempt.shares.get(&client).map(|said| said.index)),
        (Step::Masked, attempt.masked.get(&client).map(|said| said.index)),
        (Step::Agree, agreed.map(|(_, said)| said.index)),
        (Step::Reveal, revealed.map(|(_, said)| said.index)),
    ];
    let last = said
        .into_iter()
        .rev()
        .find_map(|(step, index)| index.map(|index| (step, index)));
    let late = attempt.lates.iter().find(|late| late.body.client == client);
    Course {
        client,
        organisation: scene.book().members().get(&client).map(|member| member.org),
        step: last.map_or(Step::Invited, |(step, _)| step),
        entry: last.map(|(_, index)| index),
        late: late.map(|said| said.index),
        counts: survivors.contains(&client),
    }
}

/// Why each cluster of the plan that was not opened stayed closed.
pub(super) fn closed(scene: &Scene<'_>, agreed: Option<&Agreed<'_>>, open: &[ClusterId]) -> Vec<Closed> {
    let policy = scene.policy();
    let need = policy.crowd.saturating_add(policy.colluders) as usize;
    let plan = scene.plan();
    plan.numbered()
        .filter(|(cluster, _)| !open.contains(cluster))
        .map(|(cluster, planned)| Closed {
            cluster,
            reason: match agreed.filter(|_| scene.attempt.sums().is_some()) {
                None => "the attempt opened nothing".to_owned(),
                Some(agreed) => {
                    let here = planned.members.intersection(&agreed.body.survivors).count();
                    if here == 0 {
                        "no update of its clients counts".to_owned()
                    } else if here < need {
                        format!("only {here} of its clients count, and a sum is of {need} at least")
                    } else {
                        format!(
                            "beside the sums opened it would have let somebody work out a sum of fewer than {need} \
                             clients, or of fewer than {} organisation(s)",
                            policy.crowd_orgs
                        )
                    }
                }
            },
        })
        .collect()
}
