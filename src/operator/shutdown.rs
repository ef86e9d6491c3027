//! One shutdown tree: the first signal stops taking work, a second one ends the process at once.

use tokio::signal::unix::{SignalKind, signal as unix_signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by SIGTERM or SIGINT. A second signal ends the process.
#[must_use]
pub fn signal() -> CancellationToken {
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let (Ok(mut term), Ok(mut int)) = (unix_signal(SignalKind::terminate()), unix_signal(SignalKind::interrupt())) else {
            tracing::warn!("signals cannot be handled here; the process ends without draining");
            return;
        };
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("stopping: no new work is taken");
        stop.cancel();
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::warn!("a second signal: ending at once");
        std::process::exit(130);
    });
    token
}
