//! The journal: the ordered, durable record of one run. Status, trace and report are derived from it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Spend;
use crate::{
    api::{StopReason, is_default},
    grounding::{Draft, Evidence},
};

/// One record. Once appended it is never changed.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Record {
    /// From 1, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub entry: Entry,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// The run began, with these tools; the list is not asked for again.
    Started {
        investigator: String,
        tools: Vec<ToolRef>,
        /// What a model must know to call them. Empty where none decides.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        schemas: Vec<ToolSchema>,
    },
    /// What the next decision may cost was set aside.
    DecisionReserved {
        step: u32,
        worst: Spend,
        /// The prompt that it was reckoned for.
        #[serde(default)]
        prompt: PromptMark,
    },
    /// The model was asked, and there is no answer. Settles the reservation.
    DecisionFailed {
        step: u32,
        /// What it may have cost: all that was reserved, unless the provider refused before it did anything.
        used: Spend,
        reason: String,
        error: String,
        /// When it is asked again. Absent: never, it has failed for good.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// The model is not asked any more: the playbooks go on from here.
    FellBack {
        reason: String,
        message: String,
    },
    /// A cap was reached: what follows is the last word, without tools.
    Capped {
        stop: StopReason,
    },
    /// The investigator decided. For each call it asked for: what will be done with it. Calls to execute are reserved here.
    Decided {
        step: u32,
        used: Spend,
        /// What a provider reported beyond what it was limited to. Said aloud, and charged to nobody.
        #[serde(default, skip_serializing_if = "is_default")]
        beyond: Spend,
        next: Move,
        calls: Vec<PlannedCall>,
    },
    /// Every call of the step has its result.
    Answered {
        step: u32,
        results: Vec<CallResult>,
    },
    /// The verifier refused the conclusion of this step; the investigator is told why, once.
    Rejected {
        step: u32,
        reasons: Vec<String>,
    },
    Suspended,
    Resumed,
    /// The end.
    Concluded {
        stop: StopReason,
        draft: Draft,
    },
}

/// A tool on offer.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolRef {
    /// `namespace/name` of the ToolServer.
    pub server: String,
    pub tool: String,
}

/// A tool as a model is told of it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct ToolSchema {
    pub tool: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A prompt by its size and content: when the next one begins with it, what it was reported to cost in tokens is known.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptMark {
    pub messages: usize,
    pub bytes: u64,
    pub digest: u64,
}

