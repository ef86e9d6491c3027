//! A request that fits: into the money and tokens that are left, and into the model. Its worst case is what is reserved.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Chat, ChatRequest, conversation};
use crate::{
    agent::{Caps, Entry, Journal, Ledger, PromptMark, Purpose, Spend, overflows},
    api::{MicroUsd, StopReason},
    investigators::Case,
};

/// Tokens that a provider may add to a prompt: its own words around tools, and the marks of each message.
const OVERHEAD: u64 = 1024;
const A_MESSAGE: u64 = 16;
/// An answer in less than this says nothing.
const MIN_OUTPUT: u64 = 256;
/// Bytes of a token in the texts that clusters write, for the model's size alone. Money is reckoned with the bound.
const USUAL_BYTES: u64 = 3;
/// A provider that reports fewer tokens than this part of the bytes is not believed.
const FEWEST: u64 = 32;

/// A request, and what is set aside for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    pub request: ChatRequest,
    pub worst: Spend,
    pub prompt: PromptMark,
}

/// Nothing fits under this cap any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFit(pub StopReason);

pub(super) fn fit(chat: &Chat, case: &Case, journal: &Journal, caps: &Caps, purpose: Purpose) -> Result<Fitted, NoFit> {
    let ledger = Ledger::new(*caps, journal.committed());
    let all = journal.evidence().count();
    // A prompt that was too long for the model is made smaller than we would: it knows better.
    let mut keep = all >> overflows(journal);
    loop {
        // The number is of the run's start: what changes in the first message changes all that is cached behind it.
        let mut request = conversation::request(chat, case, journal, caps.tool_calls, purpose, keep);
        let prompt = mark(&request);
        let usual = prompt.bytes / USUAL_BYTES;
        let roomy = usual + MIN_OUTPUT.min(chat.max_output) <= chat.context;
        let (money, tokens) = ledger.left(purpose);
        match limits(chat, bound(journal, &request, prompt), money, tokens) {
            Ok((input, output)) if roomy => {
                let output = output.min(chat.context.saturating_sub(usual));
                request.max_output = output;
                let worst = Spend { cost: chat.prices.worst(input, output), input_tokens: input, output_tokens: output, ..Spend::default() };
                return Ok(Fitted { request, worst, prompt });
            }
            // Nothing is left to leave out.
            Ok(_) if keep == 0 => return Err(NoFit(StopReason::TokenCap)),
            Err(stop) if keep == 0 => return Err(NoFit(stop)),
            Ok(_) | Err(_) => keep /= 2,
        }
    }
}

/// Tokens in, and how many out may follow, or the cap that is broken.
fn limits(chat: &Chat, input: u64, money: MicroUsd, tokens: u64) -> Result<(u64, u64), StopReason> {
    let least = MIN_OUTPUT.min(chat.max_output);
    let of_tokens = tokens.saturating_sub(input);
    if of_tokens < least {
        return Err(StopReason::TokenCap);
    }
    let priced = chat.prices.worst(input, 0);
    // One micro-dollar for each rounding.
    let rest = MicroUsd(money.0.saturating_sub(priced.0).saturating_sub(1));
    let of_money = chat.prices.output_for(rest);
    if priced > money || of_money < least {
        return Err(StopReason::CostCap);
    }
    Ok((input, chat.max_output.min(of_tokens).min(of_money)))
}

/// How many tokens the prompt is at most. No token is shorter than a byte; and where the prompt only goes on from the last one, what
/// that one was reported to take is known, and only what was added is reckoned by its bytes.
fn bound(journal: &Journal, request: &ChatRequest, prompt: PromptMark) -> u64 {
    let by_bytes = prompt.bytes.saturating_add(OVERHEAD).saturating_add(A_MESSAGE.saturating_mul(prompt.messages as u64));
    let known = last_settled(journal).filter(|(before, reported)| {
        let begins_so = before.messages <= request.messages.len() && mark_of(request, before.messages).digest == before.digest;
        begins_so && *reported >= before.bytes / FEWEST
    });
    known.map_or(by_bytes, |(before, reported)| {
        let added = prompt.bytes.saturating_sub(before.bytes);
        let messages = (prompt.messages - before.messages) as u64;
        by_bytes.min(reported.saturating_add(added).saturating_add(A_MESSAGE.saturating_mul(messages + 4)))
    })
}

/// The last prompt that was answered, and the tokens that it was reported to be.
fn last_settled(journal: &Journal) -> Option<(PromptMark, u64)> {
    let mut reserved = None;
    let mut known = None;
    for record in journal.records() {
        match &record.entry {
            Entry::DecisionReserved { worst, prompt, .. } => reserved = Some((*prompt, worst.input_tokens)),
            Entry::Decided { used, .. } => {
                // All that was reserved is what is charged where nothing believable was reported: it tells nothing.
                known = reserved.take().filter(|(_, worst)| used.input_tokens > 0 && used.input_tokens < *worst).map(|(p, _)| (p, used.input_tokens));
            }
            _ => {}
        }
    }
    known
}

fn mark(request: &ChatRequest) -> PromptMark {
    mark_of(request, request.messages.len())
}

/// The prompt up to so many messages. What is forced or offered belongs to it: the provider counts it, too.
fn mark_of(request: &ChatRequest, messages: usize) -> PromptMark {
    let some = &request.messages[..messages.min(request.messages.len())];
    let text = serde_json::to_vec(&(&request.system, &request.tools, some)).unwrap_or_default();
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    PromptMark { messages, bytes: text.len() as u64, digest: hash.finish() }
}
