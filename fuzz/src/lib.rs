//! What the fuzz targets do, one file each, and what they share: scripts read from the input, messages recorded from whole
//! rounds, and a hand that signs what it has changed.
//!
//! A target is a function of its input alone, so a crash file replays. Seeds are made by the code: a target that is started
//! with `VEILSUM_FUZZ_SEEDS` set writes its own into that folder and ends. `cargo xtask fuzz` does both. With
//! `VEILSUM_FUZZ_TRACE` set the machine targets say what they do: for reading a crash.

pub mod bundle;
pub mod client;
pub mod masks;
pub mod messages;
pub mod notes;
pub mod server;
pub mod statements;

mod forge;
mod life;
mod parts;
mod rules;
mod script;
mod tape;

#[allow(dead_code, reason = "the harness serves several tests")]
#[path = "../../aggregation/tests/rounds/world.rs"]
mod world;

/// Writes a target's seeds and ends the process, where the environment asks for it.
///
/// # Panics
/// When they cannot be written.
pub fn seeds(make: fn() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os("VEILSUM_FUZZ_SEEDS") else {
        return;
    };
    std::fs::create_dir_all(&folder).expect("the folder for seeds cannot be made");
    for (number, seed) in make().iter().enumerate() {
        let path = std::path::Path::new(&folder).join(format!("seed-{number:03}"));
        std::fs::write(path, seed).expect("a seed cannot be written");
    }
    std::process::exit(0);
}

/// Says what happens in a script, where the environment asks for it by `VEILSUM_FUZZ_TRACE`.
pub(crate) fn trace(what: impl FnOnce() -> String) {
    static WANTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    if *WANTED.get_or_init(|| std::env::var_os("VEILSUM_FUZZ_TRACE").is_some()) {
        eprintln!("{}", what());
    }
}
