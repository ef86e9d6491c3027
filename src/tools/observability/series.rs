//! What a series of points says in a few numbers. Pure.

use serde::Serialize;

/// Points on each side of a change at least.
const SIDE: usize = 3;
/// The difference of the means, in standard deviations of what is left, that is called a change.
const SIGNIFICANT: f64 = 3.0;
/// And as a part of the larger mean: a steady line with a tiny step is none.
const RELATIVE: f64 = 0.2;

#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Summary {
    pub points: usize,
    pub first: f64,
    pub last: f64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// Where the level of a series changed.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Change {
    /// Seconds since 1970 of the first point after it.
    pub at: f64,
    pub before: f64,
    pub after: f64,
}

/// None where there is no number.
#[must_use]
pub fn summary(points: &[(f64, f64)]) -> Option<Summary> {
    let values: Vec<f64> = points.iter().map(|(_, v)| *v).filter(|v| v.is_finite()).collect();
    let (first, last) = (*values.first()?, *values.last()?);
    Some(Summary {
        points: values.len(),
        first: round(first),
        last: round(last),
        min: round(values.iter().copied().fold(f64::INFINITY, f64::min)),
        max: round(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        mean: round(mean(&values)),
        change: change(points),
    })
}

/// The split that leaves the least variance on its two sides, if the sides differ by more than chance would make them.
fn change(points: &[(f64, f64)]) -> Option<Change> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(_, v)| v.is_finite()).collect();
    let values: Vec<f64> = points.iter().map(|(_, v)| *v).collect();
    let (at, _) =
        (SIDE..values.len().checked_sub(SIDE - 1)?).map(|at| (at, spread(&values[..at]) + spread(&values[at..]))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (before, after) = (mean(&values[..at]), mean(&values[at..]));
    let left = ((spread(&values[..at]) + spread(&values[at..])) / count(&values)).sqrt();
    let difference = (after - before).abs();
    let significant = difference > SIGNIFICANT * left && difference > RELATIVE * before.abs().max(after.abs());
    significant.then(|| Change { at: points[at].0, before: round(before), after: round(after) })
}

fn spread(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values)
}

#[expect(clippy::cast_precision_loss, reason = "a series has a few hundred points")]
fn count(values: &[f64]) -> f64 {
    values.len() as f64
}

/// Six significant digits: more is noise that a reader has to skip.
pub fn round(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
