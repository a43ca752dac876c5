//! A command as people write it.

use std::fmt;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// A program and its arguments. No shell is involved: quotes hold words together, nothing else is special.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    words: Vec<String>,
}

/// Arguments may hold secrets: only the program is shown.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.words[0]).finish()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words[0])
    }
}

impl Program {
    /// Splits into words as a shell would; says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = shell_words::split(text).map_err(|_| "a quote is not closed".to_string())?;
        match words.first() {
            Some(first) if !first.is_empty() => Ok(Self { words }),
            _ => Err("names no program: write a command, such as 'python3 handler.py'".into()),
        }
    }

    /// Whether there is such a program now; what is wrong otherwise. A typing error should not wait for the first message.
    pub fn find(&self) -> Result<(), String> {
        let name = &self.words[0];
        let found = if name.contains('/') {
            is_executable(Path::new(name))
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| is_executable(&directory.join(name)))
        };
        if found {
            return Ok(());
        }
        Err(format!(
            "there is no program '{name}': the command is not run by a shell, so that pipes, variables and built-ins need \
             sh -c '…'"
        ))
    }

    /// Everything piped but stdout, which is ours.
    pub(in crate::app) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// Where a generator's lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Program(Program),
    Stdin,
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together_and_nothing_is_expanded() {
        let program = Program::parse(r#"sh -c 'echo "$HOME" | cat' a\ b"#).unwrap();
        assert_eq!(program.words, ["sh", "-c", r#"echo "$HOME" | cat"#, "a b"]);
        assert_eq!(program.find(), Ok(()));
        for wrong in ["", "   ", "''", "sh -c 'x"] {
            assert!(Program::parse(wrong).is_err(), "{wrong}");
        }
        for missing in ["no-such-program-here", "/etc/passwd", "./no/such"] {
            let said = Program::parse(missing).unwrap().find().unwrap_err();
            assert!(said.contains(missing), "{said}");
        }
    }

    #[test]
    fn arguments_are_not_shown() {
        let program = Program::parse("curl -u me:secret").unwrap();
        assert!(!format!("{program:?} {program}").contains("secret"));
    }
}
