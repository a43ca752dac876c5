//! What strangers put into payloads and errors, on its way to a terminal.

use queenright::app::output::failed::{json_line, text_line};
use queenright::app::output::log::line::{Field, Level, LineFormat};
use queenright::engine::Failed;
use queenright::event::escape;
use serde_json::Value;

const WORDS: [&[u8]; 9] = [
    b"\x1b[2J",
    b"\x1b]0;title\x07",
    b"\r\n",
    b"\"",
    b"\\",
    "\u{9b}31m".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{2028}".as_bytes(),
    "é🐝".as_bytes(),
];

fn harmless(text: &str) {
    assert!(!text.chars().any(char::is_control), "{text:?}");
    let reorders = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!text.chars().any(reorders), "{text:?}");
}

fn one_harmless_line(text: &str) {
    harmless(text.strip_suffix('\n').expect("a whole line"));
}

#[test]
fn no_control_character_comes_out_of_the_escaper_the_log_or_get_errors() {
    super::fuzz("terminal", &WORDS, |input| {
        let escaped = escape(input);
        harmless(&escaped);
        assert_eq!(escape(escaped.as_bytes()), escaped, "what is harmless stays as it is");
        let lossy = String::from_utf8_lossy(input);

        let failed = Failed {
            number: input.len() as u64,
            deliveries: 1,
            failures: 0,
            epoch: 1,
            published_ms: 0,
            time_ms: u64::from_le_bytes(std::array::from_fn(|i| input.get(i).copied().unwrap_or(0))),
            node: lossy.to_string(),
            error: input.to_vec(),
            group: Some(String::from_utf8_lossy(input).into_owned()),
            asked: false,
            expires_ms: None,
            headers: [("name", String::from_utf8_lossy(input))].into_iter().collect(),
            payload: input.to_vec(),
        };
        let mut line = String::new();
        text_line(&mut line, &failed);
        one_harmless_line(&line);
        line.clear();
        json_line(&mut line, &failed);
        one_harmless_line(&line);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["error"], *lossy);
        assert_eq!(read["node"], *lossy);
        match std::str::from_utf8(input) {
            Ok(text) => assert_eq!(read["payload"], text),
            Err(_) => assert!(read["payload_base64"].is_string()),
        }

        let fields = [("payload", Field::Bytes(input)), ("error", Field::Text(&lossy))];
        for format in [LineFormat::Text { colour: false }, LineFormat::Json] {
            line.clear();
            format.line(&mut line, "now", Level::Error, "error", &fields);
            one_harmless_line(&line);
        }
        (
            escaped.len() > input.len(),
            input.is_ascii(),
            std::str::from_utf8(input).is_ok(),
        )
    });
}
