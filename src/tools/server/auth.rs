//! Authentication: axum middleware that puts the verified caller into the request's own extensions.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use serde_json::json;

use super::Registry;
use crate::identity::{Claims, Refused, Verifier};

/// Who calls, as the token proved it. It reaches a tool through the request, never through a global.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: String,
    pub service_account: String,
    pub subject: String,
    pub uid: String,
    /// What the caller may do where a server knows roles: `owner`, `analyst`, `viewer`.
    pub role: Option<String>,
}

impl From<Claims> for Caller {
    fn from(claims: Claims) -> Self {
        Self { tenant: claims.tenant_id, service_account: claims.service_account, subject: claims.sub, uid: claims.uid, role: claims.role }
    }
}

/// Refuses a request without a valid token.
pub async fn authenticate(State((verifier, registry)): State<(Arc<Verifier>, Registry)>, mut request: Request, next: Next) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim().to_owned());
    let verified = match token {
        Some(token) => verifier.verify(&token).await,
        None => Err(Refused::Missing),
    };
    match verified {
        Ok(claims) => {
            request.extensions_mut().insert(Caller::from(claims));
            next.run(request).await
        }
        Err(refused) => {
            registry.refused_at_the_door(&refused);
            let status = StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::UNAUTHORIZED);
            let body = Json(json!({"error": refused.to_string(), "guardrail_code": refused.code()}));
            (status, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
        }
    }
}
