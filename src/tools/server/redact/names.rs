//! Secrets by their name: `DB_PASSWORD=…`, `clientSecret: …`, `--auth-token …`, whatever the value looks like; and under names that only may
//! mean one (`key`, `session`), values that look random.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::shapes;

/// How much a name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Secret,
    /// A secret if it looks random.
    Perhaps,
    Nothing,
}

/// Last words that say it.
const SECRET: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "pass",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "credentials",
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
    "authtoken",
    "accesstoken",
    "storepass",
    "keypass",
    "userpass",
    "dbpass",
    "dockerconfigjson",
    "dockercfg",
];
/// What a key is, if it is a secret: `api_key`, `AccountKey`, and no `primaryKey`.
const KEYS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "account",
    "shared",
    "master",
    "license",
    "storage",
    "auth",
    "hmac",
    "jwt",
    "cookie",
    "service",
    "deploy",
    "application",
    "app",
    "crypto",
    "cipher",
    "aes",
    "subscription",
    "ingest",
    "write",
    "admin",
    "root",
    "webhook",
    "integration",
];
/// A secret's name, a page's mark: no secrets.
const BEFORE: &[&str] = &[
    "existing",
    "image",
    "pull",
    "page",
    "next",
    "continue",
    "continuation",
    "sync",
    "csrf",
    "public",
    "cancellation",
    "use",
    "has",
    "no",
    "enable",
    "require",
    "missing",
    "unexpected",
];
const PERHAPS: &[&str] = &["key", "auth", "session", "sid", "sessionid", "signature", "salt"];

fn says(name: &str) -> Says {
    let words = words(name);
    let mut from_end = words.iter().rev().map(String::as_str);
    let Some(last) = from_end.next() else { return Says::Nothing };
    let before = from_end.next().unwrap_or_default();
    if BEFORE.contains(&before) {
        return Says::Nothing;
    }
    let secret = SECRET.contains(&last)
        || ["password", "passwd"].iter().any(|w| last.ends_with(w))
        || last == "key" && KEYS.contains(&before)
        // SECRET_KEY_BASE, client-key-data, secret_value.
        || matches!((before, last), ("key", "base" | "data") | ("secret" | "password" | "token", "value"));
    match (secret, PERHAPS.contains(&last)) {
        (true, _) => Says::Secret,
        (false, true) => Says::Perhaps,
        (false, false) => Says::Nothing,
    }
}

/// Whether a variable or a key of this name holds a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    says(name) == Says::Secret
}

/// `spring.dataSource.API_KEY2` is spring, data, source, api, key.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(c) = letters.next() {
        let begins = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || before.is_ascii_digit() || before.is_ascii_uppercase() && letters.peek().is_some_and(char::is_ascii_lowercase));
        if !c.is_ascii_alphabetic() || begins {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|w| !w.is_empty());
    words
}

/// Where a name and its value stand, the most particular first. `n` the name, `v` the value.
const PAIRS: &[&str] = &[
    // - name: DB_PASSWORD ⏎ value: …
    r#"\bname:[ \t]*["']?(?P<n>[\w.-]+)["']?[ \t]*\n[ \t]*value:[ \t]*(?P<v>"[^"\n]*"|'[^'\n]*'|[^\s"']+)"#,
    // <property name="password" value="…"/>
    r#"\b(?:name|key)=["'](?P<n>[\w.-]+)["']\s+value=(?P<v>"[^"\n]*"|'[^'\n]*')"#,
    // <password>…</password>
    r"<(?P<n>[A-Za-z][\w.-]*)>(?P<v>[^<\n]{3,})</",
    // "--secret-key", "…"
    r#"["']--?(?P<n>[\w.-]+)["'][ \t]*,\s*(?P<v>"[^"\n]+"|'[^'\n]+')"#,
    // --db-password …
    r"(?:^|\s)--(?P<n>[\w.-]+)[ \t]+(?P<v>[^\s-]\S*)",
];
/// name=value, name: value, "name": "value", name => value. The sign between is `s`.
const PAIR: &str = r#"(?P<q>\\?["']?)(?P<n>[A-Za-z_.][\w.-]{0,100})\\?["']?[ \t]{0,4}(?P<s>=>|:=|=|:)[ \t]{0,16}(?P<v>\\?"(?:[^"\\\n]|\\[^"\n])*\\?"|'[^'\n]*'|[^\s"',;&)\]}]+)"#;

const HINTS: [&str; 12] = ["pass", "pwd", "secret", "token", "credential", "key", "auth", "session", "sid", "signature", "salt", "docker"];

struct Pairs {
    particular: Vec<Regex>,
    pair: Regex,
    /// A word that one of the names could end with: most texts have none, and are done.
    hint: AhoCorasick,
}

static ALL: LazyLock<Option<Pairs>> = LazyLock::new(|| {
    Some(Pairs {
        particular: PAIRS.iter().map(|p| shapes::regex(p)).collect::<Option<_>>()?,
        pair: shapes::regex(PAIR)?,
        hint: AhoCorasick::builder().ascii_case_insensitive(true).build(HINTS).ok()?,
    })
});

pub(super) fn redact(text: String) -> (String, usize) {
    let Some(all) = ALL.as_ref() else { return ("[redacted:unchecked]".to_owned(), 1) };
    if !all.hint.is_match(&text) {
        return (text, 0);
    }
    let (mut out, mut count) = (text, 0);
    for pattern in &all.particular {
        out = replace(pattern, &out, &mut count);
    }
    out = replace(&all.pair, &out, &mut count);
    (out, count)
}

/// A name with its value, in its text.
struct Pair<'a> {
    text: &'a str,
    name: &'a str,
    /// Where the name begins, its quote included.
    start: usize,
    sign: &'a str,
    value: &'a str,
    /// Where the value ends, its quote included.
    end: usize,
    quoted: bool,
    quoted_name: bool,
}

