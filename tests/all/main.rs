//! The one integration test binary.

mod checker;
mod conformance;
mod mutants;
mod oracle;
mod server;
