//! The program: the command line and all that is behind it. No part of the library's API.
//!
//! Each of these uses only those above it:
//!
//! | module | |
//! | --- | --- |
//! | `exit`, `run`, `base64` | how a command ends, and what every command needs around it |
//! | [`args`] | flags, variables and files, read into one set of values |
//! | `on_engine` | opens the engine of a store for a command |
//! | [`output`] | what people and programs read: log, JSON, tables, the terminal's screen |
//! | `http`, `metrics` | a small server, and the figures for Prometheus |
//! | [`outside`] | other programs as handlers and generators |
//! | [`lab`] | what `demo`, `verify` and `bench` share |
//! | [`dashboard`] | the page and its API |
//! | [`commands`] | one file per command |

pub mod base64;
mod exit;
mod run;

pub mod args;
mod on_engine;

pub mod output;

mod http;
mod metrics;

pub mod outside;

pub mod lab;

pub mod dashboard;

pub mod commands;
