//! What is stored as MessagePack, which Redis' Lua reads natively: a record is an array of its fields.

mod cancels;
mod ending;
mod failed;
mod process;

use rmp::decode::{self as read, Bytes as Reader};
use rmp::encode as write;

use super::history::{Bucket, Crowned, Figures, Gauges, Live};
use super::store::Lane;
use super::{Chained, Link, Receipt};
use crate::error::{Error, Result};
pub(super) use process::Process;

/// A value as it is stored.
pub(super) fn encode<T: Record>(record: &T) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, record.len());
    record.write(&mut out);
    out
}

/// A value from what is stored; anything else is an error, never a panic.
pub(super) fn decode<T: Record>(bytes: &[u8]) -> Result<T> {
    let mut fields = Fields(Reader::new(bytes));
    let len = fields.array()?;
    T::read(len, &mut fields)
}

/// What is stored as one array.
pub(super) trait Record: Sized {
    /// How many fields it has.
    fn len(&self) -> usize;
    fn write(&self, out: &mut Vec<u8>);
    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self>;
}

/// Records, with their fields in the order in which scripts and Rust write and read them.
macro_rules! records {
    ($($record:ident { $($field:ident),+ $(,)? })+) => {$(
        impl Record for $record {
            fn len(&self) -> usize {
                [$(stringify!($field)),+].len()
            }

            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)+
            }

            fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
                expect(len, [$(stringify!($field)),+].len())?;
                Ok(Self { $($field: Field::read(fields)?),+ })
            }
        }
    )+};
}

records! {
    Live { generates, started_ms, in_hand, rate_milli, published, done, failed, retried }
    Gauges { queued, in_hand, later, errors }
}

/// What effects published is there only where they did.
impl Record for Lane {
    fn len(&self) -> usize {
        6 + usize::from(!self.chained.is_empty())
    }

    fn write(&self, out: &mut Vec<u8>) {
        uint(out, self.call);
        uint(out, self.done);
        uint(out, self.failed);
        int(out, self.held);
        self.pieces.write(out);
        self.refused.write(out);
        if !self.chained.is_empty() {
            self.chained.write(out);
        }
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        if len != 7 {
            expect(len, 6)?;
        }
        Ok(Self {
            call: fields.uint()?,
            done: fields.uint()?,
            failed: fields.uint()?,
            held: Field::read(fields)?,
            pieces: Field::read(fields)?,
            refused: Field::read(fields)?,
            chained: if len == 6 {
                Chained::default()
            } else {
                Field::read(fields)?
            },
        })
    }
}

impl Record for Figures {
    fn len(&self) -> usize {
        Self::LEN
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.numbers().for_each(|number| uint(out, number));
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        expect(len, Self::LEN)?;
        Self::of(|| fields.uint())
    }
}

/// The index, the figures, and the gauges if there are any, all in one row.
impl Record for Bucket {
    fn len(&self) -> usize {
        1 + Figures::LEN + self.gauges.as_ref().map_or(0, Record::len)
    }

    fn write(&self, out: &mut Vec<u8>) {
        uint(out, self.index);
        self.figures.write(out);
        if let Some(gauges) = &self.gauges {
            gauges.write(out);
        }
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            index: fields.uint()?,
            figures: Record::read(Figures::LEN, fields)?,
            gauges: match len.checked_sub(1 + Figures::LEN) {
                Some(0) => None,
                rest => Some(Record::read(rest.unwrap_or(0), fields)?),
            },
        })
    }
}

/// The first layout did not count how many messages had been made.
impl Record for Crowned {
    fn len(&self) -> usize {
        5
    }

    fn write(&self, out: &mut Vec<u8>) {
        uint(out, self.epoch);
        self.node.write(out);
        uint(out, self.time_ms);
        uint(out, self.before_ms);
        uint(out, self.made);
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        if len != 4 {
            expect(len, 5)?;
        }
        Ok(Self {
            epoch: fields.uint()?,
            node: Field::read(fields)?,
            time_ms: fields.uint()?,
            before_ms: fields.uint()?,
            made: if len == 4 { 0 } else { fields.uint()? },
        })
    }
}

/// Number and whether it is a repeat, of each, all in one row.
impl Record for Vec<Receipt> {
    fn len(&self) -> usize {
        2 * self.as_slice().len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        for receipt in self {
            uint(out, receipt.number);
            receipt.repeated.write(out);
        }
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        let receipt = |_| {
            Ok(Receipt {
                number: fields.uint()?,
                repeated: Field::read(fields)?,
            })
        };
        (0..len / 2).map(receipt).collect()
    }
}

/// What can be a field of a record.
trait Field: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(fields: &mut Fields<'_>) -> Result<Self>;
}

macro_rules! unsigned {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn write(&self, out: &mut Vec<u8>) {
                uint(out, (*self).into());
            }

            fn read(fields: &mut Fields<'_>) -> Result<Self> {
                fields.uint()?.try_into().map_err(|_| broken("a number too large"))
            }
        }
    )+};
}

unsigned!(u16, u32, u64);

impl Field for i64 {
    fn write(&self, out: &mut Vec<u8>) {
        int(out, *self);
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        read::read_int(&mut fields.0).map_err(broken)
    }
}

impl Field for bool {
    fn write(&self, out: &mut Vec<u8>) {
        uint(out, (*self).into());
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(fields.uint()? == 1)
    }
}

impl Field for String {
    fn write(&self, out: &mut Vec<u8>) {
        text(out, self.as_bytes());
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self::from_utf8_lossy(fields.bytes()?).into_owned())
    }
}

impl Field for Vec<u8> {
    fn write(&self, out: &mut Vec<u8>) {
        text(out, self);
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        fields.bytes().map(<[u8]>::to_vec)
    }
}

