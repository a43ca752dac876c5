//! Packs as the store might hold them.

use bytes::Bytes;
use queenright::message::{Pack, PackBuilder};

#[test]
fn a_pack_is_refused_or_all_of_it_can_be_read() {
    super::fuzz("packs", &[], |input| {
        let pack = match Pack::decode(Bytes::copy_from_slice(input)) {
            Ok(pack) => pack,
            Err(error) => {
                let why = error.to_string();
                return why.rsplit(": ").next().map(str::to_string);
            }
        };
        assert_eq!(pack.bytes(), input, "decoding changes nothing");
        let count = pack.count();
        assert!(count > 0);
        let mut builder = PackBuilder::new();
        let mut payload_bytes = 0;
        for index in 0..count {
            let message = pack.message(index);
            assert_eq!(message.number, pack.first() + index as u64);
            payload_bytes += message.payload.len();
            builder.push(&message.payload);
        }
        let envelope = input.len() - 44 - 4 * (count - 1) - payload_bytes;
        match pack.group() {
            _ if !pack.is_enveloped() => assert_eq!(envelope, 0, "every byte has its place"),
            group => assert!(count == 1 && envelope >= 3 + group.map_or(0, str::len)),
        }
        let built = builder.build(pack.first(), pack.epoch(), pack.published_ms());
        let again = Pack::decode(built.bytes().clone()).expect("what was built");
        assert_eq!(again, built);
        let (head, tail) = (count.div_ceil(2), count / 2);
        let pieces = [(0, head), (head, tail)].into_iter().filter(|(_, count)| *count > 0);
        for (from, count) in pieces {
            let piece = pack.piece(from, count);
            let piece = Pack::decode(piece.bytes().clone())
                .expect("a piece is a pack")
                .next_attempt();
            assert_eq!(piece.deliveries(), pack.deliveries().saturating_add(1));
            for index in 0..count {
                assert_eq!(piece.message(index).payload, built.payload(from + index));
                assert_eq!(piece.message(index).number, again.message(from + index).number);
            }
        }
        Some(format!(
            "{} {} {}",
            count.ilog2(),
            payload_bytes > 0,
            pack.deliveries() > 1
        ))
    });
}
