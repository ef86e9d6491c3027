//! Verification in a tool server: by the public keys that the operator publishes.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{AUDIENCE, Claims};

/// The keys are asked for again at most this often, whatever key ids callers invent.
const REFRESH_AT_MOST_EVERY: Duration = Duration::from_secs(5);
/// One request for the keys.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Clocks of nodes differ by less.
const LEEWAY_SECONDS: u64 = 30;

/// Tokens that are remembered: more runs than one server sees in a quarter of an hour.
const MAX_PROVED: usize = 4096;

/// Where the public keys come from.
#[derive(Clone, Debug)]
pub enum JwksSource {
    Url(String),
    /// Given at the start, for tests and local runs.
    Fixed(Value),
}

/// Why a token was refused. The text goes to the caller, so it names no key and quotes no token.
#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum Refused {
    #[error("no bearer token: send the investigation's token in the Authorization header")]
    Missing,
    #[error("the token is no ES256 token of this issuer that is valid now and lives for no longer than it may")]
    Invalid,
    #[error("the token has expired")]
    Expired,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token lacks the scope {0}")]
    Scope(String),
    #[error("the issuer's keys cannot be fetched")]
    KeysUnavailable,
}

impl Refused {
    /// The bounded word of it: in the answer, the audit log and the metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Scope(_) => "scope_denied",
            Self::KeysUnavailable => "issuer_unavailable",
            Self::Missing | Self::Invalid | Self::Expired | Self::Audience => "unauthenticated",
        }
    }

    /// A missing right is 403, everything else 401; an issuer out of reach is neither the caller's fault nor ours.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Scope(_) => 403,
            Self::KeysUnavailable => 503,
            Self::Missing | Self::Invalid | Self::Expired | Self::Audience => 401,
        }
    }
}

/// Verifies tokens of one issuer.
pub struct Verifier {
    source: JwksSource,
    issuer: String,
    scope: String,
    longest_life: SignedDuration,
    http: reqwest::Client,
    keys: Mutex<Keys>,
    /// One fetch at a time: who waits for it finds the keys that it brought.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Keys {
    by_id: HashMap<String, DecodingKey>,
    /// Tokens that these keys proved, by their SHA-256: a run shows the same one with each call of a step, and a signature costs more than
    /// most calls. New keys begin with none.
    proved: HashMap<[u8; 32], Claims>,
    asked: Option<Instant>,
}

impl Verifier {
    /// # Errors
    /// When no HTTP client can be built.
    pub fn new(source: JwksSource, issuer: impl Into<String>, scope: impl Into<String>) -> anyhow::Result<Self> {
        Ok(Self {
            source,
            issuer: issuer.into(),
            scope: scope.into(),
            longest_life: super::LIFETIME,
            http: crate::http_client::builder()?.timeout(FETCH_TIMEOUT).build()?,
            keys: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    /// For keys that never sign for an investigation: a person's own, on their own machine.
    #[must_use]
    pub fn with_longest_life(mut self, life: SignedDuration) -> Self {
        self.longest_life = life;
        self
    }

    /// The claims of a token that is signed, current, of our issuer, for our audience and with the scope of this server.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn verify(&self, token: &str) -> Result<Claims, Refused> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(claims) = self.proved(&digest, Timestamp::now().as_second())? {
            return Ok(claims);
        }
        let claims = self.prove(token).await?;
        let mut keys = self.keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if keys.proved.len() >= MAX_PROVED {
            keys.proved.clear();
        }
        keys.proved.insert(digest, claims.clone());
        Ok(claims)
    }

    /// The claims of a token that was proved before, if it is still in its time.
    fn proved(&self, digest: &[u8; 32], now: i64) -> Result<Option<Claims>, Refused> {
        let mut keys = self.keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(claims) = keys.proved.get(digest) else { return Ok(None) };
        if claims.exp.saturating_add_unsigned(LEEWAY_SECONDS) < now {
            keys.proved.remove(digest);
            return Err(Refused::Expired);
        }
        Ok(Some(claims.clone()))
    }

    async fn prove(&self, token: &str) -> Result<Claims, Refused> {
        let header = decode_header(token).map_err(|_| Refused::Invalid)?;
        if header.alg != Algorithm::ES256 {
            return Err(Refused::Invalid);
        }
        let id = header.kid.ok_or(Refused::Invalid)?;
        let key = match self.key(&id) {
            Some(key) => key,
            None => {
                let _one = self.fetching.lock().await;
                if self.key(&id).is_none() {
                    self.refresh().await?;
                }
                self.key(&id).ok_or(Refused::Invalid)?
            }
        };
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[AUDIENCE]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "nbf", "aud", "iss", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_SECONDS;
        let claims = decode::<Claims>(token, &key, &validation)
            .map_err(|e| match e.kind() {
                jsonwebtoken::errors::ErrorKind::ExpiredSignature => Refused::Expired,
                jsonwebtoken::errors::ErrorKind::InvalidAudience => Refused::Audience,
                _ => Refused::Invalid,
            })?
            .claims;
        // A key of ours never signs for longer; a claim that says otherwise was not made by us.
        if claims.exp.saturating_sub(claims.iat) > self.longest_life.as_secs() {
            return Err(Refused::Invalid);
        }
        if claims.tenant_id.is_empty() || !claims.sub.starts_with(&format!("agent:{}/", claims.tenant_id)) {
            return Err(Refused::Invalid);
        }
        if !claims.scope.split(' ').any(|s| s == self.scope) {
            return Err(Refused::Scope(self.scope.clone()));
        }
        Ok(claims)
    }

    fn key(&self, id: &str) -> Option<DecodingKey> {
        self.keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner).by_id.get(id).cloned()
    }

    async fn refresh(&self) -> Result<(), Refused> {
        {
            let keys = self.keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if keys.asked.is_some_and(|at| at.elapsed() < REFRESH_AT_MOST_EVERY) && !keys.by_id.is_empty() {
                return Ok(());
            }
        }
        let document = match &self.source {
            JwksSource::Fixed(document) => document.clone(),
            JwksSource::Url(url) => {
                let response = self.http.get(url).send().await.and_then(reqwest::Response::error_for_status);
                match response {
                    Ok(response) => response.json().await.map_err(|error| {
                        tracing::warn!(%url, %error, "the issuer's key set cannot be read");
                        Refused::KeysUnavailable
                    })?,
                    Err(error) => {
                        tracing::warn!(%url, %error, "the issuer's keys cannot be fetched");
                        return Err(Refused::KeysUnavailable);
                    }
                }
            }
        };
        let by_id = document["keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|jwk| {
                let id = jwk["kid"].as_str()?.to_owned();
                let key = DecodingKey::from_ec_components(jwk["x"].as_str()?, jwk["y"].as_str()?).ok()?;
                (jwk["crv"] == "P-256").then_some((id, key))
            })
            .collect();
        // Counted only when it brought something: a failed fetch is tried again by the next caller.
        let mut keys = self.keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *keys = Keys { by_id, proved: HashMap::new(), asked: Some(Instant::now()) };
        Ok(())
    }
}
