//! Answers of the scripts, decoded in one place.

use redis::Value;

use crate::error::{Error, Result};

/// A Lua number counts exactly up to here; sums of what is larger could overflow.
const UINT_MAX: u64 = 1 << 53;

/// The fields of one answer, in order.
pub(super) struct Reply(std::vec::IntoIter<Value>);

fn unexpected(value: impl std::fmt::Debug) -> Error {
    let mut detail = format!("{value:?}");
    detail.truncate(detail.floor_char_boundary(200));
    Error::Protocol { detail }
}

impl Reply {
    pub(super) fn of(value: Value) -> Result<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            other => Err(unexpected(other)),
        }
    }

    fn next(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| unexpected("answer too short"))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected(other)),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(unexpected)
    }

    /// Empty means none.
    pub(super) fn name(&mut self) -> Result<Option<String>> {
        Ok(Some(self.text()?).filter(|name| !name.is_empty()))
    }

    pub(super) fn uint(&mut self) -> Result<u64> {
        let value = match self.next()? {
            Value::Int(value) => u64::try_from(value).map_err(unexpected)?,
            Value::BulkString(text) => std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| unexpected(text))?,
            other => return Err(unexpected(other)),
        };
        if value > UINT_MAX {
            return Err(unexpected(value));
        }
        Ok(value)
    }

    pub(super) fn short(&mut self) -> Result<u16> {
        u16::try_from(self.uint()?).map_err(unexpected)
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        Ok(self.uint()? == 1)
    }

    pub(super) fn list(&mut self) -> Result<Reply> {
        Reply::of(self.next()?)
    }

    /// Everything that is left, as numbers.
    pub(super) fn uints(mut self) -> Result<Vec<u64>> {
        let mut all = Vec::with_capacity(self.len());
        while self.len() > 0 {
            all.push(self.uint()?);
        }
        Ok(all)
    }

    /// Everything that is left, as bytes that may be missing.
    pub(super) fn options(mut self) -> Result<Vec<Option<Vec<u8>>>> {
        let mut all = Vec::with_capacity(self.len());
        while self.len() > 0 {
            all.push(match self.next()? {
                Value::BulkString(bytes) => Some(bytes),
                Value::Nil => None,
                other => return Err(unexpected(other)),
            });
        }
        Ok(all)
    }

    /// Everything that is left, as bytes.
    pub(super) fn rest(mut self) -> Result<Vec<Vec<u8>>> {
        let mut all = Vec::with_capacity(self.len());
        while self.len() > 0 {
            all.push(self.bytes()?);
        }
        Ok(all)
    }
}
