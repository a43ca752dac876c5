//! One elected generator, many competing handlers, exactly one outcome for every message.
//!
//! A job queue with leader election: start any number of identical processes on one Redis, or on one SQLite file. Exactly
//! one is the **generator** and publishes messages; all others are **handlers** and compete for them. Kill any of them at
//! any moment: no message is lost, and none gets a second outcome.
//!
//! In a program, [`on`] is the way in: `queenright::on("redis://localhost").generate(…).handle(…).run_until(…)`. This is
//! what it does:
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
//! // In a program: AnyEngine::open("redis://localhost", &settings)?
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
//! # The rooms
//!
//! In reading order. Each imports only from those before it.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`error`], [`settings`], `mutants` | what can go wrong and what to do about it; how a node behaves, with the reasons for the defaults; guards that tests take out |
//! | [`message`] | messages, the packs they travel in, their outcomes and effects |
//! | [`engine`] | the protocol, one method per verb; Redis, SQLite and memory behind it |
//! | [`node`] | one process: it keeps its membership, and generates or handles |
//! | `api` | what a program uses: [`on`] and its [`builder`], [`push`], [`failed`], and with features `cron` and `Json` |
//! | `app` | the command line, behind the feature `cli` |

pub mod error;
#[cfg(not(feature = "mutants"))]
mod mutants;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod settings;

pub mod message;

pub mod engine;

pub mod node;

mod api;

/// The command line. It is public for the binary, the benchmarks and the tests of this package, and may change at any time.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod app;

pub use api::builder::{self, on};
#[cfg(feature = "cron")]
pub use api::cron;
#[cfg(feature = "serde")]
pub use api::typed::Json;
pub use api::{cancel, failed, push};
pub use error::{Error, Result};
pub use message::{Effect, Message, Outcome};
pub use node::generate::{self, Next};
pub use node::handle::{self, Failure};
pub use node::{Node, event, shutdown};
pub use settings::Settings;

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
