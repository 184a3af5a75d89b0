//! veilsum-learner.
