//! A mounted folder: `*.md` in it are shared, `<tenant>/*.md` are that tenant's own.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::book::Book;
use crate::tools::server::object_name;

/// Files of one folder that are looked at.
const MAX_FILES: usize = 1000;
/// Bytes of one file, as the CRD bounds a body.
const MAX_FILE: u64 = 65_536;

#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

/// What one folder held.
#[derive(Debug, Default)]
pub struct Shelf {
    pub books: Vec<Book>,
    /// Files that are no runbooks, and why.
    pub skipped: Vec<String>,
    pub cut: bool,
}

impl Folder {
    /// # Errors
    /// When it is no folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let root = path.canonicalize()?;
        if !root.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no folder"));
        }
        Ok(Self { root })
    }

    /// The runbooks of a tenant, or with None the shared ones, which are said to be kept in `namespace`.
    pub fn read(&self, tenant: Option<&str>, namespace: &str) -> io::Result<Shelf> {
        let folder = tenant.map_or_else(|| self.root.clone(), |t| self.root.join(t));
        let mut found = Shelf::default();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        let mut names: Vec<String> = entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter(|n| Path::new(n).extension().is_some_and(|e| e == "md") && !n.starts_with('.'))
            .collect();
        names.sort_unstable();
        found.cut = names.len() > MAX_FILES;
        for file in names.into_iter().take(MAX_FILES) {
            let name = file.trim_end_matches(".md").to_lowercase().replace([' ', '_'], "-");
            let book = object_name("name", &name)
                .map_err(|_| "its name is none such as redis-is-down.md".to_owned())
                .and_then(|name| Book::of_file(namespace, &name, &self.text(&folder.join(&file))?));
            match book {
                Ok(book) => found.books.push(book),
                Err(why) => found.skipped.push(format!("{file}: {why}")),
            }
        }
        Ok(found)
    }

    /// A mounted ConfigMap is made of links, which end within the mount.
    fn text(&self, path: &Path) -> Result<String, String> {
        let real = path.canonicalize().map_err(|e| e.to_string())?;
        if !real.starts_with(&self.root) {
            return Err("it is a link out of the folder".to_owned());
        }
        if !real.metadata().map_err(|e| e.to_string())?.is_file() {
            return Err("it is no file".to_owned());
        }
        let mut text = String::new();
        let read = fs::File::open(&real).and_then(|f| f.take(MAX_FILE + 1).read_to_string(&mut text)).map_err(|e| e.to_string())?;
        if read as u64 > MAX_FILE {
            return Err(format!("it is longer than {MAX_FILE} bytes"));
        }
        Ok(text)
    }
}
