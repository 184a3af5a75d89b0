//! Lets this crate's own tests and examples find the libtorch they were linked with.
//!
//! An rpath rather than a search variable: it holds for exactly these binaries and needs nothing set when they run.
//! Cargo does not hand linker arguments on to dependents, so a binary that enables `torch` repeats these lines.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    if std::env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    if let Ok(libtorch) = std::env::var("LIBTORCH") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
    }
}
