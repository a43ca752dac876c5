//! One elected generator, many competing handlers, exactly one outcome for every message.
pub mod config;
pub mod engine;
pub mod error;
pub mod event;
pub mod message;
