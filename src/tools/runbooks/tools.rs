//! The tools: from arguments to one JSON object each.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Folder,
    book::Book,
    rank::{excerpt, rank},
};
use crate::{
    text::head,
    tools::{
        kubernetes::{Readers, Source, kinds},
        server::{Caller, Refusal, Registry, ToolSpec, object_name},
    },
};

const DEADLINE: Duration = Duration::from_secs(8);
const MAX_BYTES: usize = 30_000;
/// Characters of a query: a log line and what stands around it.
const MAX_QUERY: usize = 4000;
/// Hits that are shown, by default and at most.
const HITS: (usize, usize) = (5, 20);
/// Bytes of a body that one call returns.
const BODY: usize = 24_000;

pub struct Settings {
    /// Runbook resources; None: there is no cluster, only the folder.
    pub readers: Option<Arc<dyn Readers>>,
    pub folder: Option<Folder>,
    /// The namespace whose runbooks every tenant sees.
    pub shared: String,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Search {
    /// What was seen: an error message, letter for letter, or words.
    query: String,
    /// Only runbooks of this service, and those of any.
    service: String,
    /// Hits (5, at most 20).
    limit: usize,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Read {
    name: String,
    /// Empty: the investigation's own namespace, then the shared one.
    namespace: String,
}

/// The tools over Runbook resources, a folder, or both.
pub fn tools(settings: Settings) -> Registry {
    let settings = Arc::new(settings);
    let specs = vec![
        ToolSpec::over(
            &settings,
            "search_runbooks",
            "Runbooks that fit what was seen, best first. A hit whose signature stands in the query, letter for letter, says so in `signature`.",
            |settings, caller, args: Search| async move { search(&settings, &caller, args).await },
        ),
        ToolSpec::over(
            &settings,
            "read_runbook",
            "A runbook as its team wrote it: title, signatures, services, body.",
            |settings, caller, args: Read| async move { read(&settings, &caller, args).await },
        ),
    ];
    Registry::new("runbooks", specs, DEADLINE, MAX_BYTES)
}

/// All runbooks that the caller may see, and what could not be read.
#[derive(Default)]
struct Library {
    books: Vec<Book>,
    skipped: Vec<String>,
    denied: Vec<Value>,
    cut: bool,
}

async fn library(settings: &Settings, caller: &Caller) -> Result<Library, Refusal> {
    let mut all = Library::default();
    let source = settings.readers.as_ref().map(|r| r.reader(caller));
    let mut shelves = vec![(caller.tenant.as_str(), Some(caller.tenant.as_str()))];
    if settings.shared != caller.tenant {
        shelves.push((settings.shared.as_str(), None));
    }
    for (namespace, tenant) in shelves {
        if let Some(source) = &source {
            of_cluster(&mut all, source.as_ref(), namespace).await?;
        }
        if let Some(folder) = &settings.folder {
            of_folder(&mut all, folder.clone(), namespace, tenant).await?;
        }
    }
    Ok(all)
}

async fn of_cluster(all: &mut Library, source: &dyn Source, namespace: &str) -> Result<(), Refusal> {
    let kind = kinds::find("Runbook").ok_or_else(|| Refusal::Internal("Runbook is not known".to_owned()))?;
    match source.list(kind, Some(namespace)).await {
        Ok(listing) => {
            all.cut |= !listing.complete;
            for object in &listing.items {
                match Book::of_resource(object) {
                    Ok(book) => all.books.push(book),
                    Err(why) => all.skipped.push(format!("Runbook {namespace}/{}: {why}", object["metadata"]["name"].as_str().unwrap_or("?"))),
                }
            }
        }
        // The CRD is not installed: there are none.
        Err(Refusal::NotFound { .. }) => {}
        Err(refusal @ Refusal::Forbidden { .. }) => all.denied.push(json!({"what": format!("runbooks in namespace {namespace}"), "why": refusal.to_string()})),
        Err(refusal) => return Err(refusal),
    }
    Ok(())
}

/// Where a resource and a file have the same name, the resource is meant: it is the one that is closer to the cluster.
async fn of_folder(all: &mut Library, folder: Folder, namespace: &str, tenant: Option<&str>) -> Result<(), Refusal> {
    let (place, own) = (namespace.to_owned(), tenant.map(str::to_owned));
    let shelf = tokio::task::spawn_blocking(move || folder.read(own.as_deref(), &place))
        .await
        .map_err(|e| Refusal::Internal(e.to_string()))?
        .map_err(|e| Refusal::BackendUnavailable(format!("the folder of runbooks cannot be read: {e}")))?;
    let new: Vec<Book> = shelf.books.into_iter().filter(|b| !all.books.iter().any(|a| a.name == b.name && a.namespace == b.namespace)).collect();
    all.books.extend(new);
    all.skipped.extend(shelf.skipped);
    all.cut |= shelf.cut;
    Ok(())
}

async fn search(settings: &Settings, caller: &Caller, args: Search) -> Result<Value, Refusal> {
    let wrong = |field: &'static str, problem: String| Err(Refusal::InvalidArgument { field, problem });
    if args.query.trim().is_empty() {
        return wrong("query", "is missing: give the error message that was seen, or words".to_owned());
    }
    if args.query.chars().count() > MAX_QUERY {
        return wrong("query", format!("is longer than {MAX_QUERY} characters"));
    }
    if args.limit > HITS.1 {
        return wrong("limit", format!("{} is more than {}", args.limit, HITS.1));
    }
    if args.service.chars().count() > 253 {
        return wrong("service", "is longer than 253 characters".to_owned());
    }
    let mut all = library(settings, caller).await?;
    let seen = all.books.len();
    all.books.retain(|b| args.service.is_empty() || b.spec.services.is_empty() || b.spec.services.contains(&args.service));
    let hits = rank(&all.books, &args.query, &caller.tenant);
    let limit = if args.limit == 0 { HITS.0 } else { args.limit };
    let rows: Vec<Value> = hits
        .iter()
        .take(limit)
        .map(|hit| {
            let Book { namespace, name, spec, kept } = hit.book;
            let mut row = json!({
                "name": name, "namespace": namespace, "title": spec.title, "services": spec.services, "score": (f64::from(hit.score) * 1000.0).round() / 1000.0,
                "excerpt": excerpt(&spec.body, &args.query), "text": format!("Runbook {namespace}/{name}: {}", spec.title), "kept": kept,
            });
            if let Some(signature) = hit.signature {
                row["signature"] = json!(signature);
            }
            row
        })
        .collect();
    let exact = hits.iter().filter(|h| h.signature.is_some()).count();
    let mut result = json!({
        "summary": format!("{} of {seen} runbooks fit, {exact} by an exact signature", hits.len()),
        "complete": !all.cut && all.denied.is_empty(), "runbooks": rows,
    });
    note(&mut result, all.skipped, all.denied);
    if hits.len() > limit {
        // Those that fit less well: not read, because not asked for.
        result["more"] = json!(hits.len() - limit);
    }
    Ok(result)
}

async fn read(settings: &Settings, caller: &Caller, args: Read) -> Result<Value, Refusal> {
    let name = object_name("name", &args.name)?;
    let places = if args.namespace.is_empty() {
        vec![caller.tenant.clone(), settings.shared.clone()]
    } else {
        let namespace = object_name("namespace", &args.namespace)?;
        if namespace != caller.tenant && namespace != settings.shared {
            let problem = format!("namespace: a run reads its own runbooks and the shared ones in {}", settings.shared);
            return Err(Refusal::denied("cross_tenant_denied", problem));
        }
        vec![namespace]
    };
    let all = library(settings, caller).await?;
    let Some(book) = places.iter().find_map(|p| all.books.iter().find(|b| b.namespace == *p && b.name == name)) else {
        let near: Vec<String> = all.books.iter().take(20).map(|b| format!("{}/{}", b.namespace, b.name)).collect();
        let known = if near.is_empty() { "; there are none".to_owned() } else { format!("; there are: {}", near.join(", ")) };
        return Err(Refusal::NotFound { what: format!("the runbook {}/{name}{known}: it", places.join(" or ")) });
    };
    let Book { namespace, name, spec, kept } = book;
    let body = head(&spec.body, BODY);
    let mut result = json!({
        "summary": format!("Runbook {namespace}/{name}: {}", spec.title), "complete": body.len() == spec.body.len(), "kept": kept,
        "runbook": {"name": name, "namespace": namespace, "title": spec.title, "signatures": spec.signatures, "services": spec.services, "body": body},
    });
    if body.len() < spec.body.len() {
        result["cut"] = json!(format!("the first {} of {} bytes", body.len(), spec.body.len()));
    }
    Ok(result)
}

fn note(result: &mut Value, mut skipped: Vec<String>, denied: Vec<Value>) {
    if !skipped.is_empty() {
        let more = skipped.len().saturating_sub(5);
        skipped.truncate(5);
        if more > 0 {
            skipped.push(format!("and {more} more"));
        }
        result["skipped"] = json!(skipped);
    }
    if !denied.is_empty() {
        result["denied"] = json!(denied);
    }
}
