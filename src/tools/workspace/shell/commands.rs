//! The commands and their options: all that is not here is refused.

/// What a command does with the paths that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Reads {
    /// It prints what is in files.
    Content,
    /// It prints names, sizes and times.
    Names,
    Nothing,
}

/// What follows an option.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// The option stands alone.
    None,
    /// A whole number, with a sign where `head`, `tail` and `find` know one.
    Number,
    /// A regular expression or a glob: text that the command takes as such.
    Text,
    /// `sort -k`.
    Key,
    /// One character.
    Char,
    /// `stat -c`.
    Format,
    /// `find -size`.
    Size,
    /// One of the letters.
    Letter(&'static str),
}

/// An option, and the form of it that GNU and busybox both know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opt {
    pub(super) name: &'static str,
    pub(super) long: &'static str,
    pub(super) value: Value,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) reads: Reads,
    pub(super) options: &'static [Opt],
    /// Paths that it needs and takes.
    pub(super) paths: (usize, usize),
    /// The first word that is no option is a pattern.
    pub(super) pattern: bool,
    /// `-20` is `-n 20`.
    pub(super) dash_number: bool,
    /// Options are words such as `-name`, after the paths.
    pub(super) expressions: bool,
}

const fn flag(name: &'static str, long: &'static str) -> Opt {
    Opt { name, long, value: Value::None }
}

const fn with(name: &'static str, long: &'static str, value: Value) -> Opt {
    Opt { name, long, value }
}

const PLAIN: Command = Command { name: "", reads: Reads::Content, options: &[], paths: (1, 64), pattern: false, dash_number: false, expressions: false };

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "cat", options: &[flag("n", "number")], ..PLAIN },
    // No operand: it could set the clock. A format is a word that begins with a plus.
    Command { name: "date", reads: Reads::Nothing, options: &[flag("u", "utc")], paths: (0, 0), ..PLAIN },
    Command {
        name: "du",
        reads: Reads::Names,
        options: &[flag("a", "all"), flag("h", "human-readable"), flag("k", ""), flag("m", ""), flag("s", "summarize"), with("d", "max-depth", Value::Number)],
        paths: (0, 64),
        ..PLAIN
    },
    Command {
        name: "find",
        reads: Reads::Names,
        options: &[
            with("maxdepth", "", Value::Number),
            with("mindepth", "", Value::Number),
            with("name", "", Value::Text),
            with("iname", "", Value::Text),
            with("type", "", Value::Letter("fdl")),
            with("size", "", Value::Size),
            with("mtime", "", Value::Number),
            with("mmin", "", Value::Number),
            flag("empty", ""),
            flag("print", ""),
        ],
        paths: (0, 64),
        expressions: true,
        ..PLAIN
    },
    Command {
        name: "grep",
        options: &[
            flag("i", "ignore-case"),
            flag("n", "line-number"),
            flag("v", "invert-match"),
            flag("c", "count"),
            flag("l", "files-with-matches"),
            flag("L", "files-without-match"),
            flag("w", "word-regexp"),
            flag("x", "line-regexp"),
            flag("o", "only-matching"),
            flag("E", "extended-regexp"),
            flag("F", "fixed-strings"),
            flag("h", "no-filename"),
            flag("H", "with-filename"),
            flag("s", "no-messages"),
            flag("r", "recursive"),
            with("m", "max-count", Value::Number),
            with("A", "after-context", Value::Number),
            with("B", "before-context", Value::Number),
            with("C", "context", Value::Number),
            with("e", "regexp", Value::Text),
        ],
        pattern: true,
        ..PLAIN
    },
    Command { name: "head", options: &[with("n", "lines", Value::Number), with("c", "bytes", Value::Number)], dash_number: true, ..PLAIN },
    Command {
        name: "ls",
        reads: Reads::Names,
        options: &[
            flag("1", ""),
            flag("a", "all"),
            flag("A", "almost-all"),
            flag("d", "directory"),
            flag("h", "human-readable"),
            flag("l", ""),
            flag("r", "reverse"),
            flag("R", "recursive"),
            flag("S", ""),
            flag("t", ""),
        ],
        paths: (0, 64),
        ..PLAIN
    },
    Command {
        name: "sort",
        options: &[
            flag("n", "numeric-sort"),
            flag("r", "reverse"),
            flag("u", "unique"),
            flag("f", "ignore-case"),
            flag("h", "human-numeric-sort"),
            with("k", "key", Value::Key),
            with("t", "field-separator", Value::Char),
        ],
        ..PLAIN
    },
    Command { name: "stat", reads: Reads::Names, options: &[with("c", "format", Value::Format)], ..PLAIN },
    Command { name: "tail", options: &[with("n", "lines", Value::Number), with("c", "bytes", Value::Number)], dash_number: true, ..PLAIN },
    // A second path would be written to.
    Command { name: "uniq", options: &[flag("c", "count"), flag("d", "repeated"), flag("u", "unique"), flag("i", "ignore-case")], paths: (1, 1), ..PLAIN },
    Command { name: "wc", options: &[flag("l", "lines"), flag("w", "words"), flag("c", "bytes")], ..PLAIN },
];

/// Programs whose names are refused wherever they stand: shells, what fetches, and what changes things. Short, since a log that is searched
/// for `timeout` or `exec` must stay searchable; what may be run at all is the list above.
pub(super) const DENIED: &[&str] = &[
    "rm", "mv", "cp", "chmod", "chown", "curl", "wget", "sudo", "apt", "pip", "python", "kubectl", "sh", "bash", "dash", "ash", "zsh", "busybox", "xargs",
    "nc", "socat", "ssh", "dd", "tee",
];
