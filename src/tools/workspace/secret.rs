//! Files whose content no tool hands out, by their names.

use std::{path::Path, sync::LazyLock};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Any part of a path that matches makes the file secret: a folder `secrets/` hides what is in it.
const DENIED: &[&str] = &[
    "*.env",
    ".env*",
    "*.pem",
    "*id_rsa*",
    "*id_ed25519*",
    "*id_ecdsa*",
    "*id_dsa*",
    "*secret*",
    "*.key",
    "credentials*",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".htpasswd",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".dockercfg",
    ".docker",
    "kubeconfig*",
    "*.kubeconfig",
    ".kube",
    ".aws",
    ".ssh",
    ".gnupg",
    "*.tfstate",
    "*.tfstate.*",
    "*password*",
    "*passwd*",
    "shadow",
    "token",
    "*.token",
];

static SET: LazyLock<Option<GlobSet>> = LazyLock::new(|| {
    let mut set = GlobSetBuilder::new();
    for glob in DENIED {
        set.add(GlobBuilder::new(glob).case_insensitive(true).build().ok()?);
    }
    set.build().ok()
});

/// Whether a path beneath the workspace is one of those.
pub(super) fn is_secret(path: &Path) -> bool {
    // A set that does not build lets nothing through.
    let Some(set) = SET.as_ref() else { return true };
    path.components().any(|part| set.is_match(Path::new(part.as_os_str())))
}
