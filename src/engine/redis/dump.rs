//! The whole queue, read back as the state that it stands for: what the tests compare with the oracle.

use std::collections::BTreeMap;

use bytes::Bytes;
use redis::Value;

use super::reply::{Decode, Reply};
use super::unsettled::{Unsettled, is_piece};
use super::{RedisEngine, broken, number};
use crate::engine::history::{LastReport, Range};
use crate::engine::memory::{State, Stored, Taken};
use crate::engine::store::{About, Meta};
use crate::engine::{Paused, Receipt, record};
use crate::error::Result;
use crate::message::Pack;

type Hash = BTreeMap<String, Vec<u8>>;

impl RedisEngine {
    /// Reads everything. Not in one step: only for a queue that nobody works on.
    pub async fn dump(&self) -> Result<State> {
        let keys = &self.keys;
        let mut state = State::new(&keys.queue_name, &keys.names);
        let mut unsettled = Unsettled::default();
        let mut fields = self.hash(&keys.meta).await?;
        state.cursor = fields.remove("cursor").unwrap_or_default();
        state.meta = meta(&fields)?;
        state.queue = self.packs(&keys.queue, &mut unsettled).await?.into();
        state.again = self.packs(&keys.again, &mut unsettled).await?.into();
        state.later = self.later().await?;
        state.once = self.once().await?;
        state.nodes = self.leases(&keys.nodes).await?;
        state.dead = self.all_of::<String>("LRANGE", &keys.dead).await?.into();
        state.readers = self.leases(&keys.readers).await?;
        for bytes in self.all_of::<Vec<u8>>("LRANGE", &keys.reigns).await? {
            state.reigns.push_back(record::decode(&bytes)?);
        }
        for (field, bytes) in self.hash(&keys.history).await? {
            state.history.insert(slot(&field)?, record::decode(&bytes)?);
        }
        state.bell = self.rings(&keys.bell).await?;
        state.crown_bell = self.rings(&keys.crown).await?;
        state.errors = self.errors().await?;
        for key in self.all_keys().await? {
            if let Some(node) = key.strip_prefix(&keys.taken("")) {
                let taken = self.taken(&key, &mut unsettled).await?;
                state.taken.insert(node.to_string(), taken);
            } else if let Some(reader) = key.strip_prefix(&keys.reading("")) {
                if reader != "records" {
                    state.reading.insert(reader.to_string(), self.reading(&key).await?);
                }
            } else if !key.starts_with(&keys.prefix) && !key.starts_with("test:") {
                let stored = self.stored(&key).await?;
                state.stored.insert(key, stored);
            }
        }
        self.check_bodies(&unsettled).await?;
        Ok(state)
    }

    async fn all_keys(&self) -> Result<Vec<String>> {
        let mut cmd = redis::cmd("KEYS");
        cmd.arg("*");
        Vec::decode(self.aside.query(&cmd).await?)
    }

    async fn rings(&self, bell: &str) -> Result<bool> {
        let rings: Vec<Vec<u8>> = self.all_of("LRANGE", bell).await?;
        Ok(!rings.is_empty())
    }

    async fn packs(&self, key: &str, unsettled: &mut Unsettled) -> Result<Vec<Pack>> {
        let packs: Vec<Vec<u8>> = self.all_of("LRANGE", key).await?;
        for bytes in &packs {
            unsettled.add(bytes.clone())?;
        }
        self.joined(&self.aside, packs).await
    }

    async fn with_scores<T: Decode>(&self, key: &str) -> Result<Vec<(T, u64)>> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        Reply::decode(self.aside.query(&cmd).await?)?.pairs()
    }

    async fn leases(&self, key: &str) -> Result<BTreeMap<String, u64>> {
        Ok(self.with_scores(key).await?.into_iter().collect())
    }

    async fn later(&self) -> Result<BTreeMap<(u64, u64), Pack>> {
        let mut later = BTreeMap::new();
        for (entry, due_ms) in self.with_scores::<Bytes>(&self.keys.later).await? {
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
                record::decode(&value)?
            } else {
                let (first, until) = two_numbers(&value)?;
                if until != until_ms {
                    return Err(broken(format!("{name} until {until_ms} and {until}")));
                }
                vec![Receipt {
                    number: first,
                    repeated: false,
                }]
            };
            once.insert(name, (until_ms, receipts));
        }
        Ok(once)
    }

    async fn errors(&self) -> Result<BTreeMap<u64, crate::engine::Failed>> {
        let mut errors = BTreeMap::new();
        for (field, bytes) in self.hash(&self.keys.records).await? {
            errors.insert(number(field.as_bytes())?, record::decode(&bytes)?);
        }
        let indexed: Vec<u64> = self.all_of("ZRANGE", &self.keys.errors).await?;
        if !indexed.iter().eq(errors.keys()) {
            return Err(broken(format!("errors {indexed:?} but records {:?}", errors.keys())));
        }
        Ok(errors)
    }

    /// What a reader is printing, and the call that gave it that.
    async fn reading(&self, key: &str) -> Result<(u64, Vec<crate::engine::Failed>)> {
        let list: Vec<Vec<u8>> = self.all_of("LRANGE", key).await?;
        let (call, batch) = list
            .split_first()
            .ok_or_else(|| broken("a reader without a call".into()))?;
        let batch = batch.iter().map(|bytes| record::decode(bytes));
        Ok((number(call)?, batch.collect::<Result<_>>()?))
    }

    async fn taken(&self, key: &str, unsettled: &mut Unsettled) -> Result<Taken> {
        let hash = self.hash(key).await?;
        let (mut lanes, mut pieces) = (BTreeMap::new(), BTreeMap::new());
        for (field, value) in &hash {
            if let Some(lane) = field.strip_prefix("lane:") {
                let lane = lane.parse().map_err(|_| broken(field.clone()))?;
                lanes.insert(lane, record::decode(value)?);
            } else if is_piece(field) {
                unsettled.add(value.clone())?;
                for pack in self.joined(&self.aside, vec![value.clone()]).await? {
                    let named = field.starts_with("pack:") || number(field.as_bytes())? == pack.first();
                    if !named {
                        return Err(broken(format!("{} is in hand as {field}", pack.first())));
                    }
                    pieces.insert(pack.first(), pack);
                }
            }
        }
        let report = match hash.get("report") {
            Some(live) => Some(LastReport {
                number: of(&hash, "report_number")?,
                time_ms: of(&hash, "report_ms")?,
                live: record::decode(live)?,
            }),
            None => None,
        };
        Ok(Taken {
            about: about(&hash)?,
            lanes,
            pieces,
            report,
        })
    }

    async fn stored(&self, key: &str) -> Result<Stored> {
        let mut cmd = redis::cmd("TYPE");
        cmd.arg(key);
        match self.aside.query(&cmd).await? {
            Value::SimpleString(kind) if kind == "hash" => Ok(Stored::Hash(self.hash(key).await?)),
            Value::SimpleString(kind) if kind == "list" => Ok(Stored::List(self.all_of("LRANGE", key).await?)),
            Value::SimpleString(kind) if kind == "string" => {
                let mut cmd = redis::cmd("GET");
                cmd.arg(key);
                Vec::decode(self.aside.query(&cmd).await?).map(Stored::Value)
            }
            other => Err(broken(format!("{key} is a {other:?}"))),
        }
    }
}

