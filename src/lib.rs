//! One elected generator, many competing handlers, exactly one outcome for every message.
//!
//! Start any number of identical processes on one Redis. Exactly one is the **generator** and publishes messages; all
//! others are **handlers** and compete for them. Kill any of them at any moment: no message is lost, and none gets a
//! second outcome.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use queenright::engine::{Engine, state::Local};
//! use queenright::generate::Next;
//! use queenright::{Effect, Message, Node, Settings, shutdown};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> queenright::Result<()> {
//! let settings = Settings {
//!     interval: Duration::from_millis(1),
//!     messages: Some(3),
//!     also_handle: true, // a fleet of one
//!     ..Settings::default()
//! };
//! // In a program: RedisEngine::open("redis://localhost", &settings)?
//! let engine = Arc::new(Local::new(&settings.queue));
//!
//! let generate = |next: Next| format!("feed {}", next.number).into_bytes();
//! let handle = |message: Message| async move {
//!     if message.payload.is_empty() {
//!         return Err("nothing in it".into()); // kept among the errors
//!     }
//!     // Happens exactly once, together with the outcome.
//!     Ok(vec![Effect::Add { key: "read".into(), by: 1 }])
//! };
//!
//! let (stopper, shutdown) = shutdown::channel();
//! let node = tokio::spawn(Node::new(engine.clone(), settings, generate, handle).run(shutdown));
//! while engine.status().await.map_or(0, |status| status.done) < 3 {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//! }
//! stopper.stop();
//! node.await.expect("the node does not panic")?;
//! assert_eq!(engine.status().await?.failed, 0);
//! # Ok(())
//! # }
//! ```
//!
//! In reading order:
//!
//! - [`message`]: messages, the packs they travel in, and their outcomes
//! - [`engine`]: the protocol, one method per verb; [`engine::redis`] and [`engine::state`] behind it
//! - [`builder`]: a node in a few words, from [`on`]
//! - [`node`]: one process; `beat` keeps its place, [`generate`] and [`handle`] do its work
//! - [`errors`]: reading the failed messages; [`push`]: messages from outside
//! - [`config`], [`event`], [`shutdown`], [`error`]: settings, what is told, how it stops, what can go wrong

mod beat;
pub mod builder;
pub mod config;
#[cfg(feature = "cron")]
pub mod cron;
pub mod engine;
pub mod error;
pub mod errors;
pub mod event;
pub mod generate;
pub mod handle;
pub mod message;
mod meter;
#[doc(hidden)]
pub mod mutants;
pub mod node;
pub mod push;
mod report;
mod retry;
pub mod shutdown;
#[cfg(feature = "serde")]
pub mod typed;
mod watch;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod commands;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod dashboard;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod json;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod ledger;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod log;
#[cfg(feature = "cli")]
mod metrics;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod outside;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod proxy;
#[cfg(feature = "cli")]
mod serve;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod sources;

pub use builder::on;
pub use config::Settings;
pub use error::{Error, Result};
pub use generate::Next;
pub use handle::Failure;
pub use message::{Effect, Message, Outcome};
pub use node::Node;
#[cfg(feature = "serde")]
pub use typed::Json;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "cli"))]
mod pages {
    #[doc = include_str!("../docs/start.md")]
    struct Start;
    #[doc = include_str!("../docs/recipes/cron.md")]
    struct Cron;
    #[doc = include_str!("../docs/recipes/tests.md")]
    struct Tests;
}
