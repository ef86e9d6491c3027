//! Money as integer micro-dollars. Never a float.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// US dollars as text with at most six decimals, as in `"0.50"`. Text, because a float can't hold a cent.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Usd(#[schemars(length(max = 16), regex(pattern = r"^[0-9]{1,7}(\.[0-9]{1,6})?$"))] pub String);

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
#[error("{0:?} is not an amount of dollars: write digits with at most six decimals, as in 0.50")]
pub struct UsdError(pub String);

/// Micro-dollars: one millionth of a US dollar.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MicroUsd(pub u64);

impl Usd {
    /// # Errors
    /// When the text is no amount. The CRD's pattern refuses such text earlier.
    pub fn micros(&self) -> Result<MicroUsd, UsdError> {
        let bad = || UsdError(self.0.clone());
        let (whole, part) = self.0.split_once('.').unwrap_or((&self.0, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 6 {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let part: u64 = format!("{part:0<6}").parse().map_err(|_| bad())?;
        whole.checked_mul(1_000_000).and_then(|w| w.checked_add(part)).map(MicroUsd).ok_or_else(bad)
    }
}

impl From<&str> for Usd {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<MicroUsd> for Usd {
    fn from(m: MicroUsd) -> Self {
        Self(m.to_string())
    }
}

impl std::fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
