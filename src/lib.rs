//! One elected generator, many competing handlers, exactly one outcome for every message.
//!
//! A job queue with leader election: start any number of identical processes on one Redis, or on one SQLite file. Exactly
//! one is the **generator** and publishes messages; all others are **handlers** and compete for them. Kill any of them at
//! any moment: no message is lost, and none gets a second outcome.
//!
//! In a program, [`on`] is the way in:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use queenright::{Effect, Failure, Message, Next, shutdown};
//!
//! async fn read(message: Message) -> Result<Effect, Failure> {
//!     if message.payload.is_empty() {
//!         return Err("nothing in it".into()); // kept among the errors
//!     }
//!     // Happens exactly once, together with the outcome.
//!     Ok(Effect::add("feeds:read", 1))
//! }
//!
//! #[tokio::main]
//! async fn main() -> queenright::Result<()> {
//!     queenright::on("redis://localhost")
//!         .queue("feeds")
//!         .interval(Duration::from_millis(100))
//!         .generate(|next: Next| async move { format!("https://example.org/{}", next.number) })
//!         .handle(read)
//!         .run_until(shutdown::signals())
//!         .await
//! }
//! ```
//!
//! Without `generate` it is a worker, which handles what others generate or push. A program that is no node of the queue pushes:
//!
//! ```no_run
//! use queenright::engine::{Item, any::AnyEngine};
//! use queenright::{Settings, push};
//!
//! #[tokio::main]
//! async fn main() -> queenright::Result<()> {
//!     let settings = Settings { queue: "feeds".into(), ..Settings::default() };
//!     // Opened once, and used for every push.
//!     let feeds = AnyEngine::open("redis://localhost", &settings)?;
//!     let item = Item::new("https://example.org/17").key("17"); // a repeat is no new message
//!     let receipts = push::push(&feeds, &settings, push::KEEP, &[item]).await?;
//!     println!("message {}", receipts[0].number);
//!     Ok(())
//! }
//! ```
//!
//! What [`on`] makes is a [`Node`] with its [`Settings`] on an engine; the one in memory needs no server, for tests:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use queenright::engine::{Engine, memory::Local};
//! use queenright::{Effect, Message, Next, Node, Settings, shutdown};
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
//! let handle = |_: Message| async { Ok(vec![Effect::add("read", 1)]) };
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
//! # The modules
//!
//! In reading order. Each imports only from those before it.
//!
//! | module | what is in it |
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
