//! What the scripts store and are given as MessagePack, which Redis' Lua reads natively.

use rmp::decode::{self, Bytes as Reader};
use rmp::encode;

use crate::engine::history::{Bucket, Crowned, Figures, Gauges, Live};
use crate::engine::store::Lane;
use crate::engine::{DELAY_MS_MAX, Failed, Join, Receipt, Settle};
use crate::error::{Error, Result};
use crate::message::{Effect, Outcome};

/// Writing to a `Vec` cannot fail.
const IN_MEMORY: &str = "writes to memory";

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    encode::write_str_len(out, u32::try_from(bytes.len()).expect("bounded by the largest payload")).expect(IN_MEMORY);
    out.extend_from_slice(bytes);
}

fn array(out: &mut Vec<u8>, len: usize) {
    encode::write_array_len(out, u32::try_from(len).expect("bounded by the protocol")).expect(IN_MEMORY);
}

fn uint(out: &mut Vec<u8>, value: u64) {
    encode::write_uint(out, value).expect(IN_MEMORY);
}

/// The piece and the count of a settle that says only: done, from its start on.
pub(super) fn plain(settle: &Settle) -> Option<(u64, u32)> {
    match settle.runs.as_slice() {
        [run] if run.from == 0 && matches!(&run.outcome, Outcome::Done(effects) if effects.is_empty()) => {
            Some((settle.piece, run.count))
        }
        _ => None,
    }
}

/// All other settles of an exchange, and the keys that their effects touch.
pub(super) fn settles(settles: &[Settle]) -> (Vec<u8>, Vec<&str>) {
    let (mut out, mut keys) = (Vec::new(), Vec::new());
    let rest = || settles.iter().filter(|settle| plain(settle).is_none());
    let count = rest().count();
    if count == 0 {
        return (out, keys);
    }
    array(&mut out, count);
    for settle in rest() {
        array(&mut out, 2);
        uint(&mut out, settle.piece);
        array(&mut out, settle.runs.len());
        for run in &settle.runs {
            let plain = matches!(&run.outcome, Outcome::Return)
                || matches!(&run.outcome, Outcome::Done(effects) if effects.is_empty());
            array(&mut out, if plain { 3 } else { 4 });
            uint(&mut out, run.from.into());
            uint(&mut out, run.count.into());
            match &run.outcome {
                Outcome::Done(effects) => {
                    uint(&mut out, 0);
                    if !effects.is_empty() {
                        array(&mut out, effects.len());
                        for each in effects {
                            effect(&mut out, each, &mut keys);
                        }
                    }
                }
                Outcome::Error(error) => {
                    uint(&mut out, 1);
                    text(&mut out, error.as_bytes());
                }
                Outcome::Return => uint(&mut out, 2),
                Outcome::Retry { after_ms, .. } => {
                    uint(&mut out, 3);
                    uint(&mut out, (*after_ms).min(DELAY_MS_MAX));
                }
            }
        }
    }
    (out, keys)
}

fn effect<'a>(out: &mut Vec<u8>, effect: &'a Effect, keys: &mut Vec<&'a str>) {
    let index = keys.iter().position(|key| *key == effect.key()).unwrap_or_else(|| {
        keys.push(effect.key());
        keys.len() - 1
    });
    let mut open = |kind: &str, len| {
        array(out, len);
        text(out, kind.as_bytes());
        uint(out, index as u64 + 1);
    };
    match effect {
        Effect::Add { by, .. } => {
            open("add", 3);
            encode::write_sint(out, *by).expect(IN_MEMORY);
        }
        Effect::Set { value, .. } => {
            open("set", 3);
            text(out, value);
        }
        Effect::SetField { field, value, .. } => {
            open("field", 4);
            text(out, field.as_bytes());
            text(out, value);
        }
        Effect::Push { value, .. } => {
            open("push", 3);
            text(out, value);
        }
    }
}

/// What is told of a node.
pub(super) fn about(join: &Join) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 4);
    text(&mut out, join.host.as_bytes());
    uint(&mut out, join.pid.into());
    text(&mut out, join.version.as_bytes());
    uint(&mut out, join.concurrency.into());
    out
}

/// A node as it sees itself.
pub(super) fn live(live: &Live) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 8);
    for number in [
        live.generates.into(),
        live.started_ms,
        live.in_hand,
        live.rate_milli,
        live.published,
        live.done,
        live.failed,
        live.retried,
    ] {
        uint(&mut out, number);
    }
    out
}

