//! Text cut where a character ends, and patterns.

use std::sync::OnceLock;

use regex::{Captures, Regex};

/// A regular expression of this program's own, compiled at its first use. One that does not compile matches nothing; who must know asks for
/// [`regex`](Self::regex).
pub struct Pattern {
    text: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, compiled: OnceLock::new() }
    }

    pub fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.text).ok()).as_ref()
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_some_and(|p| p.is_match(text))
    }

    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.regex()?.captures(text)
    }
}

/// The start of a text, at most `max` bytes of it.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn a_character_is_never_halved() {
        assert_eq!(head("añb", 2), "a");
        assert_eq!(head("añb", 3), "añ");
        assert_eq!(head("añb", 4), "añb");
        assert_eq!(head("ñ", 0), "");
        assert_eq!(head("", 0), "");
    }
}
