//! Links that are far away: nothing is lost on them, everything takes long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use queenright::app::lab::proxy::Proxy;
use queenright::engine::Engine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::redis::{RedisEngine, Server};
use queenright::settings::Names;

use super::checks::{self, Lines};
use crate::fleet::{Fleet, left_out};
use crate::server::RedisServer;

/// A link with this round trip.
fn link(server: &RedisServer, trip_ms: u64) -> Proxy {
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
    proxy.delay(Duration::from_millis(trip_ms / 2));
    proxy
}

/// Also tells for how long a thread that wanted to run did not.
fn stood_still<T>(during: impl FnOnce() -> T) -> (T, Duration) {
    const NAP: Duration = Duration::from_millis(20);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                std::thread::sleep(NAP);
                longest = longest.max(asleep.elapsed().saturating_sub(NAP));
            }
            longest
        });
        let done = during();
        is_over.store(true, Ordering::Relaxed);
        (done, watch.join().expect("no panic"))
    })
}

#[test]
fn the_crown_stays_where_it_is_half_a_second_away() {
    let server = RedisServer::start();
    let proxy = link(&server, 500);
    let (fleet, still) = stood_still(|| {
        let fleet = Fleet::through(&proxy)
            .copies(3)
            .args("--interval 200ms --work 0 --error-rate 0")
            .start();
        fleet.wait_for("messages for several seconds", |lines| {
            lines.iter().filter(|line| line.is("published")).count() >= 10
        });
        fleet
    });
    // As long as this a copy may stand still, too, and its beats with it.
    if still > Duration::from_millis(500) {
        return left_out(
            "a crown that is far away",
            &format!("the machine stood still for {still:?}"),
        );
    }
    let lines = fleet.lines();
    let count = |event: &str| lines.iter().filter(|line| line.is(event)).count();
    assert_eq!((count("elected"), count("deposed"), count("away")), (1, 0, 0));
}

#[tokio::test]
async fn whoever_is_far_away_is_watched_and_keeps_its_connection() {
    let server = RedisServer::start();
    let proxy = link(&server, 0);
    let at = Server {
        answer_timeout: Duration::from_secs(4),
        ..server.server_as(&format!("redis://{}", proxy.address()))
    };
    let engine = RedisEngine::new(&at, Keys::new("far", &Names::default())).expect("an engine");
    // The connections that are subscribed to something.
    let shown = || -> Vec<String> {
        let list = server
            .command(&["CLIENT", "LIST", "TYPE", "pubsub"])
            .expect("an answer");
        let list: String = redis::from_redis_value(list).expect("text");
        let ids = list.lines().filter_map(|line| line.split(' ').next());
        ids.map(str::to_string).collect()
    };
    engine.show("a", true).await.expect("nearby");
    let before = shown();
    assert_eq!(before.len(), 1);
    // An answer may take longer than this.
    proxy.delay(Duration::from_millis(1250));
    engine.show("b", true).await.expect("far away");
    proxy.delay(Duration::ZERO);
    let looked = engine.gone(Some(&"b".into())).await.expect("a look");
    assert!(looked.is_some(), "it is watched");
    assert_eq!(shown(), before, "over the same connection");
}

/// Several calls of each handler are on their way when its connections break, and when it is killed.
#[test]
fn what_is_on_its_way_is_neither_lost_nor_settled_twice_when_links_break() {
    let server = RedisServer::start();
    let proxy = link(&server, 40);
    let mut fleet = Fleet::through(&proxy)
        .copies(4)
        .args("--interval 0 --max-backlog 1000 --messages 4000 --work 0..2ms --error-rate 0.05")
        .start_led();
    for _ in 0..4 {
        fleet.wait_for_more("done", 400);
        proxy.cut();
    }
    let victim = (0..4).find(|copy| *copy != fleet.generator()).expect("a handler");
    fleet.kill9(victim);
    fleet.wait_through(4000);
    fleet.nobody_exited_but(&[victim]);
    checks::everything(&fleet, 4000, Lines::SomeLost);
}
