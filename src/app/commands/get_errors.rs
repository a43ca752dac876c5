//! `get-errors`: prints the failed messages and removes them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

use super::Failure;
use crate::api::failed::{collect, peek};
use crate::app::args::GetErrors;
use crate::app::output::json;
use crate::engine::{Engine, Failed};
use crate::node::event::escape;

pub(super) async fn run<E: Engine>(engine: Arc<E>, flags: &GetErrors) -> Result<(), Failure> {
    engine.check().await?;
    let json = flags.json;
    let mut buffer = String::new();
    let show = move |failed: &[Failed]| -> io::Result<()> {
        buffer.clear();
        for each in failed {
            if json {
                json_line(&mut buffer, each);
            } else {
                text_line(&mut buffer, each);
            }
        }
        let mut out = io::stdout().lock();
        out.write_all(buffer.as_bytes())?;
        out.flush()
    };
    if flags.keep {
        peek(engine, flags.limit, show).await?;
    } else {
        collect(engine, flags.limit, show).await?;
    }
    Ok(())
}

/// The message first; everything on one line, whatever it contains.
pub fn text_line(out: &mut String, failed: &Failed) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{} number={} attempt={} error=\"{}\" node={} time={}",
        escape(&failed.payload),
        failed.number,
        failed.attempt,
        escape(&failed.error).replace('"', "\\\""),
        escape(failed.node.as_bytes()),
        utc(failed.time_ms),
    );
}

pub fn json_line(out: &mut String, failed: &Failed) {
    let mut line = String::from("{");
    json::number(&mut line, "number", failed.number);
    json::bytes(&mut line, "payload", &failed.payload);
    json::text(&mut line, "error", &String::from_utf8_lossy(&failed.error));
    json::number(&mut line, "attempt", failed.attempt.into());
    json::number(&mut line, "failures", failed.failures.into());
    json::text(&mut line, "node", &failed.node);
    json::text(&mut line, "time", &utc(failed.time_ms));
    line.push_str("}\n");
    out.push_str(&line);
}

pub(super) fn utc(ms: u64) -> String {
    let time = i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| ms.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_with_escapes_stays_on_one_harmless_line() {
        let failed = Failed {
            number: 7,
            attempt: 2,
            failures: 0,
            epoch: 1,
            published_ms: 0,
            time_ms: 1_763_197_200_123,
            node: "n".into(),
            error: b"bad \"thing\"\x1b[2J\n".to_vec(),
            payload: b"\x1b]0;x\x07\xff".to_vec(),
        };
        let mut text = String::new();
        text_line(&mut text, &failed);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.trim_end().chars().any(char::is_control), "{text}");
        assert!(text.ends_with("node=n time=2025-11-15T09:00:00.123Z\n"), "{text}");
        let mut line = String::new();
        json_line(&mut line, &failed);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["error"], "bad \"thing\"\u{1b}[2J\n");
        assert!(read.get("payload").is_none() && read["payload_base64"].is_string());
    }
}
