//! Bad bytes in a live queue: each costs itself and nothing else.
//!
//! Someone writes into the queue's keys with other tools while two real nodes work on it. Whatever it is: no node ends, every
//! good message around it gets its outcome, the errors can be read and removed, and the damage is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::{Engine, Failed, Item, Range};
use queenright::event::{Event, Observer};
use queenright::message::{Pack, PackBuilder};
use queenright::{Failure, Message, Next, Settings, failed, push};
use redis::{Connection, ToRedisArgs, Value};
use tokio::sync::watch;

use crate::conformance::quietly;
use crate::fleet::PATIENCE;
use crate::server::RedisServer;

/// The payload of the one message whose handler says that it failed.
pub(super) const BAD: &str = "bad";
/// Good messages that are pushed before the damage is done, and as many after it.
const HALF: usize = 10;
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// How many queues are harmed side by side.
const AT_ONCE: usize = 8;

/// What someone does to a queue, and what undoes it where nothing can go on without that.
struct Damage {
    name: &'static str,
    harm: fn(&mut Harm),
    repair: Option<fn(&mut Harm)>,
    /// It is counted as set aside.
    aside: bool,
}

/// Writes into a queue.
struct Harm {
    connection: Connection,
    keys: Keys,
    /// A live node.
    node: String,
}

impl Harm {
    fn run<A: ToRedisArgs>(&mut self, name: &str, key: &str, args: &[A]) -> Value {
        let mut cmd = redis::cmd(name);
        cmd.arg(key).arg(args);
        cmd.query(&mut self.connection).expect("a command of the test")
    }

    fn queued(&mut self, bytes: &[u8]) {
        let key = self.keys.queue.clone();
        self.run("RPUSH", &key, &[bytes]);
    }

    fn again(&mut self, bytes: &[u8]) {
        let (key, meta) = (self.keys.again.clone(), self.keys.meta.clone());
        self.run("RPUSH", &key, &[bytes]);
        self.run("HSET", &meta, &["again", "1", "shortcut", ""]);
    }

    fn later(&mut self, bytes: &[u8]) {
        let key = self.keys.later.clone();
        self.run("ZADD", &key, &[b"0", bytes]);
    }

    /// It is the turn of this group, with this in its line.
    fn grouped(&mut self, group: &[u8], entry: Option<&[u8]>) {
        let keys = self.keys.clone();
        self.run("RPUSH", &keys.ready, &[group]);
        self.run("HSET", &keys.turns, &[group, b"1"]);
        if let Some(entry) = entry {
            let member = [group, b"\0", &[0; 8], entry].concat();
            self.run("ZADD", &keys.lines, &[&b"0"[..], &member]);
            self.run("ZADD", &keys.groups, &[b"1", group]);
        }
        self.meta("again", "2");
        self.meta("shortcut", "");
    }

    fn meta(&mut self, field: &str, value: &str) {
        let key = self.keys.meta.clone();
        self.run("HSET", &key, &[field, value]);
    }

    /// In the hand of a node that is to be given up.
    fn in_a_dead_hand(&mut self, field: &str, value: &[u8]) {
        let (nodes, taken) = (self.keys.nodes.clone(), self.keys.taken("ghost"));
        self.run(
            "HSET",
            &taken,
            &[b"lane:0", &b"\x96\0\0\0\x03\x90\x90"[..], field.as_bytes(), value],
        );
        self.run("ZADD", &nodes, &["0", "ghost"]);
    }

    /// Of a failed message.
    fn failed(&mut self, member: &str, record: Option<&[u8]>) {
        let (errors, records) = (self.keys.errors.clone(), self.keys.records.clone());
        self.run("ZADD", &errors, &["1", member]);
        if let Some(record) = record {
            self.run("HSET", &records, &[member.as_bytes(), record]);
        }
    }

    fn in_hand(&mut self, field: &str, value: &[u8]) {
        let key = self.keys.taken(&self.node);
        self.run("HSET", &key, &[field.as_bytes(), value]);
    }

    /// Something else stands where the queue has a key.
    fn typed(&mut self, key: fn(&Keys) -> &String) {
        let key = key(&self.keys).clone();
        self.run::<&str>("DEL", &key, &[]);
        self.run("SET", &key, &["something else"]);
    }

