//! From a line of text to a command with known options. Pure: nothing is run and no file is looked at.

use serde::{Deserialize, Serialize};

use super::commands::{COMMANDS, Command, DENIED, Opt, Reads, Value};
use crate::{
    text::{Pattern, head},
    tools::{
        server::Refusal,
        workspace::{codes, path, path::Relative},
    },
};

/// Bytes of a command line.
const MAX_COMMAND: usize = 2000;
/// What a shell would act on. There is none; whoever writes it means something that is not done here.
const METACHARACTERS: &[char] = &[';', '|', '&', '<', '>', '`', '$', '(', ')', '{', '}', '\n', '\r'];

static NUMBER: Pattern = Pattern::new(r"^[+-]?[0-9]{1,9}$");
static KEY: Pattern = Pattern::new(r"^[0-9]{1,4}(\.[0-9]{1,4})?[bfhnr]*(,[0-9]{1,4}(\.[0-9]{1,4})?[bfhnr]*)?$");
static SIZE: Pattern = Pattern::new(r"^[+-]?[0-9]{1,9}[bck]?$");
static FORMAT: Pattern = Pattern::new(r"^[%A-Za-z0-9 :._/,=+-]{1,100}$");

/// What will be run: words of ours, and paths that are still to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub(super) program: String,
    pub(super) options: Vec<String>,
    /// Beneath the workspace, none of which begins with a dash.
    pub(super) paths: Vec<String>,
    /// What follows the paths: `find`'s tests.
    pub(super) tests: Vec<String>,
    pub(super) reads: Reads,
    /// The files below the paths are given one by one, without those that are secret.
    pub(super) recursive: bool,
}

impl Plan {
    /// # Errors
    /// With the code of the guard that a word of it met.
    pub fn parse(line: &str) -> Result<Self, Refusal> {
        let bad = |problem: String| Refusal::InvalidArgument { field: "command", problem };
        if line.len() > MAX_COMMAND {
            return Err(bad(format!("is longer than {MAX_COMMAND} bytes")));
        }
        if let Some(c) = line.chars().find(|c| METACHARACTERS.contains(c)) {
            let message = format!(
                "command: {c:?} has no meaning here, since no shell reads the line: no pipes, redirection, chains or variables. A pattern with it: use search_files"
            );
            return Err(Refusal::denied(codes::METACHARACTER, message));
        }
        path::visible("command", line)?;
        let words = shell_words::split(line).map_err(|_| bad("has a quote that does not end".to_owned()))?;
        if let Some(word) = words.iter().find(|w| names_denied(w)) {
            return Err(Refusal::denied(codes::COMMAND, format!("command: {:?} is never run, nor named, here", head(word, 60))));
        }
        let (program, rest) = words.split_first().ok_or_else(|| bad(format!("is empty: give one of {}", names())))?;
        let command = COMMANDS
            .iter()
            .find(|c| c.name == program)
            .ok_or_else(|| Refusal::denied(codes::COMMAND, format!("command: {:?} is not one of the read-only commands: {}", head(program, 60), names())))?;
        let words = if command.expressions { split_expressions(command, rest)? } else { split_options(command, rest)? };
        words.into_plan(command)
    }

    /// The command as it is run, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        shell_words::join(std::iter::once(&self.program).chain(&self.options).chain(&self.paths).chain(&self.tests))
    }
}

/// The words of a command by what they are.
#[derive(Default)]
struct Words {
    options: Vec<String>,
    plain: Vec<String>,
    tests: Vec<String>,
    pattern: bool,
    recursive: bool,
}

impl Words {
    fn into_plan(mut self, command: &Command) -> Result<Plan, Refusal> {
        let bad = |problem: String| Refusal::InvalidArgument { field: "command", problem };
        if command.pattern && !self.pattern {
            if self.plain.is_empty() {
                return Err(bad(format!("{} needs a pattern", command.name)));
            }
            let pattern = self.plain.remove(0);
            self.options.extend(["-e".to_owned(), value_of(command, "-e", Value::Text, &pattern)?]);
        }
        if command.name == "date" && self.plain.len() == 1 && self.plain[0].starts_with('+') && FORMAT.is_match(&self.plain[0]) {
            self.options.append(&mut self.plain);
        }
        // As grep -r does: a match without its file is of no use.
        if self.recursive && !self.options.iter().any(|o| o == "-h" || o == "-H") {
            self.options.push("-H".to_owned());
        }
        let (least, most) = command.paths;
        // A listing of nothing named is one of the folder that it runs in.
        if self.plain.is_empty() && least == 0 && most > 0 || self.plain.is_empty() && self.recursive {
            self.plain.push(".".to_owned());
        }
        if self.plain.len() < least {
            return Err(bad(format!("{} needs a path: there is no input to read from", command.name)));
        }
        if self.plain.len() > most {
            return Err(bad(format!("{} takes at most {most} paths here, and {} were given", command.name, self.plain.len())));
        }
        let mut paths = vec![];
        for word in &self.plain {
            if word.contains(['*', '?', '[']) {
                return Err(bad(format!("{:?}: no shell expands it; use find -name, or grep -r", head(word, 60))));
            }
            let path = Relative::parse("command", word)?;
            let text = path.as_path().to_str().unwrap_or(".").to_owned();
            // Else a file named -o would be an option.
            paths.push(if text.starts_with('-') { format!("./{text}") } else { text });
        }
        Ok(Plan { program: command.name.to_owned(), options: self.options, paths, tests: self.tests, reads: command.reads, recursive: self.recursive })
    }
}

