//! What this process knows and does not pass on: children do not inherit it, and what they print is checked for it.
//!
//! A child that is to have a variable all the same gets it by `--pass-env`. Payloads and effects are data, and stay as they are.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::Arc;

use tokio::process::Command;

use crate::app::args::options;
use crate::app::args::sources::{Handling, Resolved, Store};
use crate::app::args::token::{Token, Tokens};
use crate::app::systemd;
use crate::node::event::escape;
use crate::node::handle::Failure;

/// What is shorter is found in any text: words would be hidden, and no secret.
const BYTES_MIN: usize = 8;
const IN_ITS_PLACE: &[u8] = b"***";

/// Passwords and tokens, and the names of the variables that may hold them. Has no `Debug`.
#[derive(Clone, Default)]
pub struct Secrets {
    withheld: Arc<[OsString]>,
    /// In every form in which they may be printed, the longest first.
    texts: Arc<[Vec<u8>]>,
}

impl Secrets {
    /// What this process was told. The tokens are those that are asked for, wherever they were found.
    #[must_use]
    pub fn of(resolved: &Resolved, tokens: &Tokens) -> Self {
        let names = std::env::vars_os().map(|(name, _)| name);
        let is_withheld = |name: &OsString| {
            let name = name.to_string_lossy();
            let is_ours = options::is_about_secrets(&name) || systemd::VARIABLES.contains(&&*name);
            is_ours && !resolved.pass_env.iter().any(|passed| *passed == name)
        };
        let others = resolved.others.iter().map(|(store, _)| store);
        let passwords = std::iter::once(&resolved.store)
            .chain(others)
            .flat_map(|store| match store {
                Store::Redis(place) => place.passwords(),
                Store::Sqlite(_) => Vec::new(),
            });
        let service = match &resolved.handle {
            Handling::Http(url) => url.authorization.as_ref(),
            _ => None,
        };
        let credentials = service.and_then(|header| header.to_str().ok()?.strip_prefix("Basic "));
        let tokens = resolved.tokens.iter().chain(tokens.iter()).map(Token::expose);
        Self {
            withheld: names.filter(is_withheld).collect(),
            texts: forms(passwords.chain(credentials).chain(tokens)),
        }
    }

    /// Lets a command start without them.
    pub(super) fn keep_from(&self, command: &mut Command) {
        for name in &*self.withheld {
            command.env_remove(name);
        }
    }

    /// The longest text that is looked for.
    pub(super) fn longest(&self) -> usize {
        self.texts.first().map_or(0, Vec::len)
    }

    /// How many of the last bytes may be the beginning of a secret.
    pub(super) fn begun(&self, bytes: &[u8]) -> usize {
        let ends_with = |length: &usize| {
            let end = &bytes[bytes.len() - length..];
            self.texts
                .iter()
                .any(|text| text.len() > *length && text.starts_with(end))
        };
        (1..=bytes.len().min(self.longest())).rev().find(ends_with).unwrap_or(0)
    }

    /// The same with stars in the place of each secret.
    pub(super) fn hide<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut shown = Cow::Borrowed(bytes);
        for text in &*self.texts {
            let find = |bytes: &[u8]| bytes.windows(text.len()).position(|window| window == text.as_slice());
            let mut from = 0;
            while let Some(at) = find(&shown[from..]) {
                let at = from + at;
                shown.to_mut().splice(at..at + text.len(), IN_ITS_PLACE.iter().copied());
                from = at + IN_ITS_PLACE.len();
            }
        }
        shown
    }

    pub(super) fn hide_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.hide(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// The text of a failure is stored, and shown to all who may see the errors.
    #[must_use]
    pub fn hide_failure(&self, failure: Failure) -> Failure {
        let hide = |text: String| self.hide_text(&text).into_owned();
        match failure {
            Failure::Error(error) => Failure::Error(hide(error)),
            Failure::Retry { error, after } => {
                let error = hide(error);
                Failure::Retry { error, after }
            }
        }
    }
}

/// As it is, in a URL, in JSON, and as we print it.
fn forms<'a>(secrets: impl Iterator<Item = &'a str>) -> Arc<[Vec<u8>]> {
    let mut forms: Vec<Vec<u8>> = Vec::new();
    for secret in secrets.filter(|secret| secret.len() >= BYTES_MIN) {
        let json = serde_json::Value::from(secret).to_string();
        forms.push(secret.into());
        forms.push(in_url(secret).into());
        forms.push(json[1..json.len() - 1].into());
        forms.push(escape(secret.as_bytes()).into_owned().into());
    }
    forms.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    forms.dedup();
    forms.into()
}

fn in_url(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
impl Secrets {
    pub(super) fn these(secrets: &[&str]) -> Self {
        Self {
            withheld: Arc::default(),
            texts: forms(secrets.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_in_every_form_and_a_short_one_in_none() {
        let secrets = Secrets::these(&["p@ss \"word\"", "short"]);
        for (text, shown) in [
            ("AUTH p@ss \"word\" p@ss \"word\"!", "AUTH *** ***!"),
            ("redis://:p%40ss%20%22word%22@db", "redis://:***@db"),
            (r#"{"pass":"p@ss \"word\""}"#, r#"{"pass":"***"}"#),
            ("a short p@ss", "a short p@ss"),
            ("", ""),
        ] {
            assert_eq!(secrets.hide_text(text), shown);
        }
        let failure = Failure::retry("no: p@ss \"word\"");
        assert_eq!(secrets.hide_failure(failure), Failure::retry("no: ***"));
        assert_eq!(Secrets::default().hide_text("any"), "any");
    }

    #[test]
    fn a_beginning_at_the_end_is_noticed() {
        let secrets = Secrets::these(&["0123456789"]);
        assert_eq!(secrets.begun(b"abc0123"), 4);
        assert_eq!(secrets.begun(b"abc"), 0);
        assert_eq!(secrets.begun(b"01234567890"), 1, "whole ones are hidden, and not begun");
        assert_eq!(secrets.begun(b""), 0);
    }
}
