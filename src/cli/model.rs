//! The flags that name a model, for runs from this machine.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::{
    agent::Prices,
    api::{Fallback, Price, Protocol, Provider, Span, Usd},
    http_client,
    investigators::chat::Chat,
    models::{Client, Gate, Key, Line, Script, Settings, StaticKey},
};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "A model that decides, instead of the playbooks")]
pub struct ModelArgs {
    /// Its name, as the provider knows it. Absent, and no script: the playbooks decide.
    #[arg(long, env = "INQUEST_MODEL")]
    model: Option<String>,
    /// What it speaks.
    #[arg(long, env = "INQUEST_MODEL_PROVIDER", value_enum, default_value_t = Speaks::Openai)]
    model_provider: Speaks,
    /// Where it is. Absent: the provider's public address.
    #[arg(long, env = "INQUEST_MODEL_BASE_URL", default_value = "")]
    model_base_url: String,
    /// Its key. From the environment only: an argument is seen by everybody on the machine.
    #[arg(skip = std::env::var("INQUEST_MODEL_API_KEY").unwrap_or_default())]
    model_api_key: Hidden,
    /// The strict JSON protocol, for models without tool calling.
    #[arg(long, env = "INQUEST_MODEL_JSON")]
    model_json: bool,
    /// Take its answers as they come.
    #[arg(long, env = "INQUEST_MODEL_STREAM")]
    model_stream: bool,
    /// How long one answer may take.
    #[arg(long, env = "INQUEST_MODEL_TIMEOUT", default_value = "60s")]
    model_timeout: String,
    /// Tokens that one answer may have.
    #[arg(long, env = "INQUEST_MODEL_MAX_OUTPUT_TOKENS", default_value_t = 4096)]
    model_max_output_tokens: u64,
    /// Tokens that it takes, in and out.
    #[arg(long, env = "INQUEST_MODEL_CONTEXT_TOKENS", default_value_t = 128_000)]
    model_context_tokens: u64,
    /// US dollars for a million input tokens. Without it no cost can be capped, and the run is refused; 0 for a model that costs nothing.
    #[arg(long, env = "INQUEST_MODEL_INPUT_PRICE")]
    model_input_price: Option<String>,
    /// US dollars for a million output tokens.
    #[arg(long, env = "INQUEST_MODEL_OUTPUT_PRICE")]
    model_output_price: Option<String>,
    /// A PEM file with the certificate authorities to trust beside the public ones.
    #[arg(long, env = "INQUEST_MODEL_CA")]
    model_ca: Option<PathBuf>,
    /// The proxy to go through.
    #[arg(long, env = "INQUEST_MODEL_PROXY", default_value = "")]
    model_proxy: String,
    /// What finishes the run when the model fails.
    #[arg(long, env = "INQUEST_MODEL_FALLBACK", value_enum, default_value_t = Finishes::Playbook)]
    model_fallback: Finishes,
    /// A recorded conversation (YAML) in the place of a model.
    #[arg(long, env = "INQUEST_MODEL_SCRIPT")]
    model_script: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Speaks {
    Openai,
    Anthropic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Finishes {
    Playbook,
    None,
}

/// Never printed.
#[derive(Clone, Default)]
struct Hidden(String);

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl ModelArgs {
    /// The line to the model, if one was named.
    pub fn line(self) -> anyhow::Result<Option<(Chat, Line, Fallback)>> {
        let Self {
            model,
            model_provider,
            model_base_url,
            model_api_key: Hidden(key),
            model_json,
            model_stream,
            model_timeout,
            model_max_output_tokens,
            model_context_tokens,
            model_input_price,
            model_output_price,
            model_ca,
            model_proxy,
            model_fallback,
            model_script,
        } = self;
        let script = match &model_script {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("--model-script: {} cannot be read", path.display()))?;
                Some(Script::read(&text).with_context(|| format!("--model-script {}", path.display()))?)
            }
            None => None,
        };
        let (name, provider) = match (model, &script, model_provider) {
            (None, None, _) if model_base_url.is_empty() => return Ok(None),
            (None, None, _) => bail!("--model-base-url names a server: say with --model which model of it"),
            (name, Some(_), _) => (name.unwrap_or_else(|| "script".to_owned()), Provider::Script),
            (Some(name), None, Speaks::Openai) => (name, Provider::OpenAI),
            (Some(name), None, Speaks::Anthropic) => (name, Provider::Anthropic),
        };
        // A recorded conversation costs nothing.
        let free = script.is_some().then(|| "0".to_owned());
        let (Some(input), Some(output)) = (model_input_price.or_else(|| free.clone()), model_output_price.or(free)) else {
            bail!(
                "--model-input-price and --model-output-price: a run's cost cannot be capped at a price that nobody knows; write 0 for a model that costs nothing"
            );
        };
        let price = Price {
            input_per_million_usd: Usd(input),
            cached_input_per_million_usd: None,
            cache_write_per_million_usd: None,
            output_per_million_usd: Usd(output),
        };
        let prices = Prices::try_from(&price).context("--model-input-price, --model-output-price")?;
        let ca = model_ca.map(|path| std::fs::read_to_string(&path).with_context(|| format!("--model-ca: {} cannot be read", path.display()))).transpose()?;
        let settings = Settings {
            provider,
            base_url: model_base_url,
            model: name.clone(),
            temperature: 0.0,
            seed: 1,
            stream: model_stream,
            timeout: Span(model_timeout).duration().context("--model-timeout")?,
            key_header: String::new(),
            headers: BTreeMap::new(),
            script,
        };
        let client = Client::new(settings, http_client::for_endpoint(ca.as_deref(), &model_proxy)?).map_err(anyhow::Error::msg)?;
        let key = (!key.is_empty()).then(|| Key::new(&key));
        let line = Line { client, keys: Arc::new(StaticKey(key)), gate: Arc::new(Gate::new(1, 0)), observer: None };
        let protocol = if model_json { Protocol::JSON } else { Protocol::Tools };
        let chat = Chat { name, protocol, max_output: model_max_output_tokens, context: model_context_tokens, prices };
        Ok(Some((chat, line, if model_fallback == Finishes::Playbook { Fallback::Playbook } else { Fallback::None })))
    }
}
