//! The loader of playbooks: a mistake is refused with file, line and what would be right.

use inquest::investigators::playbook::{Playbooks, load};

const GOOD: &str = "name: x\nabout: It is so.\nspecificity: 50\nmatch:\n  - problem: {kind: Pod, reason: Error, message: 'no (?P<thing>\\w+)'}\nconclude:\n  object: {kind: Pod, name: \"{pod}\"}\n  statement: 'Pod {pod} has no {thing}.'\n  signature: '{match}'\ntests: [a]\n";

#[test]
fn a_good_playbook_loads() {
    assert_eq!(load("x.yaml", GOOD).unwrap().len(), 1);
}

#[test]
fn each_mistake_names_its_file_its_line_and_what_would_be_right() {
    for (what, from, to, line, said) in [
        ("an unbound name", "has no {thing}", "has no {thingy}", 8, "{thingy} is bound by nothing in match; bound are"),
        ("an unknown field", "about: It is so.", "abuot: It is so.", 2, "abuot"),
        ("no tests", "tests: [a]", "tests: []", 1, "tests is empty: name at least one scenario"),
        ("an expression that is not linear", "no (?P<thing>\\w+)", "(?<!x)no (?P<thing>\\w+)", 5, "is not a linear regular expression"),
        ("a specificity out of range", "specificity: 50", "specificity: 500", 3, "use 0 to 100"),
        (
            "a missing meaning",
            "conclude:\n  object: {kind: Pod, name: \"{pod}\"}\n  statement: 'Pod {pod} has no {thing}.'\n  signature: '{match}'\n",
            "",
            1,
            "neither conclude nor link",
        ),
        ("no YAML at all", "match:", "match: [", 0, "x.yaml"),
    ] {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{what}");
        let error = load("x.yaml", &text).expect_err(what);
        assert!(error.to_string().contains(said), "{what}: {error}");
        assert!(error.file == "x.yaml" && (line == 0 || error.line == line), "{what}: {error}");
    }
}

#[test]
fn a_name_that_is_used_twice_is_refused() {
    let error = Playbooks::load([("a.yaml", GOOD), ("b.yaml", GOOD)]).unwrap_err();
    assert!(error.to_string().starts_with("b.yaml:1:") && error.to_string().contains("used twice"), "{error}");
}
