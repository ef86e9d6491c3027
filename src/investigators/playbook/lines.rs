//! Which line of a log explains a crash. It is seldom the last one.

use serde_json::Value;

use super::facts::Line;
use crate::text::Pattern;

/// Lines of one class that are considered.
const CONSIDERED: usize = 5;

/// How telling a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Noise,
    Other,
    Error,
    Cause,
    Fatal,
}

static FATAL: Pattern =
    Pattern::new(r"(?i)^\W*(?:fatal|panic|critical|emerg(?:ency)?|crit)\b|\b(?:FATAL|PANIC|CRITICAL|EMERG)\b|^panic:|panicked at|(?i)\bfatal error\b|\bfatal:");
static CAUSE: Pattern = Pattern::new(
    r"^\s*Caused by: |^(?:[a-zA-Z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)(?::|$)|^\s*\S*(?:Error|Exception): |^Unhandled exception",
);
static ERROR: Pattern = Pattern::new(
    r"(?i)\b(?:err|error|errors|severe|failed|failure|fail|cannot|can't|can not|could not|couldn't|unable to|refused|denied|no such|not found|not permitted|not allowed|missing|invalid|illegal|must be|required|unknown|unsupported|unrecognized|timed out|timeout|no route|unreachable|already in use|too many|exhausted|exceeded|expired|mismatch|not set|undefined|unexpected|corrupt|bad|abort(?:ed|ing)?|rejected|does not exist|unauthorized|forbidden|exiting|killed|not a number|parse|already exists|reached|exceeds|conflict|violat\w+|insufficient|no space left|out of memory|outdated|incompatible|lost)\b",
);
static NOISE: Pattern = Pattern::new(
    r"(?i)^\s*$|\b(?:received|caught|got)\s+(?:signal|sigterm|sigint|shutdown)|shutting down|graceful(?:ly)? (?:stop|shutdown)|^\s+at |^\s*File \x22|^goroutine \d+|^\s*\.\.\. \d+ more|note: run with|^Traceback \(most recent|^exit status|^\s+/|^\[signal |^stack backtrace",
);
static BENIGN: Pattern = Pattern::new(r"(?i)\b(?:level=(?:info|debug|warn|warning|trace)|INFO|DEBUG|TRACE|WARN|WARNING|NOTICE)\b");
static KLOG: Pattern = Pattern::new(r"^([IWEF])\d{4} \d\d:\d\d:\d\d");

fn class(text: &str) -> Class {
    if let Some(level) = structured_level(text) {
        return match level.as_str() {
            "fatal" | "panic" | "critical" | "crit" | "emerg" | "alert" | "dpanic" | "f" | "60" => Class::Fatal,
            "error" | "err" | "e" | "severe" | "50" => Class::Error,
            _ => Class::Other,
        };
    }
    if NOISE.is_match(text) {
        Class::Noise
    } else if FATAL.is_match(text) {
        Class::Fatal
    } else if CAUSE.is_match(text) {
        Class::Cause
    } else if ERROR.is_match(text) && !BENIGN.is_match(text) {
        Class::Error
    } else {
        Class::Other
    }
}

/// The level that the line itself states: JSON, logfmt or klog.
fn structured_level(text: &str) -> Option<String> {
    let trimmed = text.trim_start();
    if trimmed.starts_with('{')
        && let Ok(Value::Object(map)) = serde_json::from_str(trimmed)
    {
        let level = ["level", "severity", "lvl", "log.level", "levelname", "@l"].iter().find_map(|k| map.get(*k))?;
        return Some(level.as_str().map_or_else(|| level.to_string(), str::to_ascii_lowercase));
    }
    if let Some(found) = KLOG.captures(text) {
        return Some(found[1].to_ascii_lowercase());
    }
    let at = text.find("level=")?;
    let value: String = text[at + 6..].trim_start_matches('"').chars().take_while(char::is_ascii_alphanumeric).collect();
    (!value.is_empty()).then(|| value.to_ascii_lowercase())
}

/// Indexes of the lines that explain the end, the best first: all of one class, the most telling there is.
pub fn explaining(lines: &[Line]) -> Vec<usize> {
    let classes: Vec<Class> = lines.iter().map(|l| class(&l.text)).collect();
    let Some(best) = classes.iter().max().copied().filter(|c| *c > Class::Noise) else { return vec![] };
    let mut found: Vec<usize> = (0..lines.len()).filter(|i| classes[*i] == best).collect();
    // A panic comes first and its stack after it; of causes and errors the innermost is the last.
    if best != Class::Fatal {
        found.reverse();
    }
    found.truncate(CONSIDERED);
    // Rust prints the place first and the message on the next line.
    for index in &mut found {
        let text = lines[*index].text.trim_end();
        if text.contains("panicked at") && text.ends_with(':') && *index + 1 < lines.len() {
            *index += 1;
        }
    }
    found
}

/// Whether the best line says that something failed, rather than being merely the last one.
pub fn is_telling(line: &str) -> bool {
    class(line) >= Class::Error
}
