//! The workspace server: `search_files`, `read_file` and `run_shell` over one folder, read only.
//!
//! *Invariant*: nothing is opened by a name that was checked before. A file is opened beneath the root by the kernel (`openat2`), and what
//! was opened is then looked at: its kind, and its real name against the deny list. A command sees only files that were opened so, by
//! Landlock; it gets words that we put together, never the caller's.

mod path;
mod root;
mod search;
mod secret;
pub mod shell;
#[cfg(test)]
mod tests;
mod tools;

pub use path::Relative;
pub use root::{Opened, Root};
pub use tools::{Settings, tools};

/// The codes of this server's guards: docs/tools.md has a line for each.
pub mod codes {
    pub const OUTSIDE: &str = "path_outside_workspace";
    pub const HIDDEN: &str = "hidden_characters";
    pub const SECRET: &str = "secret_file_denied";
    pub const NOT_A_FILE: &str = "not_a_regular_file";
    pub const METACHARACTER: &str = "metacharacter_denied";
    pub const COMMAND: &str = "command_denied";
    pub const OPTION: &str = "option_denied";
    pub const UNAVAILABLE: &str = "sandbox_unavailable";
    pub const ALL: &[&str] = &[OUTSIDE, HIDDEN, SECRET, NOT_A_FILE, METACHARACTER, COMMAND, OPTION, UNAVAILABLE];
}