fn split_options(command: &Command, words: &[String]) -> Result<Words, Refusal> {
    let mut out = Words::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            out.plain.extend(words.cloned());
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, given) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v.to_owned())));
            let option = command.options.iter().find(|o| !o.long.is_empty() && o.long == name).ok_or_else(|| denied(command, word))?;
            take(command, option, word, given, &mut words, &mut out)?;
        } else if let Some(short) = word.strip_prefix('-').filter(|s| !s.is_empty()) {
            if command.dash_number && short.bytes().all(|b| b.is_ascii_digit()) {
                out.options.extend(["-n".to_owned(), value_of(command, word, Value::Number, short)?]);
                continue;
            }
            for (at, letter) in short.char_indices() {
                let option = command.options.iter().find(|o| o.name.chars().eq([letter])).ok_or_else(|| denied(command, word))?;
                if matches!(option.value, Value::None) {
                    take(command, option, word, None, &mut words, &mut out)?;
                } else {
                    let glued = &short[at + letter.len_utf8()..];
                    take(command, option, word, (!glued.is_empty()).then(|| glued.to_owned()), &mut words, &mut out)?;
                    break;
                }
            }
        } else {
            out.plain.push(word.clone());
        }
    }
    Ok(out)
}

fn take<'a>(
    command: &Command,
    option: &Opt,
    word: &str,
    given: Option<String>,
    words: &mut impl Iterator<Item = &'a String>,
    out: &mut Words,
) -> Result<(), Refusal> {
    // What grep would walk by itself is walked by us.
    if command.pattern && option.name == "r" {
        if given.is_some() {
            return Err(denied(command, word));
        }
        out.recursive = true;
        return Ok(());
    }
    match option.value {
        Value::None if given.is_some() => return Err(denied(command, word)),
        Value::None => out.options.push(format!("-{}", option.name)),
        kind => {
            let value = given.or_else(|| words.next().cloned()).ok_or_else(|| needs(command, word))?;
            out.options.extend([format!("-{}", option.name), value_of(command, word, kind, &value)?]);
        }
    }
    out.pattern |= option.name == "e";
    Ok(())
}

fn split_expressions(command: &Command, words: &[String]) -> Result<Words, Refusal> {
    let mut out = Words::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next_if(|w| !w.starts_with('-') && *w != "!") {
        out.plain.push(word.clone());
    }
    // GNU's find wants its depth before its tests, and takes it for the whole search wherever it stands.
    let mut depths = vec![];
    while let Some(word) = words.next() {
        if word == "!" || word == "-not" {
            if words.peek().is_none() {
                return Err(needs(command, word));
            }
            out.tests.push("!".to_owned());
            continue;
        }
        let option = word.strip_prefix('-').and_then(|name| command.options.iter().find(|o| o.name == name)).ok_or_else(|| denied(command, word))?;
        let list = if option.name.ends_with("depth") { &mut depths } else { &mut out.tests };
        list.push(word.clone());
        if !matches!(option.value, Value::None) {
            let value = words.next().ok_or_else(|| needs(command, word))?;
            list.push(value_of(command, word, option.value, value)?);
        }
    }
    depths.append(&mut out.tests);
    out.tests = depths;
    Ok(out)
}

fn value_of(command: &Command, word: &str, kind: Value, value: &str) -> Result<String, Refusal> {
    let (ok, wanted) = match kind {
        Value::None => (false, "nothing".to_owned()),
        Value::Number => (NUMBER.is_match(value), "a number".to_owned()),
        Value::Text => (!value.is_empty() && value.len() <= 512, "a text of at most 512 bytes".to_owned()),
        Value::Key => (KEY.is_match(value), "a key such as 2n,3".to_owned()),
        Value::Char => (value.chars().count() == 1, "one character".to_owned()),
        Value::Format => (FORMAT.is_match(value), "a format such as '%n %s'".to_owned()),
        Value::Size => (SIZE.is_match(value), "a size such as +100k".to_owned()),
        Value::Letter(letters) => (value.len() == 1 && letters.contains(value), format!("one of the letters {letters}")),
    };
    if ok {
        return Ok(value.to_owned());
    }
    Err(Refusal::InvalidArgument { field: "command", problem: format!("{} {}: {:?} is not {wanted}", command.name, head(word, 40), head(value, 60)) })
}

fn needs(command: &Command, word: &str) -> Refusal {
    Refusal::InvalidArgument { field: "command", problem: format!("{} {}: a value is missing", command.name, head(word, 40)) }
}

fn denied(command: &Command, word: &str) -> Refusal {
    let known: Vec<String> = command.options.iter().map(|o| format!("-{}", o.name)).collect();
    Refusal::denied(codes::OPTION, format!("command: {} is not run with {:?}; its options here: {}", command.name, head(word, 60), known.join(" ")))
}

/// The program that a word names, whatever folder and letters it is written with.
fn names_denied(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word).to_ascii_lowercase();
    DENIED.contains(&name.as_str())
}

fn names() -> String {
    COMMANDS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ")
}
