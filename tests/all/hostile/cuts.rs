//! The connection is cut at every byte of the request and of the reply of every verb; the call is then repeated, as a
//! node would. Whatever the offset, the store ends as after one call, and the answer is that of one call.
//!
//! The gate takes every few bytes, and the first and last ones; `QUEENRIGHT_CUTS=all` takes every byte.

use std::time::Duration;

use queenright::app::lab::proxy::{Direction, Proxy};
use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::{
    Beat, Collect, Engine, Exchange, Exchanged, Figures, Gauges, Item, Limits, Live, Reap, Report,
};
use queenright::message::{Effect, Outcome, Pack};
use queenright::settings::Names;
use redis::aio::MultiplexedConnection;

use crate::checker;
use crate::conformance::hive::{CROWN_MS, LEASE_MS, STEP_MS, done, failure, part, run, whole, with};
use crate::conformance::push::push_call;
use crate::conformance::{Bench, Hive, QUEUE, RedisBench, patient};
use crate::oracle::twin::{Answer, Call, ask};

type Redis = Hive<RedisBench>;

/// Of every byte, unless all are wanted. A prime, so that it falls on different places of the fields.
const STRIDE: u64 = 13;
/// So many bytes at both ends are always tried.
const ENDS: u64 = 8;
/// How often a call is repeated, of which one repetition must do.
const TRIES: u32 = 5;
/// How many bytes `SUBSCRIBE` has at most, and its answer.
const SUBSCRIPTION: u64 = 64;

#[tokio::test]
async fn join() {
    cut(async |_| Call::Join(Redis::join_call("a"))).await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        Call::Join(Redis::join_call("c"))
    })
    .await;
}

#[tokio::test]
async fn a_beat_that_elects() {
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        for _ in 0..=CROWN_MS / STEP_MS {
            hive.jump(STEP_MS.cast_signed()).await;
            hive.beat_humbly("b").await;
        }
        Call::Beat(Redis::beat_call("b"))
    })
    .await;
}

#[tokio::test]
async fn groups() {
    let push = |call: &str| {
        let item = |group: &str| Item::new("x").group(group);
        push_call(call, vec![item("g"), item("g"), item("h"), Item::new("plain")])
    };
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        Call::Push(push("q"))
    })
    .await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        let packs = hive.take("b", 9).await;
        let (done, failure) = (done(), failure());
        let outcome = |pack: &Pack| whole(pack, if pack.first() == 0 { &done } else { &failure });
        Call::Exchange(hive.next_call("b", 0, packs.iter().map(outcome).collect(), 9))
    })
    .await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        Call::PauseGroup("g".into(), true)
    })
    .await;
    let rate = |text: &str| Some(text.parse().expect("a rate"));
    let limits = Limits {
        rate: rate("5/s"),
        burst: 3,
        group: rate("1/s"),
    };
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        Call::Limit(limits)
    })
    .await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().limit(&limits).await.expect("limit");
        hive.engine().push(&push("p")).await.expect("push");
        let packs = hive.take("b", 9).await;
        let settles = packs.iter().map(|pack| whole(pack, &done())).collect();
        Call::Exchange(hive.next_call("b", 0, settles, 9))
    })
    .await;
}

#[tokio::test]
async fn cancels() {
    let push = |call: &str| push_call(call, vec![Item::new("x"), Item::new("y").group("g"), Item::new("z")]);
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        Call::Cancel(vec![0, 2, 9])
    })
    .await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        Call::CancelGroup("g".into())
    })
    .await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        let packs = hive.take("b", 2).await;
        hive.engine().cancel(&[0, 2]).await.expect("cancel");
        hive.engine().cancel_group("g").await.expect("cancel");
        let settles = packs.iter().map(|pack| whole(pack, &done())).collect();
        Call::Exchange(hive.next_call("b", 0, settles, 9))
    })
    .await;
}

