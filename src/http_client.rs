//! The one way to an HTTP client. The image is empty, so the public roots are compiled in; the system's are not looked for.

use std::{path::Path, time::Duration};

use anyhow::Context;
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// A client builder that trusts the public certificate authorities. It follows no redirect: a token goes where it was meant to, or nowhere.
///
/// # Errors
/// When no TLS provider was installed: `identity::install_crypto` comes first.
pub fn builder() -> Result<reqwest::ClientBuilder, rustls::Error> {
    let tls = config(rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })?;
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().redirect(reqwest::redirect::Policy::none()).connect_timeout(Duration::from_secs(5)))
}

/// A client for an endpoint that a resource names: with its own certificate authorities beside the public ones, and its own proxy.
///
/// # Errors
/// When the certificates or the proxy's address can't be read, naming the field.
pub fn for_endpoint(ca: Option<&str>, proxy: &str) -> anyhow::Result<reqwest::Client> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = ca {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots
                .add(certificate.context("spec.tls.caSecretRef: the Secret's key holds no PEM certificates")?)
                .context("spec.tls.caSecretRef: a certificate cannot be used")?;
        }
        anyhow::ensure!(roots.len() > before, "spec.tls.caSecretRef: the Secret's key holds no certificate");
    }
    let mut client = reqwest::Client::builder()
        .tls_backend_preconfigured(config(roots)?)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60));
    if !proxy.is_empty() {
        client = client.proxy(reqwest::Proxy::all(proxy).context("spec.proxyURL is no address of a proxy")?);
    }
    Ok(client.build()?)
}

/// TLS that trusts the public certificate authorities, or only those of a PEM file.
///
/// # Errors
/// When the file holds no certificate.
pub fn tls(ca: Option<&Path>) -> anyhow::Result<rustls::ClientConfig> {
    let Some(file) = ca else { return Ok(config(rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })?) };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).with_context(|| format!("{} cannot be read", file.display()))? {
        roots.add(certificate.with_context(|| format!("{} is no PEM file", file.display()))?)?;
    }
    anyhow::ensure!(!roots.is_empty(), "{} holds no certificate", file.display());
    Ok(config(roots)?)
}

fn config(roots: rustls::RootCertStore) -> Result<rustls::ClientConfig, rustls::Error> {
    let builder = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into()).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
