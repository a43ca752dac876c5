//! End to end: real processes on a real redis-server. Scenarios here, one file per subject; what must hold after any
//! of them is in `checks`.

mod bench;
mod cancel;
mod carried;
mod certificates;
mod checks;
mod cli;
mod crowds;
mod deaths;
pub mod demo;
mod doctor;
mod effects;
mod errors;
mod examples;
mod failover;
mod far;
mod files;
mod handling;
#[cfg(target_os = "linux")]
mod healthcheck;
mod limits;
mod looking;
mod managed;
mod managing;
mod metrics;
#[cfg(target_os = "linux")]
mod names;
mod network;
mod outages;
mod outcomes;
mod outside;
mod passwords;
mod poller;
mod promoted;
pub mod push;
mod refusals;
mod reshard;
mod resharded;
mod retries;
mod roles;
mod rolling;
mod ruling;
mod shards;
mod silence;
mod slow;
mod sources;
#[cfg(target_os = "linux")]
mod systemd;
mod topologies;
#[cfg(feature = "otel")]
mod traces;
mod variants;
mod verify;
mod watching;
mod workers;
mod wrong;
