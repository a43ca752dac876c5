//! A child's stderr: logged line by line, and the last of it kept for the text of an error. Both without our secrets.

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
pub(super) struct Last(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    lines: Vec<u8>,
    /// What has no end yet.
    rest: Vec<u8>,
}

impl Last {
    fn note(&self, lines: &[u8], rest: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.lines.extend_from_slice(lines);
        said.rest = rest.into();
        let over = said.lines.len().saturating_sub(KEPT_BYTES);
        said.lines.drain(..over);
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
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = [said.lines.as_slice(), &said.rest].concat();
        let kept = &all[all.len().saturating_sub(KEPT_BYTES)..];
        let lines = kept.trim_ascii().split(|byte| *byte == b'\n');
        let lines: Vec<_> = lines.map(|line| escape(line.trim_ascii_end())).collect();
        lines.join(" / ")
    }
}

/// Listens until the other end is closed by all who have it.
pub(super) async fn listen(mut stderr: impl AsyncRead + Unpin, last: Last, tell: Tell) {
    let secrets = &tell.secrets;
    let say = |lines: &[u8], rest: &[u8]| {
        let lines = secrets.hide(lines);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            tell.say(
                "stderr",
                &String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]),
            );
            for piece in line.chunks(LINE_BYTES_MAX).skip(1) {
                tell.say("stderr", &String::from_utf8_lossy(piece));
            }
        }
        last.note(&lines, &secrets.hide(rest));
    };
    let most = LINE_BYTES_MAX + secrets.longest();
    let mut buffer = Vec::with_capacity(most);
    loop {
        let room = (most - buffer.len()) as u64;
        if let Ok(0) | Err(_) = (&mut stderr).take(room).read_buf(&mut buffer).await {
            break;
        }
        let end = match buffer.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // What may be the beginning of a secret waits for the rest.
            None if buffer.len() >= LINE_BYTES_MAX => buffer.len() - secrets.begun(&buffer),
            None => 0,
        };
        say(&buffer[..end], &buffer[end..]);
        buffer.drain(..end);
    }
    say(&buffer, &[]);
}

#[cfg(test)]
mod tests {
    use super::super::Secrets;
    use super::*;

    #[tokio::test]
    async fn a_secret_is_neither_told_nor_kept_wherever_lines_and_pieces_are_cut() {
        const SECRET: &str = "correct horse";
        for before in (LINE_BYTES_MAX - SECRET.len() - 3)..LINE_BYTES_MAX + 3 {
            let told: Arc<Mutex<String>> = Arc::default();
            let heard = told.clone();
            let tell = Tell::new(Secrets::these(&[SECRET]), move |_, text| *heard.lock().unwrap() += text);
            let last = Last::default();
            let text = format!(
                "{}{SECRET}{}\n{SECRET}",
                "x".repeat(before),
                "y".repeat(KEPT_BYTES - 20)
            );
            listen(text.as_bytes(), last.clone(), tell).await;
            let wanted = text.replace(SECRET, "***").replace('\n', "");
            assert_eq!(*told.lock().unwrap(), wanted, "{before}");
            let kept = last.text();
            assert!(kept.contains("***") && kept.ends_with("y / ***"), "{kept}");
            assert!(!kept.contains("horse"), "{kept}");
        }
    }

    #[tokio::test]
    async fn lines_are_told_one_by_one_and_the_end_is_kept() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = told.clone();
        let tell = Tell::new(Secrets::default(), move |_, text| {
            heard.lock().unwrap().push(text.into());
        });
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
