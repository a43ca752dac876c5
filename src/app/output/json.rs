//! JSON as logs and commands write it: valid, and safe to look at on a terminal.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

use crate::app::base64;
use crate::node::event::escape;

/// Appends `"key":"text"`, after a comma if something stands before it.
pub fn text(out: &mut String, key: &str, text: &str) {
    name(out, key);
    string(out, text);
}

/// Appends `"key":number`, after a comma if something stands before it.
pub fn number(out: &mut String, key: &str, number: u64) {
    name(out, key);
    // Writing to a String cannot fail.
    let _ = write!(out, "{number}");
}

/// Appends bytes as `"key"` where they are text, as `"key_base64"` where they are not.
pub fn bytes(out: &mut String, key: &str, bytes: &[u8]) {
    if let Ok(utf8) = std::str::from_utf8(bytes) {
        text(out, key, utf8);
    } else {
        text(out, &format!("{key}_base64"), &base64::encode(bytes));
    }
}

/// A text as JSON writes it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    string(&mut out, text);
    out
}

/// A value as JSON that is safe to look at on a terminal.
pub fn for_terminal(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut out, ForTerminal);
    value
        .serialize(&mut writer)
        .expect("keys are texts, and numbers are numbers");
    String::from_utf8(out).expect("JSON is text")
}

struct ForTerminal;

impl Formatter for ForTerminal {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut escaped = String::new();
        inner(&mut escaped, fragment);
        out.write_all(escaped.as_bytes())
    }

    fn write_char_escape<W: io::Write + ?Sized>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Quote => out.write_all(b"\\\""),
            CharEscape::ReverseSolidus => out.write_all(b"\\\\"),
            CharEscape::LineFeed => out.write_all(b"\\n"),
            CharEscape::Solidus => out.write_all(b"/"),
            CharEscape::Backspace => out.write_all(b"\\u0008"),
            CharEscape::FormFeed => out.write_all(b"\\u000c"),
            CharEscape::CarriageReturn => out.write_all(b"\\u000d"),
            CharEscape::Tab => out.write_all(b"\\u0009"),
            CharEscape::AsciiControl(byte) => write!(out, "\\u{byte:04x}"),
        }
    }
}

fn name(out: &mut String, key: &str) {
    if !out.ends_with(['{', '[', ',']) {
        out.push(',');
    }
    string(out, key);
    out.push(':');
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    inner(out, text);
    out.push('"');
}

/// Whatever could disturb a terminal becomes `\u`, which JSON readers turn back into the same character.
fn inner(out: &mut String, text: &str) {
    let harmless = matches!(escape(text.as_bytes()), Cow::Borrowed(_));
    if harmless && !text.contains(['"', '\\']) {
        out.push_str(text);
    } else {
        for c in text.chars() {
            let mut utf8 = [0; 4];
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                _ if matches!(escape(c.encode_utf8(&mut utf8).as_bytes()), Cow::Borrowed(_)) => out.push(c),
                _ => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_nothing_disturbs_the_terminal() {
        let mut wild: String = (0..0x300u32).filter_map(char::from_u32).collect();
        wild.push_str("\u{202e}\u{feff}🐝\"\\");
        let mut out = String::from("{");
        text(&mut out, "a", &wild);
        number(&mut out, "n", u64::MAX);
        bytes(&mut out, "payload", b"\xff");
        out.push('}');
        assert!(!out.chars().any(char::is_control) && !out.contains('\u{202e}'));
        let read: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(read["a"], wild.as_str());
        assert_eq!(for_terminal(&wild), quoted(&wild), "both writers escape alike");
        assert_eq!(read["n"], u64::MAX);
        assert_eq!(read["payload_base64"], "/w==");
    }
}