fn field<'a>(hash: &'a Hash, name: &str) -> Result<&'a [u8]> {
    let value = hash.get(name).map(Vec::as_slice);
    value.ok_or_else(|| broken(format!("there is no {name}")))
}

fn of(hash: &Hash, name: &str) -> Result<u64> {
    number(field(hash, name)?)
}

fn text(hash: &Hash, name: &str) -> Result<String> {
    Ok(String::from_utf8_lossy(field(hash, name)?).into_owned())
}

/// With a space between them.
fn two_numbers(value: &[u8]) -> Result<(u64, u64)> {
    let space = value.iter().position(|byte| *byte == b' ');
    let space = space.ok_or_else(|| broken(format!("no two numbers: {value:?}")))?;
    Ok((number(&value[..space])?, number(&value[space + 1..])?))
}

/// The ring and the slot of a field of `history`.
fn slot(field: &str) -> Result<(u64, u64)> {
    let (ring, slot) = field.split_once(':').ok_or_else(|| broken(field.to_string()))?;
    let (ring, slot) = (number(ring.as_bytes())?, number(slot.as_bytes())?);
    let range = Range::ALL.into_iter().find(|range| range.ring() == ring);
    match range {
        Some(range) if slot < range.steps() => Ok((ring, slot)),
        _ => Err(broken(field.to_string())),
    }
}

fn meta(hash: &Hash) -> Result<Option<Meta>> {
    if hash.is_empty() {
        return Ok(None);
    }
    let paused = Paused::of_bits(of(hash, "paused")?);
    let shortcut = text(hash, "shortcut")?;
    if !shortcut.is_empty() && (shortcut != text(hash, "grain")? || text(hash, "again")? == "1" || paused.handlers) {
        return Err(broken(format!("the shortcut is {shortcut}, but {hash:?}")));
    }
    Ok(Some(Meta {
        birth: text(hash, "birth")?,
        layout: of(hash, "layout")?,
        names: text(hash, "names")?,
        clock: of(hash, "clock")?,
        wall: of(hash, "wall")?,
        step: of(hash, "step")?,
        generator: text(hash, "generator")?,
        epoch: of(hash, "epoch")?,
        crown: of(hash, "crown")?,
        heirs: text(hash, "heirs")?.split_whitespace().map(str::to_string).collect(),
        seq: of(hash, "seq")?,
        made: of(hash, "made")?,
        due: of(hash, "due")?,
        grain: of(hash, "grain")?,
        again: text(hash, "again")? == "1",
        head: of(hash, "head")?,
        done: of(hash, "done")?,
        failed: of(hash, "failed")?,
        requeued: of(hash, "requeued")?,
        rewinds: of(hash, "rewinds")?,
        paused,
        chosen: text(hash, "chosen")?,
        rank: of(hash, "rank")?,
        ruled: of(hash, "ruled")?,
        skipped: of(hash, "skipped")?,
        trimmed: of(hash, "trimmed")?,
    }))
}

fn about(hash: &Hash) -> Result<About> {
    let process: record::Process = record::decode(field(hash, "process")?)?;
    // A deposed node takes nothing more, and so this is not kept of it.
    let (redelivered, suspects) = hash.get("redelivered").map_or(Ok((0, 0)), |text| two_numbers(text))?;
    Ok(About {
        host: process.host,
        pid: process.pid,
        version: process.version,
        concurrency: process.concurrency,
        joined: of(hash, "joined")?,
        redelivered,
        suspects,
        held: hash.get("held").map(|text| number(text)).transpose()?,
    })
}
