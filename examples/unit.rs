//! A test of a handler alone: it is a function, and a message is made by `Message::new`.
//!
//! `cargo run --example unit`. It ends by itself.

use queenright::{Failure, Message};

async fn handle(message: Message) -> Result<(), Failure> {
    tokio::task::yield_now().await; // a call to a server, in real life
    match &message.payload[..] {
        b"7" => Err("no sevens".into()),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() {
    assert_eq!(handle(Message::new("8")).await, Ok(()));
    assert_eq!(handle(Message::new("7")).await, Err("no sevens".into()));
}
