use super::*;

fn pack(payloads: &[&[u8]]) -> Pack {
    let mut builder = PackBuilder::new();
    for payload in payloads {
        builder.push(payload);
    }
    builder.build(7, 3, 99)
}

#[test]
fn a_piece_of_a_piece_still_finds_its_payloads() {
    let whole = pack(&[b"a", b"", b"ccc", b"dd", b"e"]);
    let tail = whole.piece(1, 4);
    let middle = tail.piece(1, 2);
    assert_eq!(middle.first(), 9);
    assert_eq!(middle.payload(0), "ccc");
    assert_eq!(middle.payload(1), "dd");
    assert_eq!(Pack::decode(middle.bytes().clone()).unwrap(), middle);
    assert_eq!(whole.piece(0, 5), whole);
}

#[test]
fn a_piece_from_behind_a_large_payload_can_be_read() {
    let tail = pack(&[&[0; 5000], b"last"]).piece(1, 1);
    assert_eq!(Pack::decode(tail.bytes().clone()).unwrap().payload(0), "last");
    assert_eq!(tail.piece(0, 1), tail);
}

#[test]
fn the_next_attempt_changes_nothing_else() {
    let whole = pack(&[b"a", b"b"]);
    let again = whole.next_attempt();
    assert_eq!(again.deliveries(), 2);
    assert_eq!(again.message(1).payload, "b");
    assert_eq!(again.epoch(), 3);
    assert_eq!(again.published_ms(), 99);
    assert_eq!(
        (again.next_failure().deliveries(), again.next_failure().failures()),
        (2, 1)
    );
    assert_eq!(again.next_failure().message(1).payload, "b");
}

#[test]
fn a_grouped_message_keeps_its_group_and_its_payload_through_everything_that_happens_to_it() {
    let pack = Pack::of_one(&Envelope::of_group(Some("tenant 7")), b"pay", 7, 3, 99);
    let later = pack.next_attempt().next_failure();
    for each in [
        &pack,
        &later,
        &later.marked_left(),
        &pack.marked_before_line(),
        &pack.piece(0, 1),
    ] {
        let each = Pack::decode(each.bytes().clone()).unwrap();
        assert_eq!(
            (each.group(), each.message(0).group()),
            (Some("tenant 7"), Some("tenant 7"))
        );
        assert_eq!((each.payload(0), each.count(), each.first()), ("pay".into(), 1, 7));
    }
    assert_eq!(
        (pack.holds_up(), later.holds_up(), later.marked_left().holds_up()),
        (Some("tenant 7"), Some("tenant 7"), None)
    );
    assert_eq!(later.marked_left().next_failure().holds_up(), None);
    assert_eq!(pack.marked_before_line().in_line(), pack);
    let plain = Pack::of_one(&Envelope::default(), b"pay", 7, 3, 99);
    assert_eq!(
        (plain.group(), plain.is_enveloped(), plain.payload(0)),
        (None, false, "pay".into())
    );
}

#[test]
fn broken_envelopes_are_refused_at_every_bit_and_never_panic() {
    let pack = Pack::of_one(&Envelope::of_group(Some("g")), b"p", 7, 3, 99);
    for i in 0..pack.bytes().len() {
        assert!(Pack::decode(pack.bytes().slice(..i)).is_err(), "{i}");
        for bit in 0..8 {
            let mut bytes = pack.bytes().to_vec();
            bytes[i] ^= 1 << bit;
            if let Ok(pack) = Pack::decode(bytes.into()) {
                let _ = (pack.message(pack.count() - 1), pack.holds_up());
            }
        }
    }
}

#[test]
fn broken_bytes_are_refused_at_every_length_and_never_panic() {
    let whole = pack(&[b"hello", b"world"]);
    for end in 0..whole.bytes().len() {
        assert!(Pack::decode(whole.bytes().slice(..end)).is_err(), "{end}");
    }
    for i in 0..whole.bytes().len() {
        for bit in 0..8 {
            let mut bytes = whole.bytes().to_vec();
            bytes[i] ^= 1 << bit;
            if let Ok(pack) = Pack::decode(bytes.into()) {
                for index in 0..pack.count() {
                    let _ = pack.message(index);
                }
            }
        }
    }
}
