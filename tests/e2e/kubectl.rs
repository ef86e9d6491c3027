//! kubectl, as a person uses it.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

pub struct Output {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

pub fn run(args: &[&str], input: &str) -> Output {
    let mut child =
        Command::new("kubectl").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl is on the PATH");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Output { ok: output.status.success(), out: String::from_utf8_lossy(&output.stdout).into(), err: String::from_utf8_lossy(&output.stderr).into() }
}

pub fn kubectl(args: &[&str]) -> String {
    let output = run(args, "");
    assert!(output.ok, "kubectl {args:?}: {}{}", output.out, output.err);
    output.out
}

pub fn apply(namespace: &str, yaml: &str) {
    let output = run(&["-n", namespace, "apply", "-f", "-"], yaml);
    assert!(output.ok, "{}\n{yaml}", output.err);
}

pub fn json(args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.extend(["-o", "json"]);
    serde_json::from_str(&kubectl(&all)).unwrap()
}

/// Waits until `test` gives something; the tests' only clock, with a bound.
pub fn until<T>(what: &str, seconds: u64, mut test: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = test() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {seconds} s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Creates an Investigation from the body of its spec.
pub fn investigate(namespace: &str, name: &str, spec: &str) {
    kubectl(&["-n", namespace, "delete", "investigation", name, "--ignore-not-found"]);
    apply(namespace, &format!("apiVersion: inquest.dev/v1alpha1\nkind: Investigation\nmetadata: {{name: {name}}}\nspec: {spec}\n"));
}

pub fn investigation(namespace: &str, name: &str) -> Value {
    json(&["-n", namespace, "get", "investigation", name])
}

pub fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or_default()
}

/// The Investigation once it has ended.
pub fn ended(namespace: &str, name: &str) -> Value {
    until(&format!("{namespace}/{name} ends"), 60, || {
        let object = investigation(namespace, name);
        ["Concluded", "Inconclusive", "Failed", "Cancelled", "Rejected"].contains(&phase(&object)).then_some(object)
    })
}

/// Everything that the status says.
pub fn said(object: &Value) -> String {
    object["status"].to_string()
}

/// The condition of this type, as `reason: message`.
pub fn condition(object: &Value, kind: &str) -> String {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["type"] == kind)
        .map(|c| format!("{}: {}", c["reason"].as_str().unwrap_or_default(), c["message"].as_str().unwrap_or_default()))
        .unwrap_or_default()
}
