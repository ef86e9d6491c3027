//! The verifier: structural, deterministic, no model.

use super::{Claim, Evidence, RootClaim, tokens::concrete_tokens};

/// What the verifier says of a claim: supported, or the reason it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Supported,
    NoCitation,
    NoSuchEvidence { evidence: String },
    QuoteNotFound { evidence: String, quote: String },
    TokenNotQuoted { token: String },
    SignatureNotQuoted { signature: String },
    ObjectNotQuoted { name: String },
}

impl Verdict {
    #[must_use]
    pub fn supported(&self) -> bool {
        *self == Self::Supported
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Supported => write!(f, "supported"),
            Self::NoCitation => write!(f, "the claim cites nothing: add a citation with a verbatim quote"),
            Self::NoSuchEvidence { evidence } => write!(f, "there is no evidence {evidence}"),
            Self::QuoteNotFound { evidence, quote } => write!(f, "evidence {evidence} does not contain {quote:?}: quote it word for word"),
            Self::TokenNotQuoted { token } => write!(f, "{token:?} is in no cited quote: cite where it was seen, or leave it out"),
            Self::SignatureNotQuoted { signature } => write!(f, "the signature {signature:?} is in no cited quote"),
            Self::ObjectNotQuoted { name } => write!(f, "the object {name:?} is in no cited quote"),
        }
    }
}

/// Whether every quote stands in the evidence it names, and every concrete token of the statement in a cited quote or in `question`.
#[must_use]
pub fn verify(claim: &Claim, evidence: &[Evidence], question: &str) -> Verdict {
    if claim.citations.is_empty() {
        return Verdict::NoCitation;
    }
    for citation in &claim.citations {
        let Some(source) = evidence.iter().find(|e| e.id == citation.evidence) else {
            return Verdict::NoSuchEvidence { evidence: citation.evidence.clone() };
        };
        if !source.contains(&citation.quote) {
            return Verdict::QuoteNotFound { evidence: citation.evidence.clone(), quote: citation.quote.clone() };
        }
    }
    let proved = |token: &str| occurs(token, question) || claim.citations.iter().any(|c| occurs(token, &c.quote));
    match concrete_tokens(&claim.statement).into_iter().find(|t| !proved(t)) {
        Some(token) => Verdict::TokenNotQuoted { token },
        None => Verdict::Supported,
    }
}

/// As [`verify`]; the signature and the name of the object must stand in a cited quote, too.
#[must_use]
pub fn verify_root(root: &RootClaim, evidence: &[Evidence], question: &str) -> Verdict {
    let verdict = verify(&root.claim, evidence, question);
    if !verdict.supported() {
        return verdict;
    }
    let quoted = |text: &str| root.claim.citations.iter().any(|c| occurs(text, &c.quote));
    // A letter is in every text: what gives a cause away is at least a word.
    if root.signature.trim().chars().count() < 4 || !root.claim.citations.iter().any(|c| c.quote.contains(&root.signature)) {
        return Verdict::SignatureNotQuoted { signature: root.signature.clone() };
    }
    if !quoted(&root.object.name) && !occurs(&root.object.name, question) {
        return Verdict::ObjectNotQuoted { name: root.object.name.clone() };
    }
    Verdict::Supported
}

/// Whether `token` stands in `text` as a whole: `web` is not proved by `webhook`, `5` not by `15`.
#[must_use]
pub fn occurs(token: &str, text: &str) -> bool {
    if token.is_empty() {
        return false;
    }
    let part_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (starts, ends) = (token.chars().next(), token.chars().next_back());
    text.match_indices(token).any(|(at, _)| {
        let mut before = text[..at].chars().rev();
        let mut after = text[at + token.len()..].chars();
        let (near_before, near_after) = (before.next(), after.next());
        // `api` is not proved by `payments-api`, nor `5` by `0.5`: a name or number that goes on to the left is another one. To the
        // right a workload's name goes on into its pods' (`api-7d9f-x`), which do prove it; a number does not.
        let joined_before = matches!(near_before, Some('-' | '.')) && part_of_word(before.next()) && part_of_word(starts);
        let number = token.chars().all(|c| c.is_ascii_digit());
        let joined_after = number && matches!(near_after, Some('.')) && after.next().is_some_and(|c| c.is_ascii_digit());
        !(joined_before || joined_after || part_of_word(near_before) && part_of_word(starts) || part_of_word(near_after) && part_of_word(ends))
    })
}
