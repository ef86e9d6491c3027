//! Starts the operator: checks what it needs, then watches, reconciles and serves until it is told to stop.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use futures::StreamExt;
use kube::{
    Client, ResourceExt,
    runtime::{
        Controller, Predicate, PredicateConfig, WatchStreamExt,
        controller::{Action, Config},
        predicates,
    },
};
use kube_lease_manager::LeaseManagerBuilder;
use tokio_util::sync::CancellationToken;

use super::{
    endpoints::{self, Health},
    events::Events,
    keys::{KeyStore, Keys},
    models::Models,
    quota::Quotas,
    reconcile::{self, Context},
    servers::{NotWritten, Servers},
    streams::watch,
};
use crate::{
    api::{GROUP, Investigation, InvestigationQuota, Model, ToolServer},
    investigators::playbook::Playbooks,
    store::KubernetesStore,
    telemetry::Metrics,
};

/// Runs in step at once. A step waits for tools most of its time.
const CONCURRENT_RUNS: u16 = 32;
/// Discoveries at once: a slow server holds up no other.
const CONCURRENT_DISCOVERIES: u16 = 8;
/// Steps in flight get this long after the stop signal. Under the pod's 30 s of grace.
const DRAIN: Duration = Duration::from_secs(20);

/// What the operator was told, checked.
pub struct Settings {
    pub listen: SocketAddr,
    pub issuer: String,
    /// How tool servers reach this operator's keys.
    pub public_url: String,
    pub namespace: String,
    /// The Secret that holds the signing keys. None: keys live in memory.
    pub signing_secret: Option<String>,
    /// Work only while holding the Lease: for more than one replica.
    pub leader_elect: bool,
    pub playbooks: Playbooks,
}

/// Runs until `stop`.
///
/// # Errors
/// When something that it needs is missing: one clear line.
pub async fn run(settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    let Settings { listen, issuer, public_url, namespace, signing_secret, leader_elect, playbooks } = settings;
    let client = Client::try_default().await.context("no cluster: run it in a pod, or set KUBECONFIG")?;
    check_crds(&client).await?;
    let metrics = Metrics::new()?;
    let health = Health::new();
    let keys = Keys::default();
    let key_store = match signing_secret {
        Some(name) => KeyStore::Secret { client: client.clone(), namespace: namespace.clone(), name },
        None => KeyStore::Memory,
    };
    key_store.refresh(&keys).await?;
    tokio::spawn(key_store.keep(keys.clone(), stop.clone()));

    // The endpoints outlive the controllers: tools verify tokens of steps that are being drained.
    let served = CancellationToken::new();
    let serving = endpoints::serve(listen, health.clone(), metrics.clone(), keys.clone(), issuer.clone(), public_url, served.clone());
    let mut serving = tokio::spawn(serving);
    if leader_elect && !lead(&client, &namespace, &health, &stop).await? {
        served.cancel();
        return Ok(());
    }

    let servers = Servers::new(client.clone(), keys, issuer)?;
    let (investigations, investigations_filled, investigation_stream) = watch::<Investigation>(&client, "investigations", &metrics);
    let (tool_servers, tool_servers_filled, server_stream) = watch::<ToolServer>(&client, "toolservers", &metrics);
    let (models, models_filled, model_stream) = watch::<Model>(&client, "models", &metrics);
    let (live_models, moves) = Models::new(client.clone(), models.clone(), metrics.clone());
    let (quotas, quotas_filled, quota_stream) = watch::<InvestigationQuota>(&client, "investigationquotas", &metrics);
    tokio::spawn(quota_stream.for_each(|_| std::future::ready(())));
    let context = Arc::new(Context {
        client: client.clone(),
        namespace,
        store: Arc::new(KubernetesStore::new(client.clone())),
        servers: servers.clone(),
        investigations: investigations.clone(),
        tool_servers: tool_servers.clone(),
        models: live_models.clone(),
        quotas: Quotas { client: client.clone(), investigations: investigations.clone(), known: quotas },
        playbooks: Arc::new(playbooks),
        events: Events::new(client.clone()),
        metrics: metrics.clone(),
        health: health.clone(),
    });

    // Generation alone would drop the event that a deletion begins with.
    let changed = investigation_stream.predicate_filter(predicates::generation.combine(predicates::finalizers), PredicateConfig::default());
    let runs = Controller::for_stream(changed, investigations.clone())
        .with_config(Config::default().concurrency(CONCURRENT_RUNS))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile::reconcile, reconcile::on_error, context)
        .for_each(|_| std::future::ready(()));
    let changed = server_stream.predicate_filter(predicates::generation, PredicateConfig::default());
    let discovery = Controller::for_stream(changed, tool_servers.clone())
        .with_config(Config::default().concurrency(CONCURRENT_DISCOVERIES))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(|server, servers: Arc<Servers>| async move { servers.discover(server).await }, discovery_failed, Arc::new(servers))
        .for_each(|_| std::future::ready(()));

    let changed = model_stream.predicate_filter(predicates::generation, PredicateConfig::default());
    let moved = futures::stream::unfold(moves, |mut moves| async move { moves.recv().await.map(|m| (m, moves)) });
    let checks = Controller::for_stream(changed, models)
        .with_config(Config::default().concurrency(CONCURRENT_DISCOVERIES))
        .reconcile_on(moved)
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(|model, models: Arc<Models>| async move { models.reconcile(model).await }, check_failed, Arc::new(live_models))
        .for_each(|_| std::future::ready(()));

    let ready = {
        let health = health.clone();
        async move {
            let caches = [
                ("investigations", investigations_filled),
                ("toolservers", tool_servers_filled),
                ("models", models_filled),
                ("investigationquotas", quotas_filled),
            ];
            for (resource, mut filled) in caches {
                if filled.wait_for(|filled| *filled).await.is_err() {
                    tracing::warn!(resource, "the watch ended before its cache was filled");
                    return;
                }
            }
            health.set_filled();
            tracing::info!("ready");
        }
    };
    tokio::spawn(ready);
    // In one task with the controllers: a loop that hangs takes its heartbeat with it.
    let heart = beat(health, stop.clone());
    let work = async { futures::join!(runs, discovery, checks, heart) };
    tokio::pin!(work);
    tokio::select! {
        _ = &mut work => {}
        result = &mut serving => {
            stop.cancel();
            result.context("the endpoints ended")?.with_context(|| format!("cannot serve on {listen}"))?;
        }
        () = stop.cancelled() => {
            if tokio::time::timeout(DRAIN, &mut work).await.is_err() {
                tracing::warn!("steps in flight were dropped; the next replica does them again");
            }
        }
    }
    served.cancel();
    Ok(())
}