    fn removed(&mut self, key: fn(&Keys) -> &String) {
        let key = key(&self.keys).clone();
        self.run::<&str>("DEL", &key, &[]);
    }
}

/// A pack that could be one of the queue's: three messages that have been done already.
fn pack() -> Vec<u8> {
    let mut builder = PackBuilder::new();
    for payload in ["one", "two", "three"] {
        builder.push(payload.as_bytes());
    }
    let pack: Pack = builder.build(0, 1, 1);
    pack.bytes().to_vec()
}

/// The same with some bytes changed.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut pack = pack();
    pack[at..at + bytes.len()].copy_from_slice(bytes);
    pack
}

/// The stand-in of a pack whose bytes are stored separately.
fn stub(count: u32, all: u32, length: u32) -> Vec<u8> {
    let mut stub = changed(1, &[1])[..36].to_vec();
    stub[32..36].copy_from_slice(&count.to_le_bytes());
    stub.extend_from_slice(&0u64.to_le_bytes());
    stub.extend_from_slice(&all.to_le_bytes());
    stub.extend_from_slice(&length.to_le_bytes());
    stub
}

macro_rules! damages {
    ($($name:literal $(($($mark:ident),+))? => $harm:expr $(, then $repair:expr)?;)+) => {
        const DAMAGES: &[Damage] = &[$(Damage {
            name: $name,
            harm: $harm,
            repair: damages!(@repair $($repair)?),
            aside: damages!(@marks $($($mark),+)?),
        }),+];
    };
    (@repair) => { None };
    (@repair $repair:expr) => { Some($repair) };
    (@marks) => { false };
    (@marks aside) => { true };
}

