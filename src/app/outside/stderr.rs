//! A child's stderr: logged line by line, and the last of it kept for the text of an error.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::Tell;
use crate::node::event::escape;

/// Longer lines are logged in pieces.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// So much of the end is kept.
const KEPT_BYTES: usize = 1024;

/// The last that was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Last(Arc<Mutex<Vec<u8>>>);

impl Last {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let over = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..over);
    }

    /// The text with what was said after it, behind these words; the text alone if nothing was said.
    pub(super) fn after(&self, text: String, words: &str) -> String {
        let said = self.text();
        if said.is_empty() {
            text
        } else {
            format!("{text}{words}{said}")
        }
    }

    /// As one line that is safe to print; nothing, if nothing was said.
    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept.trim_ascii().split(|byte| *byte == b'\n');
        let lines: Vec<_> = lines.map(|line| escape(line.trim_ascii_end())).collect();
        lines.join(" / ")
    }
}

/// Listens until the other end is closed by all who have it.
pub(super) async fn listen(mut stderr: impl AsyncRead + Unpin, last: Last, tell: Tell) {
    let mut buffer = Vec::with_capacity(LINE_BYTES_MAX);
    loop {
        let before = buffer.len();
        let room = (LINE_BYTES_MAX - before) as u64;
        match (&mut stderr).take(room).read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => last.add(&buffer[before..]),
        }
        let mut told = 0;
        while let Some(end) = buffer[told..].iter().position(|byte| *byte == b'\n') {
            tell("stderr", &String::from_utf8_lossy(&buffer[told..told + end]));
            told += end + 1;
        }
        buffer.drain(..told);
        if buffer.len() >= LINE_BYTES_MAX {
            tell("stderr", &String::from_utf8_lossy(&buffer));
            buffer.clear();
        }
    }
    if !buffer.is_empty() {
        tell("stderr", &String::from_utf8_lossy(&buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_told_one_by_one_and_the_end_is_kept() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = told.clone();
        let tell: Tell = Arc::new(move |_, text| heard.lock().unwrap().push(text.into()));
        let last = Last::default();
        let long = "x".repeat(10_000);
        listen(format!("one\n{long}\n\x1b[31mred\nlast").as_bytes(), last.clone(), tell).await;
        let told = told.lock().unwrap();
        assert_eq!(told.concat(), format!("one{long}\u{1b}[31mredlast"));
        assert!(told.iter().all(|line| line.len() <= LINE_BYTES_MAX));
        let text = last.text();
        assert!(text.ends_with("x / \\u{1b}[31mred / last"), "{text}");
        assert!(text.len() < 2 * KEPT_BYTES);
    }
}
