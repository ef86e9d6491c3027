//! What a model costs, in integer micro-dollars, and what to believe of a provider that reports it.

use super::Spend;
use crate::api::{MicroUsd, Price, UsdError};

/// Micro-dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    pub input: MicroUsd,
    pub cached_input: MicroUsd,
    pub cache_write: MicroUsd,
    pub output: MicroUsd,
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
#[error("spec.price.{field}: {error}")]
pub struct PriceError {
    field: &'static str,
    error: UsdError,
}

impl TryFrom<&Price> for Prices {
    type Error = PriceError;
    fn try_from(price: &Price) -> Result<Self, PriceError> {
        let at = |field| move |error| PriceError { field, error };
        let input = price.input_per_million_usd.micros().map_err(at("inputPerMillionUSD"))?;
        let or_input = |given: &Option<crate::api::Usd>, field| given.as_ref().map_or(Ok(input), |p| p.micros().map_err(at(field)));
        Ok(Self {
            input,
            cached_input: or_input(&price.cached_input_per_million_usd, "cachedInputPerMillionUSD")?,
            cache_write: or_input(&price.cache_write_per_million_usd, "cacheWritePerMillionUSD")?,
            output: price.output_per_million_usd.micros().map_err(at("outputPerMillionUSD"))?,
        })
    }
}

/// What a provider says a request took. Taken at its word only where the word is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// All input tokens, those from and to the cache included.
    pub input: Option<i64>,
    pub cached: Option<i64>,
    pub cache_write: Option<i64>,
    pub output: Option<i64>,
}

impl Prices {
    /// The dearest that so many tokens can be.
    #[must_use]
    pub fn worst(&self, input: u64, output: u64) -> MicroUsd {
        let dearest = self.input.max(self.cached_input).max(self.cache_write);
        MicroUsd(of(dearest, input).saturating_add(of(self.output, output)))
    }

    /// How many output tokens this money buys.
    #[must_use]
    pub fn output_for(&self, money: MicroUsd) -> u64 {
        if self.output.0 == 0 {
            return u64::MAX;
        }
        u64::try_from(u128::from(money.0) * MILLION / u128::from(self.output.0)).unwrap_or(u64::MAX)
    }

    /// What a request cost, of what was reserved for it. Where the provider says nothing, or what can't be, all of it.
    #[must_use]
    pub fn settle(&self, reported: Reported, reserved: Spend) -> Spend {
        // There was a prompt and an answer: neither can have been nothing.
        let believed = |tokens: Option<i64>| tokens.and_then(|t| u64::try_from(t).ok()).filter(|t| *t > 0);
        let part = |tokens: Option<i64>, of: u64| tokens.and_then(|t| u64::try_from(t).ok()).unwrap_or(0).min(of);
        let (Some(input), Some(output)) = (believed(reported.input), believed(reported.output)) else {
            return Spend { cached_tokens: 0, ..reserved };
        };
        let cached = part(reported.cached, input);
        let written = part(reported.cache_write, input - cached);
        let cost = of(self.input, input - cached - written)
            .saturating_add(of(self.cached_input, cached))
            .saturating_add(of(self.cache_write, written))
            .saturating_add(of(self.output, output));
        Spend { tool_calls: 0, cost: MicroUsd(cost), input_tokens: input, cached_tokens: cached, output_tokens: output }
    }
}

const MILLION: u128 = 1_000_000;

/// Rounded up: a part of a micro-dollar is one.
fn of(per_million: MicroUsd, tokens: u64) -> u64 {
    u64::try_from((u128::from(per_million.0) * u128::from(tokens)).div_ceil(MILLION)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Usd;

    fn prices() -> Prices {
        let price = Price {
            input_per_million_usd: Usd::from("2.50"),
            cached_input_per_million_usd: Some(Usd::from("1.25")),
            cache_write_per_million_usd: Some(Usd::from("3.125")),
            output_per_million_usd: Usd::from("10"),
        };
        Prices::try_from(&price).unwrap()
    }

    #[test]
    fn s1_12_cost_is_usage_times_price_rounded_up_with_the_cache_counted() {
        let reserved = Spend { cost: MicroUsd(1_000_000), input_tokens: 100_000, output_tokens: 50_000, ..Spend::default() };
        let told = |input, cached, written, output| Reported { input: Some(input), cached: Some(cached), cache_write: Some(written), output: Some(output) };
        assert_eq!(prices().settle(told(1000, 0, 0, 100), reserved).cost, MicroUsd(3500));
        assert_eq!(prices().settle(told(1000, 800, 0, 100), reserved).cost, MicroUsd(500 + 1000 + 1000));
        assert_eq!(prices().settle(told(1000, 0, 800, 100), reserved).cost, MicroUsd(500 + 2500 + 1000));
        assert_eq!(prices().settle(told(1, 0, 0, 1), reserved).cost, MicroUsd(3 + 10), "a part of a micro-dollar is one");
        assert_eq!(prices().worst(1000, 100), MicroUsd(3125 + 1000), "as dear as it can be");
        assert_eq!(prices().output_for(MicroUsd(1000)), 100);
    }

    #[test]
    fn a_provider_that_lies_is_charged_what_was_reserved() {
        let reserved = Spend { cost: MicroUsd(900), input_tokens: 100, output_tokens: 50, ..Spend::default() };
        for (input, output) in
            [(None, None), (Some(0), Some(5)), (Some(5), Some(0)), (Some(-7), Some(5)), (Some(5), Some(-7)), (None, Some(3)), (Some(i64::MIN), None)]
        {
            let used = prices().settle(Reported { input, output, ..Reported::default() }, reserved);
            assert_eq!(used, reserved, "{input:?} {output:?}");
        }
        let huge = prices().settle(Reported { input: Some(i64::MAX), cached: Some(i64::MAX), output: Some(i64::MAX), cache_write: Some(-1) }, reserved);
        assert_eq!(huge.at_most(reserved).cost, MicroUsd(900));
        assert!(huge.less(reserved).output_tokens > 0, "and said aloud");
        let cached = prices().settle(Reported { input: Some(10), cached: Some(99), output: Some(1), cache_write: Some(99) }, reserved);
        assert_eq!((cached.cached_tokens, cached.cost), (10, MicroUsd(13 + 10)));
    }

    #[test]
    fn a_price_that_cannot_be_read_names_its_field() {
        let price = Price {
            input_per_million_usd: Usd::from("1"),
            cached_input_per_million_usd: None,
            cache_write_per_million_usd: None,
            output_per_million_usd: Usd::from("ten"),
        };
        assert!(Prices::try_from(&price).unwrap_err().to_string().starts_with("spec.price.outputPerMillionUSD: \"ten\" is not"));
    }
}
