use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::{tokens::concrete_tokens, *};
use crate::api::{Citation, CitedRunbook, ObjectRef, Outcome, StopReason};

fn evidence(id: &str, text: &str) -> Evidence {
    Evidence {
        id: id.into(),
        server: "s".into(),
        tool: "t".into(),
        arguments: json!({}),
        at: Timestamp::UNIX_EPOCH,
        text: text.into(),
        truncated: false,
        code: None,
    }
}

fn claim(statement: &str, quotes: &[(&str, &str)]) -> Claim {
    let citations = quotes.iter().map(|(e, q)| Citation { evidence: (*e).into(), quote: (*q).into() }).collect();
    Claim { statement: statement.into(), citations }
}

fn run() -> Run<'static> {
    Run { question: "Why is payments-api down?", stop: StopReason::Done, not_checked: vec![] }
}

const TEXT: &str = r#"{"text":"Pod demo/web-7d9 container app: OOMKilled: exit code 137, memory limit 64Mi, configmap \"x-settings\" not found"}"#;

#[test]
fn each_verdict_has_its_case() {
    let e = [evidence("e1", TEXT)];
    let quote = "Pod demo/web-7d9 container app: OOMKilled: exit code 137";
    let token = |t: &str| Verdict::TokenNotQuoted { token: t.into() };
    for (statement, quotes, wanted) in [
        ("Pod web-7d9 was ended with exit code 137.", vec![("e1", quote)], Verdict::Supported),
        ("payments-api suffers because Pod web-7d9 is gone.", vec![("e1", quote)], Verdict::Supported), // named by the question
        ("ConfigMap \"x-settings\" is missing.", vec![("e1", "configmap \"x-settings\" not found")], Verdict::Supported), // decoded
        ("It is broken.", vec![], Verdict::NoCitation),
        ("It is broken.", vec![("e9", quote)], Verdict::NoSuchEvidence { evidence: "e9".into() }),
        ("It is broken.", vec![("e1", "OOMKilled by the moon")], Verdict::QuoteNotFound { evidence: "e1".into(), quote: "OOMKilled by the moon".into() }),
        ("Pod web-8aa was ended.", vec![("e1", quote)], token("web-8aa")),
        ("Pod web-7d9 was ended with exit code 13.", vec![("e1", quote)], token("13")), // not a part of 137
        ("Service d9 is wrong.", vec![("e1", quote)], token("d9")),                     // a name that goes on to the left is another one
        ("Pod web-7d9 has a limit of 640Mi.", vec![("e1", TEXT)], token("640Mi")),
        ("Service redis is down, see Pod web-7d9.", vec![("e1", quote)], token("redis")), // a plain word after a kind is a name
        ("The image nginx:1.27 of Pod web-7d9 is bad.", vec![("e1", quote)], token("nginx:1.27")),
        ("It says \"out of memory\".", vec![("e1", quote)], token("out of memory")),
    ] {
        assert_eq!(verify(&claim(statement, &quotes), &Sources::new(&e), run().question), wanted, "{statement}");
    }
}

#[test]
fn tokens_are_names_numbers_and_quoted_texts() {
    assert_eq!(
        concrete_tokens("Pod web-1 (image nginx:1.27) fails 3 times: \"no such file\" at db.svc:5432 in DATABASE_URL."),
        ["no such file", "web-1", "nginx:1.27", "3", "db.svc:5432", "DATABASE_URL"]
    );
    assert_eq!(concrete_tokens("It crash-loops and nothing says why."), Vec::<String>::new());
}

