//! Secrets by their shape: keys with the prefixes that their makers gave them so that they can be found, and values where only a secret stands.

use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::{Captures, Regex};

/// The placeholder's type; texts without which the pattern can't match, in any case of letters; and the pattern. Where it has a group `v`, that is
/// the secret, else the whole.
const RULES: &[(&str, &[&str], &str)] = &[
    ("pem", &["-----BEGIN"], r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)"),
    (
        "password-hash",
        &["$2", "$apr1", "$1$", "$5$", "$6$", "$argon2", "$scrypt"],
        r"\$(?:2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}|apr1\$[^\s$:]{1,16}\$[./A-Za-z0-9]{22}|[156]\$(?:rounds=\d+\$)?[^\s$:]{1,16}\$[./A-Za-z0-9]{22,86}|(?:argon2(?:id|i|d)|scrypt)\$[^\s:]{20,})",
    ),
    ("jwt", &["eyJ"], r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("aws-access-key", &["AKIA", "ASIA", "ABIA", "ACCA"], r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    ("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})\b"),
    (
        "gitlab-token",
        &["glpat-", "glrt-", "gldt-", "glptt-", "glft-", "glsoat-", "glcbt-", "gloas-", "glagent-", "glimt-"],
        r"\bgl(?:pat|rt|dt|ptt|ft|soat|cbt|oas|agent|imt)-[A-Za-z0-9_-]{20,}",
    ),
    ("slack-token", &["xox", "xapp-"], r"\b(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{10,}"),
    ("slack-webhook", &["hooks.slack.com"], r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<v>[\w/-]{20,})"),
    ("discord-webhook", &["/webhooks/"], r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(?P<v>\d{15,20}/[\w-]{50,})"),
    ("telegram-token", &[":AA"], r"\b(?:bot)?(?P<v>\d{8,10}:AA[A-Za-z0-9_-]{30,})"),
    ("google-key", &["AIza", "GOCSPX-", "ya29."], r"\b(?:AIza[0-9A-Za-z_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,})"),
    ("stripe-key", &["k_live_", "k_test_", "whsec_"], r"\b(?:[rsp]k_(?:live|test)_[0-9A-Za-z]{16,}|whsec_[A-Za-z0-9]{24,})\b"),
    ("sendgrid-key", &["SG."], r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("twilio-key", &["SK"], r"\bSK[0-9a-f]{32}\b"),
    (
        "package-token",
        &["npm_", "pypi-", "rubygems_", "dckr_pat_", "oy2"],
        r"\b(?:npm_[A-Za-z0-9]{36}\b|pypi-[A-Za-z0-9_-]{40,}|rubygems_[0-9a-f]{48}\b|dckr_pat_[A-Za-z0-9_-]{20,}|oy2[a-z0-9]{43}\b)",
    ),
    (
        "model-key",
        &["sk-", "hf_", "gsk_", "xai-", "r8_"],
        r"\b(?:sk-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}\b|gsk_[A-Za-z0-9]{40,}\b|xai-[A-Za-z0-9]{40,}\b|r8_[A-Za-z0-9]{37}\b)",
    ),
    (
        "api-key",
        &[
            "_v1_",
            "NRAK-",
            "NRAL",
            "glsa_",
            "glc_",
            "hvs.",
            "hvb.",
            "hvr.",
            ".atlasv1.",
            "shpat_",
            "shpca_",
            "shppa_",
            "shpss_",
            "EAAA",
            "sq0",
            "lin_api_",
            "ATATT3",
            "dapi",
            "PMAK-",
            "sbp_",
            "sntry",
            "pscale_",
            "dp.",
            "figd_",
            "ntn_",
            "nfp_",
            "key-",
        ],
        r"\b(?:do[opr]_v1_[0-9a-f]{64}\b|NRAK-[A-Z0-9]{27}\b|[0-9a-f]{36}NRAL\b|gl(?:sa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b|c_[A-Za-z0-9+/_=-]{32,})|hv[sbr]\.[A-Za-z0-9_-]{24,}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_+/=-]{40,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b|EAAA[A-Za-z0-9_-]{50,}|sq0[a-z]{3}-[A-Za-z0-9_-]{22,}|lin_api_[A-Za-z0-9]{40}\b|ATATT3[A-Za-z0-9_=-]{100,}|dapi[0-9a-f]{32}\b|PMAK-[0-9a-f]{24}-[0-9a-f]{34}\b|sbp_[0-9a-f]{40}\b|sntry[su]_[A-Za-z0-9_=+/-]{40,}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{40,}|figd_[A-Za-z0-9_-]{40,}|ntn_[A-Za-z0-9]{40,}|nfp_[A-Za-z0-9]{36,}|key-[0-9a-f]{32}\b)",
    ),
    ("age-key", &["AGE-SECRET-KEY"], r"\bAGE-SECRET-KEY-1[0-9A-Z]{40,}"),
    ("bearer", &["bearer"], r#"(?i)\bbearer[\s"':=\[]+(?P<v>[A-Za-z0-9._~+/=-]{12,})"#),
    ("basic-auth", &["basic"], r#"(?i)\bbasic[\s"':]+(?P<v>[A-Za-z0-9+/]{8,}={0,2})"#),
    (
        "authorization",
        &["authorization"],
        r#"(?i)\bauthorization["']?\s*[:=]\s*["'\[]{0,2}(?:token|api-?key|key|digest|negotiate|ntlm|splunk|genie\x20?key)\s+(?:token=)?(?P<v>[^\s"',\]]{12,})"#,
    ),
    ("url-password", &["://"], r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*:(?P<v>[^\s@/]+)@"),
    // A password with a slash in it, where a path with an @ is not to be expected.
    (
        "url-password",
        &["://"],
        r"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|sqlserver|clickhouse|nats|kafka|ldaps?)://[^\s:/@]*:(?P<v>[^\s@]+)@",
    ),
    ("url-password", &["@tcp(", "@unix("], r"\b[\w.-]+:(?P<v>[^\s@:/]+)@(?:tcp|unix)\("),
    ("signature", &["sig=", "signature="], r"[?&](?:sig|[Xx]-[Aa]mz-[Ss]ignature|[Xx]-[Gg]oog-[Ss]ignature)=(?P<v>[^&\s]{20,})"),
    ("registry-auth", &["\"auth\""], r#""auth"\s*:\s*"(?P<v>[A-Za-z0-9+/=]{12,})""#),
    ("password", &["curl"], r#"\bcurl\b[^\n]*?\s(?:-u|--user)[\s=]?["']?[^\s:"']+:(?P<v>[^\s"']+)"#),
    ("password", &["mysql"], r"\bmysql(?:dump|admin|import)?\b[^\n]*?\s-p(?P<v>[^\s-]\S*)"),
    ("password", &["sshpass"], r"\bsshpass\s+-p\s*(?P<v>\S+)"),
    ("password", &["redis-cli"], r"\bredis-cli\b[^\n]*?\s-a\s+(?P<v>\S+)"),
    ("password", &["login"], r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|az)\b[^\n]*?\blogin\b[^\n]*?\s-p\s+(?P<v>\S+)"),
    ("password", &["login"], r"\blogin\s+\S+\s+password\s+(?P<v>\S+)"),
    ("password", &[":5432:", ":5433:", ":6432:", ":*:"], r"(?im)^[^\s:]+:\d{2,5}:[^\s:]+:[^\s:]+:(?P<v>[^\s:]+)$"),
    ("password", &["using password"], r"(?i)\busing password[\s:=]+(?P<v>\S*\d\S*)"),
];

/// Cookies are many in one header.
const COOKIES: &str = r"(?im)\b(?:set-)?cookie[:=]\s*(?P<all>[^\n]+)";
const COOKIE: &str = r"(?P<n>[^=;\s]+)=(?P<v>[^;\s]{16,})";

/// Most texts hold no hint and are done after one pass; a pattern is compiled when its first hint is seen.
struct Shapes {
    hints: AhoCorasick,
    /// The rule of each hint; the cookies come after the rules.
    rule_of: Vec<usize>,
    each: [OnceLock<Option<Regex>>; RULES.len()],
    cookies: OnceLock<Option<(Regex, Regex)>>,
}

static SHAPES: LazyLock<Option<Shapes>> = LazyLock::new(|| {
    let hints = RULES.iter().enumerate().flat_map(|(at, (_, hints, _))| hints.iter().map(move |h| (at, *h))).chain([(RULES.len(), "cookie")]);
    let (rule_of, hints): (Vec<usize>, Vec<&str>) = hints.unzip();
    Some(Shapes {
        hints: AhoCorasick::builder().ascii_case_insensitive(true).build(hints).ok()?,
        rule_of,
        each: [const { OnceLock::new() }; RULES.len()],
        cookies: OnceLock::new(),
    })
});

impl Shapes {
    fn rule(&self, at: usize) -> Option<&Regex> {
        self.each[at].get_or_init(|| regex(RULES[at].2)).as_ref()
    }

    fn cookies(&self) -> Option<&(Regex, Regex)> {
        self.cookies.get_or_init(|| Some((regex(COOKIES)?, regex(COOKIE)?))).as_ref()
    }
}

/// Digits, blanks and ends of words are those of ASCII: secrets are made of them, and tables for all of Unicode are large and slow.
pub(super) fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(&pattern.replace(r"\d", "[0-9]").replace(r"\w", "[0-9A-Za-z_]").replace(r"\s", r"[ \t\r\n\x0b\x0c]").replace(r"\b", r"(?-u:\b)")).ok()
}

pub(super) fn redact(text: &str) -> (String, usize) {
    // A table that does not compile would let everything through: nothing is shown instead. A test holds that it compiles.
    let unchecked = || ("[redacted:unchecked]".to_owned(), 1);
    let Some(shapes) = SHAPES.as_ref() else { return unchecked() };
    let mut wanted = [false; RULES.len() + 1];
    for hint in shapes.hints.find_overlapping_iter(text) {
        wanted[shapes.rule_of[hint.pattern().as_usize()]] = true;
    }
    let mut out = text.to_owned();
    let mut count = 0;
    for at in (0..wanted.len()).filter(|at| wanted[*at]) {
        if let Some((kind, _, _)) = RULES.get(at) {
            let Some(pattern) = shapes.rule(at) else { return unchecked() };
            out = pattern.replace_all(&out, |found: &Captures<'_>| hide(kind, found, &mut count)).into_owned();
        } else {
            let Some((cookies, cookie)) = shapes.cookies() else { return unchecked() };
            let each = |found: &Captures<'_>| cookie.replace_all(&found[0], |c: &Captures<'_>| hide("cookie", c, &mut count)).into_owned();
            out = cookies.replace_all(&out, each).into_owned();
        }
    }
    (out, count)
}

/// What was found, with the secret replaced.
fn hide(kind: &str, found: &Captures<'_>, count: &mut usize) -> String {
    let whole = &found[0];
    let value = found.name("v").map_or(whole, |v| v.as_str());
    // `Basic authentication is disabled`, `bearer $TOKEN`, and what was redacted before.
    let word = matches!(kind, "bearer" | "basic-auth") && value.len() < 16 && value.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'.');
    if word || kind != "password-hash" && super::names::is_no_value(value) {
        return whole.to_owned();
    }
    *count += 1;
    let at = found.name("v").map_or(0, |v| v.start() - found.get(0).map_or(0, |m| m.start()));
    format!("{}[redacted:{kind}]{}", &whole[..at], &whole[at + value.len()..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_compiles() {
        let shapes = super::SHAPES.as_ref().unwrap();
        assert!((0..super::RULES.len()).all(|at| shapes.rule(at).is_some()) && shapes.cookies().is_some());
    }
}
