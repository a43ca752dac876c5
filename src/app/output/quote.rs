//! Values in lines of text, written so that a line is read in exactly one way, whatever is in the values.
//!
//! A value stands as it is, or in double quotes. In quotes, a backslash begins an escape: `\\`, `\"`, `\n`, `\r`, `\t`,
//! `\u{…}` for characters that control, reorder or hide, `\xNN` for bytes that are no text. Nothing else is special.

use std::fmt::Write as _;

use crate::node::event::is_disguise;

/// In quotes where it has to be.
pub fn value(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(is_plain) => out.push_str(text),
        _ => quoted(out, bytes),
    }
}

/// In quotes.
pub fn quoted(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if c.is_control() || is_disguise(c) => out.extend(c.escape_default()),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
}

/// Neither ends a value nor begins another, and is seen as it is.
fn is_plain(c: char) -> bool {
    !matches!(c, '"' | '=' | '\\') && !c.is_whitespace() && !c.is_control() && !is_disguise(c)
}

/// Reads a line back into its parts; what is before `=` is a name.
#[cfg(test)]
pub(super) mod read {
    /// The parts of a line in their order: a name, which may be empty, and a value.
    pub(in crate::app::output) fn parts(line: &str) -> Vec<(String, Vec<u8>)> {
        let mut rest = line;
        let mut parts = Vec::new();
        loop {
            let end = rest.find([' ', '"', '=']).unwrap_or(rest.len());
            let named = rest[end..].starts_with('=');
            let name = if named { rest[..end].to_string() } else { String::new() };
            rest = if named { &rest[end + 1..] } else { rest };
            let (value, after) = if let Some(inside) = rest.strip_prefix('"') {
                unquoted(inside)
            } else {
                let (value, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
                assert!(!value.contains(['"', '=', '\\']), "{line}");
                (value.into(), after)
            };
            parts.push((name, value));
            if after.is_empty() {
                return parts;
            }
            rest = after.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
        }
    }

    fn unquoted(text: &str) -> (Vec<u8>, &str) {
        let mut value = Vec::new();
        let mut rest = text;
        loop {
            let c = rest.chars().next().expect("the quote is closed");
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => return (value, rest),
                '\\' => {
                    let (bytes, after) = escaped(rest);
                    value.extend(bytes);
                    rest = after;
                }
                c => value.extend(c.to_string().bytes()),
            }
        }
    }

    fn escaped(text: &str) -> (Vec<u8>, &str) {
        let byte = match text.as_bytes()[0] {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => return (vec![u8::from_str_radix(&text[1..3], 16).unwrap()], &text[3..]),
            b'u' => {
                let (code, after) = text[2..].split_once('}').unwrap();
                let c = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
                return (c.to_string().into(), after);
            }
            other => other,
        };
        (vec![byte], &text[1..])
    }
}

#[cfg(test)]
pub(super) mod hostile {
    /// Bytes of the kind that would break a line: special characters, halves of them, and what looks like a field.
    pub(in crate::app::output) fn bytes(random: &mut fastrand::Rng) -> Vec<u8> {
        const PIECES: [&[u8]; 24] = [
            b"",
            b"a",
            b" ",
            b"\"",
            b"\\",
            b"=",
            b"\n",
            b"\r",
            b"\t",
            b"\x1b[2J",
            b"\0",
            b"\xff",
            b"\xe2\x80",
            b"\xc2\x85",
            "\u{2028}".as_bytes(),
            "\u{202e}".as_bytes(),
            "\u{61c}".as_bytes(),
            "\u{a0}".as_bytes(),
            "\u{e0041}".as_bytes(),
            "\u{1f41d}".as_bytes(),
            b" number=9",
            b"\" error=\"none",
            b"\\x41",
            b"\\u{41}",
        ];
        (0..random.usize(..6))
            .flat_map(|_| PIECES[random.usize(..PIECES.len())])
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_is_read_back_and_nothing_unseen_is_in_it() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let all: Vec<Vec<u8>> = (0..3).map(|_| hostile::bytes(&mut random)).collect();
            let mut line = String::new();
            value(&mut line, &all[0]);
            line.push_str(" one=");
            value(&mut line, &all[1]);
            line.push_str(" two=");
            quoted(&mut line, &all[2]);
            let names = ["", "one", "two"].map(String::from);
            let wanted: Vec<(String, Vec<u8>)> = names.into_iter().zip(all).collect();
            assert_eq!(read::parts(&line), wanted, "seed {seed}: {line}");
            assert!(
                !line.chars().any(|c| c.is_control() || is_disguise(c)),
                "seed {seed}: {line}"
            );
        }
    }
}
