//! The record of what is cancelled: numbers with their times, groups with the last number and its time, and what is spared.

use super::{Field, Fields, Record, array, expect, uint};
use crate::engine::store::Kept;
use crate::error::Result;

impl Record for Kept {
    fn len(&self) -> usize {
        3
    }

    fn write(&self, out: &mut Vec<u8>) {
        array(out, 2 * self.numbers.len());
        for (number, until) in &self.numbers {
            uint(out, *number);
            uint(out, *until);
        }
        array(out, 3 * self.groups.len());
        for (group, (last, until)) in &self.groups {
            group.write(out);
            uint(out, *last);
            uint(out, *until);
        }
        array(out, 2 * self.spared.len());
        for (number, group) in &self.spared {
            uint(out, *number);
            group.write(out);
        }
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        expect(len, 3)?;
        let mut kept = Self::default();
        for _ in 0..fields.array()? / 2 {
            kept.numbers.insert(fields.uint()?, fields.uint()?);
        }
        for _ in 0..fields.array()? / 3 {
            kept.groups
                .insert(Field::read(fields)?, (fields.uint()?, fields.uint()?));
        }
        for _ in 0..fields.array()? / 2 {
            kept.spared.insert(fields.uint()?, Field::read(fields)?);
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{decode, encode};
    use super::*;

    #[test]
    fn what_is_cancelled_survives_the_round_trip_and_cut_records_are_refused() {
        let kept = Kept {
            numbers: BTreeMap::from([(7, 3_600_000), (1 << 40, 0)]),
            groups: BTreeMap::from([("tenant 7".to_string(), (9, 1))]),
            spared: BTreeMap::from([(3, "tenant 7".to_string())]),
        };
        let bytes = encode(&kept);
        assert_eq!(decode(&bytes), Ok(kept));
        assert_eq!(decode(&encode(&Kept::default())), Ok(Kept::default()));
        for end in 0..bytes.len() {
            assert!(decode::<Kept>(&bytes[..end]).is_err(), "{end}");
        }
    }
}
