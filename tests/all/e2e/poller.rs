//! A generator that keeps its place in its cursor neither skips nor repeats, whoever dies when.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::redis::RedisEngine;
use queenright::engine::{Engine, Item};
use queenright::generate::{Draft, Generate, Made, Next};
use queenright::{Message, Node, Settings, push, shutdown};
use tokio::time::Instant;

use crate::fleet::PATIENCE;
use crate::server::RedisServer;

/// Publishes the lines of a source, one a message, in order.
struct Lines(Arc<Vec<String>>);

impl Generate for Lines {
    async fn generate(&mut self, _: Next, draft: &mut Draft) -> Made {
        let at: usize = match &draft.cursor[..] {
            [] => 0,
            text => std::str::from_utf8(text).expect("ours").parse().expect("ours"),
        };
        let Some(line) = self.0.get(at) else {
            // Nothing there yet: it waits, until the reign ends.
            return std::future::pending().await;
        };
        draft.payload.extend(line.bytes());
        draft.cursor = (at + 1).to_string().into_bytes();
        Made::Message
    }
}

#[test]
fn a_poller_publishes_every_line_once_and_in_order_across_reigns_and_pushes() {
    const LINES: usize = 400;
    let server = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let lines: Arc<Vec<String>> = Arc::new((0..LINES).map(|line| format!("line {line}")).collect());
    let settings = Settings {
        queue: "poller".into(),
        interval: Duration::from_millis(1),
        concurrency: 10,
        ..Settings::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    runtime.block_on(async {
        let engine = |settings: &Settings| Arc::new(RedisEngine::open(&url, settings).expect("a URL"));
        let start = || {
            let (stopper, shutdown) = shutdown::channel();
            let seen = seen.clone();
            let handle = move |message: Message| {
                let seen = seen.clone();
                async move {
                    seen.lock().expect("no panic").push((message.number, message.payload));
                    Ok(Vec::new())
                }
            };
            let node = Node::new(engine(&settings), settings.clone(), Lines(lines.clone()), handle);
            (stopper, tokio::spawn(node.run(shutdown)))
        };
        let look = engine(&settings);
        let mut nodes = vec![start(), start()];
        let deadline = Instant::now() + PATIENCE;
        let (mut reigns, mut pushed) = (0, 0);
        loop {
            let status = look.status().await.ok();
            let (published, done, epoch) = status.map_or((0, 0, 0), |s| (s.published, s.done, s.epoch));
            if published == LINES as u64 + pushed && done == published {
                break;
            }
            assert!(Instant::now() < deadline, "{published} published, {done} done");
            let item = Item::new(format!("pushed {pushed}"));
            if pushed < 30 && published > pushed * 5 {
                push::push(&*look, &settings, push::KEEP, &[item])
                    .await
                    .expect("pushed");
                pushed += 1;
            }
            // As the generator changes, so does who holds the place.
            if reigns < 4 && published > (reigns + 1) * 70 && epoch > reigns {
                let (stopper, old) = nodes.remove(0);
                nodes.push(start());
                if reigns % 2 == 0 {
                    stopper.stop();
                    old.await.expect("no panic").expect("it ends well");
                } else {
                    old.abort();
                }
                reigns += 1;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for (stopper, _) in &nodes {
            stopper.stop();
        }
        for (_, node) in nodes {
            node.await.expect("no panic").expect("it ends well");
        }
    });
    let mut seen = seen.lock().expect("no panic").clone();
    seen.sort_unstable();
    seen.dedup();
    let published: Vec<String> = seen
        .iter()
        .map(|(_, payload)| String::from_utf8_lossy(payload).into_owned())
        .filter(|payload| !payload.starts_with("pushed"))
        .collect();
    assert_eq!(
        published, *lines,
        "in the order of their numbers, none twice, none missing"
    );
}
