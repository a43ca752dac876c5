//! The whole queue, read back as the state that it stands for: what the tests compare with the oracle.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use redis::Value;

use super::reply::{Decode, Named, Reply, named};
use super::unsettled::{Hash, Unsettled, in_line, is_piece};
use super::{RedisEngine, broken, number};
use crate::engine::history::Range;
use crate::engine::limits::CANCELS_BIT;
use crate::engine::memory::{State, Stored, Taken};
use crate::engine::record::{self, Process};
use crate::engine::store::{About, Asked, Endings as _, Gate, GroupRules, Groups, Kept, Meta, StepCounts, Turn};
use crate::engine::{Failed, Paused, Receipt};
use crate::error::Result;
use crate::message::Pack;

impl RedisEngine {
    /// Reads everything. Not in one step: only for a queue that nobody works on.
    pub async fn dump(&self) -> Result<State> {
        let keys = &self.keys;
        let mut state = State::new(&keys.queue_name, &keys.names);
        let mut unsettled = Unsettled::default();
        let mut fields: Named = self.hash(&keys.meta).await?;
        state.purged = self.purged().await?;
        state.unheard = self.all_of("LRANGE", &keys.unheard).await?;
        state.cursor = fields.take::<Option<_>>("cursor")?.unwrap_or_default();
        state.replay.epoch = fields.take::<Option<_>>("replays")?.unwrap_or_default();
        state.replay.hole = fields
            .take::<Option<Bytes>>("hole")?
            .map(|hole| two_numbers(&hole))
            .transpose()?;
        // What the list of those who have not spoken tells as well.
        fields.take::<Option<Bytes>>("heard")?;
        // 2 is for groups whose turn it is, and 1 for what is to be taken again.
        let again: u64 = fields.take::<Option<_>>("again")?.unwrap_or_default();
        let gate: Option<String> = fields.take("limit")?;
        let cancels: Option<Vec<u8>> = fields.take("cancels")?;
        state.meta = meta(fields, again, gate.as_deref(), cancels.as_deref())?;
        state.resting = self.with_scores(&keys.resting).await?;
        state.queue = self.packs(&keys.queue, &mut unsettled).await?.into();
        state.again = self.packs(&keys.again, &mut unsettled).await?.into();
        state.later = self.later().await?;
        self.groups(&mut state, &mut unsettled).await?;
        state.once = self.once().await?;
        self.asked(&mut state).await?;
        state.nodes = self.with_scores(&keys.nodes).await?;
        state.dead = self.all_of::<Vec<_>>("LRANGE", &keys.dead).await?.into();
        state.readers = self.with_scores(&keys.readers).await?;
        state.reigns = self.all_of::<Vec<_>>("LRANGE", &keys.reigns).await?.into();
        for (field, bucket) in self.hash::<BTreeMap<String, _>>(&keys.history).await? {
            state.history.insert(slot(&field)?, bucket);
        }
        state.bell = !self.all_of::<Vec<String>>("LRANGE", &keys.bell).await?.is_empty();
        state.crown_bell = !self.all_of::<Vec<String>>("LRANGE", &keys.crown).await?.is_empty();
        state.errors = self.errors().await?;
        for key in Vec::<String>::decode(self.aside.query(redis::cmd("KEYS").arg("*")).await?)? {
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

    /// A whole hash.
    async fn hash<T: Decode>(&self, key: &str) -> Result<T> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(key);
        T::decode(self.aside.query(&cmd).await?)
    }

    /// What is remembered of removed queues.
    async fn purged(&self) -> Result<(u64, Vec<String>)> {
        let mut fields: Named = self.hash(&self.keys.purged).await?;
        let births: Option<String> = fields.take("births")?;
        let births = births.iter().flat_map(|births| births.split_whitespace());
        Ok((
            fields.take::<Option<_>>("until")?.unwrap_or_default(),
            births.map(str::to_string).collect(),
        ))
    }

    async fn packs(&self, key: &str, unsettled: &mut Unsettled) -> Result<Vec<Pack>> {
        let packs: Vec<Vec<u8>> = self.all_of("LRANGE", key).await?;
        for bytes in &packs {
            unsettled.add(bytes.clone())?;
        }
        self.joined(&self.aside, packs, None).await?.all()
    }

    async fn with_scores<T: Decode + Ord>(&self, key: &str) -> Result<BTreeMap<T, u64>> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        BTreeMap::decode(self.aside.query(&cmd).await?)
    }

