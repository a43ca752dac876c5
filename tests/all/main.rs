//! The one integration test binary. Tests that need Redis start a redis-server of their own on a free port.
//!
//! | module | what it shows |
//! | --- | --- |
//! | `layers` | each room of `src/` uses only those before it |
//! | `conformance` | one suite of checks, run against every engine |
//! | `oracle` | random histories: the scripts on a real Redis and the rules in Rust give the same answers and leave the same state; shards tell what one queue tells |
//! | `mutants` | removing any guard from the scripts or the rules fails a check |
//! | `model` | every state that small fleets can reach keeps every promise |
//! | `shards` | fleets on several shards: every message of the generator once, whatever is killed, lost or away |
//! | `simulate` | whole fleets of production nodes in virtual time, one seed each |
//! | `hostile` | connections cut at every byte, half a log of Redis, mutated input for every decoder, a server that lies |
//! | `e2e` | real processes on a real Redis and on a file: kill -9, SIGSTOP, outages, every command |
//! | `containers` | the image, compose and a fleet of containers, killed, frozen and cut off |
//! | `dashboard` | the page in a real browser, the API, and who may use it |
//! | `library` | the API as a program uses it |
//! | `mistakes` | what the compiler says to the commonest mistakes is what the book says |
//! | `checker` | the checks of `verify` notice a queue that was harmed |
//! | `supply` | actions and compilers are pinned; the scripts around crates and sudo say what they do |
//! | `packages` | the Debian package is installed and removed, the crate is small |
//! | `instructions` | the hot paths cost as many instructions as recorded (`benches/instructions.txt`) |
//!
//! `fleet` and `server` start what the tests above need.

mod checker;
mod conformance;
#[cfg(feature = "cli")]
mod containers;
#[cfg(feature = "cli")]
mod dashboard;
#[cfg(feature = "cli")]
mod docs;
#[cfg(feature = "cli")]
mod e2e;
#[cfg(feature = "cli")]
mod fleet;
#[cfg(feature = "cli")]
mod hostile;
#[cfg(feature = "cli")]
mod instructions;
mod layers;
#[cfg(feature = "cli")]
mod library;
#[cfg(feature = "cli")]
mod mistakes;
mod model;
mod mutants;
mod oracle;
#[cfg(feature = "cli")]
mod packages;
mod server;
mod shards;
mod simulate;
mod sources;
#[cfg(feature = "cli")]
mod supply;