pub(super) fn decode_live(bytes: &[u8]) -> Result<Live> {
    let mut fields = Fields::of(bytes, 8)?;
    Ok(Live {
        generates: fields.uint()? == 1,
        started_ms: fields.uint()?,
        in_hand: fields.uint()?,
        rate_milli: fields.uint()?,
        published: fields.uint()?,
        done: fields.uint()?,
        failed: fields.uint()?,
        retried: fields.uint()?,
    })
}

pub(super) fn figures(figures: &Figures) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, Figures::LEN);
    figures.numbers().for_each(|number| uint(&mut out, number));
    out
}

pub(super) fn gauges(gauges: &Gauges) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 4);
    for number in [gauges.queued, gauges.in_hand, gauges.later, gauges.errors] {
        uint(&mut out, number);
    }
    out
}

/// As the scripts write it: the index, the figures, and the gauges if there are any.
#[cfg(feature = "sqlite")]
pub(super) fn encode_bucket(bucket: &Bucket) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 1 + Figures::LEN + if bucket.gauges.is_some() { 4 } else { 0 });
    uint(&mut out, bucket.index);
    bucket.figures.numbers().for_each(|number| uint(&mut out, number));
    if let Some(told) = &bucket.gauges {
        // Without the head of its own array.
        out.extend_from_slice(&gauges(told)[1..]);
    }
    out
}

pub(super) fn decode_bucket(bytes: &[u8]) -> Result<Bucket> {
    let (found, mut fields) = Fields::open(bytes)?;
    let found = found as usize;
    if found != 1 + Figures::LEN && found != 5 + Figures::LEN {
        return Err(broken(format!("{found} numbers in a step of history")));
    }
    Ok(Bucket {
        index: fields.uint()?,
        figures: Figures::of(|| fields.uint())?,
        gauges: if found == 5 + Figures::LEN {
            Some(Gauges {
                queued: fields.uint()?,
                in_hand: fields.uint()?,
                later: fields.uint()?,
                errors: fields.uint()?,
            })
        } else {
            None
        },
    })
}

/// epoch, node, when it began, last beat of the reign before
pub(super) fn decode_crowned(bytes: &[u8]) -> Result<Crowned> {
    let mut fields = Fields::of(bytes, 4)?;
    Ok(Crowned {
        epoch: fields.uint()?,
        node: fields.string()?,
        time_ms: fields.uint()?,
        before_ms: fields.uint()?,
    })
}

/// Reads what the scripts wrote; anything else is an error, never a panic.
struct Fields<'a> {
    reader: Reader<'a>,
}

