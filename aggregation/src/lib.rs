//! veilsum-aggregation.
