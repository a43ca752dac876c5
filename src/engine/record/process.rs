//! The process that a node is, as it told at its join.

use super::{Field, Fields, Record, expect};
use crate::engine::Join;
use crate::error::Result;
use crate::settings::Names;

/// The process that a node is.
#[derive(Debug, Default)]
pub(in crate::engine) struct Process {
    pub(in crate::engine) host: String,
    pub(in crate::engine) pid: u32,
    pub(in crate::engine) version: String,
    pub(in crate::engine) concurrency: u32,
    pub(in crate::engine) deliveries_max: u16,
    /// Of how many reshards of its shard it knew.
    pub(in crate::engine) reshards: u32,
}

/// One that has joined before this was told knew of none.
impl Record for Process {
    fn len(&self) -> usize {
        6
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.host.write(out);
        self.pid.write(out);
        self.version.write(out);
        self.concurrency.write(out);
        self.deliveries_max.write(out);
        self.reshards.write(out);
    }

    fn read(len: usize, fields: &mut Fields<'_>) -> Result<Self> {
        if len != 5 {
            expect(len, 6)?;
        }
        Ok(Self {
            host: Field::read(fields)?,
            pid: Field::read(fields)?,
            version: Field::read(fields)?,
            concurrency: Field::read(fields)?,
            deliveries_max: Field::read(fields)?,
            reshards: if len == 5 { 0 } else { Field::read(fields)? },
        })
    }
}

impl Process {
    pub(in crate::engine) fn of(join: &Join, names: &Names) -> Self {
        Self {
            host: join.host.clone(),
            pid: join.pid,
            version: join.version.clone(),
            concurrency: join.concurrency,
            deliveries_max: join.deliveries_max,
            reshards: names.reshards(),
        }
    }
}
