//! The one integration test binary.

mod checker;
mod conformance;
#[cfg(feature = "cli")]
mod dashboard;
#[cfg(feature = "cli")]
mod e2e;
#[cfg(feature = "cli")]
mod fleet;
#[cfg(feature = "cli")]
mod hostile;
#[cfg(feature = "cli")]
mod instructions;
#[cfg(feature = "cli")]
mod library;
mod model;
mod mutants;
mod oracle;
mod server;
mod simulate;
mod sources;