fn broken(what: impl std::fmt::Debug) -> Error {
    Error::Protocol {
        detail: format!("stored record: {what:?}"),
    }
}

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8], len: u32) -> Result<Self> {
        let (found, fields) = Self::open(bytes)?;
        if found != len {
            return Err(broken(format!("{found} fields instead of {len}")));
        }
        Ok(fields)
    }

    fn open(bytes: &'a [u8]) -> Result<(u32, Self)> {
        let mut reader = Reader::new(bytes);
        let found = decode::read_array_len(&mut reader).map_err(broken)?;
        Ok((found, Self { reader }))
    }

    fn uint(&mut self) -> Result<u64> {
        decode::read_int(&mut self.reader).map_err(broken)
    }

    fn int(&mut self) -> Result<i64> {
        decode::read_int(&mut self.reader).map_err(broken)
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T> {
        T::try_from(self.uint()?).map_err(|_| broken("a number too large"))
    }

    /// An empty Lua table may be written as an array or as a map.
    fn array(&mut self) -> Result<usize> {
        let rest = self.reader.remaining_slice();
        if rest.first() == Some(&0x80) {
            self.reader = Reader::new(&rest[1..]);
            return Ok(0);
        }
        Ok(decode::read_array_len(&mut self.reader).map_err(broken)? as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = decode::read_str_len(&mut self.reader).map_err(broken)? as usize;
        let rest = self.reader.remaining_slice();
        let bytes = rest.get(..len).ok_or_else(|| broken("cut off"))?;
        self.reader = Reader::new(&rest[len..]);
        Ok(bytes)
    }

    fn string(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

/// host, pid, version, concurrency
pub(super) fn decode_about(bytes: &[u8]) -> Result<(String, u32, String, u32)> {
    let mut fields = Fields::of(bytes, 4)?;
    Ok((fields.string()?, fields.small()?, fields.string()?, fields.small()?))
}

pub(super) fn decode_failed(bytes: &[u8]) -> Result<Failed> {
    // The first layout did not count failures.
    let (found, mut fields) = Fields::open(bytes)?;
    if found != 8 && found != 9 {
        return Err(broken(format!("{found} fields instead of 9")));
    }
    let mut failed = Failed {
        number: fields.uint()?,
        attempt: fields.small()?,
        failures: 0,
        epoch: fields.uint()?,
        published_ms: fields.uint()?,
        time_ms: fields.uint()?,
        node: fields.string()?,
        error: fields.bytes()?.to_vec(),
        payload: fields.bytes()?.to_vec(),
    };
    if found == 9 {
        failed.failures = fields.small()?;
    }
    Ok(failed)
}

/// As the scripts write it.
pub(super) fn encode(failed: &Failed) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 9);
    for number in [
        failed.number,
        failed.attempt.into(),
        failed.epoch,
        failed.published_ms,
        failed.time_ms,
    ] {
        uint(&mut out, number);
    }
    text(&mut out, failed.node.as_bytes());
    text(&mut out, &failed.error);
    text(&mut out, &failed.payload);
    uint(&mut out, failed.failures.into());
    out
}

/// As the scripts write it: number and whether it is a repeat, of each.
#[cfg(feature = "sqlite")]
pub(super) fn encode_receipts(receipts: &[Receipt]) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 2 * receipts.len());
    for receipt in receipts {
        uint(&mut out, receipt.number);
        uint(&mut out, receipt.repeated.into());
    }
    out
}

pub(super) fn decode_receipts(bytes: &[u8]) -> Result<Vec<Receipt>> {
    let mut fields = Fields {
        reader: Reader::new(bytes),
    };
    let mut receipts = Vec::new();
    for _ in 0..fields.array()? / 2 {
        receipts.push(Receipt {
            number: fields.uint()?,
            repeated: fields.uint()? == 1,
        });
    }
    Ok(receipts)
}

pub(super) fn decode_lane(bytes: &[u8]) -> Result<Lane> {
    let mut fields = Fields::of(bytes, 6)?;
    let mut lane = Lane {
        call: fields.uint()?,
        done: fields.uint()?,
        failed: fields.uint()?,
        held: fields.int()?,
        ..Lane::default()
    };
    for _ in 0..fields.array()? {
        let first = fields.string()?;
        lane.pieces.push(first.parse().map_err(broken)?);
    }
    for _ in 0..fields.array()? / 2 {
        lane.refused.push((fields.uint()?, fields.string()?));
    }
    Ok(lane)
}

/// As the scripts write it.
#[cfg(feature = "sqlite")]
pub(super) fn encode_lane(lane: &Lane) -> Vec<u8> {
    let mut out = Vec::new();
    array(&mut out, 6);
    for number in [lane.call, lane.done, lane.failed] {
        uint(&mut out, number);
    }
    encode::write_sint(&mut out, lane.held).expect(IN_MEMORY);
    array(&mut out, lane.pieces.len());
    for first in &lane.pieces {
        text(&mut out, first.to_string().as_bytes());
    }
    array(&mut out, 2 * lane.refused.len());
    for (number, why) in &lane.refused {
        uint(&mut out, *number);
        text(&mut out, why.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_message_survives_the_round_trip_and_cut_records_are_refused() {
        let failed = Failed {
            number: 1 << 40,
            attempt: 3,
            failures: 2,
            epoch: 9,
            published_ms: 1,
            time_ms: 2,
            node: "n".into(),
            error: b"bad \xff".to_vec(),
            payload: vec![0; 70_000],
        };
        let bytes = encode(&failed);
        assert_eq!(decode_failed(&bytes), Ok(failed.clone()));
        // As the first layout wrote it.
        let mut old = bytes[..bytes.len() - 1].to_vec();
        old[0] -= 1;
        assert_eq!(decode_failed(&old), Ok(Failed { failures: 0, ..failed }));
        for end in 0..200 {
            assert!(decode_failed(&bytes[..end]).is_err());
        }
    }
}
