use super::*;

/// Every type of value, alone and in lists; what a Redis answers is of these.
const ANSWERS: &[&[u8]] = &[
    b"+OK\r\n",
    b"+a lone \r and a lone \n\r\n",
    b"-ERR unknown command\r\n",
    b":42\r\n",
    b":-42\r\n",
    b"$5\r\n\r\n$9\r\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*3\r\n:1\r\n$3\r\nabc\r\n*2\r\n+x\r\n*0\r\n",
    b"*1\r\n*1\r\n*1\r\n*-1\r\n",
    b"_\r\n",
    b",3.14\r\n",
    b"#t\r\n",
    b"(3492890328409238509324850943850943825024385\r\n",
    b"!7\r\nERR why\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
    b"%0\r\n",
    b"~2\r\n:1\r\n:2\r\n",
    b"|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n",
    b">2\r\n+message\r\n+hello\r\n",
];

fn fresh(frames: &Frames) -> bool {
    matches!(frames.place, Place::Type) && frames.open.is_empty()
}

/// What a server that sends this is cut off for.
fn beyond(bytes: &[u8]) -> Option<Beyond> {
    Frames::new().read(bytes).err()
}

#[test]
fn every_answer_ends_where_the_parser_says_cut_at_any_byte() {
    let all = ANSWERS.concat();
    let mut ends = Vec::new();
    for answer in ANSWERS {
        let value = redis::parse_redis_value(answer);
        assert!(value.is_ok(), "{}: {value:?}", answer.escape_ascii());
        ends.push(ends.last().unwrap_or(&0) + answer.len());
    }
    // One cut at every place, and a cut at all of them.
    for cut in 0..=all.len() {
        let mut frames = Frames::new();
        frames.read(&all[..cut]).expect("an answer of Redis");
        assert_eq!(fresh(&frames), cut == 0 || ends.contains(&cut), "after {cut} bytes");
        frames.read(&all[cut..]).expect("an answer of Redis");
        assert!(fresh(&frames));
    }
    let mut frames = Frames::new();
    for (at, byte) in all.iter().enumerate() {
        frames.read(&[*byte]).expect("an answer of Redis");
        assert_eq!(fresh(&frames), ends.contains(&(at + 1)), "after {at} bytes");
    }
}

#[test]
fn what_is_announced_beyond_a_bound_is_refused_before_it_comes() {
    for (bytes, why) in [
        (&b"$99999999999\r\n"[..], Beyond::Bytes),
        (b"$67108864\r\n", Beyond::Bytes),
        (b"$99999999999999999999999999999999\r\n", Beyond::Bytes),
        (b"=99999999999\r\n", Beyond::Bytes),
        (b"!99999999999\r\n", Beyond::Bytes),
        (b"*262144\r\n", Beyond::Values),
        (b"%131072\r\n", Beyond::Values),
        (b"|9223372036854775807\r\n", Beyond::Values),
        (b"~99999999999\r\n", Beyond::Values),
        (b">99999999999\r\n", Beyond::Values),
        (b"HTTP/1.1 400 Bad Request\r\n", Beyond::Foreign),
        (b"\x15\x03\x01\x00\x02\x02\x46", Beyond::Foreign),
        // What the parser would read in another way, or wait for without end.
        (b"$+5\r\n", Beyond::Foreign),
        (b"$ 5\r\n", Beyond::Foreign),
        (b"$\r\n", Beyond::Foreign),
        (b"$-\r\n", Beyond::Foreign),
        (b"$-2\r\n", Beyond::Foreign),
        (b"$5\n", Beyond::Foreign),
        (b"$5\r\r\n", Beyond::Foreign),
        (b"$5\r6\r\n", Beyond::Foreign),
        (b"=-1\r\n", Beyond::Foreign),
        (b"!-1\r\n", Beyond::Foreign),
        (b"%-1\r\n", Beyond::Foreign),
        (b"|-1\r\n", Beyond::Foreign),
    ] {
        assert_eq!(beyond(bytes), Some(why), "{}", bytes.escape_ascii());
    }
    let two = [
        &b"*2\r\n$60000000\r\n"[..],
        &vec![b'x'; 60_000_000],
        b"\r\n$60000000\r\n",
    ]
    .concat();
    assert_eq!(beyond(&two), Some(Beyond::Bytes), "together");
    assert_eq!(beyond(b"$67108000\r\n"), None);
    assert_eq!(beyond(b"*262143\r\n"), None);
}

