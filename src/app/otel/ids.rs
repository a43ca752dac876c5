//! The ids of spans. That of a try follows from its message and from how many tries there were before: so the next try knows it, in whichever copy, and
//! nothing has to be stored for that.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

thread_local! {
    /// What the next span on this thread is to have.
    static NEXT: Cell<Option<SpanId>> = const { Cell::new(None) };
}

/// Random ids, but for spans that are to have a certain one.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        self.0.new_trace_id()
    }

    fn new_span_id(&self) -> SpanId {
        NEXT.take().unwrap_or_else(|| self.0.new_span_id())
    }
}

/// Starts a span with this id.
pub(super) fn with_id<T>(id: SpanId, start: impl FnOnce() -> T) -> T {
    NEXT.set(Some(id));
    let started = start();
    NEXT.set(None);
    started
}

/// The id of the span of a try. Each time that a message is delivered again or has failed there is one more.
pub(super) fn of_try(parent: SpanId, queue: &str, number: u64, tries: u64) -> SpanId {
    let mut mixed = u64::from_be_bytes(parent.to_bytes());
    let name = queue.bytes().fold(0, |sum: u64, byte| mix(sum ^ u64::from(byte)));
    for part in [name, number, tries] {
        mixed = mix(mixed ^ part);
    }
    SpanId::from(mixed.max(1))
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_try_has_an_id_of_its_own_that_others_can_tell() {
        let mut seen = BTreeSet::new();
        for parent in [1, 2] {
            for queue in ["jobs", "job", "sboj"] {
                for number in 0..20 {
                    for tries in 1..5 {
                        let id = of_try(SpanId::from(parent), queue, number, tries);
                        assert!(seen.insert(id.to_bytes()), "{parent} {queue} {number} {tries}");
                        assert_eq!(id, of_try(SpanId::from(parent), queue, number, tries));
                    }
                }
            }
        }
    }

    #[test]
    fn only_one_span_gets_a_certain_id() {
        let (ids, wanted) = (Ids::default(), SpanId::from(7));
        let given = with_id(wanted, || [ids.new_span_id(), ids.new_span_id()]);
        assert_eq!(given[0], wanted);
        assert_ne!(given[1], wanted);
        with_id(wanted, || ());
        assert_ne!(ids.new_span_id(), wanted, "what was not used is forgotten");
    }
}
