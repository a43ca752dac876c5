//! Two queues in one process: orders, of which each pushes an invoice into the other queue. The invoice is pushed under a key, so
//! that an order that is handled twice makes one invoice.
//!
//! `cargo run --example two_queues`, in several terminals; REDIS_URL names another store than redis://localhost.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::Item;
use queenright::engine::any::AnyEngine;
use queenright::{Effect, Error, Message, Next, Settings, push, shutdown};

#[tokio::main]
async fn main() -> queenright::Result<()> {
    let redis = std::env::var("REDIS_URL").unwrap_or("redis://localhost".into());
    let (stopper, stopping) = shutdown::channel();
    let to = Settings {
        queue: "invoices".into(),
        ..Settings::default()
    };
    let invoices = Arc::new(AnyEngine::open(&redis, &to)?);
    let pushes = (invoices.clone(), Arc::new(to));
    let orders = queenright::on(redis)
        .queue("orders")
        .interval(Duration::from_millis(200))
        .generate(|next: Next| async move { format!("order {}", next.number) })
        .also_handle()
        .handle(move |order: Message| {
            let (invoices, to) = pushes.clone();
            async move {
                let item = Item::new(order.payload).key(order.number.to_string());
                push::push(&*invoices, &to, push::KEEP, &[item]).await?;
                Ok::<(), Error>(())
            }
        });
    let bills = queenright::on(invoices)
        .queue("invoices")
        .handle(async |invoice: Message| {
            println!("an invoice for {}", String::from_utf8_lossy(&invoice.payload));
            Effect::add("invoices:sent", 1)
        });
    let signals = async {
        shutdown::signals().await;
        stopper.stop();
        Ok(())
    };
    tokio::try_join!(orders.run(stopping.clone()), bills.run(stopping), signals)?;
    Ok(())
}
