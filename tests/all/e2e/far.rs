//! Links that are far away: nothing is lost on them, everything takes long.

use std::time::Duration;

use queenright::app::lab::proxy::Proxy;

use crate::fleet::Fleet;
use crate::server::RedisServer;

/// A link with this round trip.
fn link(server: &RedisServer, trip_ms: u64) -> Proxy {
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
    proxy.delay(Duration::from_millis(trip_ms / 2));
    proxy
}

#[test]
fn the_crown_stays_where_it_is_half_a_second_away() {
    let server = RedisServer::start();
    let proxy = link(&server, 500);
    let fleet = Fleet::through(&proxy)
        .copies(3)
        .args("--interval 200ms --work 0 --error-rate 0")
        .start();
    fleet.wait_for("messages for several seconds", |lines| {
        lines.iter().filter(|line| line.is("published")).count() >= 20
    });
    let lines = fleet.lines();
    let count = |event: &str| lines.iter().filter(|line| line.is(event)).count();
    assert_eq!((count("elected"), count("deposed"), count("away")), (1, 0, 0));
}
