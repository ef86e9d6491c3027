//! Journals as `InvestigationJournal` resources: compressed, in chunks, owned by their Investigation and so collected with it.
//!
//! An append writes one entry and not the whole: a merge patch with the resource version that was read. A replica whose version
//! is old gets a conflict, and a chunk that somebody else began cannot be created a second time: that is the fence.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{JournalStore, OpenJournal, RunId, StoreError};
use crate::{
    agent::{Entry, Journal, Record},
    api::{GROUP, InvestigationJournal, InvestigationJournalSpec},
};

/// A chunk is not added to past this size. etcd takes 1.5 MiB; small chunks keep each write small.
const CHUNK_BYTES: usize = 256 * 1024;
/// One entry, compressed and encoded, never larger: it must fit into one object with room to spare.
const ENTRY_BYTES: usize = 1024 * 1024;
/// One entry, decompressed: a bound against a bomb.
const PLAIN_BYTES: u64 = 16 * 1024 * 1024;
/// One request. kube sets no deadline of its own.
const DEADLINE: Duration = Duration::from_secs(10);
const UID_LABEL: &str = "inquest.dev/investigation-uid";

#[derive(Clone)]
pub struct KubernetesStore {
    client: Client,
}

impl KubernetesStore {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

struct Open {
    api: Api<InvestigationJournal>,
    run: RunId,
    journal: Journal,
    chunk: Option<Chunk>,
}

struct Chunk {
    number: i32,
    version: String,
    bytes: usize,
}

impl JournalStore for KubernetesStore {
    fn kind(&self) -> &'static str {
        "kubernetes"
    }

    fn open<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Box<dyn OpenJournal>, StoreError>> {
        async move {
            let api: Api<InvestigationJournal> = Api::namespaced(self.client.clone(), &run.namespace);
            let params = ListParams::default().labels(&format!("{UID_LABEL}={}", run.uid));
            let mut chunks = deadline(api.list(&params)).await?.items;
            chunks.sort_by_key(|c| c.spec.chunk);
            let mut records = Vec::new();
            for chunk in &chunks {
                for text in chunk.spec.entries.values() {
                    records.push(decode(text)?);
                }
            }
            let chunk = chunks.last().map(|c| Chunk {
                number: c.spec.chunk,
                version: c.resource_version().unwrap_or_default(),
                bytes: c.spec.entries.values().map(String::len).sum(),
            });
            let open = Open { api, run: run.clone(), journal: Journal::new(records)?, chunk };
            Ok(Box::new(open) as Box<dyn OpenJournal>)
        }
        .boxed()
    }
}

impl Open {
    fn chunk_name(&self, number: i32) -> String {
        let uid: String = self.run.uid.chars().take(8).collect();
        let name: String = self.run.name.chars().take(200).collect();
        format!("{name}-{uid}-{number}")
    }

    async fn write(&mut self, record: Record) -> Result<(), StoreError> {
        let text = encode(&record)?;
        let key = format!("{:06}", record.seq);
        let room = self.chunk.as_ref().filter(|c| c.bytes + text.len() <= CHUNK_BYTES);
        let (number, bytes, written) = match room {
            Some(chunk) => {
                let patch = json!({"metadata": {"resourceVersion": chunk.version}, "spec": {"entries": {&key: text}}});
                let name = self.chunk_name(chunk.number);
                let params = PatchParams::default();
                (chunk.number, chunk.bytes + text.len(), deadline(self.api.patch(&name, &params, &Patch::Merge(&patch))).await?)
            }
            None => {
                let number = self.chunk.as_ref().map_or(0, |c| c.number + 1);
                let bytes = text.len();
                let object = InvestigationJournal {
                    metadata: ObjectMeta {
                        name: Some(self.chunk_name(number)),
                        namespace: Some(self.run.namespace.clone()),
                        labels: Some(BTreeMap::from([(UID_LABEL.to_owned(), self.run.uid.clone())])),
                        owner_references: Some(vec![OwnerReference {
                            api_version: format!("{GROUP}/v1alpha1"),
                            kind: "Investigation".to_owned(),
                            name: self.run.name.clone(),
                            uid: self.run.uid.clone(),
                            controller: Some(true),
                            block_owner_deletion: None,
                        }]),
                        ..ObjectMeta::default()
                    },
                    spec: InvestigationJournalSpec {
                        investigation: self.run.name.clone(),
                        uid: self.run.uid.clone(),
                        chunk: number,
                        entries: BTreeMap::from([(key, text)]),
                    },
                };
                (number, bytes, deadline(self.api.create(&PostParams::default(), &object)).await?)
            }
        };
        self.chunk = Some(Chunk { number, version: written.resource_version().unwrap_or_default(), bytes });
        Ok(())
    }
}

impl OpenJournal for Open {
    fn journal(&self) -> &Journal {
        &self.journal
    }
    fn name(&self) -> String {
        self.chunk_name(0)
    }
    fn append(&mut self, at: Timestamp, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut next = self.journal.clone();
            let record = next.push(at, entry);
            self.write(record).await?;
            self.journal = next;
            Ok(())
        }
        .boxed()
    }
}

fn encode(record: &Record) -> Result<String, StoreError> {
    let plain = serde_json::to_vec(record).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    if plain.len() as u64 > PLAIN_BYTES {
        return Err(StoreError::TooLarge(format!("{} bytes, {PLAIN_BYTES} fit", plain.len())));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(&plain).and_then(|()| encoder.finish()).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let text = STANDARD.encode(packed);
    if text.len() > ENTRY_BYTES {
        return Err(StoreError::TooLarge(format!("{} bytes compressed, {ENTRY_BYTES} fit", text.len())));
    }
    Ok(text)
}

fn decode(text: &str) -> Result<Record, StoreError> {
    let corrupt = |e: &dyn std::fmt::Display| StoreError::Corrupt(e.to_string());
    let packed = STANDARD.decode(text).map_err(|e| corrupt(&e))?;
    let mut plain = Vec::new();
    GzDecoder::new(packed.as_slice()).take(PLAIN_BYTES).read_to_end(&mut plain).map_err(|e| corrupt(&e))?;
    serde_json::from_slice(&plain).map_err(|e| corrupt(&e))
}

async fn deadline<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, StoreError> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(StoreError::Fenced),
        Ok(Err(kube::Error::Api(status))) if [413, 422].contains(&status.code) => Err(StoreError::TooLarge(status.message)),
        Ok(Err(error)) => Err(StoreError::Unavailable(error.to_string())),
        Err(_late) => Err(StoreError::Unavailable(format!("no answer in {} s", DEADLINE.as_secs()))),
    }
}
