//! A test of your own generator and handler, on the engine that lives in memory: no server, no files.
//!
//! `cargo run --example testing`. It ends by itself.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::Engine;
use queenright::engine::memory::Local;
use queenright::{Failure, Message, Next};

/// What is to be tested: seven is refused.
async fn handle(message: Message) -> Result<(), Failure> {
    if &message.payload[..] == b"7" {
        return Err("no sevens".into());
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> queenright::Result<()> {
    let engine = Arc::new(Local::new("test"));
    let watched = engine.clone();
    queenright::on(engine.clone())
        .queue("test")
        .generate(|next: Next| async move { next.number.to_string() })
        .handle(handle)
        .also_handle()
        .settings(|settings| settings.messages = Some(10))
        .run_until(async move {
            while watched.status().await.map_or(0, |status| status.done + status.failed) < 10 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await?;
    let errors = engine.failed(0, 10).await?;
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].number, &errors[0].error[..]), (7, &b"no sevens"[..]));
    println!("one of ten was refused, as it should be");
    Ok(())
}
