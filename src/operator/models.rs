//! Models: the line to each, its status, and the Secrets and ConfigMaps that its spec names. Keys are read again within half a minute, so
//! that one can be changed without a restart; they are in memory alone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        controller::Action,
        reflector::{ObjectRef, Store},
    },
};
use tokio::sync::mpsc;

use super::{
    servers::NotWritten,
    status::{self, condition},
};
use crate::{
    agent::{Again, PriceError, Prices},
    api::{ConfigMapKeyRef, Model, ModelSpec, ModelStatus, SecretKeyRef},
    http_client,
    investigators::chat::{Chat, ChatReply, ChatRequest, Failure},
    models::{self, BreakerState, Gate, Key, KeySource, Line, Observer, Script},
    runner::{Admission, ModelCaller},
    telemetry::Metrics,
};

/// What a Secret or a ConfigMap said is believed so long.
const FRESH: Duration = Duration::from_secs(30);
/// A Model that was well is looked at again so often, and one that was not, sooner.
const WELL: Duration = Duration::from_secs(120);
const UNWELL: Duration = Duration::from_secs(10);
/// One request to the API server.
const DEADLINE: Duration = Duration::from_secs(10);

/// `namespace/name`, as status, metrics and logs name it.
pub fn id(model: &Model) -> String {
    format!("{}/{}", model.namespace().unwrap_or_default(), model.name_any())
}

/// Why a Model can't be asked. The message names the field and what would be right.
#[derive(thiserror::Error, Debug, Clone)]
pub enum ModelError {
    #[error("spec.price is absent: a run's cost cannot be capped at a price that nobody knows; set it, to \"0\" for a model that costs nothing")]
    PriceUnknown,
    #[error("{0}")]
    Price(String),
    #[error("{field}: the {kind} {name} {why}")]
    Reference { field: &'static str, kind: &'static str, name: String, why: String },
    #[error("{0}")]
    Spec(String),
}

impl From<PriceError> for ModelError {
    fn from(error: PriceError) -> Self {
        Self::Price(error.to_string())
    }
}

impl ModelError {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PriceUnknown => "PriceUnknown",
            Self::Price(_) => "InvalidPrice",
            Self::Reference { .. } => "ReferenceNotUsable",
            Self::Spec(_) => "InvalidSpec",
        }
    }
}

/// What a run needs of a Model.
pub struct Live {
    pub chat: Chat,
    pub caller: Arc<dyn ModelCaller>,
}

/// The lines by Model.
#[derive(Clone)]
pub struct Models {
    client: Client,
    store: Store<Model>,
    metrics: Metrics,
    lines: Arc<Mutex<HashMap<String, Kept>>>,
    /// Models whose breaker moved: their status is written again.
    moved: mpsc::Sender<ObjectRef<Model>>,
}

#[derive(Clone)]
struct Kept {
    /// The object and generation that it was made for.
    made_for: String,
    made_at: Instant,
    line: Arc<Line>,
}

impl Models {
    pub fn new(client: Client, store: Store<Model>, metrics: Metrics) -> (Self, mpsc::Receiver<ObjectRef<Model>>) {
        let (moved, moves) = mpsc::channel(64);
        (Self { client, store, metrics, lines: Arc::default(), moved }, moves)
    }

    pub fn find(&self, name: &str, namespace: &str) -> Option<Arc<Model>> {
        self.store.get(&ObjectRef::new(name).within(namespace))
    }

    pub fn all(&self) -> Vec<Arc<Model>> {
        self.store.state()
    }

    /// How a run asks this Model. Where it can't be asked now, asking says why.
    ///
    /// # Errors
    /// When its price is not known: then no run may begin.
    pub async fn live(&self, model: &Model) -> Result<Live, ModelError> {
        let chat = chat(model)?;
        let caller: Arc<dyn ModelCaller> = match self.line(model).await {
            Ok(line) => line,
            Err(why) => Arc::new(Unusable(why.reason(), format!("Model {}: {why}", id(model)))),
        };
        Ok(Live { chat, caller })
    }