    /// The lines of groups. What is counted must agree with what is there.
    async fn groups(&self, state: &mut State, unsettled: &mut Unsettled) -> Result<()> {
        let keys = &self.keys;
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for entry in self.all_of::<Vec<Vec<u8>>>("ZRANGE", &keys.lines).await? {
            let bytes = in_line(&entry).to_vec();
            unsettled.add(bytes.clone())?;
            let pack = Pack::decode(bytes.into())?;
            let group = pack.group().unwrap_or_default().to_string();
            let begins = [group.as_bytes(), &[0], &pack.first().to_be_bytes()].concat();
            if !entry.starts_with(&begins) {
                return Err(broken(format!("{} stands in another line", pack.first())));
            }
            *counts.entry(group.clone()).or_default() += 1;
            state.lines.insert((group, pack.first()), pack);
        }
        let counted: BTreeMap<String, u64> = self.with_scores(&keys.groups).await?;
        if counted != counts {
            return Err(broken(format!(
                "{counted:?} are counted in lines, {counts:?} are there"
            )));
        }
        state.ready = self.all_of::<Vec<_>>("LRANGE", &keys.ready).await?.into();
        for (group, number) in self.hash::<BTreeMap<String, u64>>(&keys.turns).await? {
            if group.is_empty() {
                state.group_rules = GroupRules::of_number(number);
            } else {
                state.turns.insert(group, Turn::of_number(number));
            }
        }
        let paused: Vec<String> = self.all_of("ZRANGE", &keys.groups_paused).await?;
        if paused != state.paused_groups()? {
            return Err(broken(format!("{paused:?} are said to be paused")));
        }
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&keys.meta).arg("again");
        let again = Option::<u64>::decode(self.aside.query(&cmd).await?)?.unwrap_or_default();
        if (again / 2 == 1) == state.ready.is_empty() {
            return Err(broken(format!("again is {again}, ready {:?}", state.ready)));
        }
        Ok(())
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
        let values: Hash = self.hash(&self.keys.once_values).await?;
        let ends: BTreeMap<String, u64> = self.with_scores(&self.keys.once).await?;
        if !ends.keys().eq(values.keys()) {
            return Err(broken(format!("once {ends:?} but values {values:?}")));
        }
        let mut once = BTreeMap::new();
        for (name, value) in values {
            let until_ms = ends[&name];
            let receipts = if name.starts_with('c') {
                record::decode(&value)?
            } else {
                let (number, until) = two_numbers(&value)?;
                if until != until_ms {
                    return Err(broken(format!("{name} until {until_ms} and {until}")));
                }
                let repeated = false;
                vec![Receipt { number, repeated }]
            };
            once.insert(name, (until_ms, receipts));
        }
        Ok(once)
    }

    async fn asked(&self, state: &mut State) -> Result<()> {
        for (field, asked) in self.hash::<Hash>(&self.keys.asked).await? {
            let asked: Asked = record::decode(&asked)?;
            state.set_asked(number(field.as_bytes())?, &asked)?;
        }
        let ended = self.with_scores::<Bytes>(&self.keys.endings).await?;
        let ended = ended.iter().map(|(number, time_ms)| {
            let number = number.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            Ok((
                *time_ms,
                number.ok_or_else(|| broken("no number among the endings".into()))?,
            ))
        });
        let ended: BTreeSet<(u64, u64)> = ended.collect::<Result<_>>()?;
        if ended != state.endings {
            return Err(broken(format!("endings {ended:?} but records {:?}", state.endings)));
        }
        Ok(())
    }

    async fn errors(&self) -> Result<BTreeMap<u64, Failed>> {
        let errors: BTreeMap<u64, Failed> = self.hash(&self.keys.records).await?;
        let indexed: Vec<u64> = self.all_of("ZRANGE", &self.keys.errors).await?;
        if !indexed.iter().eq(errors.keys()) {
            return Err(broken(format!("errors {indexed:?} but records {:?}", errors.keys())));
        }
        Ok(errors)
    }

    /// What a reader is printing, and the call that gave it that.
    async fn reading(&self, key: &str) -> Result<(u64, Vec<Failed>)> {
        let mut reply: Reply = self.all_of("LRANGE", key).await?;
        Ok((reply.next()?, reply.rest()?))
    }

    async fn taken(&self, key: &str, unsettled: &mut Unsettled) -> Result<Taken> {
        let (mut lanes, mut pieces) = (BTreeMap::new(), BTreeMap::new());
        for (field, value) in self.hash::<Hash>(key).await? {
            if let Some(lane) = field.strip_prefix("lane:") {
                let lane = lane.parse().map_err(|_| broken(field.clone()))?;
                lanes.insert(lane, record::decode(&value)?);
            } else if is_piece(&field) {
                unsettled.add(value.clone())?;
                for pack in self.joined(&self.aside, vec![value], None).await?.all()? {
                    let named = field.starts_with("pack:") || number(field.as_bytes())? == pack.first();
                    if !named {
                        return Err(broken(format!("{} is in hand as {field}", pack.first())));
                    }
                    pieces.insert(pack.first(), pack);
                }
            }
        }
        let mut fields: Named = self.hash(key).await?;
        let process: Process = fields.take("process")?;
        // A deposed node takes nothing more, and so this is not kept of it.
        let suspects: Option<Vec<u8>> = fields.take("suspects")?;
        let (suspects, alone) = suspects.map_or(Ok((0, 0)), |text| two_numbers(&text))?;
        Ok(Taken {
            about: About {
                host: process.host,
                pid: process.pid,
                version: process.version,
                concurrency: process.concurrency,
                deliveries_max: process.deliveries_max,
                reshards: process.reshards,
                joined: fields.take("joined")?,
                token: fields.take("token")?,
                step: fields.take("step")?,
                suspects,
                alone,
                held: fields.take("held")?,
            },
            lanes,
            pieces,
            report: fields.last_report()?,
        })
    }

    async fn stored(&self, key: &str) -> Result<Stored> {
        match self.aside.query(redis::cmd("TYPE").arg(key)).await? {
            Value::SimpleString(kind) if kind == "hash" => Ok(Stored::Hash(self.hash(key).await?)),
            Value::SimpleString(kind) if kind == "list" => Ok(Stored::List(self.all_of("LRANGE", key).await?)),
            Value::SimpleString(kind) if kind == "string" => {
                Vec::decode(self.aside.query(redis::cmd("GET").arg(key)).await?).map(Stored::Value)
            }
            other => Err(broken(format!("{key} is a {other:?}"))),
        }
    }
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

