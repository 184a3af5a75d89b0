//! Cargo, called from inside `cargo xtask` as if typed by hand.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The cargo that runs this program, or the one on the path.
pub(crate) fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo command in the clone at `root`.
pub(crate) fn command(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).current_dir(root);
    as_by_hand(&mut command);
    command
}

/// Takes out of a child's environment what `cargo run` put in.
///
/// Build scripts ask to be run again when such a variable changes (ring's asks for `CARGO_PKG_NAME`), so leaving
/// them would rebuild half the tree whenever a person alternates between `cargo test` and `cargo xtask test`.
pub(crate) fn as_by_hand(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_from_cargo_run) {
            command.env_remove(name);
        }
    }
    if let Some(path) = env::var_os("LD_LIBRARY_PATH") {
        let own = env::current_exe()
            .ok()
            .and_then(|exe| exe.parent().map(Path::to_path_buf));
        let kept: Vec<PathBuf> = env::split_paths(&path)
            .filter(|dir| !is_cargos_library_path(dir, own.as_deref()))
            .collect();
        match env::join_paths(&kept) {
            Ok(path) if !kept.is_empty() => command.env("LD_LIBRARY_PATH", path),
            _ => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
}

/// The folder that builds of the clone at `root` go to.
///
/// # Errors
/// When cargo cannot describe the workspace.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let output = command(
        root,
        &["metadata", "--format-version", "1", "--no-deps", "--offline"],
    )
    .output()
    .context("cargo does not run")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    metadata
        .get("target_directory")
        .and_then(Value::as_str)
        .map(PathBuf::from)
        .context("cargo metadata names no target folder")
}

fn is_from_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || name.starts_with("CARGO_BIN_")
        || matches!(name, "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE" | "OUT_DIR")
}

fn is_cargos_library_path(dir: &Path, own: Option<&Path>) -> bool {
    let built = own.is_some_and(|own| dir.starts_with(own));
    built
        || dir.ends_with("lib") && dir.to_string_lossy().contains("/toolchains/")
        || dir.to_string_lossy().contains("/rustlib/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cargo_run_sets_is_taken_out() {
        for name in [
            "CARGO_PKG_NAME",
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
            "CARGO_PRIMARY_PACKAGE",
        ] {
            assert!(is_from_cargo_run(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_NET_OFFLINE",
            "CARGO",
            "LIBTORCH",
            "PATH",
        ] {
            assert!(!is_from_cargo_run(name), "{name}");
        }
    }

    #[test]
    fn the_users_library_path_stays() {
        let own = Some(Path::new("/w/target/debug"));
        assert!(is_cargos_library_path(Path::new("/w/target/debug/deps"), own));
        assert!(is_cargos_library_path(Path::new("/w/target/debug"), own));
        assert!(is_cargos_library_path(
            Path::new("/u/.rustup/toolchains/1.95.0-x/lib"),
            own
        ));
        assert!(is_cargos_library_path(
            Path::new("/u/x/lib/rustlib/x86_64-unknown-linux-gnu/lib"),
            own
        ));
        assert!(!is_cargos_library_path(Path::new("/usr/local/cuda/lib64"), own));
        assert!(!is_cargos_library_path(Path::new("/usr/lib"), own));
    }
}
