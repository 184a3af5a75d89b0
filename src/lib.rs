//! veilsum.
