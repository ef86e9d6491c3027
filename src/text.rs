//! Text cut where a character ends.

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
