//! Every message without an outcome: what `verify` compares with what the nodes say.

use std::collections::{BTreeMap, BTreeSet};

use super::RedisEngine;
use super::bodies::Found;
use super::reply::{Decode, Reply};
use crate::error::Result;

pub(super) type Hash = BTreeMap<String, Vec<u8>>;

/// So many packs at a time, each of which has 1 MB at most, or one message that has: a whole backlog would be beyond what an answer
/// may have.
const PAGE: usize = 32;

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
        engine.in_pages("LRANGE", key, |bytes| found.add(bytes)).await?;
    }
    // The number of the message stands before it.
    let later = |bytes: Vec<u8>| found.add(bytes.get(8..).unwrap_or_default().to_vec());
    engine.in_pages("ZRANGE", &keys.later, later).await?;
    let line = |entry: Vec<u8>| found.add(in_line(&entry).to_vec());
    engine.in_pages("ZRANGE", &keys.lines, line).await?;
    for node in engine.there().await?.nodes() {
        // Some fields may come twice.
        let mut pieces = Hash::new();
        let taken = |field: String, bytes| {
            if is_piece(&field) {
                pieces.insert(field, bytes);
            }
            Ok(())
        };
        engine.scan(&keys.taken(node), taken).await?;
        for bytes in pieces.into_values() {
            found.add(bytes)?;
        }
    }
    engine.check_bodies(&found).await?;
    found.runs.sort_unstable();
    Ok(found.runs)
}

/// The pack in an entry of `lines`: before it come its group, a NUL, and its number.
pub(super) fn in_line(entry: &[u8]) -> &[u8] {
    let group = entry.iter().position(|byte| *byte == 0).unwrap_or(0);
    entry.get(group + 9..).unwrap_or_default()
}

/// Whether a field of `taken:NODE` is a pack in hand.
pub(super) fn is_piece(field: &str) -> bool {
    field.starts_with("pack:") || field.bytes().all(|byte| byte.is_ascii_digit())
}

impl RedisEngine {
    /// A whole list or sorted set, from its end: what is taken from the front meanwhile moves nothing out of sight.
    async fn in_pages(
        &self,
        command: &str,
        key: &str,
        mut heed: impl FnMut(Vec<u8>) -> Result<()> + Send,
    ) -> Result<()> {
        let mut behind = 0;
        loop {
            let mut cmd = redis::cmd(command);
            cmd.arg(key)
                .arg(format!("-{}", behind + PAGE))
                .arg(format!("-{}", behind + 1));
            let page: Vec<Vec<u8>> = Vec::decode(self.aside.query(&cmd).await?)?;
            let is_last = page.len() < PAGE;
            page.into_iter().try_for_each(&mut heed)?;
            if is_last {
                return Ok(());
            }
            behind += PAGE;
        }
    }

    /// A whole hash, some of its fields perhaps twice.
    async fn scan(&self, key: &str, mut heed: impl FnMut(String, Vec<u8>) -> Result<()> + Send) -> Result<()> {
        let mut cursor = String::from("0");
        loop {
            let mut cmd = redis::cmd("HSCAN");
            cmd.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let mut reply = Reply::decode(self.aside.query(&cmd).await?)?;
            cursor = reply.next()?;
            for (field, value) in reply.next::<Hash>()? {
                heed(field, value)?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Every body has a stub that refers to it, and what is left of each is counted right.
    pub(super) async fn check_bodies(&self, unsettled: &Unsettled) -> Result<()> {
        let (mut counted, mut bodies) = (BTreeMap::new(), BTreeSet::new());
        let body = |field: String, value: Vec<u8>| {
            match field.strip_suffix('+') {
                Some(field) => _ = counted.insert(field.to_string(), super::number(&value)?),
                None => _ = bodies.insert(field),
            }
            Ok(())
        };
        self.scan(&self.keys.bodies, body).await?;
        if counted != unsettled.left || !counted.keys().eq(&bodies) {
            return Err(super::broken(format!(
                "bodies {bodies:?} with {counted:?} left, but stubs of {:?}",
                unsettled.left
            )));
        }
        Ok(())
    }
}