#[tokio::test]
async fn outcomes_that_are_asked_for() {
    let item = || Item::new("x").ask();
    let push = |call: &str| {
        push_call(
            call,
            vec![item(), item().group("g"), item(), item(), Item::new("plain")],
        )
    };
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        Call::Push(push("q"))
    })
    .await;
    let settled = |hive: &Redis, packs: &[Pack]| {
        let later = Outcome::Retry {
            error: "busy".into(),
            after_ms: 7,
        };
        let outcomes = [Outcome::Done(vec![Effect::result("r")]), failure(), later, done()];
        let settles = packs.iter().zip(outcomes).map(|(pack, outcome)| whole(pack, &outcome));
        hive.next_call("b", 0, settles.collect(), 9)
    };
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        let packs = hive.take("b", 9).await;
        Call::Exchange(settled(hive, &packs))
    })
    .await;
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.engine().push(&push("p")).await.expect("push");
        let packs = hive.take("b", 9).await;
        hive.call(&settled(hive, &packs)).await;
        Call::Endings(vec![0, 1, 2, 3, 4])
    })
    .await;
}

#[tokio::test]
async fn publish() {
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.publish("a", &[1]).await;
        Call::Publish(hive.publish_call("a", &[2, 1]).await)
    })
    .await;
}

#[tokio::test]
async fn exchange() {
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.publish("a", &[3, 1, 1, 2, 1]).await;
        let packs = hive.take("b", 5).await;
        let count = Effect::Add {
            key: "count".into(),
            by: 1,
        };
        let settles = vec![
            part(
                &packs[0],
                &[
                    run(0, 1, &with(&[count])),
                    run(1, 1, &Outcome::Return),
                    run(2, 1, &done()),
                ],
            ),
            whole(&packs[1], &failure()),
        ];
        Call::Exchange(hive.next_call("b", 0, settles, 2))
    })
    .await;
}

#[tokio::test]
async fn an_exchange_that_publishes() {
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.publish("a", &[3, 1, 1]).await;
        let packs = hive.take("b", 4).await;
        let later = Effect::publish_after("later", Duration::from_secs(5));
        let settles = vec![
            part(&packs[0], &[run(0, 1, &with(&[Effect::publish("next"), later]))]),
            whole(&packs[1], &with(&[Effect::publish("another")])),
        ];
        Call::Exchange(hive.next_call("b", 0, settles, 2))
    })
    .await;
}

#[tokio::test]
async fn reap() {
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        hive.publish("a", &[2, 1]).await;
        hive.take("b", 3).await;
        hive.pass(LEASE_MS + STEP_MS, &["a"]).await;
        Call::Reap(Reap::of("b"))
    })
    .await;
}

#[tokio::test]
async fn leave() {
    for node in ["a", "b"] {
        cut(async |hive| {
            hive.found("a", &["b"]).await;
            hive.publish("a", &[2]).await;
            hive.take("b", 1).await;
            Call::Leave(node.into())
        })
        .await;
    }
}

async fn one_reads(hive: &Redis) {
    hive.found("a", &["b"]).await;
    hive.fail("a", "b", 4).await;
    assert_eq!(hive.batch("one", 1, 2).await, [0, 1]);
}

#[tokio::test]
async fn a_collect_that_confirms_and_takes_or_leaves() {
    for want in [1, 0] {
        cut(async |hive| {
            one_reads(hive).await;
            Call::Collect(Collect {
                reader: "one".into(),
                call: 2,
                shown: vec![0],
                below: 100,
                want,
                lease_ms: LEASE_MS,
            })
        })
        .await;
    }
}

#[tokio::test]
async fn hold() {
    cut(async |hive| {
        one_reads(hive).await;
        Call::Hold("one".into(), 2 * LEASE_MS)
    })
    .await;
}

#[tokio::test]
async fn release() {
    cut(async |hive| {
        one_reads(hive).await;
        Call::Release("one".into(), false)
    })
    .await;
}

#[tokio::test]
async fn failed() {
    cut(async |hive| {
        one_reads(hive).await;
        Call::Failed(1, 9)
    })
    .await;
}

#[tokio::test]
async fn report() {
    cut(async |hive| {
        hive.found("a", &["b"]).await;
        let figures = Figures {
            done: 3,
            ..Figures::default()
        };
        Call::Report(Box::new(Report {
            node: "b".into(),
            number: 1,
            live: Live::default(),
            figures,
            // Who has looked is not asked to; a repeated report never is.
            gauges: Some(Gauges::default()),
        }))
    })
    .await;
}

