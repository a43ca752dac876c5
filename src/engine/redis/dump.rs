//! The whole queue, read back as the state that it stands for: what the tests compare with the oracle.

use std::collections::BTreeMap;

use bytes::Bytes;
use redis::Value;

use super::RedisEngine;
use super::bodies::{self, Found};
use super::reply::Reply;
use crate::engine::history::{LastReport, Range};
use crate::engine::memory::{State, Stored, Taken};
use crate::engine::store::Meta;
use crate::engine::{Paused, Receipt, record};
use crate::error::{Error, Result};
use crate::message::Pack;

impl RedisEngine {
    /// Reads everything. Not in one step: only for a queue that nobody works on.
    #[doc(hidden)]
    pub async fn dump(&self) -> Result<State> {
        let keys = &self.keys;
        let mut state = State::new(&keys.queue_name, &keys.names);
        let mut fields = self.hash(&keys.meta).await?;
        state.cursor = fields.remove("cursor").unwrap_or_default();
        state.meta = meta(&fields)?;
        state.queue = self.packs(&keys.queue).await?.into();
        state.again = self.packs(&keys.again).await?.into();
        state.later = self.later(&keys.later).await?;
        state.once = self.once().await?;
        state.nodes = self.leases(&keys.nodes).await?;
        state.dead = self.names("LRANGE", &keys.dead).await?.into();
        state.readers = self.leases(&keys.readers).await?;
        for bytes in self.list(&keys.reigns).await? {
            state.reigns.push_back(record::decode_crowned(&bytes)?);
        }
        for (field, bytes) in self.hash(&keys.history).await? {
            let (ring, slot) = field.split_once(':').ok_or_else(|| broken(field.clone()))?;
            let (ring, slot) = (parse(ring)?, parse(slot)?);
            let range = Range::ALL.into_iter().find(|range| range.ring() == ring);
            let range = range
                .filter(|range| slot < range.steps())
                .ok_or_else(|| broken(field.clone()))?;
            state
                .history
                .insert((range.ring(), slot), record::decode_bucket(&bytes)?);
        }
        state.bell = !self.names("LRANGE", &keys.bell).await?.is_empty();
        state.crown_bell = !self.names("LRANGE", &keys.crown).await?.is_empty();
        for (number, bytes) in self.hash(&keys.records).await? {
            state.errors.insert(parse(&number)?, record::decode_failed(&bytes)?);
        }
        let indexed = self.names("ZRANGE", &keys.errors).await?;
        let recorded: Vec<String> = state.errors.keys().map(u64::to_string).collect();
        if indexed != recorded {
            return Err(broken(format!("errors {indexed:?} but records {recorded:?}")));
        }
        let mut left = BTreeMap::new();
        for key in [&keys.queue, &keys.again] {
            for bytes in self.list(key).await? {
                count_stub(&mut left, &bytes)?;
            }
        }
        for key in self.all_keys().await? {
            if let Some(node) = key.strip_prefix(&keys.taken("")) {
                let (mut taken, pieces) = taken(&self.hash(&key).await?)?;
                for (first, bytes) in pieces {
                    count_stub(&mut left, &bytes)?;
                    taken.pieces.extend(
                        self.joined(&self.aside, vec![bytes])
                            .await?
                            .into_iter()
                            .map(|pack| (first, pack)),
                    );
                }
                state.taken.insert(node.to_string(), taken);
            } else if let Some(reader) = key.strip_prefix(&keys.reading("")) {
                if reader != "records" {
                    let mut list = self.list(&key).await?.into_iter();
                    let call = list.next().ok_or_else(|| broken("a reader without a call".into()))?;
                    let batch = list.map(|bytes| record::decode_failed(&bytes)).collect::<Result<_>>()?;
                    let call = parse(&String::from_utf8_lossy(&call))?;
                    state.reading.insert(reader.to_string(), (call, batch));
                }
            } else if !key.starts_with(&keys.prefix) && !key.starts_with("test:") {
                let stored = self.stored(&key).await?;
                state.stored.insert(key, stored);
            }
        }
        self.check_bodies(&left).await?;
        Ok(state)
    }

