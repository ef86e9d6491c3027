//! The binary: parses the command line and starts the chosen role.

fn main() -> std::process::ExitCode {
    inquest::cli::main()
}