impl Pair<'_> {
    /// `password: authentication failed` says something about a password, and is none.
    fn is_no_prose(&self) -> bool {
        if self.sign != ":" || self.quoted_name && self.quoted {
            return true;
        }
        if self.value.bytes().any(|b| b.is_ascii_digit()) && !self.quoted {
            return true;
        }
        let rest = self.text[self.end..].trim_start_matches([' ', '\t']);
        let ends = rest.is_empty() || rest.starts_with(['\n', '\r', ',', '}', ']', ';', '#']);
        if self.quoted {
            // Token: 'ELSE' unexpected
            return ends;
        }
        let line = self.text[..self.start].rsplit('\n').next().unwrap_or_default();
        let begins = line.trim_matches([' ', '\t', '-']).is_empty();
        let plain = self.value.bytes().all(|b| b.is_ascii_alphabetic());
        ends && (begins || !plain)
    }
}

/// Replaces the values of secret names. A pair that is none is gone on with at its value: `--set=password=x` holds another.
fn replace(pattern: &Regex, text: &str, count: &mut usize) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = pattern.captures_at(text, at) {
        let (Some(whole), Some(name), Some(raw)) = (found.get(0), found.name("n"), found.name("v")) else { break };
        let value = raw.as_str().trim_start_matches('\\');
        let inner = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q)).map(|v| v.trim_end_matches('\\'));
        let quoted = inner.is_some();
        let value = inner.unwrap_or(value);
        let pair = Pair {
            text,
            name: name.as_str(),
            start: whole.start(),
            sign: found.name("s").map_or("=", |s| s.as_str()),
            value,
            end: raw.end(),
            quoted,
            quoted_name: found.name("q").is_some_and(|q| !q.as_str().is_empty()),
        };
        if is_hidden(&pair) && pair.is_no_prose() {
            let offset = raw.as_str().find(value).unwrap_or(0);
            out.push_str(&text[copied..raw.start() + offset]);
            out.push_str("[redacted:secret]");
            copied = raw.start() + offset + value.len();
            *count += 1;
            at = raw.end();
        } else {
            at = raw.start().max(whole.start() + 1);
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn is_hidden(pair: &Pair<'_>) -> bool {
    let shortest = if pair.quoted { 1 } else { 3 };
    let looks = pair.value.chars().count() >= shortest && !is_no_value(pair.value);
    match says(pair.name) {
        // PWD=/app
        Says::Secret => looks && !(pair.name.eq_ignore_ascii_case("pwd") && pair.value.starts_with('/')),
        Says::Perhaps => looks && is_random(pair.value),
        Says::Nothing => false,
    }
}

/// Words and marks that stand where a secret would: references, blanks, what was hidden before.
pub(super) fn is_no_value(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "null",
        "nil",
        "none",
        "true",
        "false",
        "empty",
        "yes",
        "no",
        "unset",
        "undefined",
        "missing",
        "required",
        "invalid",
        "redacted",
        "masked",
        "hidden",
        "not",
        "is",
        "was",
        "must",
        "failed",
        "expired",
        "enabled",
        "disabled",
        "optional",
        "string",
        "denied",
    ];
    let value = value.trim();
    let first = value.chars().next();
    value.is_empty()
        || value.starts_with(['<', '{', '[', '%', '('])
        // $VAR, ${VAR}, $(VAR), and no $2b$…
        || value.strip_prefix('$').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "{(_".contains(c)) || rest.bytes().all(|b| b.is_ascii_digit()))
        || value.len() > 2 && value.chars().all(|c| Some(c) == first)
        || value.contains("[redacted:")
        || WORDS.contains(&value.trim_end_matches(['.', '!']).to_ascii_lowercase().as_str())
}

/// Long, of letters in both cases and digits, and no two of its characters alike more often than chance would have it.
fn is_random(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|b| test(&b));
    let safe = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_-.~%:".contains(&b));
    value.len() >= 20 && safe && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit) && entropy(value) >= 3.7
}

/// Bits for each character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let all = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    -counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / all).map(|p| p * p.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_every_way_they_are_written() {
        assert!(ALL.is_some());
        for name in [
            "password",
            "DB_PASSWORD",
            "dbPassword",
            "dbpassword",
            "spring.datasource.password",
            "clientSecret",
            "API-KEY",
            "apiKey",
            "APIKey",
            "X-Api-Key",
            "AccountKey",
            "SECRET_KEY_BASE",
            "client-key-data",
            "REFRESH_TOKEN",
            "_authToken",
            "SMTP_PASS",
        ] {
            assert_eq!(says(name), Says::Secret, "{name}");
        }
        for name in [
            "passwordFile",
            "token_count",
            "tokenTTL",
            "secretName",
            "existingSecret",
            "imagePullSecret",
            "publicKey",
            "compass",
            "bypass",
            "page_token",
            "nextPageToken",
            "passenger",
            "tokens",
            "author",
            "keyspace",
            "",
        ] {
            assert_eq!(says(name), Says::Nothing, "{name}");
        }
        assert_eq!((says("key"), says("primaryKey"), says("session")), (Says::Perhaps, Says::Perhaps, Says::Perhaps));
    }

    #[test]
    fn a_value_under_a_name_that_says_little_is_hidden_if_it_looks_random() {
        assert!(is_random("a8Fq0Zx91LmPq7Rt2VwY"));
        for value in ["0123456789abcdef0123456789abcdef", "shop-orders-by-region", "AAAAAAAAAAAAAAAAAAAAa1", "short1A"] {
            assert!(!is_random(value), "{value}");
        }
    }
}
