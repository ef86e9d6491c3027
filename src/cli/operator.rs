//! `inquest operator`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context;

use crate::{
    identity::ISSUER,
    investigators::playbook::Playbooks,
    operator::{self, Settings, shutdown::signal},
};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to serve health, metrics and keys.
    #[arg(long, env = "INQUEST_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// The issuer that tokens name.
    #[arg(long, env = "INQUEST_ISSUER", default_value = ISSUER)]
    issuer: String,
    /// How tool servers reach this operator.
    #[arg(long, env = "INQUEST_PUBLIC_URL", default_value = "http://inquest-operator.inquest-system:8080")]
    public_url: String,
    /// The operator's own namespace.
    #[arg(long, env = "INQUEST_NAMESPACE", default_value = "inquest-system")]
    namespace: String,
    /// The Secret that holds the signing keys, in that namespace. Empty: keys live in memory, for one replica.
    #[arg(long, env = "INQUEST_SIGNING_SECRET", default_value = "")]
    signing_secret: String,
    /// Work only while holding the Lease: set it with more than one replica.
    #[arg(long, env = "INQUEST_LEADER_ELECT")]
    leader_elect: bool,
    /// A folder with playbooks of your own (*.yaml), added to the shipped ones.
    #[arg(long, env = "INQUEST_PLAYBOOKS")]
    playbooks: Option<PathBuf>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { listen, issuer, public_url, namespace, signing_secret, leader_elect, playbooks } = args;
    let own = playbooks.map(|folder| read_folder(&folder)).transpose()?.unwrap_or_default();
    let playbooks = Playbooks::with_own(&own).context("a playbook cannot be used")?;
    tracing::info!(playbooks = playbooks.books().len(), own_files = own.len(), "playbooks loaded");
    let settings =
        Settings { listen, issuer, public_url, namespace, signing_secret: (!signing_secret.is_empty()).then_some(signing_secret), leader_elect, playbooks };
    operator::run(settings, signal()).await?;
    Ok(ExitCode::SUCCESS)
}

/// The `*.yaml` files of a folder, by name.
fn read_folder(folder: &std::path::Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("--playbooks: {} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("--playbooks: {} cannot be read", path.display()))?;
            files.push((path.display().to_string(), text));
        }
    }
    files.sort();
    Ok(files)
}
