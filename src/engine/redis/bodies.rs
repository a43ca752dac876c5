//! Large packs stand apart from the lists that they are in: scripts move stubs, plain commands carry the bytes.
//!
//! Redis' Lua hashes every byte of every string that it is handed, about 1.6 ns each, and a pack would pass it at every step.
//! The scripts' side of this is in `lua/packs.lua`.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::message::Pack;

/// From this size on. Below it, one more round trip to fetch the bytes costs more than Lua does.
pub const BODY_BYTES_MIN: usize = 4096;

const HEADER_BYTES: usize = 36;
const STUB_BYTES: usize = HEADER_BYTES + 16;
const FLAGS: usize = 1;
const FIRST: std::ops::Range<usize> = 8..16;
const EPOCH: std::ops::Range<usize> = 16..24;
const COUNT: std::ops::Range<usize> = 32..36;

/// Where the bytes of a pack are.
fn field(epoch: u64, first: u64) -> String {
    format!("{epoch}:{first}")
}

/// What stands in the place of a pack, and where its bytes go.
pub(super) fn stub(pack: &Pack) -> (Vec<u8>, String) {
    let bytes = pack.bytes();
    let mut stub = Vec::with_capacity(STUB_BYTES);
    stub.extend_from_slice(&bytes[..HEADER_BYTES]);
    stub[FLAGS] = 1;
    stub.extend_from_slice(&bytes[FIRST]);
    stub.extend_from_slice(&bytes[COUNT]);
    stub.extend_from_slice(&u32::try_from(bytes.len()).expect("bounded").to_le_bytes());
    (stub, field(pack.epoch(), pack.first()))
}

/// A pack as a script returns it: whole, or a stub.
pub(super) enum Found {
    Whole(Pack),
    Stub { stub: Vec<u8>, field: String },
}

impl Found {
    pub(super) fn of(bytes: Vec<u8>) -> Result<Self> {
        if bytes.get(FLAGS) != Some(&1) {
            return Pack::decode(Bytes::from(bytes)).map(Self::Whole);
        }
        if bytes.len() != STUB_BYTES {
            return Err(broken("a stub of a wrong length"));
        }
        let field = field(u64_at(&bytes, EPOCH.start), u64_at(&bytes, HEADER_BYTES));
        Ok(Self::Stub { stub: bytes, field })
    }
}

fn broken(detail: &str) -> Error {
    Error::Protocol { detail: detail.into() }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// How many messages a stub stands for.
pub(super) fn messages(stub: &[u8]) -> u64 {
    u32_at(stub, COUNT.start).into()
}

/// The pack that a stub stands for. What the stub says of its history is newer than what the bytes say.
pub(super) fn join(stub: &[u8], mut body: Vec<u8>) -> Result<Pack> {
    let length = u32_at(stub, HEADER_BYTES + 12) as usize;
    if body.len() != length || length < HEADER_BYTES || body[FIRST] != stub[HEADER_BYTES..HEADER_BYTES + 8] {
        return Err(broken("a stub and its bytes differ"));
    }
    body[2..8].copy_from_slice(&stub[2..8]);
    let (first, count) = (u64_at(stub, FIRST.start), u32_at(stub, COUNT.start) as usize);
    let all = Pack::decode(Bytes::from(body))?;
    match first.checked_sub(all.first()).map(usize::try_from) {
        Some(Ok(0)) if count == all.count() => Ok(all),
        Some(Ok(from)) if count > 0 && from.saturating_add(count) <= all.count() => Ok(all.piece(from, count)),
        _ => Err(broken("a stub outside its bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::PackBuilder;

    fn pack() -> Pack {
        let mut builder = PackBuilder::new();
        for payload in [&b"one"[..], b"", b"three"] {
            builder.push(payload);
        }
        builder.build(70, 3, 99)
    }

    #[test]
    fn a_pack_comes_back_from_its_stub_with_the_history_that_the_stub_has() {
        let (mut stub, field) = stub(&pack());
        assert_eq!((stub.len(), field.as_str()), (STUB_BYTES, "3:70"));
        assert_eq!(join(&stub, pack().bytes().to_vec()).unwrap(), pack());
        stub[2] = 4;
        assert_eq!(join(&stub, pack().bytes().to_vec()).unwrap().attempt(), 4);
    }

    #[test]
    fn a_stub_may_stand_for_a_part() {
        let (mut stub, _) = stub(&pack());
        stub[FIRST].copy_from_slice(&71u64.to_le_bytes());
        stub[COUNT].copy_from_slice(&2u32.to_le_bytes());
        assert_eq!(join(&stub, pack().bytes().to_vec()).unwrap(), pack().piece(1, 2));
    }

    #[test]
    fn what_does_not_belong_together_is_refused_and_nothing_panics() {
        let (good, _) = stub(&pack());
        let body = pack().bytes().to_vec();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut stub = good.clone();
                stub[at] ^= 1 << bit;
                if let Ok(found) = join(&stub, body.clone()) {
                    let _ = found.message(found.count() - 1);
                }
                let _ = Found::of(stub);
            }
        }
        assert!(join(&good, body[..body.len() - 1].to_vec()).is_err());
        assert!(Found::of(good[..good.len() - 1].to_vec()).is_err());
    }
}
