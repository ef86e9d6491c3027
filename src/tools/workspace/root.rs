//! The workspace's root, and the one way to open something beneath it.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, readlinkat};

use super::{codes, path::Relative, secret};
use crate::tools::server::Refusal;

/// Folders below folders, so that a tree that was made to be deep ends.
const MAX_DEPTH: usize = 32;
/// Entries that one walk looks at.
const MAX_ENTRIES: usize = 50_000;

/// A folder that is served.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
}

/// Something beneath the root, opened.
#[derive(Debug)]
pub struct Opened {
    pub file: File,
    /// Its real path beneath the root, links resolved.
    pub path: PathBuf,
    pub is_folder: bool,
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    pub files: Vec<PathBuf>,
    /// Files that the deny list hides.
    pub denied: usize,
    /// Not all of it was looked at.
    pub cut: bool,
}

impl Root {
    /// # Errors
    /// When the folder is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let folder = open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { folder, path })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tenant's own folder of it.
    ///
    /// # Errors
    /// When there is none.
    pub fn child(&self, name: &str) -> Result<Self, Refusal> {
        let opened = self.resolve(Path::new(name), name)?;
        if !opened.1 {
            return Err(Refusal::NotFound { what: format!("a workspace for {name}") });
        }
        Ok(Self { folder: opened.0, path: self.path.join(opened.2) })
    }

    /// Opens a regular file or a folder. The kernel resolves the path and refuses each step that leaves the root, links included; what was
    /// opened, and no name, is then checked.
    ///
    /// # Errors
    /// When it is not there, lies outside, is secret, or is a device, a pipe or a socket.
    pub fn open_beneath(&self, path: &Relative) -> Result<Opened, Refusal> {
        let shown = path.as_path().display().to_string();
        let (handle, is_folder, real) = self.resolve(path.as_path(), &shown)?;
        // The name that was asked for, and the one that links led to.
        if secret::is_secret(path.as_path()) || secret::is_secret(&real) {
            let message = format!("{shown} is one of the files that are never read: keys, credentials, environments");
            if !is_folder {
                return Err(Refusal::denied(codes::SECRET, message));
            }
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // By way of the handle: the same inode, whatever the path names by now.
        let file = open(proc_path(&handle), flags, Mode::empty()).map_err(|e| refused(e, &shown))?;
        Ok(Opened { file: file.into(), path: real, is_folder })
    }

    /// Opens what only its name and size are asked of: the deny list hides contents, not that there is something.
    ///
    /// # Errors
    /// As `open_beneath`, but for secrets.
    pub fn open_names(&self, path: &Relative) -> Result<Opened, Refusal> {
        let (handle, is_folder, real) = self.resolve(path.as_path(), &path.as_path().display().to_string())?;
        Ok(Opened { file: handle.into(), path: real, is_folder })
    }

    /// A handle that cannot be read from: what it is can be asked without touching a device.
    fn resolve(&self, path: &Path, shown: &str) -> Result<(OwnedFd, bool, PathBuf), Refusal> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let handle = again(|| openat2(self.folder.as_fd(), path, flags, Mode::empty(), beneath)).map_err(|e| refused(e, shown))?;
        let stat = fstat(&handle).map_err(|e| refused(e, shown))?;
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => false,
            FileType::Directory => true,
            _ => return Err(Refusal::denied(codes::NOT_A_FILE, format!("{shown} is a device, a pipe or a socket; only files are read"))),
        };
        let real = self.real(&handle).map_err(|e| refused(e, shown))?;
        Ok((handle, is_folder, real))
    }

    /// Where a handle lies beneath the root, by the kernel's own word.
    fn real(&self, handle: &OwnedFd) -> Result<PathBuf, rustix::io::Errno> {
        let here = link(&self.folder)?;
        let there = link(handle)?;
        let beneath = there.strip_prefix(&here).map_err(|_| rustix::io::Errno::XDEV)?;
        Ok(if beneath.as_os_str().is_empty() { PathBuf::from(".") } else { beneath.to_owned() })
    }

    /// The regular files below a folder, in the order of their names. Links to folders are not followed: a loop would have no end.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn walk(&self, start: &Relative) -> Result<Walk, Refusal> {
        let shown = start.as_path().display().to_string();
        let (handle, is_folder, real) = self.resolve(start.as_path(), &shown)?;
        let mut walk = Walk::default();
        if !is_folder {
            walk.files.push(real);
            return Ok(walk);
        }
        let mut entries = 0;
        // Folders still to be read, by their handles: one that is swapped for a link meanwhile changes nothing.
        let mut open_folders = vec![(handle, if real == Path::new(".") { PathBuf::new() } else { real }, 0)];
        while let Some((folder, path, depth)) = open_folders.pop() {
            let Ok(readable) = openat(&folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else {
                walk.cut = true;
                continue;
            };
            let Ok(listing) = Dir::new(readable) else {
                walk.cut = true;
                continue;
            };
            let mut below = vec![];
            for entry in listing {
                let Ok(entry) = entry else {
                    walk.cut = true;
                    break;
                };
                let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
                if name == "." || name == ".." {
                    continue;
                }
                entries += 1;
                if entries > MAX_ENTRIES {
                    walk.cut = true;
                    break;
                }
                let path = path.join(&name);
                let kind = match entry.file_type() {
                    FileType::Unknown => kind_of(&folder, &name),
                    known => known,
                };
                match kind {
                    // A mounted ConfigMap keeps its files twice: in `..<time>`, and as links to them, which are the names that people know.
                    FileType::Directory if name.to_string_lossy().starts_with("..") => {}
                    FileType::Directory if depth >= MAX_DEPTH => walk.cut = true,
                    FileType::Directory => below.push((name, path)),
                    // Links are resolved when the file is opened, and refused there if they lead out.
                    FileType::RegularFile | FileType::Symlink if secret::is_secret(&path) => walk.denied += 1,
                    FileType::RegularFile | FileType::Symlink => walk.files.push(path),
                    _ => {}
                }
            }
            below.sort();
            for (name, path) in below.into_iter().rev() {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match openat(&folder, &name, flags, Mode::empty()) {
                    Ok(handle) => open_folders.push((handle, path, depth + 1)),
                    Err(_gone) => walk.cut = true,
                }
            }
            if entries > MAX_ENTRIES {
                break;
            }
        }
        walk.files.sort();
        Ok(walk)
    }
}

