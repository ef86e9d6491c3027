//! The budget: reserved before it is spent, settled after.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{BudgetSpec, MicroUsd, SpanError, StopReason, UsdError, is_default};

/// The share of money and tokens that only the final answer may use, in percent.
const ANSWER_PERCENT: u64 = 10;

/// The caps of a run, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    pub tool_calls: u32,
    pub cost: MicroUsd,
    pub tokens: u64,
    pub duration: Duration,
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum CapsError {
    #[error("spec.budget.maxCostUSD: {0}")]
    Cost(#[from] UsdError),
    #[error("spec.budget.maxDuration: {0}")]
    Duration(#[from] SpanError),
    #[error("spec.budget.{field}: {value} is negative: write 0 or more")]
    Negative { field: &'static str, value: i64 },
}

impl TryFrom<&BudgetSpec> for Caps {
    type Error = CapsError;
    fn try_from(spec: &BudgetSpec) -> Result<Self, CapsError> {
        let negative = |field, value| CapsError::Negative { field, value };
        Ok(Self {
            tool_calls: u32::try_from(spec.max_tool_calls).map_err(|_| negative("maxToolCalls", spec.max_tool_calls.into()))?,
            cost: spec.max_cost_usd.micros()?,
            tokens: u64::try_from(spec.max_tokens).map_err(|_| negative("maxTokens", spec.max_tokens))?,
            duration: spec.max_duration.duration()?,
        })
    }
}

/// What was or may be spent. Tokens and money are the model's.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    #[serde(default)]
    pub tool_calls: u32,
    #[serde(default)]
    pub cost: MicroUsd,
    #[serde(default)]
    pub input_tokens: u64,
    /// The part of `input_tokens` that the provider read from its cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
}

impl Spend {
    #[must_use]
    pub fn calls(tool_calls: u32) -> Self {
        Self { tool_calls, ..Self::default() }
    }
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            cost: MicroUsd(self.cost.0.saturating_add(other.cost.0)),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
    /// What is left when `other` is taken away, field by field.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self {
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            cost: MicroUsd(self.cost.0.saturating_sub(other.cost.0)),
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
        }
    }
    /// Never more than `cap`, field by field.
    #[must_use]
    pub fn at_most(self, cap: Self) -> Self {
        Self {
            tool_calls: self.tool_calls.min(cap.tool_calls),
            cost: self.cost.min(cap.cost),
            input_tokens: self.input_tokens.min(cap.input_tokens),
            cached_tokens: self.cached_tokens.min(self.input_tokens).min(cap.input_tokens),
            output_tokens: self.output_tokens.min(cap.output_tokens),
        }
    }
}

/// What a reservation is for. Only the answer may use the part kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Step,
    Answer,
}

impl Purpose {
    fn usable(self, cap: u64) -> u64 {
        match self {
            Self::Answer => cap,
            Self::Step => cap - cap / 100 * ANSWER_PERCENT - cap % 100 * ANSWER_PERCENT / 100,
        }
    }
}

/// Caps against what is spent or reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    pub caps: Caps,
    /// Settled, plus everything reserved and not settled: an interrupted reservation counts as spent.
    pub committed: Spend,
}

impl Ledger {
    #[must_use]
    pub fn new(caps: Caps, committed: Spend) -> Self {
        Self { caps, committed }
    }

    #[must_use]
    pub fn calls_left(&self) -> u32 {
        self.caps.tool_calls.saturating_sub(self.committed.tool_calls)
    }

    /// Money and tokens that a request for this purpose may still take.
    #[must_use]
    pub fn left(&self, purpose: Purpose) -> (MicroUsd, u64) {
        let cost = purpose.usable(self.caps.cost.0).saturating_sub(self.committed.cost.0);
        (MicroUsd(cost), purpose.usable(self.caps.tokens).saturating_sub(self.committed.tokens()))
    }

    /// Sets `worst` aside, if it fits.
    ///
    /// # Errors
    /// The cap that it does not fit under.
    pub fn reserve(&mut self, worst: Spend, purpose: Purpose) -> Result<(), StopReason> {
        let after = self.committed.plus(worst);
        if after.tool_calls > self.caps.tool_calls {
            return Err(StopReason::StepCap);
        }
        if worst.cost.0 > 0 && after.cost.0 > purpose.usable(self.caps.cost.0) {
            return Err(StopReason::CostCap);
        }
        if worst.tokens() > 0 && after.tokens() > purpose.usable(self.caps.tokens) {
            return Err(StopReason::TokenCap);
        }
        self.committed = after;
        Ok(())
    }

    /// Replaces a reservation by what was really used: never more than was reserved, since the request was limited to that.
    /// Returns what a provider reported beyond it, to be said aloud and not charged twice.
    pub fn settle(&mut self, reserved: Spend, used: Spend) -> Spend {
        let charged = used.at_most(reserved);
        self.committed = self.committed.less(reserved).plus(charged);
        used.less(charged)
    }
}