    /// Nothing stands apart that nothing refers to, and what is left of each body is counted right.
    async fn check_bodies(&self, left: &BTreeMap<String, u64>) -> Result<()> {
        let mut found = BTreeMap::new();
        let mut bodies = Vec::new();
        for (field, value) in self.hash(&self.keys.bodies).await? {
            match field.strip_suffix('+') {
                Some(field) => _ = found.insert(field.to_string(), parse(&String::from_utf8_lossy(&value))?),
                None => bodies.push(field),
            }
        }
        if found != *left || !found.keys().eq(&bodies) {
            return Err(broken(format!(
                "bodies {bodies:?} with {found:?} left, but stubs of {left:?}"
            )));
        }
        Ok(())
    }

    async fn all_keys(&self) -> Result<Vec<String>> {
        let mut cmd = redis::cmd("KEYS");
        cmd.arg("*");
        let rest = Reply::of(self.aside.query(&cmd).await?)?.rest()?;
        Ok(rest
            .iter()
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .collect())
    }

    async fn list(&self, key: &str) -> Result<Vec<Vec<u8>>> {
        let mut cmd = redis::cmd("LRANGE");
        cmd.arg(key).arg(0).arg(-1);
        Reply::of(self.aside.query(&cmd).await?)?.rest()
    }

    async fn packs(&self, key: &str) -> Result<Vec<Pack>> {
        let list = self.list(key).await?;
        self.joined(&self.aside, list).await
    }

    async fn hash(&self, key: &str) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(key);
        let mut reply = Reply::of(self.aside.query(&cmd).await?)?;
        let mut hash = BTreeMap::new();
        while reply.len() > 0 {
            hash.insert(reply.text()?, reply.bytes()?);
        }
        Ok(hash)
    }

    async fn later(&self, key: &str) -> Result<BTreeMap<(u64, u64), Pack>> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let mut reply = Reply::of(self.aside.query(&cmd).await?)?;
        let mut later = BTreeMap::new();
        while reply.len() > 0 {
            let (entry, due_ms) = (Bytes::from(reply.bytes()?), reply.uint()?);
            let pack = Pack::decode(entry.slice(8.min(entry.len())..))?;
            if entry[..8] != pack.first().to_be_bytes() {
                return Err(broken(format!("{} is put off under another number", pack.first())));
            }
            later.insert((due_ms, pack.first()), pack);
        }
        Ok(later)
    }

    async fn once(&self) -> Result<BTreeMap<String, (u64, Vec<Receipt>)>> {
        let values = self.hash(&self.keys.once_values).await?;
        let ends = self.leases(&self.keys.once).await?;
        if !ends.keys().eq(values.keys()) {
            return Err(broken(format!("once {ends:?} but values {values:?}")));
        }
        let mut once = BTreeMap::new();
        for (name, value) in values {
            let until_ms = ends[&name];
            let receipts = if name.starts_with('c') {
                record::decode_receipts(&value)?
            } else {
                let text = String::from_utf8_lossy(&value).into_owned();
                let (number, until) = text.split_once(' ').ok_or_else(|| broken("once".into()))?;
                if parse(until)? != until_ms {
                    return Err(broken(format!("{name} until {until_ms} and {until}")));
                }
                let number = parse(number)?;
                let repeated = false;
                vec![Receipt { number, repeated }]
            };
            once.insert(name, (until_ms, receipts));
        }
        Ok(once)
    }

    async fn leases(&self, key: &str) -> Result<BTreeMap<String, u64>> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let mut reply = Reply::of(self.aside.query(&cmd).await?)?;
        let mut leases = BTreeMap::new();
        while reply.len() > 0 {
            leases.insert(reply.text()?, reply.uint()?);
        }
        Ok(leases)
    }

    async fn stored(&self, key: &str) -> Result<Stored> {
        let mut cmd = redis::cmd("TYPE");
        cmd.arg(key);
        let kind = self.aside.query(&cmd).await?;
        match &kind {
            Value::SimpleString(kind) if kind == "hash" => Ok(Stored::Hash(self.hash(key).await?)),
            Value::SimpleString(kind) if kind == "list" => Ok(Stored::List(self.list(key).await?)),
            Value::SimpleString(kind) if kind == "string" => {
                let mut cmd = redis::cmd("GET");
                cmd.arg(key);
                match self.aside.query(&cmd).await? {
                    Value::BulkString(value) => Ok(Stored::Value(value)),
                    other => Err(broken(format!("{other:?}"))),
                }
            }
            other => Err(broken(format!("{key} is a {other:?}"))),
        }
    }
}