#[tokio::test]
async fn status() {
    cut(async |hive| {
        one_reads(hive).await;
        Call::Status
    })
    .await;
}

/// The whole text of a script is on the wire.
#[tokio::test]
async fn publish_by_a_script_that_the_server_has_forgotten() {
    Cuts::prepare(async |hive| {
        hive.found("a", &["b"]).await;
        Call::Publish(hive.publish_call("a", &[1]).await)
    })
    .await
    .forgetful()
    .everywhere()
    .await;
}

/// The check itself is checked: without what makes a repetition harmless, it fails.
#[tokio::test]
#[should_panic = "is answered otherwise when repeated"]
async fn a_publish_that_forgets_what_was_made_is_noticed() {
    Cuts::prepare_without(Some("made"), async |hive| {
        hive.found("a", &["b"]).await;
        Call::Publish(hive.publish_call("a", &[1]).await)
    })
    .await
    .everywhere()
    .await;
}

#[tokio::test]
#[should_panic = "does more when repeated"]
async fn a_lane_that_forgets_its_last_call_is_noticed() {
    Cuts::prepare_without(Some("call-repeat"), async |hive| {
        hive.found("a", &["b"]).await;
        hive.publish("a", &[1, 1]).await;
        Call::Exchange(hive.next_call("b", 0, Vec::new(), 1))
    })
    .await
    .everywhere()
    .await;
}

async fn cut(scenario: impl AsyncFnOnce(&Redis) -> Call) {
    Box::pin(async { Cuts::prepare(scenario).await.everywhere().await }).await;
}

struct Cuts {
    hive: Redis,
    call: Call,
    proxy: Proxy,
    /// Through the proxy.
    engine: RedisEngine,
    connection: MultiplexedConnection,
    /// Everything stored before the call.
    stored: Vec<(Vec<u8>, Vec<u8>)>,
    forgets: bool,
}

impl Cuts {
    async fn prepare(scenario: impl AsyncFnOnce(&Redis) -> Call) -> Self {
        Self::prepare_without(None, scenario).await
    }

    async fn prepare_without(guard: Option<&str>, scenario: impl AsyncFnOnce(&Redis) -> Call) -> Self {
        Box::pin(Self::prepare_here(guard, scenario)).await
    }

    async fn prepare_here(guard: Option<&str>, scenario: impl AsyncFnOnce(&Redis) -> Call) -> Self {
        let hive = Redis::new(RedisBench::fresh(&RedisBench::store(), guard).await).await;
        let call = scenario(&hive).await;
        let server = &hive.bench.server;
        let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
        let server = server.server_as(&format!("redis://{}", proxy.address()));
        let keys = Keys::new(QUEUE, &Names::default());
        let engine = crate::conformance::engine(&server, keys, &hive.bench.scripts);
        let client = redis::Client::open(hive.bench.server.url()).expect("a URL");
        let mut connection = patient(&client).await;
        let stored = snapshot(&mut connection).await;
        Self {
            hive,
            call,
            proxy,
            engine,
            connection,
            stored,
            forgets: false,
        }
    }

    fn forgetful(mut self) -> Self {
        self.forgets = true;
        self
    }

    async fn everywhere(self) {
        Box::pin(self.walk()).await;
    }

