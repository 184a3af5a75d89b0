//! Lets the binary, the tests and the examples find libtorch without `LD_LIBRARY_PATH`: an rpath to it.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    if env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    // `.cargo/config.toml` sets LIBTORCH to the clone's `.libtorch` unless the caller set it.
    let libtorch = env::var("LIBTORCH").unwrap_or_default();
    let folder = Path::new(&libtorch).join("lib");
    let library = folder.join("libtorch_cpu.so");
    // A library that went away since the last build is told here and not by the program that needs it.
    println!("cargo:rerun-if-changed={}", library.display());
    if library.exists() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    } else {
        println!(
            "cargo::error=libtorch not found at `{libtorch}`: run `cargo xtask libtorch`, or set LIBTORCH to a \
             libtorch {VERSION}"
        );
    }
}

const VERSION: &str = "2.13.0";
