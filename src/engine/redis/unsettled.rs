//! Every message without an outcome: what `verify` compares with what the nodes say.

use std::collections::BTreeMap;

use super::RedisEngine;
use super::bodies::Found;
use super::reply::Decode;
use crate::error::Result;

pub(super) type Hash = BTreeMap<String, Vec<u8>>;

/// Runs of numbers (first, count), and how many messages refer to each body.
#[derive(Default)]
pub(super) struct Unsettled {
    runs: Vec<(u64, u64)>,
    left: BTreeMap<String, u64>,
}

impl Unsettled {
    /// One more pack as it is stored.
    pub(super) fn add(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.runs.push(match Found::of(bytes)? {
            Found::Whole(pack) => (pack.first(), pack.count() as u64),
            Found::Stub(stub) => {
                let count = u64::from(stub.count());
                *self.left.entry(stub.field()).or_default() += count;
                (stub.first(), count)
            }
        });
        Ok(())
    }
}

/// Not in one step: only for a queue that nobody works on.
pub(super) async fn unsettled(engine: &RedisEngine) -> Result<Vec<(u64, u64)>> {
    let keys = &engine.keys;
    let mut found = Unsettled::default();
    for key in [&keys.queue, &keys.again] {
        let packs: Vec<Vec<u8>> = engine.all_of("LRANGE", key).await?;
        for bytes in packs {
            found.add(bytes)?;
        }
    }
    // The number of the message stands before it.
    let later: Vec<Vec<u8>> = engine.all_of("ZRANGE", &keys.later).await?;
    for bytes in later {
        found.add(bytes.get(8..).unwrap_or_default().to_vec())?;
    }
    for node in engine.there().await?.nodes() {
        for (field, bytes) in engine.hash::<Hash>(&keys.taken(node)).await? {
            if is_piece(&field) {
                found.add(bytes)?;
            }
        }
    }
    engine.check_bodies(&found).await?;
    found.runs.sort_unstable();
    Ok(found.runs)
}

/// Whether a field of `taken:NODE` is a pack in hand.
pub(super) fn is_piece(field: &str) -> bool {
    field.starts_with("pack:") || field.bytes().all(|byte| byte.is_ascii_digit())
}

impl RedisEngine {
    /// A whole hash.
    pub(super) async fn hash<T: Decode>(&self, key: &str) -> Result<T> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(key);
        T::decode(self.aside.query(&cmd).await?)
    }

    /// Every body has a stub that refers to it, and what is left of each is counted right.
    pub(super) async fn check_bodies(&self, unsettled: &Unsettled) -> Result<()> {
        let (mut counted, mut bodies) = (BTreeMap::new(), Vec::new());
        for (field, value) in self.hash::<Hash>(&self.keys.bodies).await? {
            match field.strip_suffix('+') {
                Some(field) => _ = counted.insert(field.to_string(), super::number(&value)?),
                None => bodies.push(field),
            }
        }
        if counted != unsettled.left || !counted.keys().eq(&bodies) {
            return Err(super::broken(format!(
                "bodies {bodies:?} with {counted:?} left, but stubs of {:?}",
                unsettled.left
            )));
        }
        Ok(())
    }
}