#[test]
fn lines_and_lists_within_lists_have_bounds() {
    for kind in *b"+-:_,#(" {
        let mut line = vec![b'1'; LINE_BYTES_MAX as usize - 1];
        line[0] = kind;
        line.extend(b"\r\n");
        assert_eq!(beyond(&line), None, "{}", kind.escape_ascii());
        line.splice(1..1, *b"1");
        assert_eq!(beyond(&line), Some(Beyond::Line), "{}", kind.escape_ascii());
    }
    assert_eq!(beyond(&[b"$", &b"0".repeat(100_000)[..]].concat()), Some(Beyond::Line));
    assert_eq!(beyond(&b"*1\r\n".repeat(DEPTH_MAX)), None);
    assert_eq!(beyond(&b"*1\r\n".repeat(DEPTH_MAX + 1)), Some(Beyond::Depth));
    assert_eq!(beyond(&b">1\r\n".repeat(DEPTH_MAX + 1)), Some(Beyond::Depth));
}

#[test]
fn many_small_values_of_one_answer_count_together() {
    // Within what each list announces, and beyond in sum.
    let mut bytes = b"*1000\r\n".to_vec();
    for _ in 0..1000 {
        bytes.extend(b"*1000\r\n");
        bytes.extend(b":1\r\n".repeat(1000));
    }
    assert_eq!(beyond(&bytes), Some(Beyond::Values));
    let line = [b"+", &b"x".repeat(60_000)[..], b"\r\n"].concat();
    let lines = [b"*2000\r\n", &line.repeat(2000)[..]].concat();
    assert_eq!(beyond(&lines), Some(Beyond::Bytes));
}

#[test]
fn each_answer_has_the_bounds_by_itself_however_many_come_together() {
    let mut bounded = Bounded::new(());
    let question = b"*1\r\n$4\r\nPING\r\n";
    // As many looks at once as there are askers: together beyond both bounds.
    let look = [&b"*200000\r\n"[..], &b":1\r\n".repeat(200_000)].concat();
    let large = [&b"$60000000\r\n"[..], &vec![b'x'; 60_000_000], b"\r\n"].concat();
    bounded.sent(&question.repeat(6));
    for answer in [&look, &look, &look, &large, &large, &large] {
        bounded.came(answer).expect("asked for");
    }
    // What nobody asked for counts together, and with what comes after it.
    bounded.came(&look).expect("within");
    assert_eq!(bounded.came(&look), Err(Beyond::Values));
    // An answer that has begun goes on counting whatever is sent meanwhile.
    let mut bounded = Bounded::new(());
    bounded.came(b"*200000\r\n").expect("within");
    let cut = (0..200_000).find_map(|_| {
        bounded.sent(question);
        bounded.came(b"*1\r\n:1\r\n").err()
    });
    assert_eq!(cut, Some(Beyond::Values));
}

#[test]
fn a_server_answers_as_often_as_it_is_asked_and_once_more_to_say_that_it_is_full() {
    let mut bounded = Bounded::new(());
    let question = b"*2\r\n$4\r\nECHO\r\n$11\r\n*1\r\n$1\r\nx\r\n\r\n";
    bounded
        .came(b"-ERR max number of clients reached\r\n")
        .expect("said unasked");
    for byte in question.repeat(3) {
        bounded.sent(&[byte]);
    }
    bounded.came(&b"+OK\r\n".repeat(3)).expect("three were asked for");
    let more = (1..100).find_map(|number| bounded.came(b"+OK\r\n").err().map(|beyond| (number, beyond)));
    assert_eq!(more, Some((UNASKED_MAX, Beyond::Unasked)));
    // What a server sends to those who subscribed is no answer, and has the bounds of one.
    let mut bounded = Bounded::new(());
    let more = (1..VALUES_MAX).find_map(|number| bounded.came(b">1\r\n+x\r\n").err().map(|beyond| (number, beyond)));
    assert_eq!(more, Some((VALUES_MAX / 2 + 1, Beyond::Values)));
}
