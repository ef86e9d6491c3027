use serde_json::json;

use super::{redact_text, redact_value};

#[test]
fn secrets_become_typed_placeholders() {
    for (text, wanted) in [
        ("key AKIAIOSFODNN7EXAMPLE used", "key [redacted:aws-access-key] used"),
        ("connecting to postgres://app:hunter22@db:5432/x", "connecting to postgres://app:[redacted:url-password]@db:5432/x"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [redacted:bearer]"),
        ("DB_PASSWORD=hunter22 set", "DB_PASSWORD=[redacted:secret] set"),
        ("{\"password\": \"hunter22\"}", "{\"password\": \"[redacted:secret]\"}"),
        ("{\"level\":\"error\",\"password\":\"hunter2hunter2\"}", "{\"level\":\"error\",\"password\":\"[redacted:secret]\"}"),
        ("api_key:hunter2abc", "api_key:[redacted:secret]"),
        ("run --password hunter2abc --port 1", "run --password [redacted:secret] --port 1"),
        ("jwt eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "jwt [redacted:jwt]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "[redacted:pem]"),
    ] {
        assert_eq!(redact_text(text).0, wanted);
        assert_eq!(redact_text(text).1, 1, "{text}");
    }
}

#[test]
fn what_only_looks_near_a_secret_is_kept() {
    for text in [
        "FATAL: password authentication failed for user \"app\"",
        "secret \"signer-keys\" not found",
        "couldn't find key password in Secret demo/db",
        "token file /var/run/tok not found",
        "dial tcp redis:6379: connect: connection refused",
        "listening on http://0.0.0.0:8080",
        "image ghcr.io/acme/web@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
    ] {
        assert_eq!(redact_text(text), (text.to_owned(), 0));
    }
}

#[test]
fn the_value_of_a_variable_with_a_secret_name_is_hidden() {
    let mut value = json!({"env": [{"name": "API_TOKEN", "value": "abc"}, {"name": "PORT", "value": "8080"}], "password": "x"});
    assert_eq!(redact_value(&mut value), 2);
    assert_eq!(
        value,
        json!({"env": [{"name": "API_TOKEN", "value": "[redacted:secret]"}, {"name": "PORT", "value": "8080"}], "password": "[redacted:secret]"})
    );
}
