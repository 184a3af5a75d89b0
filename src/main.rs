//! The `veilsum` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    veilsum::cli::main()
}
