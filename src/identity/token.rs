//! The token of one run and step.

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, Header, encode};
use serde::{Deserialize, Serialize};

use super::{KeyError, KeyRing};

/// The audience of the tool servers. No other endpoint accepts it.
pub const AUDIENCE: &str = "inquest-tools";
/// The issuer, unless the operator is told another.
pub const ISSUER: &str = "https://operator.inquest.dev";
/// The scope of the tools that look at the cluster.
pub const SCOPE_TOOLS: &str = "tools:read";
/// The scope of what a team has written down: its runbooks.
pub const SCOPE_KNOWLEDGE: &str = "knowledge:read";
/// A token lives for one step; this bounds the longest one.
pub const LIFETIME: SignedDuration = SignedDuration::from_mins(15);

/// What a token says.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub iss: String,
    /// `agent:<namespace>/<investigation>`.
    pub sub: String,
    pub aud: String,
    pub exp: i64,
    pub nbf: i64,
    pub iat: i64,
    pub jti: String,
    /// The Investigation's namespace.
    pub tenant_id: String,
    /// The Investigation's UID.
    pub uid: String,
    /// Whose rights the tools read with.
    pub service_account: String,
    /// Space-separated.
    pub scope: String,
    /// For servers that know roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

#[derive(thiserror::Error, Debug)]
pub enum MintError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the token cannot be signed")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// Whom a token is for.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub service_account: &'a str,
}

/// A signed token. It prints as nothing, so that it can't end up in a log.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// For the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
    #[must_use]
    pub fn secret(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Signs a token for one step of one run.
///
/// # Errors
/// When there is no key, or it does not sign.
pub fn mint(keys: &KeyRing, issuer: &str, subject: &Subject<'_>, jti: String, now: Timestamp) -> Result<Token, MintError> {
    let claims = Claims {
        iss: issuer.to_owned(),
        sub: format!("agent:{}/{}", subject.namespace, subject.name),
        aud: AUDIENCE.to_owned(),
        exp: (now + LIFETIME).as_second(),
        nbf: now.as_second(),
        iat: now.as_second(),
        jti,
        tenant_id: subject.namespace.to_owned(),
        uid: subject.uid.to_owned(),
        service_account: subject.service_account.to_owned(),
        scope: format!("{SCOPE_TOOLS} {SCOPE_KNOWLEDGE}"),
        // An investigation reads figures and their schemas; it owns nothing.
        role: Some("analyst".to_owned()),
    };
    sign(keys, &claims, now)
}

/// # Errors
/// When there is no key, or it does not sign.
pub fn sign(keys: &KeyRing, claims: &Claims, now: Timestamp) -> Result<Token, MintError> {
    let key = keys.signing(now)?;
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some(key.id.clone());
    Ok(Token(encode(&header, claims, &key.encoding())?))
}
