//! Groups of entries that say the same with other numbers.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use regex::Regex;
use serde::Serialize;

use super::{entry::Entry, level::Level};
use crate::text::head;

/// Bytes of a template, and of a sample.
const MAX_TEMPLATE: usize = 300;
const MAX_SAMPLE: usize = 1500;

/// Entries of one template.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Group {
    pub level: Level,
    pub template: String,
    pub count: u64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// The newest of them, as it was printed.
    pub sample: String,
    /// `pod/container`, with `(previous)` for the container before the last restart.
    pub sources: Vec<String>,
}

/// What differs between two lines that say the same, in the order in which it is looked for.
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<ip>"),
        (r"\b0x[0-9a-fA-F]+\b", "<hex>"),
        (r"\b(?:[0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{6,}\b", "<hex>"),
        (r"\b\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|%|B|KB|MB|GB|KiB|MiB|GiB)?\b", "<n>"),
    ]
    .into_iter()
    .filter_map(|(pattern, with)| Some((Regex::new(pattern).ok()?, with)))
    .collect()
});

/// A message without what differs from one time to the next.
#[must_use]
pub fn template(message: &str) -> String {
    let mut text = head(message.lines().next().unwrap_or_default(), MAX_TEMPLATE).to_owned();
    for (pattern, with) in MASKS.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    text.trim().to_owned()
}

/// Groups of the entries that are at least so bad: the worst first, then the most frequent, then the newest.
pub fn grouped<'a>(entries: impl IntoIterator<Item = (&'a str, &'a Entry)>, least: Level) -> Vec<Group> {
    let mut groups: BTreeMap<(Level, String), Group> = BTreeMap::new();
    for (source, entry) in entries {
        if entry.level < least {
            continue;
        }
        let template = template(&entry.message);
        let group = groups.entry((entry.level, template.clone())).or_insert_with(|| Group {
            level: entry.level,
            template,
            count: 0,
            first: entry.at,
            last: None,
            sample: String::new(),
            sources: vec![],
        });
        group.count += 1;
        group.first = match (group.first, entry.at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if group.sample.is_empty() || entry.at >= group.last {
            group.sample = head(&entry.lines.join("\n"), MAX_SAMPLE).to_owned();
        }
        group.last = group.last.max(entry.at);
        if !group.sources.iter().any(|s| s == source) && group.sources.len() < 10 {
            group.sources.push(source.to_owned());
        }
    }
    let mut all: Vec<Group> = groups.into_values().collect();
    all.sort_by_key(|g| (std::cmp::Reverse(g.level), std::cmp::Reverse(g.count), std::cmp::Reverse(g.last)));
    all
}
