//! The verifier: structural, deterministic, no model.

use super::{Claim, Evidence, RootClaim, Sources, tokens::concrete_tokens};

/// What the verifier says of a claim: supported, or the reason it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Supported,
    NoCitation,
    NoSuchEvidence {
        evidence: String,
    },
    QuoteNotFound {
        evidence: String,
        quote: String,
    },
    /// The quote is of a line that speaks to whoever investigates.
    QuoteInstructs {
        evidence: String,
    },
    NothingConcrete,
    TokenNotQuoted {
        token: String,
    },
    SignatureNotQuoted {
        signature: String,
    },
    ObjectNotQuoted {
        name: String,
    },
    KindNotSeen {
        kind: String,
    },
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
            Self::QuoteInstructs { evidence } => write!(f, "the quote of {evidence} is of a line that gives instructions: such text proves nothing"),
            Self::NothingConcrete => write!(f, "the statement names nothing that could be proved: name the object, the number or the error"),
            Self::KindNotSeen { kind } => write!(f, "no cited evidence knows a {kind}"),
            Self::TokenNotQuoted { token } => write!(f, "{token:?} is in no cited quote: cite where it was seen, or leave it out"),
            Self::SignatureNotQuoted { signature } => write!(f, "the signature {signature:?} is in no cited quote"),
            Self::ObjectNotQuoted { name } => write!(f, "the object {name:?} is in no cited quote"),
        }
    }
}

/// Whether every quote stands in the evidence it names, and every concrete token of the statement in a cited quote or in `question`.
#[must_use]
pub fn verify(claim: &Claim, sources: &Sources<'_>, question: &str) -> Verdict {
    if claim.citations.is_empty() {
        return Verdict::NoCitation;
    }
    for citation in &claim.citations {
        let Some(source) = sources.find(&citation.evidence) else {
            return Verdict::NoSuchEvidence { evidence: citation.evidence.clone() };
        };
        if !source.contains(&citation.quote) {
            return Verdict::QuoteNotFound { evidence: citation.evidence.clone(), quote: citation.quote.clone() };
        }
        if !sources.trusted(&citation.evidence).is_some_and(|t| t.contains(&citation.quote)) {
            return Verdict::QuoteInstructs { evidence: citation.evidence.clone() };
        }
    }
    let proved = |token: &str| occurs(token, question) || claim.citations.iter().any(|c| occurs(token, &c.quote));
    let tokens = concrete_tokens(&claim.statement);
    if tokens.is_empty() {
        return Verdict::NothingConcrete;
    }
    match tokens.into_iter().find(|t| !proved(t)) {
        Some(token) => Verdict::TokenNotQuoted { token },
        None => Verdict::Supported,
    }
}

/// As [`verify`]; the signature and the name of the object must stand in a cited quote, too.
#[must_use]
pub fn verify_root(root: &RootClaim, sources: &Sources<'_>, question: &str) -> Verdict {
    let verdict = verify(&root.claim, sources, question);
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
    // The kind stands in the evidence, if only in a field's name or in what was asked for; messages say "quota" for a ResourceQuota.
    let knows = |e: &Evidence| {
        let from = root.object.kind.rfind(|c: char| c.is_ascii_uppercase()).unwrap_or(0);
        let kind = root.object.kind[from..].to_ascii_lowercase();
        e.text.to_ascii_lowercase().contains(&kind) || e.arguments.to_string().to_ascii_lowercase().contains(&kind)
    };
    let cited = |e: &&Evidence| root.claim.citations.iter().any(|c| c.evidence == e.id);
    if root.object.kind.is_empty() || !(occurs(&root.object.kind, question) || sources.all().filter(cited).any(knows)) {
        return Verdict::KindNotSeen { kind: root.object.kind.clone() };
    }
    Verdict::Supported
}

/// Letters that the API server makes names of: no vowels, so that no word comes of it.
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Whether what follows a name and a hyphen is what controllers add to the names of their pods: a template's hash and five random letters,
/// an ordinal, a time. `redis-settings` is another thing than `redis`, and `redis-7d9f4-x2x4v` is its pod.
fn is_made_by_a_controller(rest: &str) -> bool {
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rest.len());
    let added = rest[..end].trim_end_matches('-');
    let random =
        |part: &str| part.chars().all(|c| RANDOM.contains(c)) || part.chars().all(|c| c.is_ascii_hexdigit()) && part.contains(|c: char| c.is_ascii_digit());
    // A word boundary that is no name at all: "api - 3 restarts", "api-".
    added.is_empty() || added.split('-').all(|part| !part.is_empty() && (random(part) || part.chars().all(|c| c.is_ascii_digit())))
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
        // right a workload's name goes on into its pods' (`api-7d9f4-x2x4v`), which do prove it; into a word or a number it does not.
        let joined_before = matches!(near_before, Some('-' | '.')) && part_of_word(before.next()) && part_of_word(starts);
        let number = token.chars().all(|c| c.is_ascii_digit());
        let joined_after = match near_after {
            Some('.') => number && after.next().is_some_and(|c| c.is_ascii_digit()),
            Some('-') if part_of_word(ends) => !is_made_by_a_controller(after.as_str()),
            _ => false,
        };
        !(joined_before || joined_after || part_of_word(near_before) && part_of_word(starts) || part_of_word(near_after) && part_of_word(ends))
    })
}
