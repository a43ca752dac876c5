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
//! use queenright::engine::{Engine, memory::Local};
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
//! In reading order; each module uses only those above it:
//!
//! - [`error`], [`settings`]: what can go wrong; how a node behaves
//! - [`message`]: messages, the packs they travel in, and their outcomes
//! - [`engine`]: the protocol, one method per verb, and the engines behind it
//! - [`node`]: one process, which keeps its membership, and generates or handles
//! - [`on`] and the rest of the API: a node in a few words, reading the failed messages, pushing from outside
//! - `app`: the command line, behind the feature `cli`; no part of the API

pub mod error;
#[doc(hidden)]
pub mod mutants;
pub mod settings;

pub mod message;

pub mod engine;

pub mod node;

mod api;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod app;

pub use api::builder::{self, on};
#[cfg(feature = "cron")]
pub use api::cron;
#[cfg(feature = "serde")]
pub use api::typed::Json;
pub use api::{failed, push};
pub use error::{Error, Result};
pub use message::{Effect, Message, Outcome};
pub use node::generate::{self, Next};
pub use node::handle::{self, Failure};
pub use node::{Node, event, shutdown};
pub use settings::Settings;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