    async fn walk(mut self) {
        self.reset().await;
        let first = ask(self.hive.engine(), &self.call).await.expect("an answer");
        let once = self.hive.state().await;
        let second = ask(self.hive.engine(), &self.call).await.expect("an answer");
        let twice = self.hive.state().await;
        assert_eq!(once, twice, "{:?} does more when repeated", self.call);
        if !self.call_may_be_answered_otherwise() {
            let (first, second) = (without_wait(first.clone()), without_wait(second.clone()));
            assert_eq!(first, second, "{:?} is answered otherwise when repeated", self.call);
        }

        if matches!(self.call, Call::Exchange(_)) {
            // An engine that meets a group learns from it, and asks with fewer words the next time.
            self.reset().await;
            ask(&self.engine, &self.call).await.expect("an answer");
        }
        for direction in [Direction::Requests, Direction::Replies] {
            self.reset().await;
            let before = self.proxy.passed(direction);
            ask(&self.engine, &self.call).await.expect("an answer");
            let bytes = self.proxy.passed(direction) - before;
            assert!(bytes > 0);
            for offset in offsets(bytes) {
                let at = format!("{:?} cut after {offset} of {bytes} bytes of {direction:?}", self.call);
                self.reset().await;
                self.proxy.cut_after(direction, offset);
                let mut answer = ask(&self.engine, &self.call).await;
                // A reply that came whole was an answer, whatever became of its connection; so was that of a join, before the
                // subscription by which others see the node.
                let signs = if matches!(self.call, Call::Join(_)) {
                    SUBSCRIPTION
                } else {
                    0
                };
                let whole = match direction {
                    Direction::Replies => offset + signs >= bytes,
                    Direction::Requests => offset + signs > bytes,
                };
                assert!(whole || answer.is_err(), "no cut: {at}");
                for _ in 0..TRIES {
                    match answer {
                        Ok(_) => break,
                        Err(error) => assert!(error.is_away(), "{error}: {at}"),
                    }
                    self.connect().await;
                    answer = ask(&self.engine, &self.call).await;
                }
                let answer = answer.expect("a repetition is answered");
                assert!(answer == first || answer == second, "{answer:?}: {at}");
                let stored = self.hive.state().await;
                assert!(stored == once, "{at}:\n{}", checker::differences(&once, &stored));
            }
        }
        if let Answer::Status(None) = first {
            panic!("there was no queue to look at");
        }
        self.hive.adds_up().await;
    }

    /// A reap tells what this very call has moved. A reader that has left is told that it is none, and holds nothing.
    fn call_may_be_answered_otherwise(&self) -> bool {
        matches!(&self.call, Call::Reap(_) | Call::Collect(Collect { want: 0, .. }))
    }

    /// As it was before the call, with connections that are made.
    async fn reset(&mut self) {
        restore(&mut self.connection, &self.stored).await;
        // Whatever was armed and not met.
        self.proxy.cut_after(Direction::Requests, u64::MAX);
        self.connect().await;
        if self.forgets {
            self.hive.bench.command(&["SCRIPT", "FLUSH"]).await;
        }
    }

    /// Calls that change nothing, one on each connection that a verb may use. The beat also does so for a publish,
    /// which does not connect by itself.
    async fn connect(&self) {
        let nobody = "nobody".to_string();
        let beat = Beat {
            node: nobody.clone(),
            ..Redis::beat_call("nobody")
        };
        let exchange = Exchange {
            node: nobody.clone(),
            lane: 0,
            call: 2,
            settles: Vec::new(),
            want: 0,
            want_bytes: u32::MAX,
            woken: false,
            ..Exchange::default()
        };
        for _ in 0..TRIES {
            let beat = self.engine.beat(&beat).await.is_ok();
            let exchange = self.engine.exchange(&exchange).await.is_ok();
            if self.engine.hold(&nobody, 1).await.is_ok() && beat && exchange {
                return;
            }
        }
        panic!("the proxy does not let anyone through");
    }
}

fn offsets(bytes: u64) -> Vec<u64> {
    let all = std::env::var_os("QUEENRIGHT_CUTS").is_some_and(|value| value == "all");
    let wanted = |offset: &u64| all || *offset < ENDS || *offset + ENDS > bytes || offset.is_multiple_of(STRIDE);
    (0..=bytes).filter(wanted).collect()
}

async fn snapshot(connection: &mut MultiplexedConnection) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(connection).await.expect("keys");
    let mut stored = Vec::new();
    for key in keys {
        let value = redis::cmd("DUMP").arg(&key).query_async(connection).await;
        stored.push((key, value.expect("a value")));
    }
    stored
}

async fn restore(connection: &mut MultiplexedConnection, stored: &[(Vec<u8>, Vec<u8>)]) {
    let mut pipe = redis::pipe();
    pipe.cmd("FLUSHALL").ignore();
    for (key, value) in stored {
        pipe.cmd("RESTORE").arg(key).arg(0).arg(value).ignore();
    }
    let () = pipe.query_async(connection).await.expect("restored");
}

/// When there is more, a repeat asks again.
fn without_wait(mut answer: Answer) -> Answer {
    if let Answer::Exchanged(Exchanged::Ok { wait_ms, .. }) = &mut answer {
        *wait_ms = None;
    }
    answer
}
