//! JSON as logs and commands write it: valid, and safe to look at on a terminal.

use std::borrow::Cow;
use std::fmt::Write;

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
        text(out, &format!("{key}_base64"), &base64(bytes));
    }
}

/// A text as JSON writes it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    string(&mut out, text);
    out
}

fn name(out: &mut String, key: &str) {
    if !out.ends_with(['{', '[', ',']) {
        out.push(',');
    }
    string(out, key);
    out.push(':');
}

/// Whatever could disturb a terminal becomes `\u`, which JSON readers turn back into the same character.
fn string(out: &mut String, text: &str) {
    out.push('"');
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
    out.push('"');
}

#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= chunk.len() {
                out.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// The bytes that [`bytes`] wrote as base64; none if it is no such text.
#[must_use]
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.iter().rposition(|c| *c != b'=').map_or(0, |last| last + 1);
    if text.len() - digits > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for c in &text[..digits] {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).expect("eight bits"));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_the_standard_has_it() {
        for (bytes, wanted) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), wanted);
            assert_eq!(from_base64(wanted).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfb]), "//77");
        assert_eq!(from_base64("//77"), Some(vec![0xff, 0xfe, 0xfb]));
        for wrong in ["Zg", "Zg=", "Z===", "Zg==Zg==", "Z g=", "Zé=="] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

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
        assert_eq!(read["n"], u64::MAX);
        assert_eq!(read["payload_base64"], "/w==");
    }
}
