//! The dashboard: over HTTP, against its own description, and in a real browser.

mod access;
mod attacks;
mod board;
mod browser;
mod client;
mod description;
mod errors;
mod figures;
mod page;
mod pushing;
mod running;
mod schema;
