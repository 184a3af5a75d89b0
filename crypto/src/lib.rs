//! veilsum-crypto.
