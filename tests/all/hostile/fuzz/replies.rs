//! Answers that no script of ours gives, from a server that is none: refused as wrong, never a panic, and what is
//! accepted can be read and printed.
//!
//! An input is a verb (its first byte) and a reply in lines: `a3` begins an array of three, `i7` is a number, `sabc` a
//! string, `+OK` a status, `eERR why` an error, `d1.5`, `t` and `f` are of RESP3, and anything else is nil.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use queenright::app::output::failed::{json_line, text_line};
use queenright::engine::redis::{Place, RedisEngine, Server};
use queenright::engine::{Collect, Collected, Engine, Exchange, Exchanged, Failed, Range, Reap, Wake};
use queenright::error::{Error, Result};
use redis::IntoConnectionInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::conformance::{Hive, LocalBench, packs};

type Calls = Hive<LocalBench>;

const WORDS: [&[u8]; 28] = [
    b"\na3",
    b"\na0",
    b"\na11",
    b"\nsok",
    b"\nsdeposed",
    b"\nsmoved",
    b"\nsstale",
    b"\nsfenced",
    b"\nstype",
    b"\nsother",
    b"\ni0",
    b"\ni1",
    b"\ni-1",
    b"\ni9223372036854775807",
    b"\ns18446744073709551615",
    b"\ns9007199254740993",
    b"\nn",
    b"\nt",
    b"\nd1.5",
    b"\n+OK",
    b"\neERR queenright",
    b"\neOOM command",
    b"\neNOSCRIPT no",
    b"\neMOVED 1 x:1",
    b"\neWRONGTYPE x",
    b"\ns\xff\xfe",
    b"\ns\x99\x01\x01\x01\x01\x01\xa1n\xa1e\xa1p\x01",
    b"\ns\x94\xa1h\x01\xa1v\x01",
];

#[test]
fn a_reply_that_no_script_gives_is_refused_or_can_be_read() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let reply = Rc::new(RefCell::new(Reply::default()));
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    local.block_on(&runtime, async {
        let listener = UnixListener::bind(&socket).expect("a socket");
        tokio::task::spawn_local(serve(listener, reply.clone()));
    });
    let new_engine = || {
        let server = Server {
            place: Place::at(
                format!("unix:{}", socket.display())
                    .into_connection_info()
                    .expect("a URL"),
            ),
            password: None,
            address: "nowhere".into(),
            // What a cluster has not decided yet is asked for so long.
            answer_timeout: Duration::from_millis(50),
            replicas: 0,
            watch: true,
        };
        let keys = queenright::engine::redis::keys::Keys::new("fuzz", &queenright::settings::Names::default());
        RedisEngine::new(&server, keys).expect("a URL")
    };
    let mut engine = new_engine();
    super::fuzz("replies", &WORDS, |input| {
        let (verb, text) = input.split_first().unwrap_or((&0, &[]));
        {
            let mut reply = reply.borrow_mut();
            reply.bytes.clear();
            encode(&mut text.split(|&byte| byte == b'\n').skip(1), 0, &mut reply.bytes);
            reply.to_lists = *verb >= b'm';
        }
        let answer = local.block_on(&runtime, Box::pin(call(&engine, *verb)));
        if engine.place().is_some() {
            // It was sent away, and would not come back.
            engine = new_engine();
        }
        match answer {
            Ok(kind) => kind,
            Err(error) => {
                let line = queenright::event::escape(error.to_string().as_bytes()).into_owned();
                assert!(!line.is_empty());
                format!("{verb} {:?}", std::mem::discriminant(&error))
            }
        }
    });
}

