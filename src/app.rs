//! The program: the command line and all that is behind it. No part of the library's API.

pub mod args;
pub mod commands;
pub mod dashboard;
mod http;
pub mod lab;
mod metrics;
pub mod output;
pub mod outside;
mod run;

pub use run::run;
