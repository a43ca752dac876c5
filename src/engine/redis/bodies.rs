//! The bytes of large packs are stored separately, in `bodies`: scripts move stubs, plain commands carry the bytes.
//!
//! Redis' Lua hashes every byte of every string that it is handed, about 1.6 ns each, and a pack would pass it at every step.
//! The scripts' side of this is in `lua/packs.lua`.

use std::time::Duration;

use bytes::Bytes;

use super::link::Link;
use super::reply::Decode;
use super::{RedisEngine, broken};
use crate::engine::{Run, Settle};
use crate::error::Result;
use crate::message::{Outcome, Pack};

/// The body of a pack of this size is stored separately. Below it, one more round trip to fetch the bytes costs more than Lua
/// does.
pub(super) const BODY_BYTES_MIN: usize = 4096;

const HEADER_BYTES: usize = 36;
const STUB_BYTES: usize = HEADER_BYTES + 16;
const FLAGS: usize = 1;
/// Attempt, failures and whether it is out of order.
const PAST: std::ops::Range<usize> = 2..8;
const FIRST: std::ops::Range<usize> = 8..16;
const EPOCH: std::ops::Range<usize> = 16..24;
const COUNT: std::ops::Range<usize> = 32..36;
/// What a stub says of the whole pack.
const BODY_FIRST: std::ops::Range<usize> = 36..44;
const BODY_LENGTH: std::ops::Range<usize> = 48..52;

/// The field of `bodies` that has the bytes of a pack.
pub(super) fn field(epoch: u64, first: u64) -> String {
    format!("{epoch}:{first}")
}

/// What moves in the place of a large pack, or of a part of one: the head of what it stands for with its flag set, then the
/// first number, the count and the length of the whole pack.
pub(super) struct Stub(Vec<u8>);

impl Stub {
    pub(super) fn of(pack: &Pack) -> Self {
        let bytes = pack.bytes();
        let mut stub = Vec::with_capacity(STUB_BYTES);
        stub.extend_from_slice(&bytes[..HEADER_BYTES]);
        stub[FLAGS] = 1;
        stub.extend_from_slice(&bytes[FIRST]);
        stub.extend_from_slice(&bytes[COUNT]);
        stub.extend_from_slice(&u32::try_from(bytes.len()).expect("bounded").to_le_bytes());
        Self(stub)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where the bytes are.
    pub(super) fn field(&self) -> String {
        field(u64_at(&self.0, EPOCH), u64_at(&self.0, BODY_FIRST))
    }

    /// The number of the first message that this stub stands for.
    pub(super) fn first(&self) -> u64 {
        u64_at(&self.0, FIRST)
    }

    /// How many messages it stands for.
    pub(super) fn count(&self) -> u32 {
        u32_at(&self.0, COUNT)
    }

    /// The pack that it stands for. What the stub says of its past is newer than what the bytes say.
    fn join(&self, mut body: Vec<u8>) -> Result<Pack> {
        let length = u32_at(&self.0, BODY_LENGTH) as usize;
        if body.len() != length || length < HEADER_BYTES || body[FIRST] != self.0[BODY_FIRST] {
            return Err(broken("a stub and its bytes differ".into()));
        }
        body[PAST].copy_from_slice(&self.0[PAST]);
        let count = self.count() as usize;
        let all = Pack::decode(Bytes::from(body))?;
        match self.first().checked_sub(all.first()).map(usize::try_from) {
            Some(Ok(0)) if count == all.count() => Ok(all),
            Some(Ok(from)) if count > 0 && from.saturating_add(count) <= all.count() => Ok(all.piece(from, count)),
            _ => Err(broken("a stub outside its bytes".into())),
        }
    }
}

/// A pack as a script returns it.
pub(super) enum Found {
    Whole(Pack),
    Stub(Stub),
}

impl Found {
    pub(super) fn of(bytes: Vec<u8>) -> Result<Self> {
        if bytes.get(FLAGS) != Some(&1) {
            return Pack::decode(Bytes::from(bytes)).map(Self::Whole);
        }
        if bytes.len() != STUB_BYTES {
            return Err(broken("a stub of a wrong length".into()));
        }
        Ok(Self::Stub(Stub(bytes)))
    }
}

/// What came of packs as scripts return them.
#[derive(Default)]
pub(super) struct Joined {
    pub(super) packs: Vec<Pack>,
    /// What someone has changed or removed: to be settled as errors.
    pub(super) unreadable: Vec<Settle>,
}

impl Joined {
    fn unreadable(&mut self, piece: u64, count: u32, why: &str) {
        let outcome = Outcome::Error(format!("cannot be read: {why}"));
        self.unreadable.push(Settle {
            piece,
            runs: vec![Run {
                from: 0,
                count,
                outcome,
            }],
        });
    }

