//! From the journal to the conversation: what the model said, and what it was answered, in their order.

use super::{
    CONCLUDE, Chat, ChatRequest, Message, ModelCall, prompt,
    schema::{conclude_tool, safe_name},
    types::arguments,
};
use crate::{
    agent::{CallOutcome, CallResult, Entry, Journal, Move, PlannedCall, Purpose, ToolSchema},
    api::Protocol,
    grounding::Evidence,
    investigators::Case,
    text::head,
};

/// Bytes of one piece of evidence that a model sees. The journal keeps all of it, and a quote is checked against all of it.
const EVIDENCE: usize = 16 * 1024;
/// Bytes of evidence of which only its summary is left.
const SUMMARY: usize = 300;

/// The request, with only the `keep` newest pieces of evidence in full.
pub(super) fn request(chat: &Chat, case: &Case, journal: &Journal, calls_left: u32, purpose: Purpose, keep: usize) -> ChatRequest {
    let conclude = conclude_tool();
    let offered: Vec<ToolSchema> = journal.schemas().iter().map(|s| ToolSchema { tool: safe_name(&s.tool), ..s.clone() }).collect();
    let system = prompt::system(chat.protocol, &offered, &conclude);
    let messages = Told { chat, journal, older: journal.evidence().count().saturating_sub(keep) }.messages(case, calls_left);
    let json = chat.protocol == Protocol::JSON;
    let tools = match (json, purpose) {
        (true, _) => vec![],
        (false, Purpose::Answer) => vec![conclude],
        (false, Purpose::Step) => offered.into_iter().chain([conclude]).collect(),
    };
    let force = (!json && purpose == Purpose::Answer).then(|| CONCLUDE.to_owned());
    ChatRequest { system, messages, tools, force, json, max_output: chat.max_output, step: journal.steps() + 1 }
}

struct Told<'a> {
    chat: &'a Chat,
    journal: &'a Journal,
    /// So many of the oldest pieces of evidence are told as summaries.
    older: usize,
}

impl Told<'_> {
    fn messages(&self, case: &Case, calls_left: u32) -> Vec<Message> {
        let json = self.chat.protocol == Protocol::JSON;
        let mut messages = vec![Message::User { text: prompt::question(case, calls_left) }];
        let mut planned: &[PlannedCall] = &[];
        for record in self.journal.records() {
            match &record.entry {
                Entry::Decided { step, next, calls, .. } => match next {
                    Move::Call { thought, .. } => {
                        planned = calls;
                        messages.push(said_calls(json, thought, calls));
                    }
                    Move::Conclude { draft } => {
                        let text = super::reply::restate(draft);
                        messages.push(match json {
                            true => Message::Assistant { text: format!("{{\"thought\":\"\",\"finish\":{text}}}"), calls: vec![] },
                            false => Message::Assistant {
                                text: String::new(),
                                calls: vec![ModelCall { id: conclusion_id(*step), name: CONCLUDE.to_owned(), arguments: text }],
                            },
                        });
                    }
                    Move::Malformed { error } => {
                        messages.push(Message::Assistant { text: prompt::NO_REPLY.to_owned(), calls: vec![] });
                        messages.push(Message::User { text: prompt::malformed(error) });
                    }
                },
                Entry::Answered { results, .. } => self.answers(json, planned, results, &mut messages),
                Entry::Rejected { step, reasons } => {
                    let text = prompt::rejected(reasons);
                    messages.push(match json {
                        true => Message::User { text },
                        false => Message::Tool { call: conclusion_id(*step), name: CONCLUDE.to_owned(), text },
                    });
                }
                Entry::Capped { stop } => messages.push(Message::User { text: prompt::last_word(stop.label()) }),
                Entry::Started { .. }
                | Entry::DecisionReserved { .. }
                | Entry::DecisionFailed { .. }
                | Entry::FellBack { .. }
                | Entry::Suspended
                | Entry::Resumed
                | Entry::Concluded { .. } => {}
            }
        }
        messages
    }

    fn answers(&self, json: bool, planned: &[PlannedCall], results: &[CallResult], messages: &mut Vec<Message>) {
        let mut texts = Vec::new();
        for result in results {
            let Some(call) = planned.iter().find(|p| p.id == result.call) else { continue };
            let text = match &result.outcome {
                CallOutcome::Evidence { evidence } => self.evidence(evidence),
                CallOutcome::Repeat { of } => prompt::repeat(of),
                CallOutcome::Skipped { reason } => prompt::skipped(reason),
                CallOutcome::Unknown => {
                    let known: Vec<String> = self.journal.schemas().iter().map(|s| safe_name(&s.tool)).chain([CONCLUDE.to_owned()]).collect();
                    prompt::unknown(head(&call.tool, 64), &known)
                }
                CallOutcome::Invalid { error } => prompt::invalid(error),
            };
            match json {
                true => texts.push(text),
                false => messages.push(Message::Tool { call: call.id.clone(), name: safe_name(&call.tool), text }),
            }
        }
        if json {
            messages.push(Message::User { text: texts.join("\n") });
        }
    }

    fn evidence(&self, evidence: &Evidence) -> String {
        let number: usize = evidence.id.trim_start_matches('e').parse().unwrap_or(usize::MAX);
        let tool = safe_name(&evidence.tool);
        let code = evidence.code.as_ref().map(|c| format!(" code=\"{}\"", safe_name(c))).unwrap_or_default();
        if number <= self.older {
            let summary = evidence.summary();
            return prompt::evidence(&evidence.id, &tool, &format!("{code}{}", prompt::COMPACTED), head(&summary, SUMMARY));
        }
        let shown = head(&evidence.text, EVIDENCE);
        let cut = if evidence.truncated || shown.len() < evidence.text.len() { " cut=\"true\"" } else { "" };
        prompt::evidence(&evidence.id, &tool, &format!("{code}{cut}"), shown)
    }
}

fn said_calls(json: bool, thought: &str, calls: &[PlannedCall]) -> Message {
    if json {
        // One call a reply is all that this protocol has.
        let action =
            calls.first().map(|c| format!(",\"action\":{{\"tool\":{},\"arguments\":{}}}", serde_json::Value::from(c.tool.as_str()), arguments(&c.arguments)));
        return Message::Assistant { text: format!("{{\"thought\":{}{}}}", serde_json::Value::from(thought), action.unwrap_or_default()), calls: vec![] };
    }
    let calls = calls.iter().map(|c| ModelCall { id: c.id.clone(), name: safe_name(&c.tool), arguments: arguments(&c.arguments) }).collect();
    Message::Assistant { text: thought.to_owned(), calls }
}

fn conclusion_id(step: u32) -> String {
    format!("k{step}")
}
