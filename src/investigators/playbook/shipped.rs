//! The playbooks that the binary carries, so that it works without a file beside it.

use super::{LoadError, Playbooks};

macro_rules! books {
    ($($name:literal),* $(,)?) => {
        /// File name and text of each file in `config/playbooks`.
        pub const SHIPPED: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../config/playbooks/", $name)))),*];
    };
}

books!(
    "admission.yaml",
    "configuration.yaml",
    "controllers.yaml",
    "crashes.yaml",
    "dependencies.yaml",
    "images.yaml",
    "network.yaml",
    "probes.yaml",
    "scheduling.yaml",
    "storage.yaml",
);

impl Playbooks {
    /// The shipped playbooks, and after them those of a folder: a team's own.
    ///
    /// # Errors
    /// The first mistake, with file and line.
    pub fn with_own(own: &[(String, String)]) -> Result<Self, LoadError> {
        Self::load(SHIPPED.iter().copied().chain(own.iter().map(|(f, t)| (f.as_str(), t.as_str()))))
    }
}
