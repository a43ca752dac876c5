//! Effects happen exactly once, whatever is killed.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use queenright::engine::Engine;
use queenright::engine::keys::Keys;
use queenright::engine::redis::RedisEngine;
use queenright::generate::{Draft, Generate, Made, Next};
use queenright::shutdown;
use queenright::{Effect, Message, Node, Settings};

use crate::fleet::{PATIENCE, within};
use crate::server::RedisServer;

const MESSAGES: u64 = 4000;
const KILLS: u32 = 12;
/// Names the Redis of the child processes.
const URL: &str = "EFFECTS_CHILD_URL";

struct Numbers;

impl Generate for Numbers {
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        draft.payload.extend(next.number.to_string().bytes());
        Made::Message
    }
}

fn settings() -> Settings {
    Settings {
        queue: "effects".into(),
        concurrency: 4,
        interval: Duration::ZERO,
        messages: Some(MESSAGES),
        lease: Duration::from_millis(800),
        deliveries_max: 1000,
        ..Settings::default()
    }
}

fn engine(url: &str) -> RedisEngine {
    use redis::IntoConnectionInfo;
    let server = queenright::engine::redis::Server {
        info: url.into_connection_info().expect("a URL"),
        address: "the test's".into(),
        answer_timeout: Duration::from_secs(5),
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

/// Ends with the test, also by a panic.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_child(url: &str) -> Killed {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args(["--exact", "e2e::effects::child", "--ignored", "--nocapture"])
        .env(URL, url);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Killed(quiet.spawn().expect("this test starts"))
}

#[test]
fn effects_are_applied_exactly_once_under_kills() {
    let server = RedisServer::start();
    let url = server.url();
    let mut children: Vec<Killed> = (0..4).map(|_| start_child(&url)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let watcher = engine(&url);
    let done = || runtime.block_on(watcher.status()).map_or(0, |status| status.done);
    for kill in 0..u64::from(KILLS) {
        // Spread over the work: the kills come in the middle of it, however fast it goes.
        let reached = (kill + 1) * MESSAGES / 2 / u64::from(KILLS);
        within(PATIENCE, || (done() >= reached).then_some(())).expect("the work goes on");
        let victim = fastrand::usize(..children.len());
        children[victim] = start_child(&url);
    }
    within(PATIENCE, || (done() == MESSAGES).then_some(())).expect("all are done");
    let read = |args: &[&str]| server.command(args).expect("an answer");
    assert_eq!(
        read(&["GET", "sum"]),
        redis::Value::BulkString(MESSAGES.to_string().into_bytes())
    );
    let list: Vec<u64> = redis::from_redis_value(read(&["LRANGE", "numbers", "0", "-1"])).expect("numbers");
    let mut sorted = list;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..MESSAGES).collect::<Vec<_>>());
}
