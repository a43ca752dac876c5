//! What the scripts answer, decoded in one place.
//!
//! Scripts that are called for every message answer by position: `publish`, `exchange`. The others answer with names
//! ([`named!`]), which are the names of the fields here: what is misspelt, missing or superfluous is an error.

use std::collections::BTreeMap;

use bytes::Bytes;
use redis::Value;

use crate::engine::history::{Bucket, Crowned, LastReport, Live};
use crate::engine::store::Lane;
use crate::engine::{Chained, Failed, Link, Paused, record};
use crate::error::{Error, Result};

/// A Lua number counts exactly up to here; sums of what is larger could overflow.
const UINT_MAX: u64 = 1 << 53;

/// An answer that no script of ours gives.
pub(super) fn unexpected(value: impl std::fmt::Debug) -> Error {
    let mut detail = format!("{value:?}");
    detail.truncate(detail.floor_char_boundary(200));
    Error::Protocol { detail }
}

/// A value that can stand in an answer.
pub(super) trait Decode: Sized {
    fn decode(value: Value) -> Result<Self>;

    /// What it means that the script left this name out.
    fn absent(name: &str) -> Result<Self> {
        Err(unexpected(format!("an answer without {name}")))
    }
}

impl Decode for u64 {
    fn decode(value: Value) -> Result<Self> {
        let number = match value {
            Value::Int(number) => u64::try_from(number).map_err(unexpected)?,
            Value::BulkString(text) => std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| unexpected(text))?,
            other => return Err(unexpected(other)),
        };
        if number > UINT_MAX {
            return Err(unexpected(number));
        }
        Ok(number)
    }
}

impl Decode for u16 {
    fn decode(value: Value) -> Result<Self> {
        Self::try_from(u64::decode(value)?).map_err(unexpected)
    }
}

impl Decode for usize {
    fn decode(value: Value) -> Result<Self> {
        Self::try_from(u64::decode(value)?).map_err(unexpected)
    }
}

impl Decode for bool {
    fn decode(value: Value) -> Result<Self> {
        Ok(u64::decode(value)? == 1)
    }
}

impl Decode for Paused {
    fn decode(value: Value) -> Result<Self> {
        u64::decode(value).map(Self::of_bits)
    }
}

impl Decode for Vec<u8> {
    fn decode(value: Value) -> Result<Self> {
        match value {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected(other)),
        }
    }
}

impl Decode for Bytes {
    fn decode(value: Value) -> Result<Self> {
        Vec::decode(value).map(Self::from)
    }
}

impl Decode for String {
    fn decode(value: Value) -> Result<Self> {
        Self::from_utf8(Vec::decode(value)?).map_err(unexpected)
    }
}

/// Nil, or a name that the script left out, is none.
impl<T: Decode> Decode for Option<T> {
    fn decode(value: Value) -> Result<Self> {
        match value {
            Value::Nil => Ok(None),
            value => T::decode(value).map(Some),
        }
    }

    fn absent(_: &str) -> Result<Self> {
        Ok(None)
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(value: Value) -> Result<Self> {
        Reply::decode(value)?.rest()
    }
}

/// Those of a list that can be read: for looks, which must work whatever someone has written into the queue.
pub(super) struct Readable<T>(pub(super) Vec<T>);

impl<T: Decode> Decode for Readable<T> {
    fn decode(value: Value) -> Result<Self> {
        let values = Reply::decode(value)?.0;
        Ok(Self(values.filter_map(|value| T::decode(value).ok()).collect()))
    }
}

/// From a flat list, as `HGETALL` gives it.
impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(value: Value) -> Result<Self> {
        Ok(Reply::decode(value)?.pairs()?.into_iter().collect())
    }
}

/// Records are answered as they are stored.
macro_rules! records {
    ($($record:ty),+) => {$(
        impl Decode for $record {
            fn decode(value: Value) -> Result<Self> {
                record::decode(&Vec::<u8>::decode(value)?)
            }
        }
    )+};
}

records!(Bucket, Crowned, Failed, Lane, Live, record::Process);

/// The values of one answer, in order.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Decode for Reply {
    fn decode(value: Value) -> Result<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other => Err(unexpected(other)),
        }
    }
}

impl Reply {
    /// The next value.
    pub(super) fn next<T: Decode>(&mut self) -> Result<T> {
        let value = self.0.next().ok_or_else(|| unexpected("answer too short"))?;
        T::decode(value)
    }

