//! The smallest fleet: one copy makes addresses, all others read them and count that in the same store.
//!
//! `cargo run --example feeds`, in several terminals; REDIS_URL names another store than redis://localhost.

use queenright::{Effect, Failure, Message, Next, shutdown};

async fn read(message: Message) -> Result<Effect, Failure> {
    println!("reading {:?}", message.payload);
    // Recorded together with the outcome, exactly once.
    Ok(Effect::add("feeds:read", 1))
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    queenright::on(redis)
        .queue("feeds")
        .interval(std::time::Duration::from_millis(100))
        .generate(|next: Next| async move { format!("https://example.org/{}", next.number) })
        .handle(read)
        .run_until(shutdown::signals())
        .await
}
