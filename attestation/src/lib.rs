//! veilsum-attestation.
