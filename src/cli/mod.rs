//! The command line: one file a subcommand. Flags say what was typed; each `run` checks it once and passes on what it means.

mod crds;
mod investigate;
mod model;
mod operator;
mod token;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Finds out why a workload is broken, and proves it.
#[derive(Parser, Debug)]
#[command(name = "inquest", version, about, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How logs are written to standard error.
    #[arg(long, global = true, env = "INQUEST_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// What is logged, as in `info` or `inquest=debug,kube=warn`.
    #[arg(long, global = true, env = "INQUEST_LOG", default_value = "info,kube_client=warn,rmcp=off,tower=warn")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the operator: it reconciles Investigations, and publishes the keys that tool servers verify with.
    Operator(operator::Args),
    /// Serve tools over MCP.
    Tools(tools::Args),
    /// Write the CRDs into a folder, one file each.
    Crds(crds::Args),
    /// Make a token for a tool server on this machine, with a key of your own.
    Token(token::Args),
    /// Investigate once, from this machine.
    Investigate(investigate::Args),
    /// Become a command of the workspace server's `run_shell`, shut in. Started by that server alone.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Confine { orders: String },
}

/// Exit codes: 0 concluded, 1 error, 2 usage, 3 inconclusive, 4 capped.
#[must_use]
pub fn main() -> ExitCode {
    crate::identity::install_crypto();
    let Cli { command, log_format, log } = Cli::parse();
    // Before any thread is started: the kernel shuts in the thread that asks for it.
    #[cfg(target_os = "linux")]
    if let Command::Confine { orders } = &command {
        return confine(orders);
    }
    crate::telemetry::init_logs(matches!(log_format, LogFormat::Json), &log);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error)),
    };
    let result = runtime.block_on(async {
        match command {
            Command::Operator(args) => operator::run(args).await,
            Command::Tools(args) => tools::run(args).await,
            Command::Crds(args) => crds::run(&args),
            Command::Token(args) => token::run(args),
            Command::Investigate(args) => investigate::run(args).await,
            #[cfg(target_os = "linux")]
            Command::Confine { orders } => Ok(confine(&orders)),
        }
    });
    // Work that ignores its cancellation must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    match result {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

#[cfg(target_os = "linux")]
#[expect(clippy::print_stderr, reason = "the server that started it reads the reason there")]
fn confine(orders: &str) -> ExitCode {
    use crate::tools::workspace::shell;
    eprintln!("{}", shell::confine(orders).json());
    ExitCode::from(shell::REFUSED)
}

#[expect(clippy::print_stderr, reason = "the one line that says why the process ends, whatever the log filter is")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(1)
}
