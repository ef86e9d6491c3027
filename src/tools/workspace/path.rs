//! Words that name a file: what can be refused before the file system is asked.

use std::path::{Component, Path, PathBuf};

use super::codes;
use crate::{text::Pattern, tools::server::Refusal};

/// Linux' own limit for a path.
const MAX_PATH: usize = 4096;

/// Characters that a reader can't see, or takes for others: controls, formats (zero width, direction), separators, private use, blanks that
/// are no space, variation selectors, and what looks like a slash, a dot or a tilde.
static HIDDEN: Pattern = Pattern::new(concat!(
    r"[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|[\p{Zs}--\x{20}]|",
    r"[\x{115F}\x{1160}\x{3164}\x{FFA0}\x{2800}\x{034F}\x{17B4}\x{17B5}\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}]|",
    r"[\x{2044}\x{2215}\x{29F8}\x{29F5}\x{FF0F}\x{FF3C}\x{FE68}\x{2024}-\x{2026}\x{FE52}\x{FF0E}\x{FF5E}\x{02DC}\x{223C}\x{2E2F}]",
));

/// # Errors
/// When a text holds characters that a reader can't see or takes for others.
pub(super) fn visible(field: &'static str, text: &str) -> Result<(), Refusal> {
    // A pattern that does not compile lets nothing through.
    let found = match HIDDEN.regex() {
        Some(pattern) => pattern.find(text).map(|m| m.as_str().chars().next().map_or(0, u32::from)),
        None => Some(0),
    };
    match found {
        None => Ok(()),
        Some(c) => {
            Err(Refusal::denied(codes::HIDDEN, format!("{field} holds the character U+{c:04X}, which cannot be told from others by eye; give plain text")))
        }
    }
}

/// A path beneath the workspace, as far as its words say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative(PathBuf);

impl Relative {
    /// # Errors
    /// When it is absolute, climbs, names a home, or holds hidden characters.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Refusal> {
        visible(field, text)?;
        if text.len() > MAX_PATH {
            return Err(Refusal::InvalidArgument { field, problem: format!("is longer than {MAX_PATH} bytes") });
        }
        if text.is_empty() {
            return Err(Refusal::InvalidArgument { field, problem: "is empty: give a path in the workspace such as runbooks/restart.md".to_owned() });
        }
        let outside = |why: &str| Refusal::denied(codes::OUTSIDE, format!("{field}: {text:?} {why}; give a path beneath the workspace"));
        if text.contains('\\') {
            return Err(outside("has a backslash"));
        }
        let mut clean = PathBuf::new();
        for part in Path::new(text).components() {
            match part {
                Component::Normal(name) => clean.push(name),
                Component::CurDir => {}
                Component::ParentDir => return Err(outside("has \"..\" in it")),
                Component::RootDir | Component::Prefix(_) => return Err(outside("is absolute")),
            }
        }
        if clean.as_os_str().to_string_lossy().starts_with('~') {
            return Err(outside("names a home folder"));
        }
        if clean.as_os_str().is_empty() {
            clean.push(".");
        }
        Ok(Self(clean))
    }

    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}
