//! What a program that uses the library sees, beside [`Node`](crate::Node) and its traits.

pub mod builder;
#[cfg(feature = "cron")]
pub mod cron;
pub mod failed;
mod generate;
mod handle;
pub mod push;
#[cfg(feature = "serde")]
pub mod typed;
