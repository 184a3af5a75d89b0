//! Fails on any dependency between crates that the design does not have.
//!
//! The arrows are few so that a reader can hold them in the head, and so that a protocol crate can never reach a
//! socket or a tensor. Development dependencies count too: a test that needs another crate sits in the root.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Reads the workspace at `root` and lists every arrow that is not allowed.
///
/// # Errors
/// One error naming all of them, or that cargo could not describe the workspace.
pub(crate) fn check(root: &Path) -> Result<String> {
    let output = Command::new(crate::cargo::program())
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo does not run")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    judge(&metadata)
}

/// Judges what `cargo metadata --no-deps` printed.
fn judge(metadata: &Value) -> Result<String> {
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .context("cargo metadata has no packages")?;
    let mut wrong = Vec::new();
    let mut arrows = 0;
    for package in packages {
        let from = package
            .get("name")
            .and_then(Value::as_str)
            .context("a package has no name")?;
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == from) else {
            wrong.push(format!(
                "{from} is not in the design; give it its arrows in xtask/src/arrows.rs"
            ));
            continue;
        };
        for dependency in package
            .get("dependencies")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            // The package's own name, whatever it is renamed to.
            let to = dependency
                .get("name")
                .and_then(Value::as_str)
                .context("a dependency has no name")?;
            let kind = dependency.get("kind").and_then(Value::as_str).unwrap_or("normal");
            if kind == "dev" && DEV_EXCEPTIONS.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
                continue;
            }
            if ARROWS.iter().any(|(name, _)| *name == to) {
                arrows += 1;
                if !allowed.contains(&to) {
                    wrong.push(format!("{from} -> {to} ({kind}): the design has no such arrow"));
                }
            }
            if let Some((_, owners, reason)) = KEPT.iter().find(|(name, ..)| *name == to)
                && !owners.contains(&from)
            {
                wrong.push(format!(
                    "{from} -> {to} ({kind}): only {} may; {reason}",
                    owners.join(" and ")
                ));
            }
            if to == "tch" && dependency.get("optional") != Some(&Value::Bool(true)) {
                wrong.push(format!(
                    "{from} -> tch: must be optional, or nothing builds without libtorch"
                ));
            }
        }
        let default = package.pointer("/features/default").and_then(Value::as_array);
        if default.is_some_and(|features| features.iter().any(|feature| feature == "torch")) {
            wrong.push(format!(
                "{from}: torch is a default feature, so nothing builds without libtorch"
            ));
        }
    }
    if wrong.is_empty() {
        return Ok(format!(
            "{arrows} arrows between {} crates, all in the design",
            packages.len()
        ));
    }
    bail!("arrows the design does not have:\n  {}", wrong.join("\n  "))
}

/// Every crate of the workspace and the crates of ours it may use.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "veilsum",
        &[
            "veilsum-transport",
            "veilsum-aggregation",
            "veilsum-attestation",
            "veilsum-learner",
            "veilsum-crypto",
        ],
    ),
    ("veilsum-transport", &["veilsum-crypto"]),
    ("veilsum-aggregation", &["veilsum-crypto", "veilsum-attestation"]),
    ("veilsum-attestation", &["veilsum-crypto"]),
    ("veilsum-crypto", &[]),
    ("veilsum-learner", &[]),
    ("xtask", &[]),
];

/// Outside packages that stay in one place, and why.
const KEPT: &[(&str, &[&str], &str)] = &[
    (
        "tokio",
        &["veilsum-transport", "veilsum"],
        "protocol code never awaits",
    ),
    ("quinn", &["veilsum-transport"], "sockets stay behind one trait"),
    (
        "bincode",
        &["veilsum-crypto"],
        "bytes pass one gate, crypto/src/wire.rs",
    ),
    ("tch", &["veilsum-learner"], "tensors stay in the leaf"),
];

