//! From lines of a log to its errors: entries of one or many lines, their level, and groups of those that say the same.

mod entry;
mod group;
mod level;

pub use entry::entries;
pub use group::grouped;
pub use level::Level;
