//! How bad a line is, and what it says, in the formats that programs write: JSON, logfmt, klog, plain text.

use serde::Serialize;
use serde_json::Value;

use crate::text::Pattern;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Info,
    Warning,
    Error,
    Fatal,
}

impl Level {
    /// A level's name as any of the usual libraries spells it.
    pub fn named(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "trace" | "trce" | "debug" | "dbug" | "dbg" | "info" | "inf" | "information" | "notice" | "verbose" | "default" => Self::Info,
            "warn" | "warning" | "wrn" => Self::Warning,
            "error" | "err" | "eror" | "severe" | "fail" | "failure" => Self::Error,
            "fatal" | "ftl" | "critical" | "crit" | "alert" | "emerg" | "emergency" | "panic" | "dpanic" => Self::Fatal,
            _ => return None,
        })
    }

    /// As pino and bunyan count.
    fn numbered(number: i64) -> Option<Self> {
        Some(match number {
            10..=30 => Self::Info,
            40 => Self::Warning,
            50 => Self::Error,
            60 => Self::Fatal,
            _ => return None,
        })
    }
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub level: Level,
    pub message: String,
    /// The level was written there, and not guessed from words.
    pub explicit: bool,
}

static KLOG: Pattern = Pattern::new(r"^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ \S+?:\d+\] (.*)$");
static PAIR: Pattern = Pattern::new(r#"(?:^|\s)([A-Za-z_][\w.@-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)"#);
/// A time at the start of a line, in the usual spellings.
static TIME: Pattern = Pattern::new(
    r"^\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d| UTC)?|\d\d:\d\d:\d\d(?:[.,]\d+)?|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?: \d{4})?)\]?[ ,:-]*",
);
static WORD: Pattern = Pattern::new(
    r"^(?:\[[^\]]{1,80}\]\s*|\([^)]{1,60}\)\s*|[\w.$/-]{1,60}\s+-?\s*)??[\[<(|]?\s*(?i:(trace|debug|info|notice|warn(?:ing)?|err(?:or)?|severe|fatal|crit(?:ical)?|alert|emerg(?:ency)?|panic))\s*[\]>)|]?(?:\s*[:|-]\s*|\s+|$)",
);
static FATAL_START: Pattern = Pattern::new(
    r"^(?:panic: |fatal error: |Fatal error: |FATAL: |PANIC: |thread '.*' (?:\(\d+\) )?panicked at |Unhandled exception|Exception in thread |Traceback \(most recent call last\):|Segmentation fault|runtime error: |Killed$|terminate called |PHP Fatal error|Uncaught |node:internal/|libc\+\+abi: )",
);
static ERROR_START: Pattern = Pattern::new(
    r"^(?:[A-Za-z_$][\w.$:]*(?:Error|Exception|Failure|Fault)\b|Error: |error: |ERR! |npm ERR! |E: |Caused by: |[\w./-]+\.rb:\d+:in |standard_init_linux|exec .*: (?:exec format error|no such file)|/bin/sh: |sh: |bash: |OCI runtime )",
);
static ERROR_WORDS: Pattern = Pattern::new(
    r"(?i)\b(?:connection refused|no such host|permission denied|out of memory|cannot allocate memory|no space left on device|timed? ?out|deadline exceeded|failed to|failure|could not|cannot|unable to|exception|refused to|not found:|certificate has expired|x509:)\b",
);

/// The level and the message of one line.
#[must_use]
pub fn read(line: &str) -> Said {
    json(line).or_else(|| klog(line)).or_else(|| logfmt(line)).unwrap_or_else(|| plain(line))
}

fn json(line: &str) -> Option<Said> {
    let start = line.trim_start();
    if !start.starts_with('{') {
        return None;
    }
    let Value::Object(map) = serde_json::from_str(start).ok()? else { return None };
    let get = |names: &[&str]| names.iter().find_map(|n| map.get(*n));
    let text = |value: &Value| match value {
        Value::String(s) => s.clone(),
        // {"error": {"message": "…"}} and {"err": {"type", "message", "stack"}}.
        Value::Object(o) => o.get("message").or_else(|| o.get("Message")).and_then(Value::as_str).map_or_else(|| value.to_string(), str::to_owned),
        other => other.to_string(),
    };
    let level = get(&["level", "severity", "lvl", "log.level", "levelname", "level_name", "loglevel", "@l", "Level", "LogLevel", "SeverityText"]).and_then(
        |v| match v {
            Value::Number(n) => n.as_i64().and_then(Level::numbered),
            Value::String(s) => Level::named(s).or_else(|| s.parse().ok().and_then(Level::numbered)),
            _ => None,
        },
    );
    let mut message = get(&["msg", "message", "@m", "Message", "MessageTemplate", "@mt", "event", "log", "Body"]).map(text).unwrap_or_default();
    if let Some(error) =
        get(&["error", "err", "exception", "error.message", "exc_info", "@x", "Exception", "stack_trace"]).map(text).filter(|e| !e.is_empty() && e != "null")
    {
        let first = error.lines().next().unwrap_or_default();
        if message.is_empty() {
            message = first.to_owned();
        } else if !message.contains(first) {
            message = format!("{message}: {first}");
        }
    }
    let explicit = level.is_some();
    let guessed = plain(&message);
    Some(Said { level: level.unwrap_or(guessed.level), message: if message.is_empty() { start.to_owned() } else { message }, explicit })
}

fn klog(line: &str) -> Option<Said> {
    let found = KLOG.captures(line)?;
    let level = match &found[1] {
        "W" => Level::Warning,
        "E" => Level::Error,
        "F" => Level::Fatal,
        _ => Level::Info,
    };
    Some(Said { level, message: found[2].to_owned(), explicit: true })
}

fn logfmt(line: &str) -> Option<Said> {
    let mut level = None;
    let (mut message, mut error) = (String::new(), String::new());
    for pair in PAIR.regex()?.captures_iter(line).take(60) {
        let value = &pair[2];
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value).replace("\\\"", "\"");
        match &pair[1] {
            "level" | "lvl" | "severity" | "log.level" => level = level.or_else(|| Level::named(&value)),
            "msg" | "message" => message = value,
            "err" | "error" => error = value,
            _ => {}
        }
    }
    let level = level?;
    let message = match (message.is_empty(), error.is_empty()) {
        (true, true) => line.to_owned(),
        (true, false) => error,
        (false, true) => message,
        (false, false) => format!("{message}: {error}"),
    };
    Some(Said { level, message, explicit: true })
}

fn plain(line: &str) -> Said {
    let rest = TIME.regex().map_or(line, |p| p.find(line).map_or(line, |m| &line[m.end()..]));
    if FATAL_START.is_match(rest) {
        return Said { level: Level::Fatal, message: rest.to_owned(), explicit: true };
    }
    if let Some(found) = WORD.captures(rest)
        && let Some(level) = Level::named(&found[1])
        // `Error: x` and `[error] x` are levels; `error handling is on` is a sentence.
        && (found[1].bytes().all(|b| b.is_ascii_uppercase()) || found[0].trim_end().ends_with([':', ']', '>', ')', '|', '-']))
    {
        let message = rest[found[0].len()..].trim_start();
        return Said { level, message: if message.is_empty() { rest } else { message }.to_owned(), explicit: true };
    }
    if ERROR_START.is_match(rest) {
        return Said { level: Level::Error, message: rest.to_owned(), explicit: true };
    }
    let level = if ERROR_WORDS.is_match(rest) { Level::Error } else { Level::Info };
    Said { level, message: rest.to_owned(), explicit: false }
}
