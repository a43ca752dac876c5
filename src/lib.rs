//! One elected generator, many competing handlers, exactly one outcome for every message.
//!
//! Start any number of identical processes on one Redis. Exactly one is the **generator** and publishes messages; all
//! others are **handlers** and compete for them. Kill any of them at any moment: no message is lost, and none gets a
//! second outcome.
//!
//! In reading order:
//!
//! - [`message`]: messages, the packs they travel in, and their outcomes
//! - [`engine`]: the protocol, one method per verb; [`engine::redis`] and [`engine::state`] behind it
//! - [`node`]: one process; `beat` keeps its place, [`generate`] and [`handle`] do its work
//! - [`errors`]: reading the failed messages
//! - [`config`], [`event`], [`shutdown`], [`error`]: settings, what is told, how it stops, what can go wrong

mod beat;
pub mod config;
pub mod engine;
pub mod error;
pub mod errors;
pub mod event;
pub mod generate;
pub mod handle;
pub mod message;
pub mod node;
mod retry;
pub mod shutdown;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod commands;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod json;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod log;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod sources;

pub use config::Settings;
pub use error::{Error, Result};
pub use message::{Effect, Message, Outcome};
pub use node::Node;
