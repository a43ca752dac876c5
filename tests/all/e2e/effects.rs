//! Effects happen exactly once, whatever is killed.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use queenright::engine::Engine;
use queenright::engine::redis::RedisEngine;
use queenright::engine::redis::keys::Keys;
use queenright::generate::{Draft, Generate, Made, Next};
use queenright::shutdown;
use queenright::{Effect, Message, Node, Settings};

use crate::fleet::{Ends, PATIENCE, within};
use crate::server::RedisServer;

/// In the long form, a kill each second until all are done.
const MESSAGES: u64 = 4000;
const KILLS: u64 = 12;
/// How many messages the long form has, if it is to run.
const LONG: &str = "QUEENRIGHT_EFFECTS";
/// Names the Redis of the child processes.
const URL: &str = "EFFECTS_CHILD_URL";

struct Numbers;

impl Generate for Numbers {
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        draft.payload.extend(next.number.to_string().bytes());
        Made::Message
    }
}

fn messages() -> u64 {
    std::env::var(LONG).map_or(MESSAGES, |messages| messages.parse().expect("a number"))
}

fn settings() -> Settings {
    Settings {
        queue: "effects".into(),
        concurrency: 4,
        interval: Duration::ZERO,
        messages: Some(messages()),
        lease: Duration::from_millis(800),
        deliveries_max: 1000,
        ..Settings::default()
    }
}

fn engine(url: &str) -> RedisEngine {
    use redis::IntoConnectionInfo;
    let server = queenright::engine::redis::Server {
        place: queenright::engine::redis::Place::at(url.into_connection_info().expect("a URL")),
        password: None,
        address: "the test's".into(),
        answer_timeout: Duration::from_secs(5),
        replicas: 0,
        watch: true,
    };
    let settings = settings();
    RedisEngine::new(&server, Keys::new(&settings.queue, &settings.names)).expect("an engine")
}

async fn handle(message: Message) -> queenright::handle::Handled {
    tokio::time::sleep(Duration::from_micros(fastrand::u64(0..4000))).await;
    let number = message.number.to_string();
    Ok(vec![
        Effect::Add {
            key: "sum".into(),
            by: 1,
        },
        Effect::Push {
            key: "numbers".into(),
            value: number.into_bytes(),
        },
    ])
}

/// One node, in a process of its own, until it is killed: see `start_child`.
#[test]
#[ignore = "a part of effects_are_applied_exactly_once_under_kills"]
fn child() {
    let Ok(url) = std::env::var(URL) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let node = Node::new(Arc::new(engine(&url)), settings(), Numbers, handle);
    let (_stopper, shutdown) = shutdown::channel();
    runtime
        .expect("a runtime")
        .block_on(node.run(shutdown))
        .expect("it runs");
}

fn start_child(url: &str) -> Ends {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args(["--exact", "e2e::effects::child", "--ignored", "--nocapture"])
        .env(URL, url);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ends(quiet.spawn().expect("this test starts"))
}

#[test]
fn in_a_cluster_an_effect_outside_the_slot_makes_an_error_that_says_what_to_do() {
    let server = RedisServer::with_args(&["--cluster-enabled", "yes"]);
    let slots: Vec<String> = (0..16384).map(|slot: u32| slot.to_string()).collect();
    let mut own_all = vec!["CLUSTER", "ADDSLOTS"];
    own_all.extend(slots.iter().map(String::as_str));
    server.command(&own_all).expect("a cluster of one");
    within(PATIENCE, || server.command(&["SET", "ready", "1"]).ok()).expect("the cluster is up");

    let handle = |message: Message| async move {
        let key = if message.number == 1 { "sum" } else { "sum{qr:slots}" };
        Ok::<_, queenright::Failure>(Effect::add(key, 1))
    };
    let (stopper, shutdown) = shutdown::channel();
    let node = queenright::on(server.url())
        .queue("slots")
        .also_handle()
        .settings(|settings| settings.messages = Some(4))
        .generator(Numbers)
        .handle(handle)
        .run(shutdown);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let node = runtime.spawn(node);
    let settings = Settings {
        queue: "slots".into(),
        ..settings()
    };
    let look = RedisEngine::open(&server.url(), &settings).expect("a URL");
    let settled = || {
        runtime
            .block_on(look.status())
            .map_or(0, |status| status.done + status.failed)
    };
    within(PATIENCE, || (settled() == 4).then_some(())).expect("all have an outcome");
    let errors = runtime.block_on(look.failed(0, 10)).expect("the errors");
    stopper.stop();
    runtime
        .block_on(node)
        .expect("no panic")
        .expect("the node does not end with it");

    let errors: Vec<_> = errors
        .iter()
        .map(|failed| (failed.number, String::from_utf8_lossy(&failed.error)))
        .collect();
    let why =
        "effect refused: key sum is outside the queue's slot of the cluster; a name that ends in {qr:slots} is inside";
    assert_eq!(errors, [(1, why.into())]);
    let sum = server.command(&["GET", "sum{qr:slots}"]).expect("an answer");
    assert_eq!(sum, redis::Value::BulkString(b"3".to_vec()));
}

#[test]
fn effects_are_applied_exactly_once_under_kills() {
    let server = RedisServer::start();
    let url = server.url();
    let mut children: Vec<Ends> = (0..4).map(|_| start_child(&url)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let watcher = engine(&url);
    let done = || runtime.block_on(watcher.status()).map_or(0, |status| status.done);
    let mut kills = 0;
    while done() < messages() {
        if std::env::var(LONG).is_ok() {
            std::thread::sleep(Duration::from_secs(1));
        } else if kills < KILLS {
            // Spread over the work: the kills come in the middle of it, however fast it goes.
            let reached = (kills + 1) * MESSAGES / 2 / KILLS;
            within(PATIENCE, || (done() >= reached).then_some(())).expect("the work goes on");
        } else {
            within(PATIENCE, || (done() == MESSAGES).then_some(())).expect("all are done");
            break;
        }
        let victim = fastrand::usize(..children.len());
        children[victim] = start_child(&url);
        kills += 1;
    }
    assert!(kills > 0, "nobody was killed");
    let read = |args: &[&str]| server.command(args).expect("an answer");
    assert_eq!(
        read(&["GET", "sum"]),
        redis::Value::BulkString(messages().to_string().into_bytes())
    );
    let list: Vec<u64> = redis::from_redis_value(read(&["LRANGE", "numbers", "0", "-1"])).expect("numbers");
    let mut sorted = list;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..messages()).collect::<Vec<_>>());
}
