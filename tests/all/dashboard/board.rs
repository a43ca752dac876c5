//! A dashboard as a process of its own, and queues for it to show.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queenright::engine::redis::RedisEngine;
use queenright::engine::{Engine, Item, Join, Seen};
use queenright::{Message, Node, Settings, push, shutdown};
use serde_json::Value;

use super::client::{Ask, Reply};
use crate::fleet::{PATIENCE, program};
use crate::server::RedisServer;

static QUEUES: AtomicU32 = AtomicU32::new(0);

pub fn new_queue() -> String {
    format!("board-{}", QUEUES.fetch_add(1, Ordering::Relaxed))
}

/// A running dashboard. Ended when dropped.
pub struct Board {
    pub child: Child,
    /// What it logs from then on, read as it comes: one that cannot write its log may not go on.
    log: Mutex<Receiver<Value>>,
    pub url: String,
    /// Host and port.
    pub address: String,
}

impl Board {
    /// On this queue, at any free port unless told otherwise.
    pub fn start(server: &RedisServer, queue: &str, args: &[&str]) -> Self {
        Self::at(&server.url(), queue, args)
    }

    pub fn at(url: &str, queue: &str, args: &[&str]) -> Self {
        let mut command = program();
        command.args(["dashboard", "--log", "json", "--url", url, "--queue", queue]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let child = command.args(args).stderr(Stdio::piped()).spawn();
        Self::of(child.expect("the program starts"))
    }

    /// The one that this process has said to serve.
    pub fn of(mut child: Child) -> Self {
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let (mut line, mut said) = (String::new(), String::new());
        loop {
            line.clear();
            assert!(log.read_line(&mut line).expect("its log") > 0, "it ended: {said}");
            said += &line;
            let read: Value = serde_json::from_str(&line).unwrap_or_default();
            if read["event"] == "dashboard" {
                let url = read["url"].as_str().expect("a URL").to_string();
                let (_, rest) = url.split_once("://").expect("a URL");
                let address = rest.trim_end_matches('/').to_string();
                return Self {
                    child,
                    log: Mutex::new(read_on(log)),
                    url,
                    address,
                };
            }
        }
    }

    /// The next line of its log that tells of this event.
    pub fn said(&self, event: &str) -> Value {
        loop {
            let line = self.log.lock().expect("no panic").recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("it did not say {event}"));
            if line["event"] == event {
                return line;
            }
        }
    }

    pub fn ask(&self, ask: &Ask) -> Reply {
        ask.send(&self.address)
    }
}

/// The lines of a log, until it ends.
fn read_on(log: BufReader<ChildStderr>) -> Receiver<Value> {
    let (lines, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in log.lines().map_while(Result::ok) {
            let _ = lines.send(serde_json::from_str(&line).unwrap_or_default());
        }
    });
    receiver
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(queue: &str) -> Settings {
    Settings {
        queue: queue.into(),
        // Whoever is alone has nobody to lose its place to.
        lease: Duration::from_mins(10),
        ..Settings::default()
    }
}

fn block_on<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(run)
}

/// Puts messages into a queue.
pub fn push_all(server: &RedisServer, queue: &str, payloads: &[Vec<u8>]) {
    let settings = settings(queue);
    let engine = RedisEngine::open(&server.url(), &settings).expect("an engine");
    let items: Vec<Item> = payloads.iter().map(|payload| Item::new(payload.clone())).collect();
    block_on(push::push(&engine, &settings, push::KEEP, &items)).expect("pushed");
}

/// Pushes messages and lets each fail with the text that is made of it.
pub fn fail_all(server: &RedisServer, queue: &str, payloads: &[Vec<u8>], text: fn(&Message) -> String) {
    push_all(server, queue, payloads);
    let mut settings = settings(queue);
    (settings.burst, settings.concurrency) = (true, 100);
    let engine = Arc::new(RedisEngine::open(&server.url(), &settings).expect("an engine"));
    let generate = |_: queenright::Next| Vec::new();
    let handle = move |message: Message| async move { Err::<Vec<queenright::Effect>, _>(text(&message).into()) };
    let (_stopper, shutdown) = shutdown::channel();
    block_on(Node::new(engine, settings, generate, handle).run(shutdown)).expect("it ends");
}

/// A member whose id, host and version are this text.
pub fn hostile_host(server: &RedisServer, queue: &str, text: &str) {
    let join = Join {
        node: text.into(),
        lanes: 1,
        lease_ms: 600_000,
        seen: Seen::default(),
        token: "token".into(),
        host: text.into(),
        pid: 1,
        version: text.into(),
        concurrency: 1,
        deliveries_max: 5,
        group_concurrency: 1,
        group_skip_retries: false,
    };
    let engine = RedisEngine::open(&server.url(), &settings(queue)).expect("an engine");
    block_on(engine.join(&join)).expect("joined");
}

/// The numbers 0 to `count` as payloads.
pub fn numbered(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|number| number.to_string().into_bytes()).collect()
}
