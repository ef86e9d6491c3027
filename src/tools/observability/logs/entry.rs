//! Entries: a line, with the lines of its stack trace.

use super::level::{Level, read};
use crate::text::Pattern;
use jiff::Timestamp;

/// Lines that one entry keeps: a trace of a recursion has thousands.
const MAX_LINES: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Option<Timestamp>,
    pub level: Level,
    /// The line that names the error, without time and level.
    pub message: String,
    /// As it was printed.
    pub lines: Vec<String>,
}

/// What kind of trace is being read: it decides which lines belong to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trace {
    None,
    /// Its error is named by the last line.
    Python,
    /// That line was read; another trace may follow, after an empty line.
    PythonNamed,
    Go,
    Rust,
    /// Java, Node, .NET, Ruby, PHP: indented or told by a first word.
    Indented,
}

static FRAME: Pattern = Pattern::new(
    r"^(?:\s+\S|\tat |at [\w.$<>/]+[( ]|Caused by: |Suppressed: |\.\.\. \d+ (?:more|common)|--- End of|#\d+ |from \S+:\d+|Stack trace:|stack backtrace:|note: |  thrown in |goroutine \d+ |created by |exit status \d+|\[signal |\S+\(.*\)$)",
);
static GO: Pattern =
    Pattern::new(r"^(?:$|goroutine \d+|\t|created by |exit status \d+|\[signal |panic: |\s+panic: |[\w./*()\[\]-]+\([^)]*\)$|main\.|runtime\.)");
static RUST: Pattern = Pattern::new(r"^(?:$|stack backtrace:|note: |\s+\d+: |\s+at |called `|assertion |\S.*)");

/// Entries of one container's log, in its order. `lines`: the time in front of each, as the kubelet knows it, and its text.
pub fn entries<'a>(lines: impl IntoIterator<Item = (Option<Timestamp>, &'a str)>) -> Vec<Entry> {
    let mut out: Vec<Entry> = vec![];
    let mut trace = Trace::None;
    for (at, text) in lines {
        if let Some(last) = out.last_mut()
            && belongs(trace, last, text)
        {
            if last.lines.len() < MAX_LINES {
                last.lines.push(text.to_owned());
            }
            match trace {
                // `ValueError: …` at the margin names the error and ends the trace, unless another follows.
                Trace::Python if !text.is_empty() && !text.starts_with([' ', '\t']) && !joins(text) => {
                    last.message = text.to_owned();
                    trace = Trace::PythonNamed;
                }
                Trace::PythonNamed if joins(text) => trace = Trace::Python,
                // The message stands on the line after `panicked at`.
                Trace::Rust if last.lines.len() == 2 && last.message.contains("panicked at") && !text.is_empty() => {
                    last.message = text.to_owned();
                    trace = Trace::Indented;
                }
                _ => {}
            }
            continue;
        }
        if text.trim().is_empty() {
            trace = Trace::None;
            continue;
        }
        let said = read(text);
        trace = if text.contains("Traceback (most recent call last)") {
            Trace::Python
        } else if said.message.starts_with("panic: ") || said.message.starts_with("fatal error: ") || text.starts_with("panic: ") {
            Trace::Go
        } else if said.message.contains("panicked at ") && said.message.ends_with(':') {
            Trace::Rust
        } else {
            Trace::Indented
        };
        out.push(Entry { at, level: said.level, message: said.message, lines: vec![text.to_owned()] });
    }
    for entry in &mut out {
        while entry.lines.last().is_some_and(String::is_empty) {
            entry.lines.pop();
        }
    }
    out
}

fn belongs(trace: Trace, last: &Entry, text: &str) -> bool {
    match trace {
        Trace::None => false,
        Trace::Python => true,
        Trace::Go => GO.is_match(text),
        Trace::Rust => last.lines.len() == 1 && RUST.is_match(text),
        Trace::PythonNamed => text.is_empty() || joins(text) || FRAME.is_match(text),
        Trace::Indented => FRAME.is_match(text),
    }
}

/// A line that joins a Python trace to the one before.
fn joins(text: &str) -> bool {
    ["Traceback (most recent call last)", "During handling of the above", "The above exception"].iter().any(|start| text.starts_with(start))
}
