//! A job at the times that a cron pattern names: once each, on whichever copy is free.
//!
//! `cargo run --example cron --features cron`, in several terminals; REDIS_URL names another store than redis://localhost.

use queenright::cron::{Cron, Missed};
use queenright::{Failure, Message, Next, shutdown};

async fn report(message: Message) -> Result<(), Failure> {
    let tick_ms = String::from_utf8_lossy(&message.payload);
    println!("the report for {tick_ms}");
    Ok(())
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let weekdays_at_six = Cron::new("0 6 * * MON-FRI", "Europe/Berlin").expect("a pattern and a zone");
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    queenright::on(redis)
        .queue("reports")
        // If nothing ran at six, the report is made as soon as something does.
        .cron(weekdays_at_six, Missed::Once, |next: Next| {
            next.due_ms.to_string().into_bytes()
        })
        .handle(report)
        .retries(5)
        .run_until(shutdown::signals())
        .await
}
