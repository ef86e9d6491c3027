//! The one way to a pool of PostgreSQL connections: TLS where the URL asks for it, a deadline on each wait.

use std::{path::Path, str::FromStr, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

/// `url` as libpq takes it.
///
/// # Errors
/// When it is none, without its text: it may hold a password.
pub fn config(url: &str) -> anyhow::Result<Config> {
    Config::from_str(url).map_err(|_| anyhow::anyhow!("the database URL is none: give postgres://user:password@host:5432/name"))
}

/// Nothing is connected yet. `ca`: a PEM file with the authority that signed the server's certificate.
///
/// # Errors
/// When the certificates can't be read.
pub fn pool(config: Config, ca: Option<&Path>, size: usize, deadline: Duration) -> anyhow::Result<Pool> {
    let tls = MakeRustlsConnect::new(crate::http_client::tls(ca)?);
    let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(deadline))
        .create_timeout(Some(deadline))
        .recycle_timeout(Some(deadline))
        .build()?;
    Ok(pool)
}
