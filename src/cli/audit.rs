//! stub
use crate::exit::{Exit, Failure};
#[derive(Debug, clap::Args)]
pub struct AuditArgs { bundle: std::path::PathBuf }
pub(super) fn run(args: &AuditArgs) -> Result<Exit, Failure> { let _ = &args.bundle; Ok(Exit::Ok) }
