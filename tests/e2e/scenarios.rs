//! C.1: broken workloads on real pods, each with the answer that is true. `tests/scenarios/<name>/{manifests,truth}.yaml`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::kubectl::{apply, ended, investigate, json, kubectl, said, until};

#[derive(Deserialize)]
struct Truth {
    target: String,
    outcome: String,
    #[serde(default)]
    object: String,
    words: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    settle: Settle,
}

#[derive(Deserialize)]
struct Settle {
    get: String,
    /// All of them must be there; `a|b` is one or the other.
    contains: Vec<String>,
    /// Seconds after that: a state that has just begun is a start and no fault yet.
    #[serde(default)]
    and_then: u64,
}

fn truth_of(folder: &Path) -> Truth {
    serde_saphyr::from_str(&fs::read_to_string(folder.join("truth.yaml")).unwrap()).unwrap()
}

fn all() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn name_of(folder: &Path) -> &str {
    folder.file_name().unwrap().to_str().unwrap()
}

/// Applies a scenario and waits until it is broken as it shall be. Returns its namespace.
pub fn scenario(name: &str) -> String {
    let folder = all().join(name);
    let (namespace, settle) = (format!("sc-{name}"), truth_of(&folder).settle);
    apply(&namespace, &fs::read_to_string(folder.join("manifests.yaml")).unwrap());
    until(&format!("{name} settles"), 90, || {
        let state = serde_json::to_string(&json(&["-n", &namespace, "get", &settle.get])).unwrap().replace("\":", "\": ");
        settle.contains.iter().all(|c| c.split('|').any(|w| state.contains(w))).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_secs(settle.and_then));
    namespace
}

fn run(folder: &Path) -> Result<String, String> {
    let name = name_of(folder);
    let truth = truth_of(folder);
    let namespace = format!("sc-{name}");
    let (kind, target) = truth.target.split_once('/').unwrap();
    investigate(&namespace, "why", &format!("{{target: {{kind: {kind}, name: {target}}}}}"));
    let object = ended(&namespace, "why");
    let post = &object["status"]["postmortem"];
    let usage = &object["status"]["usage"];
    let line = format!(
        "{name:26} {:14} {:>2} calls {:>6}  {}",
        post["outcome"].as_str().unwrap_or("none"),
        usage["toolCalls"],
        usage["duration"].as_str().unwrap_or_default(),
        post["summary"].as_str().unwrap_or_default()
    );
    let mut wrong = vec![];
    if post["outcome"] != truth.outcome.as_str() {
        wrong.push(format!("outcome is {}, not {}", post["outcome"], truth.outcome));
    }
    let root =
        format!("{}/{}", post["rootCause"]["object"]["kind"].as_str().unwrap_or_default(), post["rootCause"]["object"]["name"].as_str().unwrap_or_default());
    if !truth.object.is_empty() && root != truth.object {
        wrong.push(format!("the object is {root}, not {}", truth.object));
    }
    let conclusion = format!("{} {}", post["summary"], post["rootCause"]).to_lowercase();
    wrong.extend(truth.words.iter().filter(|w| !conclusion.contains(&w.to_lowercase())).map(|w| format!("{w:?} is not said")));
    wrong.extend(truth.never.iter().filter(|w| conclusion.contains(&w.to_lowercase())).map(|w| format!("{w:?} is said")));
    if usage["toolCalls"].as_i64() > Some(8) {
        wrong.push("more than eight calls".into());
    }
    if wrong.is_empty() { Ok(line) } else { Err(format!("{line}\n    WRONG: {}\n{}", wrong.join("; "), said(&object))) }
}

/// Investigations at once.
const AT_ONCE: usize = 4;

/// The result of each, in order, so many at once.
fn each<T: Send>(folders: &[PathBuf], at_once: usize, f: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    folders
        .chunks(at_once)
        .flat_map(|some| {
            std::thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|folder| scope.spawn(|| f(folder))).collect();
                running.into_iter().map(|r| r.join().expect("a scenario panicked")).collect::<Vec<T>>()
            })
        })
        .collect()
}

#[test]
fn c_1_every_broken_workload_is_explained_as_it_is() {
    let mut folders: Vec<PathBuf> = fs::read_dir(all()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 10);
    // All are broken before the first is looked at: eighteen workloads that start at once keep a small machine busy, and this is no load test.
    each(&folders, folders.len(), |f| drop(scenario(name_of(f))));
    let results = each(&folders, AT_ONCE, run);
    let (right, wrong): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    // The wrong ones come last: what runs the tests may keep only the end of what they print.
    for line in right.iter().chain(&wrong) {
        println!("{}", line.as_ref().unwrap_or_else(|e| e));
    }
    println!("{} right, {} wrong", right.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("\n"));
}

/// C.3: what a person sees.
#[test]
fn c_3_the_columns_say_what_a_person_wants_to_know() {
    let namespace = &scenario("configmap-missing");
    investigate(namespace, "columns", "{question: 'Why is orders not starting?'}");
    ended(namespace, "columns");
    let table = kubectl(&["-n", namespace, "get", "investigations", "columns"]);
    for column in ["PHASE", "STOP", "ROOT CAUSE", "CALLS", "COST", "AGE", "Concluded", "Done", "orders-settings"] {
        assert!(table.contains(column), "{column}: {table}");
    }
    let described = kubectl(&["-n", namespace, "describe", "investigation", "columns"]);
    for text in ["Root Cause", "Citations", "Started", "Concluded", "Stop Reason"] {
        assert!(described.contains(text), "{text}: {described}");
    }
    for word in ["inq", "inquest"] {
        assert!(kubectl(&["-n", namespace, "get", word]).contains("columns"), "{word}");
    }
}
