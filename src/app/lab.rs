//! What `demo`, `verify` and `bench` share.
//!
//! | module | |
//! | --- | --- |
//! | `test_bed` | a directory of its own, and a store: named, our own, or a file |
//! | [`port`] | ports on which nobody listens |
//! | `server` | a redis-server of our own, which may be harmed |
//! | [`topology`] | several of them: behind sentinels, or as a cluster |
//! | [`proxy`] | misbehaves on request, between copies and their Redis |
//! | `copy`, `fleet` | copies of this program as real processes |
//! | `ledger` | published against settled, from what the copies wrote down |

pub(super) mod copy;
pub(super) mod fleet;
// Public for the tests, which judge fleets of containers with it.
#[allow(clippy::must_use_candidate, clippy::return_self_not_must_use)]
pub mod ledger;
pub mod port;
pub mod proxy;
pub(super) mod server;
pub(super) mod test_bed;
pub mod topology;
