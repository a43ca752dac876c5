//! What people and programs read: log lines, JSON, tables, and the screen of a terminal.

pub(in crate::app) mod cancelled;
pub mod failed;
pub mod found;
pub mod json;
pub(in crate::app) mod keys;
pub mod log;
pub mod quote;
pub(in crate::app) mod screen;
pub(in crate::app) mod status;
pub(in crate::app) mod time;
pub(in crate::app) mod view;
