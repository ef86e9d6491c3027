//! Logs of one container: a tail, with times, never raw megabytes.

use serde_json::{Value, json};

use super::{
    json,
    source::{LogQuery, Source},
};
use crate::tools::server::{Refusal, redact_text};

/// Characters of one line that are kept.
const LINE: usize = 800;
/// Characters of one answer.
const TOTAL: usize = 16_000;

/// Reads the previous container first when asked, and the current one where there was none.
pub async fn read(source: &dyn Source, pod: &Value, container: &str, previous: bool, tail: u32) -> Result<Value, Refusal> {
    let mut query = LogQuery { namespace: json::namespace(pod).to_owned(), pod: json::name(pod).to_owned(), container: container.to_owned(), previous, tail };
    let mut note = String::new();
    let text = match source.logs(&query).await {
        Ok(text) if previous && unavailable(&text) => {
            note = text.trim().to_owned();
            query.previous = false;
            source.logs(&query).await
        }
        Err(Refusal::InvalidArgument { problem, .. }) if previous && problem.contains("previous terminated container") => {
            query.previous = false;
            source.logs(&query).await
        }
        other => other,
    };
    let text = match text {
        Ok(text) if unavailable(&text) => {
            note = text.trim().to_owned();
            String::new()
        }
        Ok(text) => text,
        // The container has not started: there is no log, which is a fact and not a mistake of the caller.
        Err(Refusal::InvalidArgument { problem, .. }) => {
            note = problem;
            String::new()
        }
        Err(refusal) => return Err(refusal),
    };
    // A key over several lines is one secret: it is hidden before the text becomes lines.
    let (text, redacted) = redact_text(&text);
    let mut cut = 0;
    let mut size = 0;
    let mut lines: Vec<Value> = Vec::new();
    for line in text.lines().rev() {
        if size > TOTAL {
            cut += 1;
            continue;
        }
        let (time, text) = split_time(line);
        let kept: String = if text.chars().count() > LINE { text.chars().take(LINE).chain(['…']).collect() } else { text.to_owned() };
        size += kept.len();
        lines.push(json!({"time": time, "text": kept}));
    }
    lines.reverse();
    let which = if query.previous { "previous container" } else { "container" };
    let (namespace, name) = (&query.namespace, &query.pod);
    let mut result = json!({
        "summary": format!("{} lines of {which} {container} of Pod {namespace}/{name}", lines.len()),
        "namespace": namespace, "pod": name, "container": container, "previous": query.previous, "lines": lines,
    });
    if redacted > 0 {
        result["redacted"] = json!(redacted);
    }
    if !note.is_empty() {
        result["note"] = json!(note);
    }
    if cut > 0 {
        result["cut"] = json!(format!("{cut} earlier lines"));
    }
    Ok(result)
}

/// The kubelet answers this with success when the previous container's log is gone.
fn unavailable(text: &str) -> bool {
    text.starts_with("unable to retrieve container logs for")
}

/// The time in front of a line, parsed, and its text.
pub fn split_time_of(line: &str) -> (Option<jiff::Timestamp>, &str) {
    let (time, text) = split_time(line);
    (time.and_then(|t| t.parse().ok()), text)
}

fn split_time(line: &str) -> (Option<&str>, &str) {
    match line.split_once(' ') {
        Some((time, text)) if time.parse::<jiff::Timestamp>().is_ok() => (Some(time), text),
        None if line.parse::<jiff::Timestamp>().is_ok() => (Some(line), ""),
        _ => (None, line),
    }
}
