//! What people and programs read: log lines, JSON, and the screen of a terminal.

pub mod json;
pub(in crate::app) mod keys;
pub mod log;
pub(in crate::app) mod screen;
