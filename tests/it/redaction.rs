//! S3.5: what redaction finds and what it leaves alone, measured on two corpora.

use std::path::Path;

use inquest::tools::server::redact_text;
use regex::{Captures, Regex};

/// Different random characters for each.
const SEEDS: u64 = 5;

struct Case {
    line: usize,
    class: String,
    text: String,
}

fn corpus(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redaction").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let case = |(at, line): (usize, &str)| {
        let (class, text) = line.split_once(": ")?;
        Some(Case { line: at + 1, class: class.to_owned(), text: text.replace("\\n", "\n").replace("\\\n", "\\n") })
    };
    text.lines().enumerate().filter(|(_, l)| !l.starts_with('#')).filter_map(case).collect()
}

/// `{{hex:8}}` and its like, filled.
fn filled(text: &str, seed: u64) -> String {
    let slot = Regex::new(r"\{\{(hex|alnum|upper|lower|digits|b64|b64url):(\d+)\}\}").unwrap();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    slot.replace_all(text, |found: &Captures<'_>| {
        const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
        const DIGITS: &str = "0123456789";
        let of: String = match &found[1] {
            "hex" => "0123456789abcdef".into(),
            "alnum" => [UPPER, LOWER, DIGITS].concat(),
            "upper" => [UPPER, DIGITS].concat(),
            "lower" => [LOWER, DIGITS].concat(),
            "digits" => DIGITS.into(),
            "b64" => [UPPER, LOWER, DIGITS, "+/"].concat(),
            _ => [UPPER, LOWER, DIGITS, "-_"].concat(),
        };
        (0..found[2].parse().unwrap()).map(|_| char::from(of.as_bytes()[next(of.len())])).collect::<String>()
    })
    .into_owned()
}

/// How much of one corpus is found, and of the other wrongly changed.
fn rates(secrets: &str, harmless: &str) -> (f64, f64) {
    let (mut found, mut all, mut missed) = (0, 0, vec![]);
    for case in corpus(secrets) {
        for seed in 1..=SEEDS {
            let text = filled(&case.text, seed * 1000 + case.line as u64);
            let (start, end) = (text.find('«').unwrap(), text.find('»').unwrap());
            let secret = text[start + '«'.len_utf8()..end].to_owned();
            let (out, count) = redact_text(&text.replace(['«', '»'], ""));
            let hidden = !out.contains(&secret) && count > 0;
            (found, all) = (found + u32::from(hidden), all + 1);
            if !hidden && seed == 1 {
                missed.push(format!("{secrets}:{}: {}: {out}", case.line, case.class));
            }
        }
    }
    let (mut touched, mut texts, mut wrong) = (0, 0, vec![]);
    for case in corpus(harmless) {
        for seed in 1..=SEEDS {
            let text = filled(&case.text, seed * 1000 + case.line as u64);
            let (out, _) = redact_text(&text);
            (touched, texts) = (touched + u32::from(out != text), texts + 1);
            if out != text && seed == 1 {
                wrong.push(format!("{harmless}:{}: {out}", case.line));
            }
        }
    }
    println!("missed:\n{}\nwrongly redacted:\n{}", missed.join("\n"), wrong.join("\n"));
    let rates = (f64::from(found) / f64::from(all), f64::from(touched) / f64::from(texts));
    println!("{found} of {all} secrets found ({:.1} %), {touched} of {texts} harmless texts changed ({:.1} %)", rates.0 * 100.0, rates.1 * 100.0);
    assert!(all >= 700 && texts >= 800, "the corpora were not read");
    rates
}

#[test]
fn s3_5_redaction_finds_what_is_secret_and_leaves_the_rest() {
    let (found, changed) = rates("secrets.txt", "harmless.txt");
    assert!(found >= 0.99 && changed <= 0.01, "see above");
}

/// Corpora of somebody who did not know the rules, and which the rules are not fitted to: what is to be expected of them.
#[test]
fn s3_5_redaction_of_what_it_was_not_made_for() {
    let (found, changed) = rates("held-out-secrets.txt", "held-out-harmless.txt");
    assert!(found >= 0.84 && changed <= 0.07, "see above");
}
