use proptest::prop_assert;

use super::{
    book::{Book, Kept},
    rank::{excerpt, rank, signature},
};
use crate::{
    api::RunbookSpec,
    fuzz::{hostile, run},
};

fn book(namespace: &str, name: &str, title: &str, signatures: &[&str], body: &str) -> Book {
    let spec = RunbookSpec { title: title.into(), signatures: signatures.iter().map(|s| (*s).to_owned()).collect(), services: vec![], body: body.into() };
    Book { namespace: namespace.into(), name: name.into(), kept: Kept::Resource, spec }
}

#[test]
fn an_exact_signature_comes_before_any_number_of_words() {
    let books = [
        book("shared", "memory", "Memory leak in payments", &["OOMKilled"], "payments memory leak payments memory"),
        book("shared", "rollback", "Roll back a bad release of payments", &["ImagePullBackOff"], "payments rollback release memory leak leak leak"),
        book("demo", "rollback", "Roll back a bad release of payments", &["ImagePullBackOff"], "payments rollback release memory leak leak leak"),
        book("shared", "dns", "Names are not resolved", &["no such host"], "coredns"),
    ];
    let named = |query: &str| {
        rank(&books, query, "demo").iter().map(|h| (h.book.namespace.clone(), h.book.name.clone(), h.signature.map(str::to_owned))).collect::<Vec<_>>()
    };
    let found = named("payments was OOMKilled: a memory leak after a release");
    assert_eq!(found[0], ("shared".into(), "memory".into(), Some("OOMKilled".into())), "{found:?}");
    // S1.17: the runbook with the other signature is a hit by its words, and is never said to hold this one.
    assert!(found[1..].iter().all(|f| f.2.is_none()) && found.len() == 3, "{found:?}");
    assert_eq!((found[1].0.as_str(), found[2].0.as_str()), ("demo", "shared"), "a tenant's own first: {found:?}");
    assert_eq!(named("dial tcp: lookup redis: no such host")[0].1, "dns");
    assert_eq!(named("No Such Host")[0].2, None);
    assert_eq!(named("zebra"), []);
}

#[test]
fn of_two_signatures_the_longer_is_named_and_the_best_paragraph_is_shown() {
    let one = book("demo", "x", "T", &["refused", "connection refused"], "Introduction.\n\nIf the connection is refused, look at the Service.\n\nOther.");
    assert_eq!(signature(&one, "dial: connection refused"), Some("connection refused"));
    assert_eq!(excerpt(&one.spec.body, "connection refused"), "If the connection is refused, look at the Service.");
    assert_eq!(excerpt(&one.spec.body, "zebra"), "Introduction.");
    assert_eq!(excerpt("", "x"), "");
}

#[test]
fn a_file_has_its_title_and_signatures_in_front_or_a_heading() {
    let of = |text: &str| Book::of_file("demo", "x", text);
    let full = of("---\r\ntitle: Redis is down\r\nsignatures: ['connection refused']\r\nservices: [redis]\r\n---\r\n# Other\r\n\r\nDo this.\r\n").unwrap();
    assert_eq!((full.spec.title.as_str(), full.spec.signatures.len(), full.spec.body.as_str()), ("Redis is down", 1, "# Other\n\nDo this."));
    assert_eq!(of("# Only a heading\ntext").unwrap().spec.title, "Only a heading");
    for (text, wanted) in [
        ("no title", "no title"),
        ("", "no title"),
        ("---\ntitle: x\n", "no second ---"),
        ("---\ntitle: x\nowner: me\n---\nx", "owner"),
        ("---\ntitle: [x\n---\nx", "front matter"),
        ("---\ntitle: x\nsignatures: [err]\n---\nx", "shorter than 4"),
    ] {
        let error = of(text).unwrap_err();
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
}

#[test]
fn fuzz_runbooks() {
    const WORDS: &[&str] = &[
        "---\n",
        "title: x\n",
        "signatures: [",
        "'connection refused'",
        "]\n",
        "# Heading\n",
        "\n\n",
        "connection refused",
        "é",
        "\0",
        "\u{200b}",
        "services:\n",
        "- a\n",
        "&a",
        "*a",
        "!!x",
        "\r\n",
    ];
    run("runbooks", hostile(WORDS), |text| {
        if let Ok(book) = Book::of_file("demo", "x", &text) {
            prop_assert!(!book.spec.title.is_empty() && book.spec.signatures.iter().all(|s| s.chars().count() >= 4));
            let books = [book];
            for hit in rank(&books, &text, "demo") {
                prop_assert!(hit.signature.is_none_or(|s| text.contains(s)));
            }
            let _shown = excerpt(&books[0].spec.body, &text);
        }
        Ok(())
    });
}
