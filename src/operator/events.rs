//! Events on Investigations, as `kubectl describe` shows them.

use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};

use crate::api::Investigation;

/// The API takes 1 kB.
const NOTE: usize = 900;
/// An event is worth waiting for, but not for long.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(3);

#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    pub fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "inquest-operator".to_owned(), instance: std::env::var("POD_NAME").ok() };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Publishes in the background: an event that can't be written is logged and never holds up a run.
    pub fn publish(&self, about: &Investigation, warning: bool, reason: &str, action: &str, note: String) {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note.chars().take(NOTE).collect()),
            action: action.to_owned(),
            secondary: None,
        };
        let (recorder, reference) = (self.recorder.clone(), about.object_ref(&()));
        tokio::spawn(async move {
            match tokio::time::timeout(DEADLINE, recorder.publish(&event, &reference)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, reason = event.reason, "an event could not be written"),
                Err(_late) => tracing::warn!(reason = event.reason, "an event could not be written in time"),
            }
        });
    }
}
