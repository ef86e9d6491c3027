//! The signing keys: one Secret, read by every replica, rotated with an overlap. The Secret is the chart's; the operator may read and
//! replace that one and no other.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::identity::{KeyError, KeyRing};

/// How often the Secret is read again, to see another replica's rotation.
const EVERY: Duration = Duration::from_secs(300);
/// One request.
const DEADLINE: Duration = Duration::from_secs(10);

/// The keys in use.
#[derive(Clone, Default)]
pub struct Keys(Arc<RwLock<KeyRing>>);

impl Keys {
    #[must_use]
    pub fn ring(&self) -> KeyRing {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn set(&self, ring: KeyRing) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ring;
    }
}

#[derive(thiserror::Error, Debug)]
pub enum KeysError {
    #[error("the Secret {namespace}/{name} that holds the signing keys cannot be read: {why}; the chart makes it, and grants the right to it")]
    Read { namespace: String, name: String, why: String },
    #[error("the Secret {namespace}/{name} cannot be replaced: {why}")]
    Write { namespace: String, name: String, why: String },
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Where the keys are kept.
#[derive(Clone)]
pub enum KeyStore {
    Secret {
        client: Client,
        namespace: String,
        name: String,
    },
    /// For one process alone: its tokens die with it.
    Memory,
}

impl KeyStore {
    /// Reads the ring, and rotates what is due.
    pub async fn refresh(&self, keys: &Keys) -> Result<(), KeysError> {
        match self {
            Self::Memory => {
                let mut ring = keys.ring();
                if ring.rotate(Timestamp::now())? {
                    keys.set(ring);
                }
            }
            Self::Secret { client, namespace, name } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                // A second round reads what another replica wrote in between.
                for _ in 0..3 {
                    let read = |why: String| KeysError::Read { namespace: namespace.clone(), name: name.clone(), why };
                    let secret = tokio::time::timeout(DEADLINE, api.get(name)).await.map_err(|_| read("no answer".to_owned()))?.map_err(|e| read(short(&e)))?;
                    let version = secret.resource_version();
                    let data: BTreeMap<String, Vec<u8>> = secret.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect();
                    let before: Vec<String> = data.keys().cloned().collect();
                    let mut ring = KeyRing::from_data(&data)?;
                    if !ring.rotate(Timestamp::now())? {
                        keys.set(ring);
                        return Ok(());
                    }
                    let after = ring.to_data();
                    // A merge patch: null removes a key that has served its time.
                    let mut change: BTreeMap<String, Option<ByteString>> = before.into_iter().filter(|k| !after.contains_key(k)).map(|k| (k, None)).collect();
                    change.extend(after.into_iter().map(|(k, v)| (k, Some(ByteString(v)))));
                    let patch = json!({"metadata": {"resourceVersion": version}, "data": change});
                    let write = |why: String| KeysError::Write { namespace: namespace.clone(), name: name.clone(), why };
                    match tokio::time::timeout(DEADLINE, api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await {
                        Ok(Ok(_)) => {
                            tracing::info!("the signing keys were rotated");
                            keys.set(ring);
                            return Ok(());
                        }
                        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
                        Ok(Err(error)) => return Err(write(short(&error))),
                        Err(_late) => return Err(write("no answer".to_owned())),
                    }
                }
                return Err(KeysError::Write { namespace: namespace.clone(), name: name.clone(), why: "another replica keeps writing it".to_owned() });
            }
        }
        Ok(())
    }

    /// Refreshes until `stop`.
    pub async fn keep(self, keys: Keys, stop: CancellationToken) {
        loop {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(EVERY) => {} }
            if let Err(error) = self.refresh(&keys).await {
                tracing::warn!(%error, "the signing keys could not be refreshed; the ones at hand are used");
            }
        }
    }
}

fn short(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
