//! A message that is done publishes the next: fetch, parse, store. Each is numbered in the settle of the one before, once, under kill -9.
//!
//! `cargo run --example chain`, in several terminals; REDIS_URL names another store than redis://localhost.

use std::time::Duration;

use queenright::{Effect, Failure, Message, Next, shutdown};

async fn step(message: Message) -> Result<Effect, Failure> {
    let text = String::from_utf8(message.payload.to_vec())?;
    match text.split_once(' ') {
        Some(("fetch", page)) => Ok(Effect::publish(format!("parse <p>{page}</p>"))),
        Some(("parse", html)) => {
            let words = html.replace("<p>", "").replace("</p>", "");
            // There is no hurry.
            Ok(Effect::publish_after(
                format!("store {words}"),
                Duration::from_millis(100),
            ))
        }
        Some(("store", words)) => Ok(Effect::push("chain:stored", words)),
        _ => Err(format!("no such step: {text}").into()),
    }
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    queenright::on(redis)
        .queue("chain")
        .interval(Duration::from_millis(100))
        .generate(|next: Next| async move { format!("fetch page {}", next.number) })
        .handle(step)
        .concurrency(10)
        .run_until(shutdown::signals())
        .await
}