damages! {
    "junk in the queue" (aside) => |harm| harm.queued(b"junk");
    "nothing in the queue" (aside) => |harm| harm.queued(b"");
    "a pack of an unknown version" (aside) => |harm| harm.queued(&changed(0, &[2]));
    "a pack with unknown flags" (aside) => |harm| harm.queued(&changed(1, &[7]));
    "half a head" (aside) => |harm| harm.queued(&pack()[..20]);
    "a pack without messages" (aside) => |harm| harm.queued(&changed(32, &[0]));
    "a pack of too many messages" (aside) => |harm| harm.queued(&changed(32, &[0, 0, 0, 9]));
    "a pack whose offsets are cut off" (aside) => |harm| harm.queued(&changed(32, &[200]));
    "a pack whose offsets go back" => |harm| harm.queued(&changed(40, &[9]));
    "a pack of another length than it says" (aside) => |harm| harm.queued(&[&pack()[..], b"more"].concat());
    "a number that no message has" (aside) => |harm| harm.queued(&changed(8, &[255; 8]));
    "a stub without bytes" => |harm| harm.queued(&stub(3, 3, 60));
    "a stub of a wrong length" (aside) => |harm| harm.queued(&stub(3, 3, 60)[..50]);
    "a stub outside its bytes" (aside) => |harm| harm.queued(&stub(9, 3, 60));
    "a stub of many, without bytes" => |harm| harm.queued(&stub(900, 900, 60_000));
    "a stub with other bytes" => |harm| {
        harm.queued(&stub(3, 3, 60));
        let key = harm.keys.bodies.clone();
        harm.run("HSET", &key, &["1:0", "other", "1:0+", "x"]);
    };
    "a thousand times junk" (aside) => |harm| (0..1000).for_each(|_| harm.queued(b"junk"));
    "junk to be taken again" (aside) => |harm| harm.again(b"junk");
    "an unknown version to be taken again" (aside) => |harm| harm.again(&changed(0, &[2]));
    "a stub without bytes to be taken again" => |harm| harm.again(&stub(3, 3, 60));
    "a part of a stub without bytes to be taken again" => |harm| {
        let mut part = stub(2, 3, 60);
        part[2] = 4;
        harm.again(&part);
    };
    "junk put off" (aside) => |harm| harm.later(b"junk");
    "a long junk put off" (aside) => |harm| harm.later(b"12345678 and no pack at all, but long enough to be one if it were");
    "nothing put off" (aside) => |harm| harm.later(b"");
    "junk in hand" (aside) => |harm| harm.in_a_dead_hand("77777", b"junk");
    "junk in hand under a number too large" (aside) => |harm| harm.in_a_dead_hand("99999999999999999999999", b"junk");
    "a stub without bytes in hand, delivered too often" => |harm| {
        let mut spent = stub(3, 3, 60);
        spent[2] = 9;
        harm.in_a_dead_hand("0", &spent);
    };
    "junk in the place of a lane" (aside) => |harm| harm.in_a_dead_hand("pack:0", b"junk");
    "a lane's record of junk" => |harm| harm.in_hand("lane:0", b"junk");
    "a lane's record of another shape" => |harm| harm.in_hand("lane:0", b"\x96\xa1a\xa1b\xa1c\xa1d\x90\x90");
    "half a lane's record" => |harm| harm.in_hand("lane:0", b"\x96\x01");
    "suspects of junk" => |harm| harm.in_hand("suspects", b"many");
    "a process of junk" => |harm| harm.in_hand("process", b"junk");
    "joined of junk" => |harm| harm.in_hand("joined", b"long ago");
    "a report of junk" => |harm| {
        harm.in_hand("report", b"junk");
        harm.in_hand("report_number", b"junk");
        harm.in_hand("report_ms", b"junk");
    };
    "a dead node that nobody knows" => |harm| {
        let key = harm.keys.dead.clone();
        harm.run("LPUSH", &key, &["ghost"]);
    };
    "a dead node whose hand is something else" => |harm| {
        let (dead, taken) = (harm.keys.dead.clone(), harm.keys.taken("ghost"));
        harm.run("SET", &taken, &["something else"]);
        harm.run("LPUSH", &dead, &["ghost"]);
    };
    "a member that nobody knows" => |harm| {
        let key = harm.keys.nodes.clone();
        harm.run("ZADD", &key, &["0", "ghost"]);
    };
    "an error's record of junk" (aside) => |harm| harm.failed("1", Some(b"junk"));
    "an error's record of another shape" (aside) => |harm| {
        harm.failed("1", Some(b"\x99\x05\xa1b\xa1c\xa1d\xa1e\xa1f\xa1g\xa1h\xa1i"));
    };
    "half an error's record" (aside) => |harm| harm.failed("1", Some(b"\x99\x05"));
    "an error without a record" (aside) => |harm| harm.failed("1", None);
    "an error without a number" (aside) => |harm| harm.failed("one", None);
    "a reader of junk" (aside) => |harm| {
        let (readers, reading) = (harm.keys.readers.clone(), harm.keys.reading("ghost"));
        harm.run("ZADD", &readers, &["0", "ghost"]);
        harm.run("RPUSH", &reading, &["1", "junk"]);
    };
    "a reader without a call" => |harm| {
        let (readers, reading) = (harm.keys.readers.clone(), harm.keys.reading("ghost"));
        harm.run("ZADD", &readers, &["0", "ghost"]);
        harm.run("RPUSH", &reading, &["junk"]);
    };
    "a key of a push with junk" => |harm| {
        let (once, values) = (harm.keys.once.clone(), harm.keys.once_values.clone());
        harm.run("ZADD", &once, &["1", "kkey"]);
        harm.run("HSET", &values, &["kkey", "junk"]);
    };
    "a history of junk" => |harm| {
        let key = harm.keys.history.clone();
        for ring in 0..3 {
            for slot in 0..400 {
                harm.run("HSET", &key, &[&format!("{ring}:{slot}"), "junk"]);
            }
        }
    };
    "a reign of junk" => |harm| {
        let key = harm.keys.reigns.clone();
        harm.run("LPUSH", &key, &["junk"]);
    };
    "a grain of junk" => |harm| harm.meta("grain", "coarse");
    "a grain of nothing" => |harm| harm.meta("grain", "-7");
    "a head of junk" => |harm| harm.meta("head", "junk");
    "a tick of junk" (aside) => |harm| harm.meta("due", "soon");
    "counts of junk" (aside) => |harm| {
        for field in ["skipped", "rewinds", "rank", "ruled", "trimmed", "requeued"] {
            harm.meta(field, "junk");
        }
    };
    "a next number of junk" => |harm| harm.meta("seq", "next"), then |harm| harm.meta("seq", "50");
    "an epoch of junk" => |harm| harm.meta("epoch", "this"), then |harm| harm.meta("epoch", "50");
    "a clock of junk" => |harm| harm.meta("clock", "noon"), then |harm| harm.meta("clock", "50");
    "a bell that is something else" => |harm| harm.typed(|keys| &keys.bell);
    "a crown that is something else" => |harm| harm.typed(|keys| &keys.crown);
    "a history that is something else" => |harm| harm.typed(|keys| &keys.history);
    "reigns that are something else" => |harm| harm.typed(|keys| &keys.reigns);
    "junk in the line of a group" (aside) => |harm| harm.grouped(b"g", Some(b"junk"));
    "a message without a group in the line of one" (aside) => |harm| harm.grouped(b"g", Some(&pack()));
    "a group of no text" (aside) => |harm| harm.grouped(b"\xff\xfe", Some(b"junk"));
    "a group that is ready for nothing" => |harm| harm.grouped(b"g", None);
    "turns of junk" => |harm| {
        harm.grouped(b"g", None);
        let key = harm.keys.turns.clone();
        harm.run("HSET", &key, &["g", "-1e300", "", "junk"]);
    };
    "lines that are something else" => |harm| {
        harm.typed(|keys| &keys.lines);
        harm.meta("again", "2");
        harm.meta("shortcut", "");
    }, then |harm| harm.removed(|keys| &keys.lines);
    "turns that are something else" => |harm| {
        harm.typed(|keys| &keys.turns);
        harm.meta("again", "2");
        harm.meta("shortcut", "");
    }, then |harm| harm.removed(|keys| &keys.turns);
    "again that is something else" => |harm| {
        harm.typed(|keys| &keys.again);
        harm.meta("again", "1");
    }, then |harm| harm.removed(|keys| &keys.again);
    "later that is something else" => |harm| harm.typed(|keys| &keys.later), then |harm| harm.removed(|keys| &keys.later);
    "errors that are something else" => |harm| harm.typed(|keys| &keys.errors), then |harm| harm.removed(|keys| &keys.errors);
    "records that are something else" => |harm| harm.typed(|keys| &keys.records), then |harm| harm.removed(|keys| &keys.records);
    "damaged that is something else" => |harm| {
        harm.typed(|keys| &keys.damaged);
        harm.queued(b"junk");
    }, then |harm| harm.removed(|keys| &keys.damaged);
}

