//! Reading fields of an object that may lack any of them.

use jiff::Timestamp;
use serde_json::Value;

pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn int(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

pub fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn map<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

pub fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    value.pointer(pointer).and_then(Value::as_str).and_then(|s| s.parse().ok())
}

pub fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

pub fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

/// The condition of this type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|c| text(c, "/type") == kind)
}

/// `a=b,c=d` of a map of strings, in the map's order.
pub fn labels(value: &Value, pointer: &str) -> String {
    map(value, pointer).map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}

/// Whether `labels` carries everything that an equality selector at `pointer` wants. An empty selector selects nothing.
pub fn selects(selector: &Value, pointer: &str, object: &Value) -> bool {
    let mut any = false;
    map(selector, pointer).all(|(key, want)| {
        any = true;
        object.pointer("/metadata/labels").and_then(|l| l.get(key)) == Some(want)
    }) && any
}

/// A label selector with `matchLabels` and `matchExpressions`.
pub fn selects_by(selector: &Value, object: &Value) -> bool {
    let label = |key: &str| object.pointer("/metadata/labels").and_then(|l| l.get(key)).and_then(Value::as_str);
    map(selector, "/matchLabels").all(|(key, want)| label(key) == want.as_str())
        && list(selector, "/matchExpressions").iter().all(|e| {
            let have = label(text(e, "/key"));
            let among = have.is_some_and(|h| list(e, "/values").iter().any(|v| v.as_str() == Some(h)));
            match text(e, "/operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => have.is_some(),
                "DoesNotExist" => have.is_none(),
                _ => false,
            }
        })
}