    /// The line, made if need be. Its gate outlives a change of the key or the certificates, not one of the spec.
    async fn line(&self, model: &Model) -> Result<Arc<Line>, ModelError> {
        let made_for = format!("{}/{}", model.uid().unwrap_or_default(), model.meta().generation.unwrap_or_default());
        let kept = self.lock().get(&id(model)).filter(|k| k.made_for == made_for).cloned();
        let referring = model.spec.tls.ca_secret_ref.is_some() || model.spec.script_ref.is_some();
        if let Some(kept) = kept.as_ref().filter(|k| !referring || k.made_at.elapsed() < FRESH) {
            return Ok(Arc::clone(&kept.line));
        }
        let namespace = model.namespace().unwrap_or_default();
        let spec = &model.spec;
        let script = match &spec.script_ref {
            Some(key) => Some(Script::read(&self.config_map(&namespace, key).await?).map_err(|e| ModelError::Spec(format!("spec.scriptRef: {e}")))?),
            None => None,
        };
        let ca = match &spec.tls.ca_secret_ref {
            Some(key) => Some(secret(&self.client, &namespace, key, "spec.tls.caSecretRef").await?),
            None => None,
        };
        let http = http_client::for_endpoint(ca.as_deref(), &spec.proxy_url).map_err(|e| ModelError::Spec(e.to_string()))?;
        let client = models::Client::new(settings(spec, script), http).map_err(ModelError::Spec)?;
        let gate = kept.map_or_else(|| Arc::new(gate(spec)), |k| Arc::clone(&k.line.gate));
        let keys =
            Arc::new(SecretKey { client: self.client.clone(), namespace, reference: spec.api_key_secret_ref.clone(), held: tokio::sync::Mutex::new(None) });
        let observer = Observed { id: id(model), metrics: self.metrics.clone(), moved: self.moved.clone(), about: ObjectRef::from_obj(model) };
        let line = Arc::new(Line { client, keys, gate, observer: Some(Arc::new(observer)) });
        self.lock().insert(id(model), Kept { made_for, made_at: Instant::now(), line: Arc::clone(&line) });
        Ok(line)
    }

    async fn config_map(&self, namespace: &str, key: &ConfigMapKeyRef) -> Result<String, ModelError> {
        let problem = |why: String| ModelError::Reference { field: "spec.scriptRef", kind: "ConfigMap", name: format!("{namespace}/{}", key.name), why };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = tokio::time::timeout(DEADLINE, api.get(&key.name)).await.map_err(|_| problem("was not answered for".to_owned()))?;
        let map = found.map_err(|e| problem(cannot(&e)))?;
        map.data.unwrap_or_default().remove(&key.key).ok_or_else(|| problem(format!("has no key {:?}", key.key)))
    }

    /// Checks a Model without asking it anything, and writes what came of it into its status.
    pub async fn reconcile(&self, model: Arc<Model>) -> Result<Action, NotWritten> {
        let before = model.status.clone().unwrap_or_default();
        let generation = model.meta().generation;
        let mut after = ModelStatus { observed_generation: generation, ..before.clone() };
        let checked = self.check(&model).await;
        let next = match &checked {
            Ok(line) => {
                let state = line.gate.state();
                after.breaker = format!("{state:?}");
                after.last_error = line.gate.last_error().chars().take(1024).collect();
                self.metrics.model_breaker_open.with_label_values(&[id(&model).as_str()]).set(i64::from(state != BreakerState::Closed));
                match state {
                    BreakerState::Closed => {
                        condition(&mut after.conditions, "Ready", true, "Valid", "the spec is valid, and what it refers to is there", generation);
                    }
                    BreakerState::Open | BreakerState::HalfOpen => {
                        condition(&mut after.conditions, "Ready", false, "BreakerOpen", &format!("it failed time and again: {}", after.last_error), generation);
                    }
                }
                if state == BreakerState::Closed { WELL } else { UNWELL }
            }
            Err(error) => {
                condition(&mut after.conditions, "Ready", false, error.reason(), &error.to_string(), generation);
                UNWELL
            }
        };
        if after != before {
            if let Err(error) = &checked {
                tracing::warn!(model = id(&model), %error, "a model cannot be asked");
            }
            status::write_other(&self.client, model.as_ref(), &after).await.map_err(NotWritten)?;
        }
        Ok(Action::requeue(next))
    }

