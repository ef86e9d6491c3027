//! The one way to an HTTP client. The image is empty, so the public roots are compiled in; the system's are not looked for.

use std::time::Duration;

/// A client builder that trusts the public certificate authorities. It follows no redirect: a token goes where it was meant to, or nowhere.
///
/// # Errors
/// When no TLS provider was installed: `identity::install_crypto` comes first.
pub fn builder() -> Result<reqwest::ClientBuilder, rustls::Error> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().redirect(reqwest::redirect::Policy::none()).connect_timeout(Duration::from_secs(5)))
}
