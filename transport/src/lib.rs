//! veilsum-transport.
