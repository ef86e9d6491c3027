//! A postmortem as Markdown, to read. The last lines are the stop reason and the usage.

use std::fmt::Write;

use crate::api::{Citation, Outcome, Postmortem, StopReason, Usage};

/// Characters of the Markdown: the field of the status holds no more.
const MAX: usize = 8192;
/// Characters of one quote shown; the whole quote is in the structured fields.
const QUOTE: usize = 240;

/// Renders. A refusal can't appear where an answer goes: the heading, the lead and the section differ by outcome.
#[must_use]
pub fn markdown(question: &str, post: &Postmortem, stop: StopReason, usage: &Usage, investigator: &str) -> String {
    let mut out = String::new();
    let heading = match post.outcome {
        Outcome::RootCauseFound => "Root cause found",
        Outcome::Healthy => "Nothing is wrong",
        Outcome::Inconclusive => "Inconclusive",
    };
    line(&mut out, &format!("# {heading}\n\n**Question**: {}\n", flat(question)));
    match (&post.outcome, &post.root_cause) {
        (Outcome::RootCauseFound, Some(root)) => {
            line(&mut out, &format!("## Root cause\n\n{}\n", root.statement));
            line(&mut out, &format!("- object: {}\n- signature: `{}`", root.object, flat(&root.signature)));
            cite(&mut out, &root.citations);
        }
        (Outcome::Inconclusive, _) => line(&mut out, &format!("**No cause is proved.** {}", post.refusal)),
        _ => {}
    }
    if !post.chain.is_empty() {
        line(&mut out, &format!("\n## {}\n", if post.outcome == Outcome::Healthy { "What was seen" } else { "From the symptom to the cause" }));
        for (at, claim) in post.chain.iter().enumerate() {
            line(&mut out, &format!("{}. {}{}", at + 1, flat(&claim.statement), ids(&claim.citations)));
        }
    }
    section(&mut out, "Contributing", post.contributing.iter().map(|c| format!("{}{}", flat(&c.statement), ids(&c.citations))));
    if !post.impact.is_empty() {
        line(&mut out, &format!("\n## Impact\n\n{}", flat(&post.impact)));
    }
    section(&mut out, "Timeline", post.timeline.iter().map(|t| format!("{} {} ({})", t.time.0.strftime("%H:%M:%S"), cut(&flat(&t.event)), t.evidence)));
    if let Some(book) = &post.runbook {
        line(&mut out, &format!("\n## Runbook\n\n{} ({}/{}), for `{}`", book.title, book.namespace, book.name, book.signature));
    }
    section(
        &mut out,
        "What you can do",
        post.actions.iter().map(|a| {
            let command = if a.command.is_empty() { String::new() } else { format!(": `{}`", a.command) };
            let reason = if a.reason.is_empty() { String::new() } else { format!(" {}", a.reason) };
            format!("{}{command}{reason}", a.title)
        }),
    );
    let quoted = |c: &crate::api::PublishedClaim| c.citations.iter().map(|q| format!(" `{}`", cut(&flat(&q.quote)).replace('`', "'"))).collect::<String>();
    section(&mut out, "Suspicious text", post.suspicious.iter().map(|c| format!("{}{}", flat(&c.statement), quoted(c))));
    section(&mut out, "Not checked", post.not_checked.iter().cloned());
    let dropped = if post.dropped_claims > 0 { format!(" {} claims were not proved and are left out.", post.dropped_claims) } else { String::new() };
    let tail = format!(
        "\n---\n\nStopped: {stop:?}. {} steps, {} tool calls ({} skipped, {} denied), {}, {}, by {investigator}.{dropped}\n",
        usage.steps,
        usage.tool_calls,
        usage.skipped_calls,
        usage.denied_calls,
        spent(usage),
        usage.duration
    );
    let room = MAX - tail.chars().count();
    if out.chars().count() > room {
        out = out.chars().take(room - 20).collect();
        out.push_str("\n\n…cut here\n");
    }
    out + &tail
}

/// Dollars, and the tokens that they went for.
fn spent(usage: &Usage) -> String {
    if usage.input_tokens == 0 && usage.output_tokens == 0 {
        return format!("${}", usage.cost_usd);
    }
    format!("${} for {} tokens in ({} from the cache) and {} out", usage.cost_usd, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
}

fn line(out: &mut String, text: &str) {
    // Writing to a String does not fail.
    let _infallible = writeln!(out, "{text}");
}

fn section(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        line(out, &format!("\n## {title}\n"));
        items.for_each(|item| line(out, &format!("- {item}")));
    }
}

fn cite(out: &mut String, citations: &[Citation]) {
    line(out, "\nProved by:\n");
    for c in citations {
        line(out, &format!("- {}: `{}`", c.evidence, cut(&flat(&c.quote)).replace('`', "'")));
    }
}

fn ids(citations: &[Citation]) -> String {
    let mut ids: Vec<&str> = citations.iter().map(|c| c.evidence.as_str()).collect();
    ids.dedup();
    format!(" [{}]", ids.join(", "))
}

/// Evidence is hostile input: it may not start a heading or a list of its own.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= QUOTE { text.to_owned() } else { text.chars().take(QUOTE - 1).chain(['…']).collect() }
}
