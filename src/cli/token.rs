//! `inquest token`: for tool servers that a desktop client starts. The key is made here and stays here; the operator's is never touched.

use std::{collections::BTreeMap, fs, io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf, process::ExitCode};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};

use crate::api::Span;
use crate::identity::{AUDIENCE, Claims, ISSUER, KeyRing, SCOPE_TOOLS, sign};

/// A person's token, pasted into a client's settings.
pub(super) const LONGEST_LIFE: SignedDuration = SignedDuration::from_hours(24 * 31);

#[derive(clap::Args, Debug)]
pub struct Args {
    /// A folder for the key, made if it is not there, and for jwks.json, which the server verifies with.
    #[arg(long, env = "INQUEST_KEYS")]
    keys: PathBuf,
    /// Whose data the token opens.
    #[arg(long)]
    tenant: String,
    /// owner, analyst or viewer.
    #[arg(long, value_parser = ["owner", "analyst", "viewer"])]
    role: String,
    /// Who uses it: the audit log's `user`.
    #[arg(long, default_value = "desktop")]
    user: String,
    /// How long it is valid, as in 12h, at most 744h; a server over HTTP takes none that is longer than 15m.
    #[arg(long, default_value = "12h", value_parser = life)]
    valid_for: SignedDuration,
    /// Space-separated.
    #[arg(long, default_value = SCOPE_TOOLS)]
    scope: String,
}

#[expect(clippy::print_stdout, reason = "the token is the command's output")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { keys, tenant, role, user, valid_for, scope } = args;
    let now = Timestamp::now();
    let ring = ring(&keys, now).with_context(|| format!("--keys {}", keys.display()))?;
    let claims = Claims {
        iss: ISSUER.to_owned(),
        sub: format!("agent:{tenant}/{user}"),
        aud: AUDIENCE.to_owned(),
        exp: (now + valid_for).as_second(),
        nbf: now.as_second(),
        iat: now.as_second(),
        jti: format!("{user}-{}", now.as_nanosecond()),
        tenant_id: tenant,
        uid: String::new(),
        service_account: String::new(),
        scope,
        role: Some(role),
    };
    println!("{}", sign(&ring, &claims, now)?.reveal());
    Ok(ExitCode::SUCCESS)
}

fn life(text: &str) -> Result<SignedDuration, String> {
    let life = Span::from(text).duration().map_err(|e| e.to_string())?;
    let life = SignedDuration::try_from(life).map_err(|e| e.to_string())?;
    if life < SignedDuration::from_secs(1) || life > LONGEST_LIFE {
        return Err("it must be between 1s and 744h".to_owned());
    }
    Ok(life)
}

/// The folder's key; the first call makes it. Nobody else may read it.
fn ring(folder: &std::path::Path, now: Timestamp) -> anyhow::Result<KeyRing> {
    fs::create_dir_all(folder)?;
    let mut data = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("key-") {
            data.insert(name, fs::read(entry.path())?);
        }
    }
    let mut ring = KeyRing::from_data(&data)?;
    if data.is_empty() {
        ring.rotate(now)?;
        for (name, bytes) in ring.to_data() {
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name))?.write_all(&bytes)?;
        }
    }
    fs::write(folder.join("jwks.json"), format!("{:#}\n", ring.jwks()))?;
    Ok(ring)
}
