//! Signing keys: made, kept as a small ring with an overlap, published as a JWKS.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::EncodingKey;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};

/// A key signs for this long before the next one takes over.
const ROTATE_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// A new key is published for this long before it signs, so that every verifier has seen it.
const PUBLISH_BEFORE: SignedDuration = SignedDuration::from_mins(10);
/// An old key stays published this long after it stopped signing: longer than any token lives.
const KEEP_AFTER: SignedDuration = SignedDuration::from_mins(30);

#[derive(thiserror::Error, Debug)]
pub enum KeyError {
    #[error("no key could be made: the system's random source failed")]
    Random,
    #[error("the stored signing key {name:?} cannot be read: delete it, and a new one is made")]
    Unreadable { name: String },
    #[error("there is no signing key yet")]
    Empty,
}

/// One ES256 key and when it was made.
#[derive(Clone)]
pub struct SigningKey {
    pub id: String,
    pub made: Timestamp,
    pkcs8: Vec<u8>,
    public: Vec<u8>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).field("made", &self.made).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate(made: Timestamp) -> Result<Self, KeyError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).map_err(|_| KeyError::Random)?;
        Self::read(document.as_ref().to_vec(), made, "new")
    }

    fn read(pkcs8: Vec<u8>, made: Timestamp, name: &str) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &SystemRandom::new())
            .map_err(|_| KeyError::Unreadable { name: name.to_owned() })?;
        let public = pair.public_key().as_ref().to_vec();
        let digest = ring::digest::digest(&ring::digest::SHA256, &public);
        Ok(Self { id: URL_SAFE_NO_PAD.encode(&digest.as_ref()[..12]), made, pkcs8, public })
    }

    #[must_use]
    pub fn encoding(&self) -> EncodingKey {
        EncodingKey::from_ec_der(&self.pkcs8)
    }

    fn jwk(&self) -> Value {
        // An uncompressed P-256 point: 0x04, x, y.
        let (x, y) = self.public[1..].split_at(32);
        json!({
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

/// The keys of one installation, oldest first. Every replica reads the same ring from one Secret.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: Vec<SigningKey>,
}

impl KeyRing {
    /// Reads the data of the Secret: each key is named by the second it was made.
    ///
    /// # Errors
    /// When an entry is not a key of ours.
    pub fn from_data(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        for (name, bytes) in data {
            let made = name
                .strip_prefix("key-")
                .and_then(|s| s.parse().ok())
                .and_then(|s| Timestamp::from_second(s).ok())
                .ok_or_else(|| KeyError::Unreadable { name: name.clone() })?;
            keys.push(SigningKey::read(bytes.clone(), made, name)?);
        }
        keys.sort_by_key(|k| k.made);
        Ok(Self { keys })
    }

    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, Vec<u8>> {
        self.keys.iter().map(|k| (format!("key-{}", k.made.as_second()), k.pkcs8.clone())).collect()
    }

    /// Adds and drops what is due. Returns whether anything changed.
    ///
    /// # Errors
    /// When a key is due and can't be made.
    pub fn rotate(&mut self, now: Timestamp) -> Result<bool, KeyError> {
        let before = self.keys.len();
        let due = self.keys.last().is_none_or(|k| now.duration_since(k.made) >= ROTATE_AFTER - PUBLISH_BEFORE);
        if due {
            self.keys.push(SigningKey::generate(now)?);
        }
        let signing = self.signing(now)?.made;
        let count = self.keys.len();
        self.keys.retain(|k| k.made >= signing || now.duration_since(signing) < PUBLISH_BEFORE + KEEP_AFTER);
        Ok(due || before != self.keys.len() || count != self.keys.len())
    }

    /// The newest key that has been published long enough; at the very start, the only one.
    ///
    /// # Errors
    /// When there is none.
    pub fn signing(&self, now: Timestamp) -> Result<&SigningKey, KeyError> {
        self.keys.iter().rev().find(|k| now.duration_since(k.made) >= PUBLISH_BEFORE).or_else(|| self.keys.first()).ok_or(KeyError::Empty)
    }

    /// RFC 7517.
    #[must_use]
    pub fn jwks(&self) -> Value {
        json!({ "keys": self.keys.iter().map(SigningKey::jwk).collect::<Vec<_>>() })
    }
}
