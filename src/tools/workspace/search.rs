//! `search_files`: a regular expression over the text files of the workspace.

use std::{
    fs::File,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, sinks::Lossy};
use serde_json::{Value, json};

use super::{Root, path, path::Relative};
use crate::{text::head, tools::server::Refusal};

/// Matches that one call returns.
const MAX_MATCHES: usize = 200;
/// Bytes of a line that are shown.
const MAX_LINE: usize = 400;
/// Bytes of one file that are read, and of all.
const MAX_FILE: u64 = 8 << 20;
const MAX_TOTAL: u64 = 64 << 20;
/// Bytes of a pattern and of a glob.
const MAX_PATTERN: usize = 512;
/// Memory that a compiled pattern, and its cache, may take: `(a{1000}){1000}` is refused.
const MAX_COMPILED: usize = 1 << 20;
/// Stars in a glob: each `**` multiplies the work of a match.
const MAX_STARS: usize = 8;

/// A call that was checked.
#[derive(Debug)]
pub(super) struct Query {
    matcher: RegexMatcher,
    glob: GlobMatcher,
}

impl Query {
    /// # Errors
    /// When the pattern or the glob is none, or could take too much.
    pub(super) fn new(pattern: &str, glob: &str) -> Result<Self, Refusal> {
        let bad = |field, problem: String| Refusal::InvalidArgument { field, problem };
        if pattern.is_empty() {
            return Err(bad("pattern", "is empty: give a regular expression such as (?i)error|timeout".to_owned()));
        }
        if pattern.len() > MAX_PATTERN {
            return Err(bad("pattern", format!("is longer than {MAX_PATTERN} bytes")));
        }
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .nest_limit(50)
            .build(pattern)
            .map_err(|e| bad("pattern", head(&format!("is no regular expression that is searched here: {e}"), 300).to_owned()))?;
        path::visible("glob", glob)?;
        if glob.len() > MAX_PATTERN || glob.matches('*').count() > MAX_STARS || glob.matches('{').count() > 4 {
            return Err(bad("glob", format!("is longer than {MAX_PATTERN} bytes, or has more than {MAX_STARS} stars or 4 braces")));
        }
        let glob = if glob.is_empty() { "**/*" } else { glob };
        if glob.starts_with('/') || glob.split('/').any(|part| part == "..") || glob.starts_with('~') {
            return Err(Refusal::denied(super::codes::OUTSIDE, format!("glob: {glob:?} leads out of the workspace; give one such as **/*.md")));
        }
        let glob = GlobBuilder::new(glob).literal_separator(true).build().map_err(|e| bad("glob", format!("is none: {e}")))?.compile_matcher();
        Ok(Self { matcher, glob })
    }

    /// Searches; `late` ends it with what was found.
    pub(super) fn run(&self, root: &Root, late: &Arc<AtomicBool>) -> Result<Value, Refusal> {
        let walk = root.walk(&Relative::parse("path", ".")?)?;
        let mut matches = vec![];
        let mut searcher = SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).heap_limit(Some(MAX_COMPILED)).build();
        let (mut searched, mut skipped, mut left) = (0_usize, 0_usize, MAX_TOTAL);
        let mut cut = walk.cut.then(|| "the tree is too large to be walked".to_owned());
        for file in walk.files.iter().filter(|f| self.glob.is_match(f)) {
            if late.load(Ordering::Relaxed) || left == 0 {
                cut = Some("not all files could be searched: give a narrower glob".to_owned());
                break;
            }
            if matches.len() >= MAX_MATCHES {
                cut = Some(format!("only the first {MAX_MATCHES} matches are shown"));
                break;
            }
            // Gone, a link that leads out or to a secret, not readable: no file of the workspace.
            let Some(opened) = file.to_str().and_then(|f| Relative::parse("path", f).ok()).and_then(|p| root.open_beneath(&p).ok()).filter(|o| !o.is_folder)
            else {
                skipped += 1;
                continue;
            };
            let reader = Bounded { file: opened.file, left: MAX_FILE.min(left), late: Arc::clone(late), cut: false };
            let before = reader.left;
            let (reader, result) = search_one(&mut searcher, &self.matcher, reader, &file.display().to_string(), &mut matches);
            left -= before - reader.left;
            if reader.cut {
                cut = Some(format!("{} was searched in part", file.display()));
            }
            match result {
                Ok(()) => searched += 1,
                // A line longer than the searcher's memory: no text that a person would read.
                Err(_unsearchable) => skipped += 1,
            }
        }
        let mut result = json!({
            "summary": format!("{} matches in {searched} files", matches.len()),
            "matches": matches, "files_searched": searched, "files_denied": walk.denied, "files_skipped": skipped, "complete": cut.is_none(),
        });
        if let Some(cut) = cut {
            result["cut"] = json!(cut);
        }
        Ok(result)
    }
}

fn search_one(searcher: &mut Searcher, matcher: &RegexMatcher, mut reader: Bounded, name: &str, matches: &mut Vec<String>) -> (Bounded, io::Result<()>) {
    let result = searcher.search_reader(
        matcher,
        &mut reader,
        Lossy(|number, line| {
            matches.push(format!("{name}:{number}: {}", head(line.trim_end(), MAX_LINE)));
            Ok(matches.len() < MAX_MATCHES)
        }),
    );
    (reader, result)
}

/// A file that ends after so many bytes, though it grows, and when the caller's time is over.
struct Bounded {
    file: File,
    left: u64,
    late: Arc<AtomicBool>,
    cut: bool,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || self.late.load(Ordering::Relaxed) {
            self.cut = true;
            return Ok(0);
        }
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len()).min(64 << 10);
        let read = self.file.read(&mut buffer[..room])?;
        self.left -= read as u64;
        Ok(read)
    }
}