    async fn check(&self, model: &Model) -> Result<Arc<Line>, ModelError> {
        chat(model)?;
        let line = self.line(model).await?;
        if let Some(key) = &model.spec.api_key_secret_ref {
            secret(&self.client, &model.namespace().unwrap_or_default(), key, "spec.apiKeySecretRef").await?;
        }
        Ok(line)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Kept>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chat(model: &Model) -> Result<Chat, ModelError> {
    let spec = &model.spec;
    let prices = Prices::try_from(spec.price.as_ref().ok_or(ModelError::PriceUnknown)?)?;
    let number = |n: i64| u64::try_from(n).unwrap_or(0);
    Ok(Chat { name: id(model), protocol: spec.protocol, max_output: number(spec.max_output_tokens), context: number(spec.context_tokens), prices })
}

fn settings(spec: &ModelSpec, script: Option<Script>) -> models::Settings {
    models::Settings {
        provider: spec.provider,
        base_url: spec.base_url.clone(),
        model: spec.model.clone(),
        temperature: spec.temperature,
        seed: spec.seed,
        stream: spec.stream,
        timeout: spec.timeout.or(Duration::from_secs(60)),
        key_header: spec.api_key_header.clone(),
        headers: spec.headers.clone(),
        script,
    }
}

fn gate(spec: &ModelSpec) -> Gate {
    Gate::new(usize::try_from(spec.max_concurrency).unwrap_or(1), u32::try_from(spec.max_requests_per_minute).unwrap_or(0))
}

/// A text of a Secret.
async fn secret(client: &Client, namespace: &str, key: &SecretKeyRef, field: &'static str) -> Result<String, ModelError> {
    let problem = |why: String| ModelError::Reference { field, kind: "Secret", name: format!("{namespace}/{}", key.name), why };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = tokio::time::timeout(DEADLINE, api.get(&key.name)).await.map_err(|_| problem("was not answered for".to_owned()))?;
    let found = found.map_err(|e| problem(cannot(&e)))?;
    let bytes = found.data.unwrap_or_default().remove(&key.key).ok_or_else(|| problem(format!("has no key {:?}", key.key)))?;
    String::from_utf8(bytes.0).map_err(|_| problem(format!("holds no text at {:?}", key.key)))
}

fn cannot(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => "does not exist".to_owned(),
        kube::Error::Api(status) if status.code == 403 => {
            "may not be read by the operator: name it under models.secrets or models.configMaps of the chart, or grant get on it (docs/models.md)".to_owned()
        }
        other => format!("cannot be read: {other}"),
    }
}

/// A key that is read from its Secret, and again when it is old or was refused.
struct SecretKey {
    client: Client,
    namespace: String,
    reference: Option<SecretKeyRef>,
    held: tokio::sync::Mutex<Option<(Instant, Key)>>,
}

impl KeySource for SecretKey {
    fn key(&self, fresh: bool) -> BoxFuture<'_, Result<Option<Key>, Failure>> {
        async move {
            let Some(reference) = &self.reference else { return Ok(None) };
            let mut held = self.held.lock().await;
            if let Some((_, key)) = held.as_ref().filter(|(at, _)| !fresh && at.elapsed() < FRESH) {
                return Ok(Some(key.clone()));
            }
            match secret(&self.client, &self.namespace, reference, "spec.apiKeySecretRef").await {
                Ok(text) => {
                    let key = Key::new(&text);
                    *held = Some((Instant::now(), key.clone()));
                    Ok(Some(key))
                }
                Err(error) => Err(Failure { reason: error.reason(), message: error.to_string(), again: Again::Never, billed: false }),
            }
        }
        .boxed()
    }
}

/// In the place of a line that can't be made.
struct Unusable(&'static str, String);

impl ModelCaller for Unusable {
    fn admit(&self) -> Admission {
        Admission::Never(Failure { reason: self.0, message: self.1.clone(), again: Again::Never, billed: false })
    }
    fn ask<'a>(&'a self, _: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, Failure>> {
        async move { Err(Failure { reason: self.0, message: self.1.clone(), again: Again::Never, billed: false }) }.boxed()
    }
}

/// A Model that was deleted under a run.
pub fn gone(name: &str) -> Live {
    let chat = Chat { name: name.to_owned(), protocol: crate::api::Protocol::Tools, max_output: 0, context: u64::MAX, prices: Prices::default() };
    Live { chat, caller: Arc::new(Unusable("ModelGone", format!("the Model {name} was deleted or no longer allows this namespace"))) }
}

struct Observed {
    id: String,
    metrics: Metrics,
    moved: mpsc::Sender<ObjectRef<Model>>,
    about: ObjectRef<Model>,
}

impl Observer for Observed {
    fn asked(&self, result: &Result<ChatReply, Failure>, took: Duration, breaker_moved: bool) {
        let word = match result {
            Ok(_) => "ok",
            Err(failure) => failure.reason,
        };
        self.metrics.model_requests.with_label_values(&[self.id.as_str(), word]).inc();
        self.metrics.model_seconds.with_label_values(&[self.id.as_str()]).observe(took.as_secs_f64());
        if let Err(failure) = result {
            tracing::warn!(model = self.id, reason = failure.reason, message = failure.message, "a model did not answer");
        }
        if breaker_moved && self.moved.try_send(self.about.clone()).is_err() {
            tracing::warn!(model = self.id, "the breaker moved; its status follows at the next look");
        }
    }
}
