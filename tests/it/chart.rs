//! The chart's RBAC, read from its text: no writing verb but for our own resources, and no right to read Secrets.

use std::{fs, path::Path};

#[test]
fn every_rule_of_the_chart_has_a_comment_and_no_secret_is_readable() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/inquest/templates");
    let mut rules = 0;
    for file in ["operator-rbac.yaml", "tools-rbac.yaml", "tenants.yaml"] {
        let text = fs::read_to_string(templates.join(file)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.contains("apiGroups:") {
                continue;
            }
            rules += 1;
            // A comment over the rule, or over the block of rules it belongs to.
            let above = lines[..at].iter().rev().find(|l| !l.contains("apiGroups:") && !l.trim_start().starts_with("verbs:")).unwrap();
            assert!(
                above.trim_start().starts_with('#') || above.trim() == "rules:" && lines[..at].iter().rev().take(12).any(|l| l.starts_with('#')),
                "{file}:{}: a rule without a reason: {line}",
                at + 1
            );
            let secrets = line.contains("secrets");
            // The signing keys, and what the chart's values name for Models.
            let named = line.contains("resourceNames: [inquest-signing-keys]")
                || above.contains("Models") && line.contains("resourceNames: {{ toJson . }}, verbs: [get]");
            assert!(!secrets || named, "{file}:{}: {line}", at + 1);
            assert!(!line.contains("\"*\"") && !line.contains("'*'"), "{file}:{}: a wildcard: {line}", at + 1);
        }
    }
    assert!(rules >= 15, "only {rules} rules were read");
}
