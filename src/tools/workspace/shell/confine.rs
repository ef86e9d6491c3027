//! The process that becomes the command: opens its files, shuts itself in, and is replaced.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::{Plan, commands::Reads};
use crate::tools::{
    server::Refusal,
    workspace::{Opened, Relative, Root, codes},
};

/// The exit code that says: refused, the reason is on standard error as JSON. None of the commands ends with it.
pub const REFUSED: u8 = 120;
/// Files that `grep -r` is given.
const MAX_FILES: usize = 2000;
/// Where a command that is not static finds its libraries.
const LIBRARIES: &[&str] = &["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// What the process is told.
#[derive(Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) root: PathBuf,
    pub(super) programs: Vec<PathBuf>,
    pub(super) seconds: u64,
    pub(super) plan: Plan,
}

/// Runs the orders in this process; returns only if they are refused.
#[must_use]
pub fn confine(orders: &str) -> Refusal {
    match serde_json::from_str(orders) {
        Ok(orders) => match become_command(orders) {
            Ok(never) => match never {},
            Err(refusal) => refusal,
        },
        Err(error) => Refusal::Internal(format!("the orders cannot be read: {error}")),
    }
}

fn become_command(orders: Orders) -> Result<std::convert::Infallible, Refusal> {
    let Orders { root, programs, seconds, plan } = orders;
    let unavailable = |what: String| Refusal::denied(codes::UNAVAILABLE, what);
    let program = programs
        .iter()
        .map(|folder| folder.join(&plan.program))
        .find(|path| path.is_file())
        .ok_or_else(|| unavailable(format!("this server's image has no {}", plan.program)))?;
    let root = Root::open(&root).map_err(|e| Refusal::BackendUnavailable(format!("the workspace cannot be opened: {e}")))?;
    let (paths, files) = open_all(&root, &plan)?;
    std::env::set_current_dir(root.path()).map_err(|e| Refusal::BackendUnavailable(format!("the workspace cannot be entered: {e}")))?;
    limit(seconds).map_err(|e| unavailable(format!("limits cannot be set: {e}")))?;
    let shut_in = shut_in(&root, &program, &files, plan.reads).map_err(|e| unavailable(format!("the kernel cannot shut a command in (Landlock): {e}")))?;
    if !shut_in {
        return Err(unavailable("the kernel has no Landlock, so no command is run".to_owned()));
    }
    let failed = Command::new(program).arg0(&plan.program).args(&plan.options).args(paths).args(&plan.tests).exec();
    Err(unavailable(format!("{} cannot be started: {failed}", plan.program)))
}

/// The paths that the command gets, and the files that it may read: opened here, so that a name that changes its meaning later opens nothing.
fn open_all(root: &Root, plan: &Plan) -> Result<(Vec<String>, Vec<File>), Refusal> {
    let (mut paths, mut files) = (vec![], vec![]);
    for word in &plan.paths {
        let path = Relative::parse("command", word)?;
        let Opened { file, is_folder, .. } = match plan.reads {
            Reads::Content => root.open_beneath(&path)?,
            Reads::Names | Reads::Nothing => root.open_names(&path)?,
        };
        if plan.reads == Reads::Content && is_folder {
            if !plan.recursive {
                return Err(Refusal::denied(codes::NOT_A_FILE, format!("{word} is a folder; {} reads files", plan.program)));
            }
            for found in root.walk(&path)?.files {
                let Some(text) = found.to_str() else { continue };
                let Ok(opened) = Relative::parse("command", text).and_then(|p| root.open_beneath(&p)) else { continue };
                if opened.is_folder {
                    continue;
                }
                if files.len() >= MAX_FILES {
                    return Err(Refusal::InvalidArgument {
                        field: "command",
                        problem: format!("more than {MAX_FILES} files lie below {word}; name a smaller folder, or use search_files"),
                    });
                }
                paths.push(if text.starts_with('-') { format!("./{text}") } else { text.to_owned() });
                files.push(opened.file);
            }
            continue;
        }
        paths.push(word.clone());
        files.push(file);
    }
    if plan.reads == Reads::Content && paths.is_empty() {
        return Err(Refusal::NotFound { what: "a file to read below these paths".to_owned() });
    }
    Ok((paths, files))
}

/// Whether the kernel holds this process to it.
fn shut_in(root: &Root, program: &Path, files: &[File], reads: Reads) -> Result<bool, RulesetError> {
    let abi = ABI::V6;
    let read = AccessFs::ReadFile;
    let load = AccessFs::ReadFile | AccessFs::Execute;
    let mut rules = Ruleset::default()
        // What the first Landlock had is needed; what later ones forbid is taken where it is.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?;
    let open = |path: &Path| PathFd::new(path).ok();
    if let Some(program) = program.canonicalize().ok().as_deref().and_then(open) {
        rules = rules.add_rule(PathBeneath::new(program, load))?;
    }
    for folder in LIBRARIES.iter().filter_map(|l| open(Path::new(l))) {
        rules = rules.add_rule(PathBeneath::new(folder, load))?;
    }
    match reads {
        Reads::Content => {
            for file in files {
                rules = rules.add_rule(PathBeneath::new(file, read))?;
            }
        }
        Reads::Names => {
            if let Some(folder) = open(root.path()) {
                rules = rules.add_rule(PathBeneath::new(folder, AccessFs::ReadDir))?;
            }
        }
        Reads::Nothing => {}
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn limit(seconds: u64) -> rustix::io::Result<()> {
    let to = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    setrlimit(Resource::Cpu, to(seconds))?;
    setrlimit(Resource::Fsize, to(0))?;
    setrlimit(Resource::Core, to(0))?;
    setrlimit(Resource::Nofile, to(4096))?;
    setrlimit(Resource::As, to(1 << 30))
}
