use queenright::{Effect, Failure, Message, Next};

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
        .run_until(tokio::signal::ctrl_c())
        .await
}