/// `None`: there is no queue.
fn meta(mut fields: Named, again: u64, gate: Option<&str>, cancels: Option<&[u8]>) -> Result<Option<Meta>> {
    let Some(birth) = fields.take("birth")? else {
        return Ok(None);
    };
    // Only where someone has written into the queue.
    let _: Option<u64> = fields.take("damaged")?;
    let heirs: String = fields.take("heirs")?;
    let heirs = heirs.split_whitespace().map(str::to_string).collect();
    let (grain, held_back): (u64, u64) = (fields.take("grain")?, fields.take("paused")?);
    let (paused, limit) = (Paused::of_bits(held_back), gate.and_then(Gate::parse));
    let cancels: Kept = cancels.map(record::decode).transpose()?.unwrap_or_default();
    if (held_back >= CANCELS_BIT) == cancels.is_empty() {
        return Err(broken(format!("paused is {held_back}, cancelled {cancels:?}")));
    }
    if (held_back / 4 % 2 == 1) != limit.is_some() {
        return Err(broken(format!("paused is {held_back}, the limit {gate:?}")));
    }
    let steps = StepCounts::parse(&fields.take::<String>("steps")?);
    let shortcut: String = fields.take("shortcut")?;
    if !shortcut.is_empty() && (shortcut != grain.to_string() || again > 0 || held_back > 1) {
        return Err(broken(format!(
            "the shortcut is {shortcut}, but the grain {grain}, again {again}, {paused:?}"
        )));
    }
    let again = again % 2 == 1;
    Ok(Some(named!(mut fields => Meta {
        layout, names, clock, wall, step, generator, epoch, crown, seq, made, due, head, done, failed, requeued, rewinds, ruled,
        chosen, rank, skipped, trimmed, clearing, server, waited, waited_at,
    } with { birth, heirs, steps, grain, again, paused, limit, cancels })))
}