fn check_failed(model: Arc<Model>, error: &NotWritten, _: Arc<Models>) -> Action {
    tracing::warn!(model = model.name_any(), %error, "a model's status could not be written and is tried again");
    Action::requeue(Duration::from_secs(10))
}

fn discovery_failed(server: Arc<ToolServer>, error: &NotWritten, _: Arc<Servers>) -> Action {
    tracing::warn!(server = server.name_any(), %error, "a discovery failed and is tried again");
    Action::requeue(Duration::from_secs(10))
}

/// An operator with nothing to do is alive, too.
async fn beat(health: Health, stop: CancellationToken) {
    loop {
        tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(Duration::from_secs(10)) => health.turn() }
    }
}

/// Refuses to start with one clear line when the CRDs are missing.
async fn check_crds(client: &Client) -> anyhow::Result<()> {
    let wanted = ["investigations", "toolservers", "models", "investigationjournals", "investigationquotas"];
    let group = format!("{GROUP}/v1alpha1");
    let found = match tokio::time::timeout(Duration::from_secs(10), client.list_api_group_resources(&group)).await {
        Ok(Ok(list)) => list.resources.into_iter().map(|r| r.name).collect::<Vec<_>>(),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => vec![],
        Ok(Err(error)) => return Err(error).context("the API server cannot be asked for the CRDs"),
        Err(_late) => bail!("the API server does not answer"),
    };
    let missing: Vec<&str> = wanted.into_iter().filter(|w| !found.iter().any(|f| f == w)).collect();
    if !missing.is_empty() {
        bail!("the CRDs of {group} are not installed (missing: {}): kubectl apply --server-side -f crds/", missing.join(", "));
    }
    Ok(())
}

/// Waits for the Lease. Losing it later ends the process: what it knows is old. Returns false when told to stop first.
async fn lead(client: &Client, namespace: &str, health: &Health, stop: &CancellationToken) -> anyhow::Result<bool> {
    let manager = LeaseManagerBuilder::new(client.clone(), "inquest-operator").with_namespace(namespace).build().await.context("the Lease cannot be used")?;
    let (mut held, _task) = manager.watch().await;
    // A replica in waiting serves the keys and is ready to take over.
    health.set_ready();
    loop {
        if *held.borrow_and_update() {
            break;
        }
        health.turn();
        tokio::select! {
            changed = held.changed() => changed.context("the Lease manager ended")?,
            () = stop.cancelled() => return Ok(false),
            () = tokio::time::sleep(Duration::from_secs(10)) => {}
        }
    }
    tracing::info!("this replica holds the Lease");
    let stop = stop.clone();
    tokio::spawn(async move {
        while held.changed().await.is_ok() {
            if !*held.borrow_and_update() {
                tracing::warn!("the Lease was lost: stopping");
                stop.cancel();
                return;
            }
        }
    });
    Ok(true)
}
