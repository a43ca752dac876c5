//! The dashboard of a queue with shards: each of them is shown, and one that is away is told.

use serde_json::Value;

use super::board::{Board, new_queue};
use super::browser::Browser;
use super::client::get;
use super::page::keep;
use crate::fleet::{Fleet, PATIENCE, within};
use crate::server::RedisServer;

const SHARDS: usize = 3;

fn servers() -> Vec<RedisServer> {
    (0..SHARDS).map(|_| RedisServer::durable()).collect()
}

fn fleet(servers: &[RedisServer]) -> Fleet {
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    Fleet::at(urls.join(" "))
        .queue(&new_queue())
        .env("QUEENRIGHT_SHARDS", &SHARDS.to_string())
        .args("--interval 5ms --work 0 --error-rate 0.05")
        .copies(2)
        .start_joined()
}

fn board(servers: &[RedisServer], queue: &str) -> Board {
    let mut args = vec!["--shards".to_string(), SHARDS.to_string()];
    for server in &servers[1..] {
        args.extend(["--url".to_string(), server.url()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Board::start(&servers[0], queue, &args)
}

fn away(status: &Value) -> Vec<bool> {
    let shards = status["shards"].as_array().expect("shards");
    shards.iter().map(|shard| shard["away"].is_string()).collect()
}

/// The value of each line of this metric.
fn values(figures: &str, name: &str) -> Vec<f64> {
    let of = |line: &str| line.strip_prefix(name)?.rsplit(' ').next()?.parse().ok();
    figures.lines().filter_map(of).collect()
}

#[test]
fn each_shard_is_told_and_what_is_counted_never_goes_down_with_one_that_is_away() {
    let mut servers = servers();
    let fleet = fleet(&servers);
    let board = board(&servers, fleet.queue());
    fleet.wait_status("it is under way", |status| status.done > 100);
    let status = board.ask(&get("/api/v1/status")).is(200).json();
    assert_eq!(away(&status), [false; SHARDS]);
    let sum: u64 = (0..SHARDS)
        .map(|at| status["shards"][at]["published"].as_u64().expect("a count"))
        .sum();
    assert_eq!(status["published"], sum);
    let place = status["shards"][1]["place"].as_str().expect("a place");
    assert!(servers[1].url().contains(place), "{place}");
    let figures = board.ask(&get("/metrics")).is(200).text();
    assert_eq!(values(&figures, "queenright_shard_up"), [1.0; SHARDS]);
    assert_eq!(values(&figures, "queenright_queue_done_total").len(), 1);
    // The history is that of the whole queue: the home shard alone has a third of it.
    let whole = within(PATIENCE, || {
        let history = board.ask(&get("/api/v1/history?range=5m")).is(200).json();
        let points = history["points"].as_array().expect("points").iter();
        let done: f64 = points.filter_map(|point| point["done"].as_f64()).sum::<f64>() * 5.0;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let all = fleet.status().done as f64;
        (done > 0.6 * all).then_some(())
    });
    whole.expect("the history is that of all shards");

    servers[2].kill();
    let figures = within(PATIENCE, || {
        let figures = board.ask(&get("/metrics")).is(200).text();
        (values(&figures, "queenright_shard_up") == [1.0, 1.0, 0.0]).then_some(figures)
    });
    let figures = figures.expect("it is seen that one is away");
    assert_eq!(
        values(&figures, "queenright_queue_done_total"),
        [0.0; 0],
        "it would go down"
    );
    assert_eq!(values(&figures, "queenright_shard_done_total").len(), 2);
    assert_eq!(
        away(&board.ask(&get("/api/v1/status")).is(200).json()),
        [false, false, true]
    );
    board.ask(&get("/readyz")).is(200);
}

#[test]
fn the_page_shows_each_shard_and_which_is_away() {
    let mut servers = servers();
    let fleet = fleet(&servers);
    let board = board(&servers, fleet.queue());
    let browser = Browser::start();
    browser.look(1280, 1500, false);
    browser.open(&board.url);
    let rows = "const rows = [...document.querySelectorAll('#shards tbody tr')].map((row) => row.innerText);";
    browser.wait_for(
        "three shards",
        &format!("{rows} return rows.length === 3 && rows.every((row) => row.includes('answers'))"),
    );
    browser.wait_for(
        "rates",
        &format!("{rows} return rows.every((row) => /[1-9][0-9.]*\\/s/.test(row))"),
    );
    servers[1].kill();
    browser.wait_for(
        "which is away",
        &format!("{rows} return rows[1].includes('away: ') && rows[2].includes('answers')"),
    );
    browser.wait_for(
        "a banner",
        "return document.getElementById('banners').innerText.includes('Shard 1 does not answer')",
    );
    keep(&browser, "shards");
    servers[1].restart();
    browser.wait_for("its return", &format!("{rows} return rows[1].includes('answers')"));
    drop(fleet);
}
