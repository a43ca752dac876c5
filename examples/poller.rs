//! Publishes the lines of a growing file: each once, in order, whoever is killed when.
//!
//! `cargo run --example poller access.log` in several terminals, and `echo hello >> access.log` in another.

use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::time::Duration;

use queenright::generate::{Draft, Generate, Made};
use queenright::{Failure, Message, Next, shutdown};

struct Poller {
    path: String,
}

impl Poller {
    /// The line that begins there, once it is whole.
    fn line_at(&self, start: u64) -> Option<Vec<u8>> {
        let mut file = std::fs::File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut line = Vec::new();
        BufReader::new(file).read_until(b'\n', &mut line).ok()?;
        line.ends_with(b"\n").then_some(line)
    }
}

impl Generate for Poller {
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        // The cursor is where the last published line ended, under whichever generator.
        let text = std::str::from_utf8(&draft.cursor).unwrap_or_default();
        let start: u64 = text.parse().unwrap_or(0);
        loop {
            if let Some(line) = self.line_at(start) {
                draft.cursor = (start + line.len() as u64).to_string().into();
                draft.payload = line[..line.len() - 1].to_vec();
                return Made::Message;
            }
            if next.others_wait {
                return Made::Nothing;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn handle(message: Message) -> Result<(), Failure> {
    println!("{}: {}", message.number, String::from_utf8_lossy(&message.payload));
    Ok(())
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let path = std::env::args().nth(1).unwrap_or("access.log".into());
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    queenright::on(redis)
        .queue("poller")
        .generator(Poller { path })
        .handle(handle)
        .run_until(shutdown::signals())
        .await
}
