//! S1.6, S1.10: what a tool server accepts, and what it refuses.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, Header, encode};

use super::*;

fn ring(now: Timestamp) -> KeyRing {
    install_crypto();
    let mut ring = KeyRing::default();
    assert!(ring.rotate(now).unwrap());
    ring
}

fn subject() -> Subject<'static> {
    Subject { namespace: "demo", name: "run", uid: "u", service_account: "inquest-reader" }
}

fn verifier(ring: &KeyRing) -> Verifier {
    Verifier::new(JwksSource::Fixed(ring.jwks()), ISSUER, SCOPE_TOOLS).unwrap()
}

#[tokio::test]
async fn a_minted_token_is_accepted_and_names_the_run() {
    let now = Timestamp::now();
    let ring = ring(now);
    let token = mint(&ring, ISSUER, &subject(), "j".into(), now).unwrap();
    let claims = verifier(&ring).verify(token.reveal()).await.unwrap();
    assert_eq!((claims.sub.as_str(), claims.tenant_id.as_str(), claims.service_account.as_str()), ("agent:demo/run", "demo", "inquest-reader"));
    assert!(claims.exp - claims.iat <= 15 * 60);
    assert_eq!(format!("{token:?}"), "Token(…)");
}

#[tokio::test]
async fn s1_6_every_other_token_is_refused() {
    let now = Timestamp::now();
    let ring = ring(now);
    let key = ring.signing(now).unwrap();
    let good = Claims {
        iss: ISSUER.into(),
        sub: "agent:demo/run".into(),
        aud: AUDIENCE.into(),
        exp: now.as_second() + 600,
        nbf: now.as_second(),
        iat: now.as_second(),
        jti: "j".into(),
        tenant_id: "demo".into(),
        uid: "u".into(),
        service_account: "inquest-reader".into(),
        role: None,
        scope: SCOPE_TOOLS.into(),
    };
    let sign = |claims: &Claims| {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(key.id.clone());
        encode(&header, claims, &key.encoding()).unwrap()
    };
    let with = |change: fn(&mut Claims)| {
        let mut claims = good.clone();
        change(&mut claims);
        sign(&claims)
    };
    let valid = sign(&good);
    let parts: Vec<&str> = valid.split('.').collect();
    let none = format!("{}.{}.", B64.encode(format!(r#"{{"alg":"none","kid":"{}"}}"#, key.id)), parts[1]);
    // The public key as an HMAC secret: the classic confusion.
    let hs_header = B64.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, key.id));
    let signature =
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, ring_jwks_x(&ring).as_bytes()), format!("{hs_header}.{}", parts[1]).as_bytes());
    let hs256 = format!("{hs_header}.{}.{}", parts[1], B64.encode(signature.as_ref()));
    let other = super::tests::ring(now);
    let foreign = mint(&other, ISSUER, &subject(), "j".into(), now).unwrap();
    let cases = [
        ("expired", with(|c| (c.exp, c.iat) = (c.iat - 60, c.iat - 600)), Refused::Expired),
        ("another audience", with(|c| c.aud = "kubernetes".into()), Refused::Audience),
        ("another issuer", with(|c| c.iss = "https://evil".into()), Refused::Invalid),
        ("another scope", with(|c| c.scope = "knowledge:read".into()), Refused::Scope(SCOPE_TOOLS.into())),
        ("a tenant that is not the subject's", with(|c| c.tenant_id = "other".into()), Refused::Invalid),
        ("no tenant", with(|c| c.tenant_id = String::new()), Refused::Invalid),
        ("a day long", with(|c| c.exp = c.iat + 86_400), Refused::Invalid),
        ("not yet", with(|c| c.nbf += 3600), Refused::Invalid),
        ("alg none", none, Refused::Invalid),
        ("HS256 with the public key", hs256, Refused::Invalid),
        ("somebody else's key", foreign.reveal().to_owned(), Refused::Invalid),
        ("a changed body", format!("{}.{}x.{}", parts[0], parts[1], parts[2]), Refused::Invalid),
        ("no token", "x".into(), Refused::Invalid),
    ];
    let verifier = verifier(&ring);
    assert!(verifier.verify(&valid).await.is_ok());
    for (what, token, wanted) in cases {
        let refused = verifier.verify(&token).await.unwrap_err();
        assert_eq!(refused, wanted, "{what}");
        assert!([401, 403].contains(&refused.status()), "{what}");
    }
}

