//! Cancelling messages: what is not in work yet ends as an error when it is taken, and handlers that are at work are told.
//!
//! ```
//! use queenright::cancel::{Cancelled, cancel};
//! use queenright::engine::{Item, memory::Local};
//! use queenright::{Settings, push};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let engine = Local::new("jobs");
//! let items = [Item::new("sync 17")];
//! let pushed = push::push(&engine, &Settings::default(), push::KEEP, &items).await?;
//! let number = pushed[0].number;
//! assert_eq!(cancel(&engine, &[number]).await?, [Cancelled::Asked]);
//! assert_eq!(cancel(&engine, &[number + 1]).await?, [Cancelled::Unpublished]);
//! # Ok::<(), queenright::Error>(())
//! # }).unwrap();
//! ```

use crate::engine::{CANCELS_MAX, Engine, Found};
use crate::error::Result;

pub use crate::engine::{Cancelled, CancelledGroup};

/// Cancels messages, and says of each what became of that. To cancel one twice is as good as once. Of a message that the store knows to have ended, nothing
/// is kept.
pub async fn cancel<E: Engine>(engine: &E, numbers: &[u64]) -> Result<Vec<Cancelled>> {
    let mut answers = Vec::with_capacity(numbers.len());
    for numbers in numbers.chunks(CANCELS_MAX) {
        let mut open = Vec::with_capacity(numbers.len());
        for number in numbers {
            // A look through no queue: what it cannot tell is asked for.
            match engine.find(*number).await? {
                Found::Settled | Found::Ended(_) | Found::Failed(_) => {}
                _ => open.push(*number),
            }
        }
        let told = engine.cancel(&open).await?;
        let mut told = open.iter().zip(told).peekable();
        answers.extend(numbers.iter().map(|number| {
            let asked = told.next_if(|(open, _)| *open == number);
            asked.map_or(Cancelled::Ended, |(_, answer)| answer)
        }));
    }
    Ok(answers)
}

/// Cancels all messages of a group that were published before this. What is published later is handled as ever.
pub async fn cancel_group<E: Engine>(engine: &E, group: &str) -> Result<CancelledGroup> {
    engine.cancel_group(group).await
}
