//! Whatever is written: no panic, and what passes is what the tables allow.

use proptest::{prop_assert, prop_assert_eq};

use super::{Relative, search::Query, secret::is_secret};
use crate::fuzz::{hostile, run};

const PATHS: &[&str] = &["..", "/", ".", "~", "\\", "a", "app", "secrets", ".env", "\u{202e}", "\u{2215}", "\0", "//", "-", "proc", "self", " ", "\u{ff0e}"];
const PATTERNS: &[&str] =
    &["(", ")", "[", "]", "{", "}", "*", "+", "?", "1000", "a", "|", "^", "$", "\\", "\\p{L}", "(?i)", ",", ".", "**/", "x", "(?:", "\\b"];

pub(super) fn is_beneath(path: &str) -> bool {
    !path.starts_with(['/', '~', '-']) && !path.split('/').any(|part| part == "..") && !path.contains(['\0', '\\'])
}

#[test]
fn fuzz_paths() {
    run("paths", hostile(PATHS), |text| {
        if let Ok(path) = Relative::parse("path", &text) {
            let shown = path.as_path().to_str().unwrap();
            prop_assert!(is_beneath(shown) || shown.starts_with('-'), "{text:?} became {shown:?}");
            prop_assert_eq!(is_secret(path.as_path()), is_secret(std::path::Path::new(shown)));
        }
        Ok(())
    });
}

#[test]
fn fuzz_search_patterns_and_globs() {
    run("search patterns", (hostile(PATTERNS), hostile(PATTERNS)), |(pattern, glob)| {
        let _compiled_or_refused = Query::new(&pattern, &glob);
        Ok(())
    });
}