/// Development dependencies outside the table: from, to, and the reason.
const DEV_EXCEPTIONS: &[(&str, &str, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &[Value]) -> Value {
        json!({ "name": name, "dependencies": dependencies, "features": {} })
    }

    fn on(name: &str) -> Value {
        json!({ "name": name, "kind": null, "optional": false })
    }

    fn house(name: &str, extra: &Value) -> Value {
        let mut packages = vec![
            package(
                "veilsum",
                &[
                    on("veilsum-transport"),
                    on("veilsum-aggregation"),
                    on("veilsum-attestation"),
                    on("veilsum-learner"),
                    on("veilsum-crypto"),
                    on("tokio"),
                ],
            ),
            package(
                "veilsum-transport",
                &[on("veilsum-crypto"), on("tokio"), on("quinn")],
            ),
            package(
                "veilsum-aggregation",
                &[on("veilsum-crypto"), on("veilsum-attestation")],
            ),
            package("veilsum-attestation", &[on("veilsum-crypto")]),
            package("veilsum-crypto", &[on("bincode"), on("ring")]),
            package(
                "veilsum-learner",
                &[json!({ "name": "tch", "kind": null, "optional": true })],
            ),
            package("xtask", &[on("anyhow")]),
        ];
        for package in &mut packages {
            if package["name"] == name {
                package["dependencies"]
                    .as_array_mut()
                    .unwrap()
                    .push(extra.clone());
            }
        }
        json!({ "packages": packages })
    }

    fn complaint(from: &str, extra: &Value) -> String {
        judge(&house(from, extra)).unwrap_err().to_string()
    }

    #[test]
    fn the_designed_house_stands() {
        assert_eq!(
            judge(&house("", &Value::Null)).unwrap(),
            "9 arrows between 7 crates, all in the design"
        );
    }

    #[test]
    fn every_arrow_outside_the_table_falls() {
        let names: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
        let mut refused = 0;
        for (from, allowed) in ARROWS {
            for to in names.iter().filter(|to| !allowed.contains(to)) {
                let text = complaint(from, &on(to));
                assert!(text.contains(&format!("{from} -> {to} (normal)")), "{text}");
                refused += 1;
            }
        }
        assert_eq!(refused, 7 * 7 - 9);
    }

    #[test]
    fn development_and_build_dependencies_count() {
        for kind in ["dev", "build"] {
            let text = complaint(
                "veilsum-crypto",
                &json!({ "name": "veilsum-transport", "kind": kind }),
            );
            assert!(
                text.contains(&format!("veilsum-crypto -> veilsum-transport ({kind})")),
                "{text}"
            );
        }
    }

    #[test]
    fn renaming_does_not_hide_an_arrow() {
        let renamed = json!({ "name": "tokio", "rename": "runtime", "kind": null });
        assert!(complaint("veilsum-aggregation", &renamed).contains("veilsum-aggregation -> tokio"));
    }

    #[test]
    fn kept_packages_stay_where_they_belong() {
        for (package, owners, _) in KEPT {
            for (from, _) in ARROWS.iter().filter(|(name, _)| !owners.contains(name)) {
                let extra = json!({ "name": package, "kind": "dev", "optional": true });
                assert!(complaint(from, &extra).contains(&format!("{from} -> {package} (dev): only")));
            }
        }
    }

    #[test]
    fn torch_stays_optional() {
        assert!(complaint("veilsum-learner", &on("tch")).contains("must be optional"));
        let mut metadata = house("", &Value::Null);
        metadata["packages"][5]["features"] = json!({ "default": ["torch"], "torch": [] });
        assert!(
            judge(&metadata)
                .unwrap_err()
                .to_string()
                .contains("torch is a default feature")
        );
    }

    #[test]
    fn a_new_crate_must_be_given_its_place() {
        let metadata = json!({ "packages": [package("veilsum-extra", &[])] });
        assert!(
            judge(&metadata)
                .unwrap_err()
                .to_string()
                .contains("veilsum-extra is not in the design")
        );
    }

    #[test]
    fn all_violations_are_named_at_once() {
        let mut metadata = house("veilsum-crypto", &on("tokio"));
        metadata["packages"][0]["dependencies"]
            .as_array_mut()
            .unwrap()
            .push(on("bincode"));
        let text = judge(&metadata).unwrap_err().to_string();
        assert!(
            text.contains("veilsum-crypto -> tokio") && text.contains("veilsum -> bincode"),
            "{text}"
        );
    }

    #[test]
    fn this_workspace_obeys() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root).unwrap();
    }
}
