//! Does the plan expose nobody, and is the release exactly what the rule gives on the survivors?

use super::agreement::Agreed;
use super::report::Report;
use super::scene::Scene;
use super::verdict::CheckName;
use crate::release::{check_plan, release_for};

pub(super) fn check(scene: &Scene<'_>, agreed: Option<&Agreed<'_>>, report: &mut Report) {
    let mut check = report.check(CheckName::Disclosure, scene.place);
    if let Err(leak) = check_plan(scene.plan(), scene.book(), scene.policy()) {
        check.violated(|| format!("the plan leaks: {leak}"));
    }
    if let Some(agreed) = agreed {
        check.demand(!agreed.body.release.is_empty(), || {
            "an agreement that opens nothing".to_owned()
        });
        match release_for(scene.plan(), &agreed.body.survivors, scene.book(), scene.policy()) {
            Ok(release) => {
                check.demand(release.as_slice() == &*agreed.body.release, || {
                    format!(
                        "clusters {:?} were released where the rule gives {release:?}",
                        &*agreed.body.release
                    )
                });
            }
            Err(leak) => check.violated(|| format!("the release: {leak}")),
        }
    }
    check.done();
}