    /// The next one, if there is one.
    pub(super) fn next_if_any<T: Decode>(&mut self) -> Result<Option<T>> {
        self.0.next().map(T::decode).transpose()
    }

    /// All that is left.
    pub(super) fn rest<T: Decode>(self) -> Result<Vec<T>> {
        self.0.map(T::decode).collect()
    }

    /// All that is left, two by two.
    pub(super) fn pairs<A: Decode, B: Decode>(mut self) -> Result<Vec<(A, B)>> {
        let mut pairs = Vec::with_capacity(self.0.len() / 2);
        while self.0.len() > 0 {
            pairs.push((self.next()?, self.next()?));
        }
        Ok(pairs)
    }
}

/// The epoch, cause, first and count of each link in one row, and what was crowded.
impl Decode for Chained {
    fn decode(value: Value) -> Result<Self> {
        let mut reply = Reply::decode(value)?;
        let epoch = reply.next()?;
        let mut row: Reply = reply.next()?;
        let mut links = Vec::with_capacity(row.0.len() / 3);
        while row.0.len() > 0 {
            links.push(Link {
                cause: row.next()?,
                first: row.next()?,
                count: row.next()?,
            });
        }
        Ok(Self {
            epoch,
            links,
            crowded: reply.next()?,
        })
    }
}

/// What is left of an answer that names what it says.
pub(super) struct Named(BTreeMap<String, Value>);

impl Decode for Named {
    fn decode(value: Value) -> Result<Self> {
        Self::of(Reply::decode(value)?)
    }
}

impl Named {
    pub(super) fn of(mut reply: Reply) -> Result<Self> {
        let mut named = BTreeMap::new();
        while reply.0.len() > 0 {
            let name: String = reply.next()?;
            let value = reply.0.next().ok_or_else(|| unexpected("a name without a value"))?;
            named.insert(name, value);
        }
        Ok(Self(named))
    }

    pub(super) fn take<T: Decode>(&mut self, name: &str) -> Result<T> {
        match self.0.remove(name) {
            Some(value) => T::decode(value),
            None => T::absent(name),
        }
    }

    /// The last report of a node.
    pub(super) fn last_report(&mut self) -> Result<Option<LastReport>> {
        let Some(live) = self.take::<Option<Vec<u8>>>("report")? else {
            return Ok(None);
        };
        let (number, time_ms) = (self.take("report_number")?, self.take("report_ms")?);
        // One that cannot be read is none.
        Ok(record::decode(&live)
            .ok()
            .map(|live| LastReport { number, time_ms, live }))
    }

    /// Refuses what nobody asked for.
    pub(super) fn end(self) -> Result<()> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(unexpected(format!("an answer with {name}"))),
        }
    }
}

/// A value of a type from the rest of a [`Reply`], or from a [`Named`], in which the script gave each field its name; fields
/// that stand after `with` are variables of that name.
macro_rules! named {
    (mut $named:ident => $($part:ident)::+ { $($field:ident),+ $(,)? } $(with { $($given:ident),+ $(,)? })?) => {{
        let value = $($part)::+ { $($field: $named.take(stringify!($field))?,)+ $($($given),+)? };
        $named.end()?;
        value
    }};
    ($reply:expr => $($part:ident)::+ { $($field:ident),+ $(,)? }) => {{
        let mut named = $crate::engine::redis::reply::Named::of($reply)?;
        $crate::engine::redis::reply::named!(mut named => $($part)::+ { $($field),+ })
    }};
}
pub(super) use named;

#[cfg(test)]
mod tests {
    use super::*;

    struct Seen {
        number: u64,
        name: Option<String>,
    }

    fn seen(values: &[&str]) -> Result<Seen> {
        let values = values.iter().map(|value| Value::BulkString(value.as_bytes().to_vec()));
        let reply = Reply::decode(Value::Array(values.collect()))?;
        Ok(named!(reply => Seen { number, name }))
    }

    #[test]
    fn what_is_named_may_come_in_any_order_and_all_of_it_is_wanted() {
        let found = seen(&["name", "n", "number", "7"]).expect("both");
        assert_eq!((found.number, found.name.as_deref()), (7, Some("n")));
        assert_eq!(seen(&["number", "7"]).expect("a name is optional").name, None);
        for wrong in [
            &["name", "n"][..],
            &["number"],
            &["number", "7", "other", "1"],
            &["number", "x"],
        ] {
            assert!(seen(wrong).is_err(), "{wrong:?}");
        }
    }
}
