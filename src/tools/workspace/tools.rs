//! The three tools: from arguments to one JSON object each.

use std::{
    io::{BufRead, BufReader, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Root, codes, path::Relative, search::Query, shell};
use crate::{
    text::head,
    tools::server::{Caller, Refusal, Registry, ToolSpec, label_name},
};

/// One call. Over the 10 s that a command has, so that the caller gets what it printed.
const DEADLINE: Duration = Duration::from_secs(12);
/// A search ends by itself before that, with what it found.
const SEARCH_TIME: Duration = Duration::from_secs(8);
/// One result. Under the 32 KiB that a ToolServer allows by default.
const MAX_BYTES: usize = 30_000;
/// Lines of a file, by default and at most.
const LINES: u64 = 120;
const MAX_LINES: u64 = 1000;
/// Bytes of a line that are shown, and of the lines of one answer.
const MAX_LINE: usize = 1000;
const MAX_TEXT: usize = 24_000;
/// Bytes of a file that are read to come to the line that was asked for.
const MAX_READ: u64 = 32 << 20;

/// What the server serves.
#[derive(Clone)]
pub struct Settings {
    pub root: Arc<Root>,
    /// Each tenant sees the folder of its own name, and no other.
    pub per_tenant: bool,
    pub shell: shell::Shell,
}

impl Settings {
    fn root_of(&self, caller: &Caller) -> Result<Arc<Root>, Refusal> {
        if !self.per_tenant {
            return Ok(Arc::clone(&self.root));
        }
        // A namespace's name, from the verified token; looked at once more, since it becomes a path.
        Ok(Arc::new(self.root.child(&label_name("tenant", &caller.tenant)?)?))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// A regular expression (RE2 syntax, no look-around), matched line by line.
    pattern: String,
    /// Which files: a glob, as in **/*.md. Default: all.
    #[serde(default)]
    glob: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// A path beneath the workspace.
    path: String,
    /// Lines at most (1 to 1000).
    #[serde(default = "lines")]
    max_lines: u64,
    /// The first line, counted from 1.
    #[serde(default = "first")]
    start_line: u64,
}

fn lines() -> u64 {
    LINES
}

fn first() -> u64 {
    1
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// One command of the allow list with its options and paths, as in: grep -n timeout app/config.yaml
    command: String,
}

/// The tools over a folder.
pub fn tools(settings: Settings) -> Registry {
    let settings = Arc::new(settings);
    let specs = vec![
        ToolSpec::over(
            &settings,
            "search_files",
            "Lines of the workspace's text files that match a regular expression, as path:line: text.",
            |settings, caller, args: Search| async move { search(&settings, &caller, args).await },
        ),
        ToolSpec::over(&settings, "read_file", "Lines of one text file of the workspace.", |settings, caller, args: ReadFile| async move {
            read(&settings, &caller, args).await
        }),
        ToolSpec::over(
            &settings,
            "run_shell",
            "One read-only command in the workspace: ls, cat, head, tail, wc, grep, find, du, stat, sort, uniq or date. No shell: no pipes, no redirection, no variables.",
            |settings, caller, args: Run| async move {
                let root = settings.root_of(&caller)?;
                let planned = shell::Plan::parse(&args.command)?;
                settings.shell.run(&root, planned).await
            },
        ),
    ];
    Registry::new("workspace", specs, DEADLINE, MAX_BYTES)
}

/// File system calls block: they run beside the runtime. What was found to be late stops by itself.
async fn beside<T: Send + 'static>(late: Arc<AtomicBool>, work: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    /// Told also when the caller goes away and the future is dropped.
    struct Stop(Arc<AtomicBool>);
    impl Drop for Stop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = Stop(late);
    let mut task = tokio::task::spawn_blocking(work);
    let done = match tokio::time::timeout(SEARCH_TIME, &mut task).await {
        Ok(done) => done,
        Err(_late) => {
            stop.0.store(true, Ordering::Relaxed);
            task.await
        }
    };
    done.map_err(|e| Refusal::Internal(format!("the work ended early: {e}")))?
}

async fn search(settings: &Settings, caller: &Caller, args: Search) -> Result<Value, Refusal> {
    let query = Query::new(&args.pattern, &args.glob)?;
    let root = settings.root_of(caller)?;
    let late = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&late);
    beside(late, move || query.run(&root, &seen)).await
}

async fn read(settings: &Settings, caller: &Caller, args: ReadFile) -> Result<Value, Refusal> {
    let path = Relative::parse("path", &args.path)?;
    for (field, given, most) in [("max_lines", args.max_lines, MAX_LINES), ("start_line", args.start_line, 10_000_000)] {
        if given == 0 || given > most {
            return Err(Refusal::InvalidArgument { field, problem: format!("{given} is not between 1 and {most}") });
        }
    }
    let root = settings.root_of(caller)?;
    let late = Arc::new(AtomicBool::new(false));
    beside(late, move || read_lines(&root, &path, args.start_line, args.max_lines)).await
}

fn read_lines(root: &Root, path: &Relative, first: u64, count: u64) -> Result<Value, Refusal> {
    let shown = path.as_path().display().to_string();
    let opened = root.open_beneath(path)?;
    if opened.is_folder {
        return Err(Refusal::denied(codes::NOT_A_FILE, format!("{shown} is a folder; list it with run_shell: ls {shown}")));
    }
    let failed = |e: std::io::Error| Refusal::BackendUnavailable(format!("{shown} cannot be read: {e}"));
    let size = opened.file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::new(opened.file.take(MAX_READ));
    if reader.fill_buf().map_err(failed)?.contains(&0) {
        return Err(Refusal::denied(codes::NOT_A_FILE, format!("{shown} is a binary file of {size} bytes; only text is shown")));
    }
    let (mut lines, mut number, mut bytes, mut more) = (vec![], 0_u64, 0, false);
    let mut line = vec![];
    loop {
        line.clear();
        // A line of a gigabyte is read in pieces, of which the first is kept.
        if bounded_line(&mut reader, &mut line).map_err(failed)? == 0 {
            break;
        }
        number += 1;
        if number < first {
            continue;
        }
        if lines.len() as u64 >= count || bytes >= MAX_TEXT {
            more = true;
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = head(text.trim_end_matches(['\n', '\r']), MAX_LINE).to_owned();
        bytes += text.len();
        lines.push(text);
    }
    let unread = reader.get_ref().limit() == 0;
    let mut result = json!({
        "summary": format!("{} lines of {shown}", lines.len()),
        "path": shown, "start_line": first, "lines": lines, "bytes": size, "complete": !more && !unread && first == 1,
    });
    if more {
        result["cut"] = json!(format!("more lines follow: ask again with start_line {number}"));
    } else if unread {
        result["cut"] = json!(format!("only the first {MAX_READ} bytes were looked at"));
    }
    Ok(result)
}

/// A line without what is longer than anyone reads. The number of bytes that it had.
fn bounded_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut total = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(total);
        }
        let end = buffer.iter().position(|b| *b == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(buffer.len());
        let room = (MAX_LINE * 4).saturating_sub(line.len()).min(used);
        line.extend_from_slice(&buffer[..room]);
        reader.consume(used);
        total += used;
        if end.is_some() {
            return Ok(total);
        }
    }
}
