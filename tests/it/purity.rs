//! S2.3: `agent`, `grounding` and the playbook investigator do no I/O. Read off their imports, so that it can't be forgotten.

use std::{fs, path::Path};

/// What the pure modules may not name, anywhere outside comments and tests.
const FORBIDDEN: &[&str] = &[
    "kube::",
    "rmcp::",
    "reqwest::",
    "axum::",
    "tokio::",
    "hyper::",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::env",
    "std::process",
    "std::time::Instant",
    "SystemTime",
    "Timestamp::now",
    "rand::",
];
const PURE: &[&str] = &["src/agent", "src/grounding", "src/investigators"];

fn files(folder: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") && !["tests.rs", "properties.rs"].contains(&path.file_name().unwrap().to_str().unwrap()) {
            out.push(path);
        }
    }
}

#[test]
fn s2_3_the_pure_modules_import_nothing_that_does_io() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in PURE {
        let mut paths = vec![];
        files(&root.join(folder), &mut paths);
        for path in paths {
            seen += 1;
            let text = fs::read_to_string(&path).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for word in FORBIDDEN {
                    assert!(!code.contains(word), "{}:{}: {word} in a pure module: {line}", path.display(), number + 1);
                }
            }
        }
    }
    assert!(seen >= 15, "only {seen} files were read");
}

/// A module of the core may use only modules that are no nearer to the outside than it is.
#[test]
fn the_pure_modules_know_nothing_of_the_outside() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (folder, forbidden) in [
        ("src/grounding", &["crate::agent", "crate::investigators", "crate::operator", "crate::mcp", "crate::tools", "crate::store", "crate::runner"][..]),
        ("src/agent", &["crate::investigators", "crate::operator", "crate::mcp", "crate::tools", "crate::store", "crate::runner"]),
        ("src/investigators", &["crate::operator", "crate::mcp", "crate::tools", "crate::store", "crate::runner"]),
        ("src/tools", &["crate::operator", "crate::agent", "crate::investigators", "crate::mcp"]),
    ] {
        let mut paths = vec![];
        files(&root.join(folder), &mut paths);
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            for word in forbidden {
                assert!(!text.contains(word), "{}: {word}", path.display());
            }
        }
    }
}
