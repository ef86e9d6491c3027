//! Events: when they were seen, how often, and a list of them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{json, world::World};

/// Scheduler events have only `eventTime`; a series counts in its own field.
pub fn last_seen(event: &Value) -> Option<Timestamp> {
    ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"].iter().find_map(|p| json::time(event, p))
}

pub fn first_seen(event: &Value) -> Option<Timestamp> {
    ["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"].iter().find_map(|p| json::time(event, p))
}

pub fn count(event: &Value) -> Option<i64> {
    json::int(event, "/series/count").or_else(|| json::int(event, "/count"))
}

/// Events within the window, newest first, about one object or all.
pub fn list(world: &World, about: Option<(&str, &str)>, window: SignedDuration) -> Vec<Value> {
    let mut found: Vec<(Option<Timestamp>, Value)> = world
        .all("Event")
        .iter()
        .filter(|e| about.is_none_or(|(kind, name)| json::text(e, "/involvedObject/kind") == kind && json::text(e, "/involvedObject/name") == name))
        .filter(|e| last_seen(e).is_none_or(|t| world.now.duration_since(t) <= window))
        .map(|e| {
            let last = last_seen(e);
            let row = json!({
                "last": last, "first": first_seen(e), "count": count(e).unwrap_or(1), "type": json::text(e, "/type"), "reason": json::text(e, "/reason"),
                "object": format!("{}/{}", json::text(e, "/involvedObject/kind"), json::text(e, "/involvedObject/name")),
                "message": json::text(e, "/message"),
                "by": Some(json::text(e, "/source/component")).filter(|s| !s.is_empty()).unwrap_or(json::text(e, "/reportingComponent")),
            });
            (last, row)
        })
        .collect();
    found.sort_by_key(|(last, _)| std::cmp::Reverse(*last));
    found.into_iter().map(|(_, row)| row).collect()
}
