//! The examples of `examples/` run, and end well.
#![allow(dead_code, reason = "examples share files and do not all use all of them")]

#[path = "../../examples/audit.rs"]
mod audit;
#[path = "../../examples/dropout.rs"]
mod dropout;
#[path = "../../examples/own_model.rs"]
mod own_model;
#[path = "../../examples/secure_sum.rs"]
mod secure_sum;

#[test]
fn secure_sum_runs() {
    secure_sum::main().unwrap();
}

#[test]
fn dropout_runs() {
    dropout::main().unwrap();
}

#[test]
fn audit_runs() {
    audit::main().unwrap();
}

#[test]
fn own_model_runs() {
    own_model::main().unwrap();
}
