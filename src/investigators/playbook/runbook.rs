//! When the cause is known: is there a runbook that holds what proves it?

use serde_json::json;

use crate::{
    agent::{Journal, ToolCall},
    api::{Citation, CitedRunbook},
    grounding::{DraftRunbook, RootClaim},
    text::head,
};

const TOOL: &str = "search_runbooks";
/// Bytes of a query: quotes are short, and the tool takes no more characters.
const MAX_QUERY: usize = 4000;

/// The search, where there is such a tool and it was not asked before.
pub fn search(root: &RootClaim, journal: &Journal) -> Option<ToolCall> {
    let offered = journal.tools().iter().any(|t| t.tool == TOOL);
    (offered && !journal.planned().any(|p| p.tool == TOOL))
        .then(|| ToolCall { tool: TOOL.to_owned(), arguments: json!({"query": query(&root.claim.citations)}) })
}

/// What was quoted: a runbook is cited only for these very words.
fn query(citations: &[Citation]) -> String {
    let quotes: Vec<&str> = citations.iter().map(|c| c.quote.as_str()).collect();
    head(&quotes.join("\n"), MAX_QUERY).to_owned()
}

/// The best hit with an exact signature.
pub fn cited(journal: &Journal) -> Option<DraftRunbook> {
    journal.evidence().filter(|e| e.tool == TOOL).find_map(|evidence| {
        let result = evidence.json()?;
        let hit = result["runbooks"].as_array()?.iter().find(|r| r["signature"].as_str().is_some_and(|s| !s.is_empty()))?;
        let text = |field: &str| hit[field].as_str().map(str::to_owned);
        let cited = CitedRunbook { name: text("name")?, namespace: text("namespace")?, title: text("title")?, signature: text("signature")? };
        Some(DraftRunbook { cited, evidence: evidence.id.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_what_was_quoted() {
        let quote = |q: &str| Citation { evidence: "e1".into(), quote: q.into() };
        assert_eq!(query(&[quote("OOMKilled"), quote("exit code 137")]), "OOMKilled\nexit code 137");
        assert!(query(&[quote(&"é".repeat(5000))]).len() <= MAX_QUERY);
    }
}
