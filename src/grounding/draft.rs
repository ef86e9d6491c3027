//! What an investigator says before anybody has checked it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::{Citation, CitedRunbook, ObjectRef, SuggestedAction};

/// A statement with the quotes that are meant to prove it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Claim {
    pub statement: String,
    pub citations: Vec<Citation>,
}

/// The claim that names the cause.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct RootClaim {
    pub claim: Claim,
    pub object: ObjectRef,
    /// The exact text that gave it away; it must stand in a cited quote.
    pub signature: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct DraftEvent {
    pub time: Timestamp,
    /// A verbatim text of the evidence.
    pub event: String,
    pub evidence: String,
}

/// What the investigator thinks it has found.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Cause(RootClaim),
    /// Nothing is wrong: a claim like every other.
    Healthy(Claim),
    /// It can't tell, and why.
    Unknown(String),
}

/// A postmortem before verification.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Draft {
    pub finding: Finding,
    /// From the symptom to the cause.
    #[serde(default)]
    pub chain: Vec<Claim>,
    #[serde(default)]
    pub contributing: Vec<Claim>,
    #[serde(default)]
    pub impact: Option<Claim>,
    #[serde(default)]
    pub timeline: Vec<DraftEvent>,
    #[serde(default)]
    pub runbook: Option<DraftRunbook>,
    #[serde(default)]
    pub actions: Vec<SuggestedAction>,
    #[serde(default)]
    pub not_checked: Vec<String>,
}

/// A runbook with the signatures that it holds: checked against the root cause's signature before it is cited.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct DraftRunbook {
    pub cited: CitedRunbook,
    /// The evidence that the runbook was read from.
    pub evidence: String,
}

impl Draft {
    #[must_use]
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            finding: Finding::Unknown(why.into()),
            chain: vec![],
            contributing: vec![],
            impact: None,
            timeline: vec![],
            runbook: None,
            actions: vec![],
            not_checked: vec![],
        }
    }
}
