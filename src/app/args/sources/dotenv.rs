//! Files of variables, as docker, shells and frameworks write them: `NAME=value`, `export NAME='value'`, comments.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::CharIndices;

/// A line that cannot be read. Does not repeat it, since it may hold a password.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    pub line: usize,
    pub reason: &'static str,
}

/// The variables of a file; of a repeated one, the last.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, Wrong> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |reason| Wrong {
            line: index + 1,
            reason,
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = match line.strip_prefix("export") {
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
            _ => line,
        };
        let (name, rest) = line.split_once('=').ok_or_else(|| wrong("write NAME=value"))?;
        let name = name.trim_end();
        if !is_name(name) {
            return Err(wrong("a name has only letters, digits and _, and no digit first"));
        }
        variables.insert(name.to_string(), value(rest.trim_start()).map_err(wrong)?);
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn value(text: &str) -> Result<String, &'static str> {
    let mut chars = text.char_indices().peekable();
    let (value, end) = match chars.next() {
        Some((_, '\'')) => {
            let end = text[1..].find('\'').ok_or("the single quote is not closed")? + 1;
            (text[1..end].to_string(), end + 1)
        }
        Some((_, '"')) => quoted(&mut chars)?,
        _ => return Ok(bare(text)),
    };
    let rest = text[end..].trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(value)
    } else {
        Err("there is text after the closing quote")
    }
}

/// Without quotes a value ends at a comment, which needs white space before it: `a#b` is a value.
fn bare(text: &str) -> String {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if c == '#' && before.is_whitespace() {
            return text[..at].trim_end().to_string();
        }
        before = c;
    }
    text.to_string()
}

fn quoted(chars: &mut Peekable<CharIndices<'_>>) -> Result<(String, usize), &'static str> {
    let mut value = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, at + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c @ ('"' | '\\' | '$' | '\''))) => value.push(c),
                Some((_, c)) => value.extend(['\\', c]),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err("the double quote is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_way_to_write_a_variable_is_read() {
        let text = "\u{feff}# first\r\n\r\nA=1\r\nexport B = two words # not this\r\nC='it''\n";
        assert_eq!(parse(text).unwrap_err().line, 5);
        let text = "\u{feff}# first\r\n\r\nA=1\r\nexport B = two words # not this\r\nC='a # \\n b' # c\r\n\
                    D=\"q\\\" n\\n t\\t s\\\\ d\\$ x\\x\"\nE=\nF=a#b\nG=x=y==\n  H=\"\"\nexport\tI=i\nexported=j\nA=2\nK=#";
        let wanted = [
            ("A", "2"),
            ("B", "two words"),
            ("C", "a # \\n b"),
            ("D", "q\" n\n t\t s\\ d$ x\\x"),
            ("E", ""),
            ("F", "a#b"),
            ("G", "x=y=="),
            ("H", ""),
            ("I", "i"),
            ("exported", "j"),
            ("K", ""),
        ];
        let wanted = wanted.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(parse(text), Ok(BTreeMap::from(wanted)));
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number_and_not_repeated() {
        for (text, line) in [
            ("A=1\nsecret", 2),
            ("\n\n1A=secret", 3),
            ("A B=secret", 1),
            ("=secret", 1),
            ("A='secret", 1),
            ("A=\"secret", 1),
            ("A=\"secret\\", 1),
            ("A=\"secret\" more", 1),
            ("A='ü'é", 1),
        ] {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.line, line, "{text}");
            assert!(!wrong.reason.contains("secret"));
        }
    }
}