    /// All of them, where nobody else writes.
    #[cfg(feature = "mutants")]
    pub(super) fn all(self) -> Result<Vec<Pack>> {
        match self.unreadable.first() {
            None => Ok(self.packs),
            Some(settle) => Err(broken(format!("{settle:?}"))),
        }
    }
}

/// The bytes of the stubs among some packs, in their order; none for those that are gone.
pub(super) type Bodies = Vec<Option<Vec<u8>>>;

/// A server from which calls take longer sends bodies with their packs. Its Lua reads them then, which a second way there and back
/// would not cost; but it costs less than that.
const FAR: Duration = Duration::from_millis(2);

impl RedisEngine {
    /// Whether a take brings the bodies, too.
    pub(super) fn brings_bodies(&self) -> bool {
        self.bodies_come || self.control.trip() >= FAR
    }

    /// Packs as scripts return them, with the bytes of those that are stored separately. A node that was given up in this moment
    /// may find them gone: that it cannot settle them as errors either tells it so.
    pub(super) async fn joined(&self, link: &Link, packs: Vec<Vec<u8>>, came: Option<Bodies>) -> Result<Joined> {
        let mut joined = Joined::default();
        let mut found = Vec::with_capacity(packs.len());
        for bytes in packs {
            // Scripts return only what has a head.
            let head = (bytes.len() >= HEADER_BYTES).then(|| (u64_at(&bytes, FIRST), u32_at(&bytes, COUNT)));
            match (Found::of(bytes), head) {
                (Ok(pack), _) => found.push(pack),
                (Err(error), Some((first, count))) => joined.unreadable(first, count, &error.to_string()),
                (Err(error), None) => return Err(error),
            }
        }
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(&self.keys.bodies);
        let mut stubs = 0;
        for pack in &found {
            if let Found::Stub(stub) = pack {
                cmd.arg(stub.field());
                stubs += 1;
            }
        }
        let bodies: Bodies = match (stubs, came) {
            (0, _) => Vec::new(),
            (_, Some(came)) if came.len() == stubs => came,
            _ => Vec::decode(link.query(&cmd).await?)?,
        };
        let mut bodies = bodies.into_iter();
        for pack in found {
            match pack {
                Found::Whole(pack) => joined.packs.push(pack),
                Found::Stub(stub) => match bodies.next().flatten().map(|body| stub.join(body)) {
                    Some(Ok(pack)) => joined.packs.push(pack),
                    Some(Err(error)) => joined.unreadable(stub.first(), stub.count(), &error.to_string()),
                    None => joined.unreadable(stub.first(), stub.count(), "its bytes are gone from `bodies`"),
                },
            }
        }
        Ok(joined)
    }
}

fn u64_at(bytes: &[u8], at: std::ops::Range<usize>) -> u64 {
    u64::from_le_bytes(bytes[at].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: std::ops::Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[at].try_into().expect("four bytes"))
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
        let mut stub = Stub::of(&pack());
        assert_eq!((stub.bytes().len(), stub.field().as_str()), (STUB_BYTES, "3:70"));
        assert_eq!(stub.join(pack().bytes().to_vec()).unwrap(), pack());
        stub.0[2] = 4;
        assert_eq!(stub.join(pack().bytes().to_vec()).unwrap().deliveries(), 4);
    }

    #[test]
    fn a_stub_may_stand_for_a_part() {
        let mut stub = Stub::of(&pack());
        stub.0[FIRST].copy_from_slice(&71u64.to_le_bytes());
        stub.0[COUNT].copy_from_slice(&2u32.to_le_bytes());
        assert_eq!(stub.join(pack().bytes().to_vec()).unwrap(), pack().piece(1, 2));
    }

    #[test]
    fn what_does_not_belong_together_is_refused_and_nothing_panics() {
        let good = Stub::of(&pack()).0;
        let body = pack().bytes().to_vec();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut stub = Stub(good.clone());
                stub.0[at] ^= 1 << bit;
                if let Ok(found) = stub.join(body.clone()) {
                    let _ = found.message(found.count() - 1);
                }
                let _ = Found::of(stub.0);
            }
        }
        assert!(Stub(good.clone()).join(body[..body.len() - 1].to_vec()).is_err());
        assert!(Found::of(good[..good.len() - 1].to_vec()).is_err());
    }
}