/// Numbers as texts: to Lua they are names of fields.
impl Field for Vec<u64> {
    fn write(&self, out: &mut Vec<u8>) {
        array(out, self.len());
        for number in self {
            text(out, number.to_string().as_bytes());
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let len = fields.array()?;
        let number = |_| String::read(fields)?.parse().map_err(broken);
        (0..len).map(number).collect()
    }
}

/// Numbers and texts, all in one row.
impl Field for Vec<(u64, String)> {
    fn write(&self, out: &mut Vec<u8>) {
        array(out, 2 * self.len());
        for (number, why) in self {
            uint(out, *number);
            text(out, why.as_bytes());
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let len = fields.array()?;
        let pair = |_| Ok((fields.uint()?, String::read(fields)?));
        (0..len / 2).map(pair).collect()
    }
}

/// The epoch, then cause, first and count of each link in one row, then what was crowded.
impl Field for Chained {
    fn write(&self, out: &mut Vec<u8>) {
        array(out, 3);
        uint(out, self.epoch);
        array(out, 3 * self.links.len());
        for link in &self.links {
            for number in [link.cause, link.first, link.count] {
                uint(out, number);
            }
        }
        array(out, self.crowded.len());
        for number in &self.crowded {
            uint(out, *number);
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        expect(fields.array()?, 3)?;
        let epoch = fields.uint()?;
        let links = fields.array()? / 3;
        let link = |_| {
            Ok(Link {
                cause: fields.uint()?,
                first: fields.uint()?,
                count: fields.uint()?,
            })
        };
        let links = (0..links).map(link).collect::<Result<_>>()?;
        let crowded = fields.array()?;
        let crowded = (0..crowded).map(|_| fields.uint()).collect::<Result<_>>()?;
        Ok(Self { epoch, links, crowded })
    }
}

/// What is left to be read of a record.
pub(super) struct Fields<'a>(Reader<'a>);

impl<'a> Fields<'a> {
    fn uint(&mut self) -> Result<u64> {
        read::read_int(&mut self.0).map_err(broken)
    }

    /// An empty Lua table may be written as an array or as a map.
    fn array(&mut self) -> Result<usize> {
        let rest = self.0.remaining_slice();
        if rest.first() == Some(&0x80) {
            self.0 = Reader::new(&rest[1..]);
            return Ok(0);
        }
        Ok(read::read_array_len(&mut self.0).map_err(broken)? as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = read::read_str_len(&mut self.0).map_err(broken)? as usize;
        let rest = self.0.remaining_slice();
        let bytes = rest.get(..len).ok_or_else(|| broken("cut off"))?;
        self.0 = Reader::new(&rest[len..]);
        Ok(bytes)
    }
}

fn broken(what: impl std::fmt::Debug) -> Error {
    Error::Protocol {
        detail: format!("stored record: {what:?}"),
    }
}

fn expect(found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(broken(format!("{found} fields instead of {wanted}")))
}

/// Writing to a `Vec` cannot fail.
const IN_MEMORY: &str = "writes to memory";

#[inline]
pub(super) fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    write::write_str_len(out, u32::try_from(bytes.len()).expect("bounded by the largest payload")).expect(IN_MEMORY);
    out.extend_from_slice(bytes);
}

#[inline]
pub(super) fn array(out: &mut Vec<u8>, len: usize) {
    write::write_array_len(out, u32::try_from(len).expect("bounded by the protocol")).expect(IN_MEMORY);
}

#[inline]
pub(super) fn uint(out: &mut Vec<u8>, value: u64) {
    write::write_uint(out, value).expect(IN_MEMORY);
}

pub(super) fn nothing(out: &mut Vec<u8>) {
    write::write_nil(out).expect(IN_MEMORY);
}

pub(super) fn boolean(out: &mut Vec<u8>, value: bool) {
    write::write_bool(out, value).expect(IN_MEMORY);
}

#[inline]
pub(super) fn int(out: &mut Vec<u8>, value: i64) {
    write::write_sint(out, value).expect(IN_MEMORY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Failed;

    #[test]
    fn a_failed_message_survives_the_round_trip_and_cut_records_are_refused() {
        check_round_trip(None);
        check_round_trip(Some("tenant 7".into()));
    }

    fn check_round_trip(group: Option<String>) {
        let failed = Failed {
            number: 1 << 40,
            deliveries: 3,
            failures: 2,
            epoch: 9,
            published_ms: 1,
            time_ms: 2,
            node: "n".into(),
            error: b"bad \xff".to_vec(),
            headers: group.iter().map(|group| ("of", group.clone())).collect(),
            asked: group.is_some(),
            expires_ms: group.as_ref().map(|_| 7),
            group,
            payload: vec![0; 70_000],
        };
        let bytes = encode(&failed);
        assert_eq!(decode(&bytes), Ok(failed));
        for end in (0..200).chain([bytes.len() - 1]) {
            assert!(decode::<Failed>(&bytes[..end]).is_err());
        }
        let mut fewer = bytes[..bytes.len() - 1].to_vec();
        fewer[0] = 0x98;
        assert!(decode::<Failed>(&fewer).is_err());
    }

    #[test]
    fn a_step_of_history_survives_the_round_trip_with_and_without_gauges() {
        for gauges in [
            None,
            Some(Gauges {
                queued: 1,
                ..Gauges::default()
            }),
        ] {
            let bucket = Bucket {
                index: 7,
                figures: Figures {
                    done: 3,
                    ..Figures::default()
                },
                gauges,
            };
            let bytes = encode(&bucket);
            assert_eq!(decode(&bytes), Ok(bucket));
            assert!(decode::<Bucket>(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
