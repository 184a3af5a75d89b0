//! The scenario files that come with the program, in order.

use super::scenario::{Scenario, ScenarioError};

/// All of them, read.
///
/// # Errors
/// [`ScenarioError`] for a file that is not one; a test reads them all.
pub fn scenarios() -> Result<Vec<Scenario>, ScenarioError> {
    FILES
        .iter()
        .map(|(name, text)| Scenario::parse(name, text))
        .collect()
}

/// Name and text of each file.
pub const FILES: [(&str, &str); 54] = [
    (
        "01-no-fault.toml",
        include_str!("../../configs/scenarios/01-no-fault.toml"),
    ),
    (
        "02-no-keys.toml",
        include_str!("../../configs/scenarios/02-no-keys.toml"),
    ),
    (
        "03-too-few-keys.toml",
        include_str!("../../configs/scenarios/03-too-few-keys.toml"),
    ),
    (
        "04-keys-then-dead.toml",
        include_str!("../../configs/scenarios/04-keys-then-dead.toml"),
    ),
    (
        "05-too-few-shares.toml",
        include_str!("../../configs/scenarios/05-too-few-shares.toml"),
    ),
    (
        "06-bad-share.toml",
        include_str!("../../configs/scenarios/06-bad-share.toml"),
    ),
    (
        "07-mid-upload.toml",
        include_str!("../../configs/scenarios/07-mid-upload.toml"),
    ),
    (
        "08-no-masked.toml",
        include_str!("../../configs/scenarios/08-no-masked.toml"),
    ),
    (
        "09-crowd-too-small.toml",
        include_str!("../../configs/scenarios/09-crowd-too-small.toml"),
    ),
    (
        "10-one-cluster-too-small.toml",
        include_str!("../../configs/scenarios/10-one-cluster-too-small.toml"),
    ),
    (
        "11-late-masked.toml",
        include_str!("../../configs/scenarios/11-late-masked.toml"),
    ),
    (
        "12-bad-masked.toml",
        include_str!("../../configs/scenarios/12-bad-masked.toml"),
    ),
    (
        "13-two-vectors.toml",
        include_str!("../../configs/scenarios/13-two-vectors.toml"),
    ),
    (
        "14-dead-before-agree.toml",
        include_str!("../../configs/scenarios/14-dead-before-agree.toml"),
    ),
    (
        "15-two-survivor-sets.toml",
        include_str!("../../configs/scenarios/15-two-survivor-sets.toml"),
    ),
    (
        "16-two-heads.toml",
        include_str!("../../configs/scenarios/16-two-heads.toml"),
    ),
    (
        "17-unsafe-policy.toml",
        include_str!("../../configs/scenarios/17-unsafe-policy.toml"),
    ),
    (
        "18-dead-before-reveal.toml",
        include_str!("../../configs/scenarios/18-dead-before-reveal.toml"),
    ),
    (
        "19-too-few-reveals.toml",
        include_str!("../../configs/scenarios/19-too-few-reveals.toml"),
    ),
    (
        "20-wrong-reveal.toml",
        include_str!("../../configs/scenarios/20-wrong-reveal.toml"),
    ),
    (
        "21-wrong-dealing.toml",
        include_str!("../../configs/scenarios/21-wrong-dealing.toml"),
    ),
    (
        "22-asked-again.toml",
        include_str!("../../configs/scenarios/22-asked-again.toml"),
    ),
    (
        "23-both-kinds.toml",
        include_str!("../../configs/scenarios/23-both-kinds.toml"),
    ),
    (
        "24-restart-in-reveal.toml",
        include_str!("../../configs/scenarios/24-restart-in-reveal.toml"),
    ),
    (
        "25-restart-in-upload.toml",
        include_str!("../../configs/scenarios/25-restart-in-upload.toml"),
    ),
    (
        "26-wrong-sum.toml",
        include_str!("../../configs/scenarios/26-wrong-sum.toml"),
    ),
    (
        "27-server-crash.toml",
        include_str!("../../configs/scenarios/27-server-crash.toml"),
    ),
    (
        "28-rollback.toml",
        include_str!("../../configs/scenarios/28-rollback.toml"),
    ),
    (
        "29-partition-heals.toml",
        include_str!("../../configs/scenarios/29-partition-heals.toml"),
    ),
    (
        "30-partition-stays.toml",
        include_str!("../../configs/scenarios/30-partition-stays.toml"),
    ),
    (
        "31-partition-before-reveal.toml",
        include_str!("../../configs/scenarios/31-partition-before-reveal.toml"),
    ),
    (
        "32-straggler.toml",
        include_str!("../../configs/scenarios/32-straggler.toml"),
    ),
    (
        "33-bad-network.toml",
        include_str!("../../configs/scenarios/33-bad-network.toml"),
    ),
    (
        "34-replay.toml",
        include_str!("../../configs/scenarios/34-replay.toml"),
    ),
    (
        "35-bit-flips.toml",
        include_str!("../../configs/scenarios/35-bit-flips.toml"),
    ),
    (
        "36-certificates.toml",
        include_str!("../../configs/scenarios/36-certificates.toml"),
    ),
    (
        "37-plan-leaks.toml",
        include_str!("../../configs/scenarios/37-plan-leaks.toml"),
    ),
    (
        "38-survivors-leak.toml",
        include_str!("../../configs/scenarios/38-survivors-leak.toml"),
    ),
    (
        "39-two-models.toml",
        include_str!("../../configs/scenarios/39-two-models.toml"),
    ),
    (
        "40-one-maker.toml",
        include_str!("../../configs/scenarios/40-one-maker.toml"),
    ),
    (
        "41-pooling.toml",
        include_str!("../../configs/scenarios/41-pooling.toml"),
    ),
    (
        "42-static-window.toml",
        include_str!("../../configs/scenarios/42-static-window.toml"),
    ),
    (
        "43-private-tensor.toml",
        include_str!("../../configs/scenarios/43-private-tensor.toml"),
    ),
    (
        "44-beyond-range.toml",
        include_str!("../../configs/scenarios/44-beyond-range.toml"),
    ),
    (
        "45-noise-short.toml",
        include_str!("../../configs/scenarios/45-noise-short.toml"),
    ),
    (
        "46-budget.toml",
        include_str!("../../configs/scenarios/46-budget.toml"),
    ),
    (
        "47-descriptor.toml",
        include_str!("../../configs/scenarios/47-descriptor.toml"),
    ),
    (
        "48-witness-quorum.toml",
        include_str!("../../configs/scenarios/48-witness-quorum.toml"),
    ),
    (
        "49-malicious-witness.toml",
        include_str!("../../configs/scenarios/49-malicious-witness.toml"),
    ),
    (
        "50-attestation.toml",
        include_str!("../../configs/scenarios/50-attestation.toml"),
    ),
    (
        "51-disk-full.toml",
        include_str!("../../configs/scenarios/51-disk-full.toml"),
    ),
    (
        "52-some-clusters-only.toml",
        include_str!("../../configs/scenarios/52-some-clusters-only.toml"),
    ),
    (
        "53-export.toml",
        include_str!("../../configs/scenarios/53-export.toml"),
    ),
    (
        "54-edges.toml",
        include_str!("../../configs/scenarios/54-edges.toml"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_scenario_and_carries_its_number() {
        let scenarios = scenarios().unwrap();
        for (number, (scenario, (name, _))) in (1u32..).zip(scenarios.iter().zip(FILES)) {
            assert_eq!(scenario.id, number, "{name}");
            assert!(name.starts_with(&format!("{number:02}-")), "{name}");
        }
    }

    #[test]
    fn the_folder_holds_these_files_and_no_others() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/scenarios");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, FILES.map(|(name, _)| name.to_owned()));
    }
}
