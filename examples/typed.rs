//! Payloads as values, and state that handlers share.
//!
//! `cargo run --example typed --features serde`, in several terminals; REDIS_URL names another store than redis://localhost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use queenright::{Failure, Json, Message, Next, shutdown};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Invoice {
    customer: String,
    cents: u64,
}

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let total = Arc::new(AtomicU64::new(0));
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    queenright::on(redis)
        .queue("invoices")
        .interval(Duration::from_millis(500))
        .generate(|next: Next| async move {
            Json(Invoice {
                customer: format!("customer {}", next.number % 7),
                cents: 100 * next.number,
            })
        })
        .handle_json(move |invoice: Invoice, message: Message| {
            let total = total.clone();
            async move {
                if invoice.cents == 0 {
                    return Err(Failure::from("an empty invoice"));
                }
                let so_far = total.fetch_add(invoice.cents, Ordering::Relaxed) + invoice.cents;
                println!(
                    "{}: {} owes {}, {so_far} here",
                    message.number, invoice.customer, invoice.cents
                );
                Ok(())
            }
        })
        .run_until(shutdown::signals())
        .await
}