async fn call(engine: &RedisEngine, verb: u8) -> Result<String> {
    let name = || "n".to_string();
    Ok(match verb {
        b'a' => format!(
            "{:?}",
            std::mem::discriminant(&engine.join(&Calls::join_call("n")).await?)
        ),
        b'b' => format!(
            "{:?}",
            std::mem::discriminant(&engine.beat(&Calls::beat_call("n")).await?)
        ),
        b'c' => {
            // A publish uses the connection of the beat.
            let publish = queenright::engine::Publish {
                node: name(),
                epoch: 1,
                made: 0,
                first: 0,
                messages: None,
                backlog_max: 9,
                interval_ms: 0,
                cursor: None,
                server: "s1".into(),
                again: false,
                packs: packs(0, 1, 0, &[1]),
            };
            let answer = engine.publish(&publish).await;
            if matches!(answer, Err(Error::Away { .. })) {
                let _ = engine.leave(&name()).await;
            }
            format!("{:?}", std::mem::discriminant(&answer?))
        }
        b'd' => {
            let exchange = Exchange {
                node: name(),
                lane: 0,
                call: 1,
                settles: Vec::new(),
                want: 1,
                want_bytes: u32::MAX,
                woken: false,
                ..Exchange::default()
            };
            let answer = engine.exchange(&exchange).await?;
            let kind = format!("{:?}", std::mem::discriminant(&answer));
            let Exchanged::Ok { packs, .. } = answer else {
                return Ok(kind);
            };
            for pack in &packs {
                for index in 0..pack.count() {
                    let _ = pack.message(index);
                }
            }
            format!("{kind} {}", packs.len())
        }
        b'e' => {
            let reap = Reap::of(&name());
            engine.reap(&reap).await.map(|reaped| format!("{}", reaped.more))?
        }
        b'f' => engine.leave(&name()).await.map(|()| "left".to_string())?,
        b'g' => {
            let collect = Collect {
                reader: name(),
                call: 1,
                shown: Vec::new(),
                below: 9,
                want: 1,
                lease_ms: 1,
            };
            match engine.collect(&collect).await? {
                Collected::Batch { failed, victim, .. } => format!("{} {}", printed(&failed), victim.is_some()),
                Collected::Deposed => "deposed".into(),
            }
        }
        b'h' => engine.hold("n", 1).await.map(|held| format!("{held}"))?,
        b'i' => engine.release("n", false).await.map(|()| "released".to_string())?,
        b'j' => printed(&engine.failed(0, 1).await?),
        b'l' => format!("{} reigns", engine.history(Range::Hour).await?.reigns.len()),
        b'k' | b'm' => format!("{} nodes", engine.status().await?.nodes.len()),
        b'n' => engine.check().await.map(|()| "sound".to_string())?,
        b'o' => format!("{} unsettled", engine.unsettled().await?.len()),
        _ => format!("{:?}", engine.listen(Wake::Bell, Duration::from_millis(1)).await?),
    })
}

fn printed(failed: &[Failed]) -> String {
    let mut out = String::new();
    for each in failed {
        text_line(&mut out, each);
        json_line(&mut out, each);
    }
    assert_eq!(out.lines().count(), 2 * failed.len());
    format!("{} failed", failed.len())
}

/// What every script is answered at the moment.
#[derive(Default)]
struct Reply {
    bytes: Vec<u8>,
    /// Whether plain commands are answered so as well, instead of with an empty list.
    to_lists: bool,
}

fn encode<'a>(lines: &mut impl Iterator<Item = &'a [u8]>, depth: u32, out: &mut Vec<u8>) {
    let line = lines.next().unwrap_or_default();
    let (kind, rest) = line.split_first().unwrap_or((&b'n', &[]));
    let text = std::str::from_utf8(rest).unwrap_or_default();
    let plain: Vec<u8> = rest.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
    match kind {
        b'a' if depth < 5 => {
            let count = text.parse::<u32>().unwrap_or(0).min(40);
            out.extend(format!("*{count}\r\n").bytes());
            for _ in 0..count {
                encode(lines, depth + 1, out);
            }
        }
        b'i' => out.extend(format!(":{}\r\n", text.parse::<i64>().unwrap_or(0)).bytes()),
        b's' => out.extend([format!("${}\r\n", rest.len()).as_bytes(), rest, b"\r\n"].concat()),
        b'd' => out.extend(format!(",{}\r\n", text.parse::<f64>().unwrap_or(0.5)).bytes()),
        b't' => out.extend(b"#t\r\n"),
        b'f' => out.extend(b"#f\r\n"),
        b'+' => out.extend([b"+", &plain[..], b"\r\n"].concat()),
        b'e' => out.extend([b"-", &plain[..], b"\r\n"].concat()),
        _ => out.extend(b"$-1\r\n"),
    }
}

async fn serve(listener: UnixListener, reply: Rc<RefCell<Reply>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(answer(stream, reply.clone()));
    }
}

async fn answer(mut stream: UnixStream, reply: Rc<RefCell<Reply>>) -> Option<()> {
    let (mut asked, mut out) = (Vec::new(), Vec::new());
    loop {
        while let Some((name, bytes)) = command(&asked) {
            let reply = reply.borrow();
            match &name[..] {
                b"EVALSHA" | b"EVAL" | b"INFO" | b"BLPOP" => out.extend(&reply.bytes),
                b"CLIENT" => out.extend(b"+OK\r\n"),
                _ if reply.to_lists => out.extend(&reply.bytes),
                _ => out.extend(b"*0\r\n"),
            }
            asked.drain(..bytes);
        }
        stream.write_all(&out).await.ok()?;
        out.clear();
        if stream.read_buf(&mut asked).await.ok()? == 0 {
            return None;
        }
    }
}

/// The name and the length of the first whole command.
fn command(asked: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (arguments, mut at) = number(asked, 0)?;
    let mut name = None;
    for _ in 0..arguments {
        let (bytes, start) = number(asked, at)?;
        let argument = asked.get(start..start + bytes)?;
        name.get_or_insert_with(|| argument.to_vec());
        at = start + bytes + 2;
    }
    (at <= asked.len()).then_some((name?, at))
}

/// The number on the line that begins here, after its mark, and where the next one begins.
fn number(asked: &[u8], at: usize) -> Option<(usize, usize)> {
    let line = asked.get(at + 1..)?;
    let end = line.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    Some((number, at + end + 3))
}