/// What the nodes told.
#[derive(Default)]
pub(super) struct Told {
    /// How often each message got an outcome.
    pub(super) outcomes: Mutex<BTreeMap<u64, u32>>,
    pub(super) nodes: Mutex<BTreeSet<String>>,
    pub(super) lines: Mutex<Vec<String>>,
}

impl Observer for Told {
    fn observe(&self, node: &str, events: &[Event]) {
        for event in events {
            match event {
                Event::Done { number, .. } | Event::Error { number, .. } => {
                    *self.outcomes.lock().unwrap().entry(*number).or_default() += 1;
                }
                Event::Joined => _ = self.nodes.lock().unwrap().insert(node.to_string()),
                Event::Away { .. } | Event::Damaged { .. } | Event::Left => {
                    self.lines.lock().unwrap().push(format!("{event:?}"));
                }
                _ => {}
            }
        }
    }
}

impl Told {
    pub(super) fn has(&self, numbers: &BTreeSet<u64>) -> bool {
        let outcomes = self.outcomes.lock().unwrap();
        numbers.iter().all(|number| outcomes.contains_key(number))
    }
}

pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A node that handles what the gate lets through; the first of a fleet keeps house as well.
pub(super) fn node(
    url: String,
    queue: &str,
    told: Arc<Told>,
    opened: watch::Receiver<bool>,
) -> queenright::builder::Builder<String, (), impl queenright::handle::Handle> {
    queenright::on(url)
        .queue(queue)
        .concurrency(2)
        .observer(told)
        .settings(|settings| settings.lease = LEASE)
        .handle(move |message: Message| {
            let mut opened = opened.clone();
            async move {
                opened.wait_for(|opened| *opened).await.expect("the test goes on");
                if message.payload == BAD {
                    return Err(Failure::from(BAD));
                }
                Ok(())
            }
        })
}

