//! Lengths of time as people write them: `90s`, `10m`, `1h30m`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length of time: numbers with the units `h`, `m`, `s` or `ms`, as Go and CEL read them.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Span(#[schemars(length(max = 32), regex(pattern = r"^([0-9]+(\.[0-9]+)?(h|ms|m|s))+$"))] pub String);

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
#[error("{0:?} is not a length of time: write numbers with the units h, m, s or ms, as in 1h30m")]
pub struct SpanError(pub String);

impl Span {
    /// # Errors
    /// When the text is no length of time. The CRD's pattern refuses such text earlier.
    pub fn duration(&self) -> Result<Duration, SpanError> {
        let bad = || SpanError(self.0.clone());
        let mut rest = self.0.as_str();
        let mut total = 0.0;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(bad)?;
            let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
            rest = &rest[digits..];
            let units = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            total += number
                * match &rest[..units] {
                    "h" => 3600.0,
                    "m" => 60.0,
                    "s" => 1.0,
                    "ms" => 0.001,
                    _ => return Err(bad()),
                };
            rest = &rest[units..];
        }
        Duration::try_from_secs_f64(total).map_err(|_| bad())
    }

    /// The duration, or `fallback` for text that only an unvalidated source can hold.
    #[must_use]
    pub fn or(&self, fallback: Duration) -> Duration {
        self.duration().unwrap_or(fallback)
    }

    /// As a person reads it in a status: `850ms`, `12.3s`, `4m05s`, `2h00m`.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        let millis = duration.as_millis();
        let secs = duration.as_secs();
        Self(if millis < 1000 {
            format!("{millis}ms")
        } else if secs < 60 {
            format!("{}.{}s", secs, (millis % 1000) / 100)
        } else if secs < 3600 {
            format!("{}m{:02}s", secs / 60, secs % 60)
        } else {
            format!("{}h{:02}m", secs / 3600, (secs % 3600) / 60)
        })
    }
}

impl From<&str> for Span {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
