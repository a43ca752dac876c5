//! The dashboard: over HTTP, against its own description, and in a real browser.

mod access;
mod attacks;
pub mod board;
mod browser;
pub mod client;
mod description;
mod errors;
mod figures;
mod page;
mod path;
mod pushing;
mod running;
mod schema;
mod shards;
mod siege;
mod switching;