fn broken(detail: String) -> Error {
    Error::Protocol { detail }
}

/// How many messages refer to each body.
fn count_stub(left: &mut BTreeMap<String, u64>, bytes: &[u8]) -> Result<()> {
    if let Found::Stub { field, stub } = Found::of(bytes.to_vec())? {
        *left.entry(field).or_default() += bodies::messages(&stub);
    }
    Ok(())
}

fn parse(text: &str) -> Result<u64> {
    text.parse().map_err(|_| broken(format!("no number: {text:?}")))
}

fn meta(hash: &BTreeMap<String, Vec<u8>>) -> Result<Option<Meta>> {
    if hash.is_empty() {
        return Ok(None);
    }
    let text = |field: &str| {
        hash.get(field)
            .map(|value| String::from_utf8_lossy(value).into_owned())
            .ok_or_else(|| broken(format!("meta lacks {field}")))
    };
    let uint = |field: &str| parse(&text(field)?);
    // What the first layout did not have is not written before it is needed.
    let absent = |field: &str| hash.get(field).map_or(Ok(0), |_| uint(field));
    let like = text("shortcut").unwrap_or_default();
    let paused = Paused::of_bits(absent("paused")?);
    if !like.is_empty() && (like != text("grain")? || text("again")? == "1" || paused.handlers) {
        return Err(broken(format!("exchanges may be like {like}, but {hash:?}")));
    }
    Ok(Some(Meta {
        birth: text("birth")?,
        layout: uint("layout")?,
        names: text("names")?,
        clock: uint("clock")?,
        wall: uint("wall")?,
        step: uint("step")?,
        generator: text("generator")?,
        epoch: uint("epoch")?,
        crown: uint("crown")?,
        heirs: text("heirs")?.split_whitespace().map(str::to_string).collect(),
        seq: uint("seq")?,
        made: uint("made")?,
        due: uint("due")?,
        grain: uint("grain")?,
        again: text("again")? == "1",
        head: uint("head")?,
        done: uint("done")?,
        failed: uint("failed")?,
        requeued: uint("requeued")?,
        rewinds: uint("rewinds")?,
        paused,
        chosen: text("chosen").unwrap_or_default(),
        rank: absent("rank")?,
        ruled: absent("ruled")?,
        skipped: uint("skipped")?,
        trimmed: absent("trimmed")?,
    }))
}

fn report(taken: &mut Taken) -> &mut LastReport {
    taken.report.get_or_insert_default()
}

/// Pieces in hand, by their first number, as they are stored.
type Pieces = Vec<(u64, Vec<u8>)>;

/// All but the pieces in hand, whose bytes may stand apart.
fn taken(hash: &BTreeMap<String, Vec<u8>>) -> Result<(Taken, Pieces)> {
    let mut taken = Taken::default();
    let mut pieces = Vec::new();
    for (field, value) in hash {
        let text = || String::from_utf8_lossy(value).into_owned();
        if let Some(lane) = field.strip_prefix("lane:") {
            let lane = u32::try_from(parse(lane)?).map_err(|_| broken("lane".into()))?;
            taken.lanes.insert(lane, record::decode_lane(value)?);
        } else if field == "info" {
            let about = &mut taken.about;
            (about.host, about.pid, about.version, about.concurrency) = record::decode_about(value)?;
        } else if field == "joined" {
            taken.about.joined = parse(&text())?;
        } else if field == "held" {
            taken.about.held = Some(parse(&text())?);
        } else if field == "told" {
            report(&mut taken).number = parse(&text())?;
        } else if field == "told-at" {
            report(&mut taken).time_ms = parse(&text())?;
        } else if field == "report" {
            report(&mut taken).live = record::decode_live(value)?;
        } else if field == "redelivered" {
            let text = text();
            let (twice, thrice) = text.split_once(' ').ok_or_else(|| broken("redelivered".into()))?;
            (taken.about.redelivered, taken.about.suspects) = (parse(twice)?, parse(thrice)?);
        } else if field.starts_with("pack:") {
            let first = value.get(8..16).and_then(|bytes| bytes.try_into().ok());
            let first = first.map(u64::from_le_bytes).ok_or_else(|| broken("pack".into()))?;
            pieces.push((first, value.clone()));
        } else {
            pieces.push((parse(field)?, value.clone()));
        }
    }
    Ok((taken, pieces))
}
