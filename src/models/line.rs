//! The line to one model: its client, its key, its gate.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};

use super::{Client, Gate, Key};
use crate::{
    investigators::chat::{ChatReply, ChatRequest, Failure},
    runner::{Admission, ModelCaller},
};

/// Where the key is.
pub trait KeySource: Send + Sync {
    /// The key, or none where none is needed. `fresh`: the one that was used was refused.
    fn key(&self, fresh: bool) -> BoxFuture<'_, Result<Option<Key>, Failure>>;
}

/// A key that does not change.
pub struct StaticKey(pub Option<Key>);

impl KeySource for StaticKey {
    fn key(&self, _fresh: bool) -> BoxFuture<'_, Result<Option<Key>, Failure>> {
        async move { Ok(self.0.clone()) }.boxed()
    }
}

/// Hears of each request.
pub trait Observer: Send + Sync {
    fn asked(&self, result: &Result<ChatReply, Failure>, took: Duration, breaker_moved: bool);
}

pub struct Line {
    pub client: Client,
    pub keys: Arc<dyn KeySource>,
    pub gate: Arc<Gate>,
    pub observer: Option<Arc<dyn Observer>>,
}

impl Line {
    async fn once(&self, request: &ChatRequest) -> Result<ChatReply, Failure> {
        let key = self.keys.key(false).await?;
        let result = self.client.ask(key.as_ref(), request).await;
        // The key may have been changed a moment ago.
        if matches!(&result, Err(f) if f.reason == "Unauthorized") {
            let fresh = self.keys.key(true).await?;
            return self.client.ask(fresh.as_ref(), request).await;
        }
        result
    }
}

impl ModelCaller for Line {
    fn admit(&self) -> Admission {
        self.gate.admit()
    }

    fn ask<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, Failure>> {
        async move {
            let began = Instant::now();
            let result = self.once(request).await;
            let moved = self.gate.report(&result);
            if let Some(observer) = &self.observer {
                observer.asked(&result, began.elapsed(), moved);
            }
            result
        }
        .boxed()
    }
}
