//! What a program that uses the library sees, beside [`Node`](crate::Node) and its traits.

pub mod builder;
pub mod cancel;
#[cfg(feature = "cron")]
pub mod cron;
pub mod failed;
mod generate;
mod handle;
pub(crate) mod metrics;
pub mod push;
mod told;
#[cfg(feature = "serde")]
pub mod typed;