fn kind_of(folder: &OwnedFd, name: &OsString) -> FileType {
    rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode))
}

/// A folder that is renamed meanwhile makes the kernel ask for another try.
fn again<T>(mut once: impl FnMut() -> Result<T, rustix::io::Errno>) -> Result<T, rustix::io::Errno> {
    let mut result = once();
    for _ in 0..16 {
        match result {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => result = once(),
            done => return done,
        }
    }
    result
}

fn proc_path(handle: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

fn link(handle: &OwnedFd) -> Result<PathBuf, rustix::io::Errno> {
    let name = readlinkat(CWD, proc_path(handle), vec![])?;
    Ok(PathBuf::from(OsString::from_vec(name.into_bytes())))
}

fn refused(error: rustix::io::Errno, shown: &str) -> Refusal {
    use rustix::io::Errno;
    match error {
        Errno::XDEV => Refusal::denied(codes::OUTSIDE, format!("{shown} leads out of the workspace")),
        // A link in /proc, or a loop of links.
        Errno::LOOP => Refusal::denied(codes::OUTSIDE, format!("{shown} is a link that cannot be followed beneath the workspace")),
        Errno::NOENT | Errno::NOTDIR => Refusal::NotFound { what: format!("the file {shown}") },
        Errno::NAMETOOLONG => Refusal::InvalidArgument { field: "path", problem: "is longer than a file's name can be".to_owned() },
        Errno::ACCESS | Errno::PERM => Refusal::Forbidden { who: "the workspace server".to_owned(), what: format!("read {shown}") },
        other => Refusal::BackendUnavailable(format!("{shown} cannot be read: {other}")),
    }
}