#[test]
fn an_unproved_cause_makes_the_outcome_inconclusive_and_is_nowhere_in_it() {
    let root = RootClaim {
        claim: claim("Node node-7 has no memory.", &[("e1", "OOMKilled")]),
        object: ObjectRef { kind: "Node".into(), name: "node-7".into(), ..ObjectRef::default() },
        signature: "OOMKilled".into(),
    };
    let draft = Draft { finding: Finding::Cause(root), contributing: vec![claim("Disk disk-9 is full.", &[])], ..Draft::unknown("") };
    let post = publish(&draft, &[evidence("e1", TEXT)], &run());
    assert_eq!((post.outcome, post.root_cause.is_none(), post.dropped_claims), (Outcome::Inconclusive, true, 2));
    let all = serde_json::to_string(&post).unwrap();
    assert!(!all.contains("node-7") && !all.contains("disk-9"), "{all}");
}

#[test]
fn s1_17_a_runbook_is_cited_only_for_its_exact_signature() {
    let books = evidence("e2", r#"{"name":"rollback","signatures":["ImagePullBackOff"],"body":"roll back on memory leaks"}"#);
    let root = |signature: &str| RootClaim {
        claim: claim("Pod web-7d9 was ended: OOMKilled.", &[("e1", "Pod demo/web-7d9 container app: OOMKilled")]),
        object: ObjectRef { kind: "Pod".into(), name: "web-7d9".into(), ..ObjectRef::default() },
        signature: signature.into(),
    };
    let cited = |signature: &str| CitedRunbook { name: "rollback".into(), namespace: "demo".into(), title: "Roll back".into(), signature: signature.into() };
    let with = |signature: &str| Draft {
        finding: Finding::Cause(root("OOMKilled")),
        runbook: Some(DraftRunbook { cited: cited(signature), evidence: "e2".into() }),
        ..Draft::unknown("")
    };
    let e = [evidence("e1", TEXT), books, evidence("e3", r#"{"name":"rollback","namespace":"demo","title":"Roll back","signatures":["OOMKilled"]}"#)];
    // The runbook mentions memory, and yet it is not about this: neither signature makes it so.
    assert!(publish(&with("OOMKilled"), &e, &run()).runbook.is_none(), "the runbook does not hold it");
    assert!(publish(&with("ImagePullBackOff"), &e, &run()).runbook.is_none(), "the conclusion does not hold it");
    let mut right = with("OOMKilled");
    right.runbook.as_mut().unwrap().evidence = "e3".into();
    assert!(publish(&right, &e, &run()).runbook.is_some());
    right.runbook.as_mut().unwrap().cited.title = "Delete the namespace".into();
    assert!(publish(&right, &e, &run()).runbook.is_none(), "a title that it does not have");
}

#[test]
fn s2_2_a_refusal_is_never_rendered_as_an_answer() {
    let post = publish(&Draft::unknown("the log was not readable"), &[], &run());
    let text = crate::report::markdown("q", &post, StopReason::StepCap, &crate::api::Usage::default(), "playbook");
    assert!(text.starts_with("# Inconclusive") && !text.contains("## Root cause"), "{text}");
    assert!(text.trim_end().ends_with("by playbook.") && text.contains("Stopped: StepCap"), "{text}");
}

proptest! {
    /// Whatever an investigator says and cites, a published quote stands in its evidence.
    #[test]
    fn nothing_unproved_is_published(statement in "[A-Za-z0-9 .:/\"-]{0,60}", quote in "[a-zA-Z0-9 :\"\\\\-]{0,20}", id in "e[1-3]") {
        let e = [evidence("e1", TEXT)];
        let root = RootClaim { claim: claim(&statement, &[(&id, &quote)]), object: ObjectRef { kind: "Pod".into(), name: "web-7d9".into(), ..ObjectRef::default() }, signature: quote.clone() };
        let post = publish(&Draft { finding: Finding::Cause(root), ..Draft::unknown("") }, &e, &run());
        if let Some(root) = post.root_cause {
            for c in &root.citations {
                prop_assert!(e.iter().any(|e| e.id == c.evidence && e.contains(&c.quote)));
            }
            for token in concrete_tokens(&root.statement) {
                prop_assert!(occurs(&token, TEXT) || occurs(&token, run().question) || TEXT.replace("\\\"", "\"").contains(&token), "{}", token);
            }
        }
    }
}
