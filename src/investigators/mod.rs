//! Who decides the next move. `playbook` is deterministic and needs no model; `chat` asks one; `script` replays recorded moves, for tests.
//!
//! Must not import: a client, a clock, the operator. `playbook` is pure: the same journal gives the same move.

pub mod chat;
pub mod playbook;
mod script;

pub use script::Script;

use crate::{
    agent::{Journal, Move},
    api::{InvestigationSpec, ObjectRef, StopReason},
    grounding::Draft,
};

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    pub namespace: String,
    /// As the user wrote it, or made of the target or the alert.
    pub question: String,
    pub target: Option<ObjectRef>,
    pub window_minutes: u32,
}

/// Decides.
pub trait Investigator: Send + Sync {
    /// `playbook`, `chat` or `script`.
    fn kind(&self) -> &'static str;
    /// The next move, from the journal alone.
    fn next(&self, case: &Case, journal: &Journal) -> Move;
    /// The answer without further tools, at a cap or an end.
    fn conclude(&self, case: &Case, journal: &Journal, stop: StopReason) -> Draft;
}

/// Labels of an alert that name an object, and its kind, the most telling first.
const ALERT_LABELS: &[(&str, &str)] = &[
    ("deployment", "Deployment"),
    ("statefulset", "StatefulSet"),
    ("daemonset", "DaemonSet"),
    ("job_name", "Job"),
    ("cronjob", "CronJob"),
    ("pod", "Pod"),
    ("persistentvolumeclaim", "PersistentVolumeClaim"),
    ("horizontalpodautoscaler", "HorizontalPodAutoscaler"),
    ("service", "Service"),
    ("ingress", "Ingress"),
];

impl Case {
    /// What a spec asks, in this namespace.
    #[must_use]
    pub fn from_spec(namespace: &str, spec: &InvestigationSpec) -> Self {
        let target = spec
            .target
            .as_ref()
            .map(|t| ObjectRef { api_version: t.api_version.clone(), kind: t.kind.clone(), namespace: namespace.to_owned(), name: t.name.clone() })
            .or_else(|| {
                let labels = &spec.alert.as_ref()?.labels;
                ALERT_LABELS.iter().find_map(|(label, kind)| {
                    let name = labels.get(*label).filter(|n| !n.is_empty())?;
                    Some(ObjectRef { kind: (*kind).to_owned(), namespace: namespace.to_owned(), name: name.clone(), ..ObjectRef::default() })
                })
            });
        let mut question = spec.question.clone();
        if question.is_empty() {
            question = match (&target, &spec.alert) {
                (Some(t), _) => format!("What is wrong with {} {}?", t.kind, t.name),
                (None, Some(alert)) => format!("Why does {} fire?", alert.name),
                (None, None) => String::new(),
            };
        }
        let minutes = spec.window.or(std::time::Duration::from_secs(3600)).as_secs().div_ceil(60).clamp(1, 1440);
        Self { namespace: namespace.to_owned(), question, target, window_minutes: minutes.try_into().unwrap_or(60) }
    }
}
