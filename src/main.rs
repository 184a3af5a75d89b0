//! veilsum.
fn main() {}
