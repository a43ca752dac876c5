//! What a handler wants to change in the same Redis happens together with the outcome: exactly once, under kill -9.
//!
//! `cargo run --example effects`, in several terminals; REDIS_URL names another store than redis://localhost.

use std::time::Duration;

use queenright::{Effect, Failure, Message, Next, shutdown};

async fn count(message: Message) -> Result<Vec<Effect>, Failure> {
    let number = message.number;
    Ok(vec![
        Effect::add("effects:handled", 1),
        Effect::set("effects:last", number.to_string()),
        Effect::set_field("effects:by-number", number.to_string(), message.payload),
        Effect::push("effects:log", format!("handled {number}")),
    ])
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    queenright::on(redis)
        .queue("effects")
        .interval(Duration::from_millis(100))
        .generate(|next: Next| async move { format!("message {}", next.number) })
        .handle(count)
        .concurrency(10)
        .run_until(shutdown::signals())
        .await
}
