//! The concrete tokens of a statement: what must be proved letter by letter, as opposed to the words around it.

/// Words after which a plain word is a name: "Service redis", "container app".
const NAMING: &[&str] = &[
    "pod",
    "pods",
    "service",
    "deployment",
    "statefulset",
    "daemonset",
    "replicaset",
    "job",
    "cronjob",
    "configmap",
    "secret",
    "ingress",
    "namespace",
    "node",
    "container",
    "image",
    "key",
    "persistentvolumeclaim",
    "pvc",
    "persistentvolume",
    "storageclass",
    "serviceaccount",
    "horizontalpodautoscaler",
    "poddisruptionbudget",
    "networkpolicy",
    "resourcequota",
    "limitrange",
    "role",
    "clusterrole",
    "rolebinding",
    "user",
    "host",
    "volume",
    "port",
    "database",
    "table",
    "webhook",
    "label",
];

/// Words that follow one of [`NAMING`] and yet name nothing.
const PLAIN: &[&str] = &[
    "is",
    "are",
    "was",
    "has",
    "have",
    "had",
    "that",
    "which",
    "and",
    "or",
    "of",
    "in",
    "on",
    "to",
    "for",
    "with",
    "does",
    "do",
    "did",
    "can",
    "cannot",
    "not",
    "no",
    "never",
    "it",
    "its",
    "the",
    "a",
    "an",
    "from",
    "by",
    "as",
    "at",
    "exists",
    "exits",
    "exited",
    "fails",
    "failed",
    "starts",
    "started",
    "runs",
    "ran",
    "refers",
    "needs",
    "asks",
    "selects",
    "matches",
    "names",
    "without",
    "whose",
    "behind",
    "there",
    "keeps",
    "reports",
    "refuses",
    "cannot.",
    "itself",
    "name",
    "names.",
    "quota",
    "limit",
    "selector",
    "template",
    "spec",
    "status",
    "limits",
    "requests",
    "but",
    "so",
    "because",
    "since",
    "routes",
    "mounts",
    "ready",
    "unavailable",
    "available",
    "could",
    "would",
    "will",
    "must",
    "pull",
    "command",
    "controller",
    "account",
    "claim",
    "restarts",
    "crashes",
    "waits",
    "answers",
    "listens",
    "missing",
    "nothing",
    "been",
];

/// The concrete tokens of `statement`, each of which must stand in a cited quote or in the question:
/// quoted texts whole; words with a digit, a capital inside, an underscore, or a `-./:@=` between letters; and the plain word after
/// the kind of an object.
#[must_use]
pub fn concrete_tokens(statement: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut bare = String::with_capacity(statement.len());
    let mut rest = statement;
    // A quoted text is one token. An apostrophe inside a word opens nothing.
    while let Some(at) = rest.find(['"', '`']) {
        let Some(quote) = rest[at..].chars().next() else { break };
        bare.push_str(&rest[..at]);
        let inner = &rest[at + quote.len_utf8()..];
        if let Some(end) = inner.find(quote) {
            if !inner[..end].trim().is_empty() {
                tokens.push(inner[..end].to_owned());
            }
            bare.push_str(" \u{1} ");
            rest = &inner[end + quote.len_utf8()..];
        } else {
            rest = inner;
        }
    }
    bare.push_str(rest);

    let mut after_kind = false;
    for raw in bare.split_whitespace() {
        if raw == "\u{1}" {
            after_kind = false;
            continue;
        }
        let word = raw
            .trim_start_matches(['(', '[', '\'', '<', '{'])
            .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '>', '}'])
            .trim_end_matches("'s");
        if word.is_empty() {
            continue;
        }
        let lower = word.to_ascii_lowercase();
        let names_next = NAMING.contains(&lower.as_str());
        if is_concrete(word) && !names_next || after_kind && !names_next && !PLAIN.contains(&lower.as_str()) {
            tokens.push(word.to_owned());
        }
        // A kind at the end of a clause names nothing.
        after_kind = names_next && !raw.ends_with(['.', ',', ';', ':', ')']);
    }
    tokens
}

fn is_concrete(word: &str) -> bool {
    let mut chars = word.chars();
    let first = chars.next();
    word.chars().any(|c| c.is_numeric() || c == '_' || !c.is_ascii())
        || chars.clone().any(|c| c.is_ascii_uppercase())
        || word.trim_matches(|c: char| !c.is_alphanumeric()).contains(['.', '/', ':', '@', '='])
        || (word.contains('-') && !is_english_compound(word))
        || (word.starts_with('/') && first.is_some() && word.len() > 1)
}

/// `crash-loops`, `read-only`: compounds of the playbooks' own language.
fn is_english_compound(word: &str) -> bool {
    const COMPOUNDS: &[&str] = &[
        "crash-loops",
        "crash-looping",
        "crash-loop",
        "read-only",
        "back-off",
        "non-root",
        "scaled-down",
        "time-out",
        "out-of-memory",
        "key-value",
        "start-up",
        "roll-out",
        "self-signed",
        "one-off",
    ];
    COMPOUNDS.contains(&word.to_ascii_lowercase().as_str())
}