/// What the investigator wants next.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "move", rename_all = "snake_case")]
pub enum Move {
    Call {
        thought: String,
        calls: Vec<ToolCall>,
    },
    Conclude {
        draft: Box<Draft>,
    },
    /// The reply could not be read.
    Malformed {
        error: String,
    },
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    pub arguments: Value,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct PlannedCall {
    /// `c1`, `c2` … over the whole run.
    pub id: String,
    pub tool: String,
    pub arguments: Value,
    pub plan: Plan,
}

/// What is done with a call.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// Executed on this server; one call of the budget is reserved.
    Execute { server: String },
    /// Asked before with the same arguments: answered with the recorded evidence, at no charge.
    Repeat { evidence: String },
    /// Past a cap; not executed.
    Skip { reason: String },
    /// No such tool is offered.
    Unknown,
    /// The arguments are no JSON object, and why.
    Invalid { error: String },
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct CallResult {
    pub call: String,
    #[serde(flatten)]
    pub outcome: CallOutcome,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CallOutcome {
    Evidence { evidence: Evidence },
    Repeat { of: String },
    Skipped { reason: String },
    Unknown,
    Invalid { error: String },
}

/// The records of one run, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    records: Vec<Record>,
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
#[error("the journal has record {found} where {expected} belongs")]
pub struct OutOfOrder {
    pub expected: u64,
    pub found: u64,
}

impl Journal {
    /// # Errors
    /// When a record is missing or stands twice.
    pub fn new(records: Vec<Record>) -> Result<Self, OutOfOrder> {
        for (expected, record) in (1..).zip(&records) {
            if record.seq != expected {
                return Err(OutOfOrder { expected, found: record.seq });
            }
        }
        Ok(Self { records })
    }

    /// Adds an entry in memory and returns the record to store.
    pub fn push(&mut self, at: Timestamp, entry: Entry) -> Record {
        let record = Record { seq: self.records.len() as u64 + 1, at, entry };
        self.records.push(record.clone());
        record
    }

    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    #[must_use]
    pub fn last(&self) -> Option<&Record> {
        self.records.last()
    }

    pub fn evidence(&self) -> impl Iterator<Item = &Evidence> {
        self.results().filter_map(|r| match &r.outcome {
            CallOutcome::Evidence { evidence } => Some(evidence),
            CallOutcome::Repeat { .. } | CallOutcome::Skipped { .. } | CallOutcome::Unknown | CallOutcome::Invalid { .. } => None,
        })
    }

    pub fn results(&self) -> impl Iterator<Item = &CallResult> {
        self.records.iter().flat_map(|r| match &r.entry {
            Entry::Answered { results, .. } => results.as_slice(),
            _ => &[],
        })
    }

    pub fn planned(&self) -> impl Iterator<Item = &PlannedCall> {
        self.records.iter().flat_map(|r| match &r.entry {
            Entry::Decided { calls, .. } => calls.as_slice(),
            _ => &[],
        })
    }

    /// The tools on offer, as the run began with them.
    #[must_use]
    pub fn tools(&self) -> &[ToolRef] {
        self.records
            .iter()
            .find_map(|r| match &r.entry {
                Entry::Started { tools, .. } => Some(tools.as_slice()),
                _ => None,
            })
            .unwrap_or_default()
    }

    #[must_use]
    pub fn started(&self) -> Option<Timestamp> {
        self.records.iter().find(|r| matches!(r.entry, Entry::Started { .. })).map(|r| r.at)
    }

    #[must_use]
    pub fn conclusion(&self) -> Option<(Timestamp, StopReason, &Draft)> {
        self.records.iter().rev().find_map(|r| match &r.entry {
            Entry::Concluded { stop, draft } => Some((r.at, *stop, draft)),
            _ => None,
        })
    }

    #[must_use]
    pub fn steps(&self) -> u32 {
        self.records.iter().filter(|r| matches!(r.entry, Entry::Decided { .. })).count().try_into().unwrap_or(u32::MAX)
    }

    /// What is settled plus what is reserved and was never settled.
    #[must_use]
    pub fn committed(&self) -> Spend {
        let mut open: Option<(u32, Spend)> = None;
        let mut total = Spend::default();
        for record in &self.records {
            match &record.entry {
                Entry::DecisionReserved { step, worst, .. } => {
                    // An earlier reservation without a decision was interrupted: it counts as spent.
                    total = total.plus(open.take().map(|(_, s)| s).unwrap_or_default());
                    open = Some((*step, *worst));
                }
                Entry::DecisionFailed { step, used, .. } => total = total.plus(settled(open.take(), *step, *used)),
                Entry::Decided { step, used, calls, .. } => {
                    total = total.plus(settled(open.take(), *step, *used));
                    let executed = calls.iter().filter(|c| matches!(c.plan, Plan::Execute { .. })).count();
                    total = total.plus(Spend::calls(executed.try_into().unwrap_or(u32::MAX)));
                }
                _ => {}
            }
        }
        total.plus(open.map(|(_, s)| s).unwrap_or_default())
    }

    /// What was reserved for a decision that was interrupted: it counts as spent, whoever decides next.
    #[must_use]
    pub fn interrupted(&self) -> Spend {
        let last = self.records.iter().rev().find_map(|r| match &r.entry {
            Entry::DecisionReserved { worst, .. } => Some(Some(*worst)),
            Entry::Decided { .. } | Entry::DecisionFailed { .. } => Some(None),
            _ => None,
        });
        last.flatten().unwrap_or_default()
    }

    /// The step whose calls have no results yet, if the last one was interrupted.
    #[must_use]
    pub fn open_step(&self) -> Option<(u32, &[PlannedCall])> {
        self.records.iter().rev().find_map(|r| match &r.entry {
            Entry::Answered { .. } => Some(None),
            Entry::Decided { step, calls, next: Move::Call { .. }, .. } => Some(Some((*step, calls.as_slice()))),
            Entry::Decided { .. } => Some(None),
            _ => None,
        })?
    }

    #[must_use]
    pub fn schemas(&self) -> &[ToolSchema] {
        self.records
            .iter()
            .find_map(|r| match &r.entry {
                Entry::Started { schemas, .. } => Some(schemas.as_slice()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// Why the playbooks go on in place of the model, if they do.
    #[must_use]
    pub fn fell_back(&self) -> Option<(&str, &str)> {
        self.records.iter().find_map(|r| match &r.entry {
            Entry::FellBack { reason, message } => Some((reason.as_str(), message.as_str())),
            _ => None,
        })
    }

    /// The cap that only a last word follows.
    #[must_use]
    pub fn capped(&self) -> Option<StopReason> {
        self.records.iter().rev().find_map(|r| match &r.entry {
            Entry::Capped { stop } => Some(*stop),
            _ => None,
        })
    }

    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.records
            .iter()
            .rev()
            .find_map(|r| match r.entry {
                Entry::Suspended => Some(true),
                Entry::Resumed => Some(false),
                _ => None,
            })
            .unwrap_or(false)
    }

    /// Wall clock from the start, time in suspension not counted.
    #[must_use]
    pub fn active(&self, now: Timestamp) -> Duration {
        let Some(started) = self.started() else { return Duration::ZERO };
        let end = self.conclusion().map_or(now, |(at, ..)| at);
        let (mut total, mut since) = (Duration::ZERO, Some(started));
        for record in &self.records {
            match (&record.entry, since) {
                (Entry::Suspended, Some(from)) => {
                    total += between(from, record.at);
                    since = None;
                }
                (Entry::Resumed, None) => since = Some(record.at),
                _ => {}
            }
        }
        total + since.map_or(Duration::ZERO, |from| between(from, end))
    }
}

/// What a decision cost, of what was reserved for it. One that another step had reserved stays spent.
fn settled(reserved: Option<(u32, Spend)>, step: u32, used: Spend) -> Spend {
    match reserved {
        Some((at, worst)) if at == step => used.at_most(worst),
        Some((_, worst)) => worst.plus(used),
        None => used,
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
