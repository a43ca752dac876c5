//! A producer: puts a value into the queue of `typed`, under a key, and ends. Run it twice: the second time nothing is added.
//!
//! `cargo run --example enqueue --features serde`; REDIS_URL names another store than redis://localhost.

use queenright::engine::Item;
use queenright::engine::any::AnyEngine;
use queenright::{Json, Settings, push};
use serde::Serialize;

#[derive(Serialize)]
struct Invoice {
    customer: String,
    cents: u64,
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    let settings = Settings {
        queue: "invoices".into(),
        ..Settings::default()
    };
    // Opened once, and used for every push.
    let invoices = AnyEngine::open(&redis, &settings)?;
    let invoice = Invoice {
        customer: "customer 17".into(),
        cents: 1200,
    };
    let item = Item::new(Json(invoice)).key("order-17");
    for receipt in push::push(&invoices, &settings, push::KEEP, &[item]).await? {
        println!("message {}, repeated: {}", receipt.number, receipt.repeated);
    }
    Ok(())
}
