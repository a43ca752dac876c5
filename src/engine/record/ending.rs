//! The record of a message whose outcome is asked for.

use super::{Field, Fields, Record, broken, uint};
use crate::engine::store::Asked;
use crate::engine::{Ended, Ending};
use crate::error::Result;

const WAITS: u64 = 0;
const DONE: u64 = 1;
const FAILED: u64 = 2;

/// What its handler gave is there only where it gave something.
impl Record for Asked {
    fn len(&self) -> usize {
        match self {
            Self::Waits { .. } => 2,
            Self::Ended(ending) if ending.how == Ended::Done(None) => 5,
            Self::Ended(_) => 6,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let ending = match self {
            Self::Waits { due_ms } => {
                uint(out, WAITS);
                uint(out, *due_ms);
                return;
            }
            Self::Ended(ending) => ending,
        };
        uint(out, if ending.is_done() { DONE } else { FAILED });
        uint(out, ending.time_ms);
        ending.node.write(out);
        ending.deliveries.write(out);
        ending.failures.write(out);
        match &ending.how {
            Ended::Done(None) => {}
            Ended::Done(Some(bytes)) | Ended::Failed(bytes) => bytes.write(out),
        }
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        let kind = fields.uint()?;
        if (kind, len) == (WAITS, 2) {
            let due_ms = fields.uint()?;
            return Ok(Self::Waits { due_ms });
        }
        let (time_ms, node) = (fields.uint()?, Field::read(fields)?);
        let (deliveries, failures) = (Field::read(fields)?, Field::read(fields)?);
        let how = match (kind, len) {
            (DONE, 5) => Ended::Done(None),
            (DONE, 6) => Ended::Done(Some(Field::read(fields)?)),
            (FAILED, 6) => Ended::Failed(Field::read(fields)?),
            _ => return Err(broken("an ending of another kind")),
        };
        Ok(Self::Ended(Ending {
            how,
            time_ms,
            node,
            deliveries,
            failures,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode, encode};
    use super::*;

    #[test]
    fn every_kind_survives_the_round_trip_and_cut_records_are_refused() {
        let ended = |how| {
            Asked::Ended(Ending {
                how,
                time_ms: 1 << 40,
                node: "n".into(),
                deliveries: 2,
                failures: 1,
            })
        };
        for asked in [
            Asked::Waits { due_ms: 7 },
            ended(Ended::Done(None)),
            ended(Ended::Done(Some(vec![0xff; 300]))),
            ended(Ended::Done(Some(Vec::new()))),
            ended(Ended::Failed(b"no".to_vec())),
        ] {
            let bytes = encode(&asked);
            for end in 0..bytes.len() {
                assert!(decode::<Asked>(&bytes[..end]).is_err(), "{asked:?} {end}");
            }
            assert_eq!(decode(&bytes), Ok(asked));
        }
        for wrong in [&[0x91, 0][..], &[0x92, 1, 1], &[0x95, 2, 1, 0xa1, b'n', 1, 1], &[0xc0]] {
            assert!(decode::<Asked>(wrong).is_err(), "{wrong:?}");
        }
    }
}
