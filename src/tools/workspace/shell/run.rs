//! Starting a command, and ending it: its time, its output, its whole process group.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    sync::Semaphore,
};

use super::{
    Plan,
    confine::{Orders, REFUSED},
};
use crate::tools::{
    server::Refusal,
    workspace::{Root, codes},
};

/// A command's time.
const TIME: Duration = Duration::from_secs(10);
/// Bytes that it may print, and complain.
const MAX_OUT: usize = 8 << 10;
const MAX_ERR: usize = 2 << 10;
/// Commands at once: each may take a core.
const AT_ONCE: usize = 8;

/// How commands are started.
#[derive(Clone)]
pub struct Shell {
    /// The program that shuts itself in: ours.
    helper: PathBuf,
    /// Folders with the commands.
    programs: Vec<PathBuf>,
    slots: Arc<Semaphore>,
}

impl Shell {
    #[must_use]
    pub fn new(helper: PathBuf, programs: Vec<PathBuf>) -> Self {
        Self { helper, programs, slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub(in crate::tools::workspace) async fn run(&self, root: &Root, plan: Plan) -> Result<Value, Refusal> {
        let failed = |e: std::io::Error| Refusal::denied(codes::UNAVAILABLE, format!("the command cannot be started: {e}"));
        let _slot = self.slots.acquire().await.map_err(|_closed| Refusal::Internal("the server is stopping".to_owned()))?;
        let shown = plan.shown();
        let orders = Orders { root: root.path().to_owned(), programs: self.programs.clone(), seconds: TIME.as_secs(), plan };
        let orders = serde_json::to_string(&orders).map_err(|e| Refusal::Internal(e.to_string()))?;
        let mut child = Command::new(&self.helper)
            .args(["confine", &orders])
            // Nothing of ours is for it to see.
            .env_clear()
            .envs([("LC_ALL", "C"), ("TZ", "UTC")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        let (mut out, mut err) = (Captured::new(MAX_OUT), Captured::new(MAX_ERR));
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let work = async {
            tokio::join!(out.read(stdout, &group), err.read(stderr, &group));
            child.wait().await
        };
        let ended = tokio::time::timeout(TIME, work).await;
        // What it left behind goes with it: once, since the number may soon be another's.
        group.kill();
        group.0 = None;
        let status = match ended {
            Ok(status) => Some(status.map_err(failed)?),
            Err(_late) => None,
        };
        let code = status.and_then(|s| s.code());
        if code == Some(i32::from(REFUSED))
            && let Some(refusal) = refusal_of(&err.bytes)
        {
            return Err(refusal);
        }
        let cut = match (status, out.over || err.over) {
            (None, _) => Some(format!("stopped after {} s", TIME.as_secs())),
            (_, true) => Some(format!("stopped after {MAX_OUT} bytes of output")),
            (Some(_), false) => None,
        };
        let how = code.map_or_else(|| "was stopped".to_owned(), |c| format!("ended with {c}"));
        let mut result = json!({
            "summary": format!("{shown} {how}"), "command": shown, "exit_code": code,
            "stdout": out.text(), "stderr": err.text(), "complete": cut.is_none(),
        });
        if let Some(cut) = cut {
            result["cut"] = json!(cut);
        }
        Ok(result)
    }
}

/// What the confined process said before it became anything.
fn refusal_of(stderr: &[u8]) -> Option<Refusal> {
    let said: Value = serde_json::from_slice(stderr).ok()?;
    let (code, message) = (said["guardrail_code"].as_str()?, said["error"].as_str()?.to_owned());
    if let Some(code) = codes::ALL.iter().find(|c| **c == code) {
        return Some(Refusal::denied(code, message));
    }
    Some(match code {
        "not_found" => Refusal::NotFound { what: message.trim_end_matches(" was not found").to_owned() },
        "invalid_argument" => Refusal::InvalidArgument { field: "command", problem: message.trim_start_matches("command: ").to_owned() },
        "backend_unavailable" | "forbidden" => Refusal::BackendUnavailable(message),
        _ => Refusal::Internal(message),
    })
}

/// A process group that ends when it is dropped, so that no caller who goes away leaves one running.
struct Group(Option<Pid>);

impl Group {
    fn kill(&self) {
        if let Some(group) = self.0 {
            // It may have ended by itself: that is no error.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Captured {
    bytes: Vec<u8>,
    max: usize,
    over: bool,
}

impl Captured {
    fn new(max: usize) -> Self {
        Self { bytes: vec![], max, over: false }
    }

    /// Reads to the end, or to the bound, and then ends the writer.
    async fn read(&mut self, from: Option<impl AsyncRead + Unpin>, group: &Group) {
        let Some(mut from) = from else { return };
        let mut buffer = [0; 4096];
        loop {
            let Ok(read) = from.read(&mut buffer).await else { return };
            if read == 0 {
                return;
            }
            let room = (self.max - self.bytes.len()).min(read);
            self.bytes.extend_from_slice(&buffer[..room]);
            if room < read {
                self.over = true;
                group.kill();
                return;
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
