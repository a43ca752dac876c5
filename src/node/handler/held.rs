//! The messages in a lane's hand, cut as the store has them: pieces of packs, by their first number.

use std::collections::{BTreeMap, BTreeSet};

use super::stretch::Finished;
use crate::engine::{Run, Settle};
use crate::message::{Message, Pack};
use crate::mutants::guard;

/// A piece shares its pack's memory: unlike the store, the lane needs no copy to cut it.
#[derive(Debug, Clone)]
struct Piece {
    pack: Pack,
    from: usize,
    count: usize,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: BTreeMap<u64, Piece>,
    /// Those that a call on its way settles, in part or as a whole: until it is answered, the store may have them as they were, or what is left of
    /// them.
    settling: BTreeSet<u64>,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn insert(&mut self, pack: Pack) {
        let (from, count) = (0, pack.count());
        self.pieces.insert(pack.first(), Piece { pack, from, count });
    }

    fn find(&self, number: u64) -> Option<(u64, &Piece)> {
        let (first, piece) = self.pieces.range(..=number).next_back()?;
        (number < first + piece.count as u64).then_some((*first, piece))
    }

    /// Of how many pieces a finished run is. None: a call on its way settles one of them.
    pub(super) fn pieces(&self, run: &Finished) -> Option<usize> {
        let end = run.first + u64::from(run.count);
        let further = run.first + 1..end.max(run.first + 1);
        if !self.settling.is_empty() && guard("settling") {
            let first = self.find(run.first).map_or(run.first, |(first, _)| first);
            if self.settling.range(first..end.max(first + 1)).next().is_some() {
                return None;
            }
        }
        Some(1 + self.pieces.range(further).count())
    }

    /// Whether messages of this pack are in the hand already, and a call on its way settles them: another one than that with `own` settles.
    pub(super) fn is_settling(&self, pack: &Pack, own: &[Settle]) -> bool {
        let end = pack.first() + pack.count() as u64;
        let overlaps = |first: &&u64| {
            let piece = self.pieces.get(first);
            piece.is_some_and(|piece| *first + piece.count as u64 > pack.first())
        };
        let mut settling = self.settling.range(..end).rev().take_while(overlaps);
        settling.any(|first| own.iter().all(|settle| settle.piece != *first))
    }

    /// A call with these settles is on its way.
    pub(super) fn settling(&mut self, settles: &[Settle]) {
        self.settling.extend(settles.iter().map(|settle| settle.piece));
    }

    pub(super) fn message(&self, number: u64) -> Option<Message> {
        let (first, piece) = self.find(number)?;
        let index = usize::try_from(number - first).ok()?;
        Some(piece.pack.message(piece.from + index))
    }

    /// What to tell the store about finished runs, piece by piece. Runs come sorted; one may cover several pieces.
    pub(super) fn settles(&self, finished: &[Finished]) -> Vec<Settle> {
        let mut settles: Vec<Settle> = Vec::new();
        for run in finished {
            let mut first = run.first;
            let end = run.first + u64::from(run.count);
            while first < end {
                let Some((piece, held)) = self.find(first) else {
                    debug_assert!(false, "finished what is not held");
                    break;
                };
                let stop = end.min(piece + held.count as u64);
                let settled = Run {
                    from: u32::try_from(first - piece).expect("within a pack"),
                    count: u32::try_from(stop - first).expect("within a pack"),
                    outcome: run.outcome.clone(),
                };
                match settles.last_mut() {
                    Some(settle) if settle.piece == piece => settle.runs.push(settled),
                    _ => settles.push(Settle {
                        piece,
                        runs: vec![settled],
                    }),
                }
                first = stop;
            }
        }
        settles
    }

    /// The store has confirmed these settles: the rest of each piece becomes pieces of its own, as it does there.
    pub(super) fn release(&mut self, settles: &[Settle]) {
        for settle in settles {
            self.settling.remove(&settle.piece);
            let Some(piece) = self.pieces.remove(&settle.piece) else {
                continue;
            };
            let mut at = 0;
            let end = Run {
                from: u32::try_from(piece.count).expect("within a pack"),
                count: 0,
                outcome: crate::message::Outcome::Return,
            };
            for run in settle.runs.iter().chain([&end]) {
                let from = run.from as usize;
                if from > at && guard("rests") {
                    let rest = Piece {
                        pack: piece.pack.clone(),
                        from: piece.from + at,
                        count: from - at,
                    };
                    self.pieces.insert(settle.piece + at as u64, rest);
                }
                at = from + run.count as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Outcome, PackBuilder};

    #[test]
    fn what_is_settled_in_part_is_held_as_the_pieces_that_are_left() {
        let mut builder = PackBuilder::new();
        for i in 0..10u8 {
            builder.push(&[i]);
        }
        let mut held = Held::default();
        held.insert(builder.build(100, 1, 0));
        let done = |first, count| Finished {
            first,
            count,
            bytes: 0,
            outcome: Outcome::Done(Vec::new()),
        };
        let settles = held.settles(&[done(102, 3), done(109, 1)]);
        assert_eq!(settles.len(), 1);
        held.release(&settles);
        let pieces: Vec<_> = held.pieces.iter().map(|(first, piece)| (*first, piece.count)).collect();
        assert_eq!(pieces, [(100, 2), (105, 4)]);
        assert_eq!(held.message(106).unwrap().payload, [6u8][..]);
        assert!(held.message(103).is_none());
        held.release(&held.settles(&[done(100, 2), done(105, 4)]));
        assert!(held.is_empty());
    }

    #[test]
    fn a_piece_that_a_call_on_its_way_settles_is_named_by_no_other() {
        let pack = |first| {
            let mut builder = PackBuilder::new();
            (0..10u8).for_each(|i| builder.push(&[i]));
            builder.build(first, 1, 0)
        };
        let done = |first, count| Finished {
            first,
            count,
            bytes: 0,
            outcome: Outcome::Done(Vec::new()),
        };
        let mut held = Held::default();
        held.insert(pack(100));
        held.insert(pack(110));
        let settles = held.settles(&[done(100, 4)]);
        held.settling(&settles);
        assert_eq!(
            held.pieces(&done(104, 2)),
            None,
            "it may be a piece of its own by now, or not yet"
        );
        assert_eq!(held.pieces(&done(104, 8)), None);
        assert_eq!(held.pieces(&done(110, 10)), Some(1));
        // If it comes again, that call has given it back.
        assert!(
            held.is_settling(&pack(95), &[]) && held.is_settling(&pack(109), &[]) && !held.is_settling(&pack(110), &[])
        );
        assert!(
            !held.is_settling(&pack(100), &settles),
            "the call itself may bring it back"
        );
        held.release(&settles);
        assert_eq!(held.pieces(&done(104, 8)), Some(2));
        assert!(!held.is_settling(&pack(100), &[]));
    }
}