/// A token that was proved once is remembered, and no longer than it is valid.
#[tokio::test]
async fn a_remembered_token_expires_as_any_other() {
    let now = Timestamp::now();
    let ring = ring(now);
    let verifier = verifier(&ring);
    let at = now.as_second();
    // It expired within the leeway of clocks: valid for a second or two more.
    let claims = Claims { iat: at - 600, nbf: at - 600, exp: at - 28, ..claims_of(mint(&ring, ISSUER, &subject(), "j".into(), now).unwrap().reveal()) };
    let token = sign(&ring, &claims, now).unwrap();
    assert_eq!(verifier.verify(token.reveal()).await.unwrap(), claims);
    assert_eq!(verifier.verify(token.reveal()).await.unwrap(), claims);
    let mut seen = Ok(claims);
    for _ in 0..60 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        seen = verifier.verify(token.reveal()).await;
        if seen.is_err() {
            break;
        }
    }
    assert_eq!(seen.unwrap_err(), Refused::Expired);
}

fn claims_of(token: &str) -> Claims {
    serde_json::from_slice(&B64.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

fn ring_jwks_x(ring: &KeyRing) -> String {
    ring.jwks()["keys"][0]["x"].as_str().unwrap().to_owned()
}

/// S1.10: at every moment of a rotation, a token that was signed just now is verified by a server that read the keys a while ago.
#[test]
fn keys_rotate_with_an_overlap() {
    install_crypto();
    let start = Timestamp::from_second(1_800_000_000).unwrap();
    let mut ring = KeyRing::default();
    let mut published: Vec<(Timestamp, Vec<String>)> = vec![];
    let mut signers = std::collections::BTreeSet::new();
    for minute in 0..(3 * 24 * 60 / 5) {
        let now = start + SignedDuration::from_mins(minute * 5);
        ring.rotate(now).unwrap();
        let kids: Vec<String> = ring.jwks()["keys"].as_array().unwrap().iter().map(|k| k["kid"].as_str().unwrap().to_owned()).collect();
        let signer = ring.signing(now).unwrap().id.clone();
        // A verifier that read the keys five minutes ago knows the signer; one that reads them in fifteen minutes still will.
        if let Some((_, before)) = published.last() {
            assert!(before.contains(&signer), "minute {}", minute * 5);
        }
        assert!(kids.contains(&signer));
        published.push((now, kids));
        signers.insert(signer);
        assert!(ring.to_data().len() <= 3);
        let read = KeyRing::from_data(&ring.to_data()).unwrap();
        assert_eq!(read.jwks(), ring.jwks());
    }
    assert!(signers.len() >= 3, "{} keys signed in three days", signers.len());
    for (at, (_, kids)) in published.iter().enumerate().skip(3) {
        // What signed a quarter of an hour ago is still published: its tokens live as long.
        let then = &published[at - 3].1;
        assert!(then.iter().any(|k| kids.contains(k)));
    }
}

/// Whatever is sent as a token: refused, without a panic.
#[test]
fn fuzz_tokens() {
    const WORDS: &[&str] =
        &["eyJhbGciOiJFUzI1NiJ9", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9", ".", "..", "{}", "=", "e30", "\0", "é", "bearer ", "AAAA", "-", "_", "\n"];
    let now = Timestamp::now();
    let ring = ring(now);
    let verifier = verifier(&ring);
    let good = mint(&ring, ISSUER, &subject(), "j".into(), now).unwrap();
    let parts: Vec<&str> = good.reveal().split('.').collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    crate::fuzz::run("tokens", (crate::fuzz::hostile(WORDS), 0..4_usize), |(text, at)| {
        // A part of a good one replaced, or all of it.
        let token = match at {
            3 => text.clone(),
            at => {
                let mut parts = parts.clone();
                parts[at] = &text;
                parts.join(".")
            }
        };
        proptest::prop_assume!(token != good.reveal());
        proptest::prop_assert!(runtime.block_on(verifier.verify(&token)).is_err(), "{}", token);
        Ok(())
    });
}