pub(super) async fn put(engine: &RedisEngine, settings: &Settings, payloads: Vec<&'static str>) -> BTreeSet<u64> {
    let items: Vec<Item> = payloads.into_iter().map(Item::new).collect();
    let until = Instant::now() + PATIENCE;
    // A queue whose next number is damaged takes nothing.
    loop {
        match push::push(engine, settings, Duration::from_mins(1), &items).await {
            Ok(receipts) => return receipts.into_iter().map(|receipt| receipt.number).collect(),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The test's own engine, which waits also where the machine is busy.
pub(super) fn patient(server: &RedisServer, settings: &Settings) -> RedisEngine {
    let keys = Keys::new(&settings.queue, &settings.names);
    RedisEngine::new(&server.server(), keys).expect("an engine")
}

async fn survives(server: &RedisServer, number: usize, damage: &Damage) {
    let url = server.url();
    let settings = Settings {
        queue: format!("damage-{number}"),
        lease: LEASE,
        ..Settings::default()
    };
    let engine = Arc::new(patient(server, &settings));
    let (told, (gate, opened), (stop, stopped)) =
        (Arc::new(Told::default()), watch::channel(true), watch::channel(false));
    let mut nodes = Vec::new();
    for also_generates in [true, false] {
        let node = node(url.clone(), &settings.queue, told.clone(), opened.clone());
        let mut stopped = stopped.clone();
        let stopped = async move { _ = stopped.wait_for(|stopped| *stopped).await };
        nodes.push(if also_generates {
            // It keeps house, and never comes to its first message.
            let node = node.generate(|_: Next| std::future::pending::<String>()).also_handle();
            tokio::spawn(node.run_until(stopped))
        } else {
            tokio::spawn(node.run_until(stopped))
        });
    }
    // The numbers that forged packs have.
    let early = put(&engine, &settings, vec!["early"; 3]).await;
    until("the first have their outcome", async || told.has(&early)).await;
    until("both have joined", async || told.nodes.lock().unwrap().len() == 2).await;
    gate.send_replace(false);
    let mut good = put(&engine, &settings, [vec![BAD], vec!["good"; HALF - 1]].concat()).await;
    let bad = *good.first().expect("one");
    let mut harm = Harm {
        connection: redis::Client::open(url)
            .expect("a client")
            .get_connection()
            .expect("a connection"),
        keys: engine.keys().clone(),
        node: told.nodes.lock().unwrap().first().expect("a node").clone(),
    };
    (damage.harm)(&mut harm);
    if let Some(repair) = damage.repair {
        gate.send_replace(true);
        until("it is told", async || !told.lines.lock().unwrap().is_empty()).await;
        repair(&mut harm);
    }
    good.extend(put(&engine, &settings, vec!["good"; HALF]).await);
    gate.send_replace(true);
    until("all good messages have their outcome", async || told.has(&good)).await;
    let status = engine.status().await.expect("a look");
    assert!(status.errors > 0, "{status:?}");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let all = shown.clone();
    let show = move |batch: &[Failed]| {
        all.lock().unwrap().extend(batch.iter().map(|failed| failed.number));
        Ok(())
    };
    assert_eq!(
        engine
            .failed(0, 100)
            .await
            .expect("a look")
            .iter()
            .filter(|failed| failed.number == bad)
            .count(),
        1
    );
    failed::collect(engine.clone(), None, show)
        .await
        .expect("the errors are read");
    assert!(shown.lock().unwrap().contains(&bad), "{shown:?}");
    assert_eq!(engine.discard(&[bad]).await.expect("a call"), [0; 0]);
    if damage.aside {
        until("it is counted", async || {
            engine.status().await.is_ok_and(|status| status.damaged > 0)
        })
        .await;
        until("it is told", async || !told.lines.lock().unwrap().is_empty()).await;
    }
    engine.history(Range::Minutes).await.expect("a look at the past");
    for node in &nodes {
        assert!(
            !node.is_finished(),
            "a node has ended: {:?}",
            told.lines.lock().unwrap()
        );
    }
    let outcomes = told.outcomes.lock().unwrap().clone();
    assert!(good.iter().all(|number| outcomes[number] == 1), "{outcomes:?}");
    stop.send_replace(true);
    for node in nodes {
        node.await.expect("no panic").expect("a node ends well");
    }
}

#[test]
fn bad_bytes_in_a_live_queue_cost_themselves_and_nothing_else() {
    let server = RedisServer::start();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(damage) = DAMAGES.get(number) else {
                return failures;
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let survived = quietly(|| runtime.block_on(survives(&server, number, damage)));
            failures.extend(survived.err().map(|why| format!("{}: {why}", damage.name)));
        }
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker"))
            .collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        DAMAGES.len(),
        failures.join("\n")
    );
}
