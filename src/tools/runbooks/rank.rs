//! Which runbooks fit a query: those with a signature that it holds, then by BM25. Pure.

use std::collections::BTreeSet;

use bm25::{Document, Language, SearchEngineBuilder};

use super::book::Book;
use crate::text::head;

/// Bytes of a body that are ranked by: what a runbook is about stands at its top.
const RANKED: usize = 16_384;
/// Bytes of an excerpt.
const EXCERPT: usize = 300;

/// A runbook that fits.
#[derive(Debug)]
pub struct Hit<'a> {
    pub book: &'a Book,
    /// The longest of its signatures that stands in the query.
    pub signature: Option<&'a str>,
    pub score: f32,
}

/// Best first; of equals the tenant's own, then by name.
pub fn rank<'a>(books: &'a [Book], query: &str, tenant: &str) -> Vec<Hit<'a>> {
    let documents = books.iter().enumerate().map(|(at, book)| Document::new(at, words_of(book)));
    let engine = SearchEngineBuilder::<usize>::with_documents(Language::English, documents).build();
    let mut scores = vec![0.0_f32; books.len()];
    for found in engine.search(query, books.len()) {
        if let Some(score) = scores.get_mut(found.document.id) {
            *score = found.score;
        }
    }
    let mut hits: Vec<Hit<'a>> = books
        .iter()
        .zip(scores)
        .map(|(book, score)| Hit { book, signature: signature(book, query), score })
        .filter(|h| h.signature.is_some() || h.score > 0.0)
        .collect();
    hits.sort_by(|a, b| {
        let length = |h: &Hit<'_>| h.signature.map_or(0, str::len);
        let own = |h: &Hit<'_>| h.book.namespace != tenant;
        (length(b).cmp(&length(a))).then(b.score.total_cmp(&a.score)).then_with(|| (own(a), &a.book.name).cmp(&(own(b), &b.book.name)))
    });
    hits
}

/// The longest signature of a runbook that the text holds.
pub fn signature<'a>(book: &'a Book, text: &str) -> Option<&'a str> {
    book.spec.signatures.iter().map(String::as_str).filter(|s| text.contains(s)).max_by_key(|s| s.len())
}

/// The title counts more than a line of the body.
fn words_of(book: &Book) -> String {
    let spec = &book.spec;
    format!("{0}\n{0}\n{1}\n{2}\n{3}", spec.title, spec.services.join(" "), spec.signatures.join("\n"), head(&spec.body, RANKED))
}

/// The paragraph of the body that shares most words with the query.
pub fn excerpt<'a>(body: &'a str, query: &str) -> &'a str {
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 2).map(str::to_lowercase).collect::<BTreeSet<_>>();
    let wanted = words(query);
    let paragraphs = head(body, RANKED).split("\n\n").map(str::trim).filter(|p| !p.is_empty());
    // Of equals the first: `max_by_key` would take the last.
    let best = paragraphs.map(|p| (words(p).intersection(&wanted).count(), p)).reduce(|best, next| if next.0 > best.0 { next } else { best });
    head(best.map_or("", |(_, p)| p), EXCERPT)
}
