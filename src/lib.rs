//! One elected generator, many competing handlers, exactly one outcome for every message.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod config;
pub mod engine;
pub mod error;
pub mod event;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod json;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod log;
pub mod message;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod sources;
