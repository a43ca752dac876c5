//! The record of a failed message.

use super::{Field, Fields, Record, broken, expect, text, uint};
use crate::engine::Failed;
use crate::error::Result;
use crate::message::{Envelope, Headers};

/// The last field, the envelope, is there only where the message has one.
impl Record for Failed {
    fn len(&self) -> usize {
        9 + usize::from(!self.envelope().is_empty())
    }

    fn write(&self, out: &mut Vec<u8>) {
        uint(out, self.number);
        self.deliveries.write(out);
        uint(out, self.epoch);
        uint(out, self.published_ms);
        uint(out, self.time_ms);
        self.node.write(out);
        self.error.write(out);
        self.payload.write(out);
        self.failures.write(out);
        let envelope = self.envelope();
        if !envelope.is_empty() {
            text(out, &envelope.encode());
        }
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        if len != 10 {
            expect(len, 9)?;
        }
        let mut failed = Self {
            number: fields.uint()?,
            deliveries: Field::read(fields)?,
            epoch: fields.uint()?,
            published_ms: fields.uint()?,
            time_ms: fields.uint()?,
            node: Field::read(fields)?,
            error: Field::read(fields)?,
            payload: Field::read(fields)?,
            failures: Field::read(fields)?,
            group: None,
            asked: false,
            expires_ms: None,
            headers: Headers::new(),
        };
        if len == 10 {
            let (envelope, _) = Envelope::decode(fields.bytes()?).ok_or_else(|| broken("no envelope"))?;
            (failed.group, failed.asked) = (envelope.group, envelope.asked);
            (failed.expires_ms, failed.headers) = (envelope.expires_ms, envelope.headers);
        }
        Ok(failed)
    }
}
