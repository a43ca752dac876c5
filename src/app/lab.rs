//! What `demo`, `verify` and `bench` share: fleets of real processes, a server to harm, a proxy that misbehaves, and the ledger.

pub(in crate::app) mod copy;
pub mod ledger;
pub mod proxy;
pub(in crate::app) mod server;
