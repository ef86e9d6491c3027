//! Watches, each with its own back-off. An error of one is logged, counted and kept away from the controller: one refused watch
//! must not slow the others.

use std::{fmt::Debug, future::ready, hash::Hash};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;

use crate::telemetry::Metrics;

/// Load balancers cut idle connections at 240 s.
const WATCH_SECONDS: u32 = 200;

/// Becomes true when the first list was read to its end. (`Store::wait_until_ready` wakes one waiter alone, and the controller waits, too.)
pub type Filled = tokio::sync::watch::Receiver<bool>;

/// Watches every object of a kind into a store; the stream yields what was applied.
pub fn watch<K>(client: &Client, resource: &'static str, metrics: &Metrics) -> (Store<K>, Filled, impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let (reader, writer) = reflector::store();
    let (fill, filled) = tokio::sync::watch::channel(false);
    let config = watcher::Config::default().any_semantic().timeout(WATCH_SECONDS);
    let metrics = metrics.clone();
    let stream = reflector::reflector(
        writer,
        watcher(Api::<K>::all(client.clone()), config).default_backoff().modify(|o| {
            o.managed_fields_mut().clear();
        }),
    )
    .inspect(move |event| {
        if matches!(event, Ok(watcher::Event::InitDone)) {
            fill.send_replace(true);
        }
    })
    .applied_objects()
    .filter(move |result| {
        if let Err(error) = result {
            tracing::warn!(resource, %error, "a watch failed and is tried again");
            metrics.watch_errors.with_label_values(&[resource]).inc();
        }
        ready(result.is_ok())
    });
    (reader, filled, stream)
}
